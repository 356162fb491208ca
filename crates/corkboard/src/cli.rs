//! The command line: what can be asked for, and who answers it.
//!
//! The names, flags and exit codes of the operator's commands are `cfdot`'s and do not change. Mistakes that clap finds end
//! with code 3 like all others of the caller, not with clap's own 2.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use api::client::Client;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::backup::{self, BACKUP_HELP, Backup, RESTORE_HELP, Restore};
use crate::commands::keys::{self, KeysCommand};
use crate::commands::locks::{self, OfLocket};
use crate::commands::migrate::{self, Errand, MigrateCommand, Place, Via};
use crate::commands::quarantine::{self, QuarantineCommand};
use crate::commands::rollout::{self, RolloutCommand};
use crate::commands::store::{self, StoreCommand};
use crate::commands::{
    actual_lrps, cells, clients, config, desired_lrps, dev_certs, domains, events, logs, nodes, run_app, tasks, top,
    update_desired_lrp,
};
use crate::console::{Console, JsonFlag};
use crate::failure::{CommandError, EXIT_DEPOSED, EXIT_KEYS, EXIT_SHUT_DOWN, EXIT_USAGE, Failure};
use crate::output::{FormatFlags, Output};
use crate::reach::{Address, Origin, ReachFlags, Remote, health_client};
use crate::ring::Program;
use crate::{demo_app, locket, logging, ring, server, up};

/// Corkboard: the state server of a container scheduler, speaking the protocol of Diego's BBS
#[derive(Debug, Parser)]
#[command(
    name = "corkboard",
    version,
    arg_required_else_help = true,
    after_help = "Start with:\n  corkboard up\n\n\
        From domains to release-lock, the commands are those of cfdot, with its flags, environment variables and exit \
        codes:\n  0 success, 3 wrong use, 4 an error from the server, 5 anything else (for instance, no connection).\n\
        The exit codes of the commands about migrations and keys are in corkboard migrate --help and corkboard keys --help."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    reach: ReachFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start everything on this machine, with nothing to configure: the state server, cells that run apps, and a router
    #[command(after_help = "Examples:\n  corkboard up\n  corkboard up --cells 3 --router 127.0.0.1:9080\n  \
            corkboard up --board-only --dir /var/lib/corkboard --listen 127.0.0.1:9000")]
    Up(up::Up),
    /// Start a server from a configuration file, ours or that of Diego's own BBS
    #[command(after_help = format!(
        "Examples:\n  corkboard config example > board.toml\n  corkboard bbs --config board.toml\n  \
        corkboard bbs -config /var/vcap/jobs/bbs/config/bbs.json --store /var/vcap/store/bbs/board\n\n\
        The last is the configuration file of Diego's own BBS. Called under the name `bbs`, the program is this command.\n\n\
        Exit codes, also of up:\n  0  stopped in order\n  3  wrong use\n  5  anything else\n  \
        {EXIT_SHUT_DOWN}  the version of the data forbids this release to touch it; nothing was written, and starting it\n     \
        again changes nothing: start the release of the data\n  \
        {EXIT_KEYS}  a key is missing that records need, or has other bytes; nothing was written, and the message names it\n  \
        {EXIT_DEPOSED}  another node became master, or may have; nothing acknowledged is lost: start it again, and it waits for its\n     \
        turn"
    ))]
    Bbs(server::Bbs),
    /// Serve locks and presences, as Diego's Locket does, from the store of a board in etcd
    #[command(after_help = locket::HELP)]
    Locket(locket::Locket),
    /// Start an auctioneer: it decides which cell gets which instance and which task
    #[command(after_help = ring::AUCTIONEER_HELP)]
    Auctioneer(ring::Start),
    /// Start a cell: it runs instances and tasks on this machine; also `corkboard cell --config FILE`
    #[command(after_help = ring::CELL_HELP)]
    Rep(ring::Start),
    /// Start a route emitter: it tells routers where instances are
    #[command(after_help = ring::ROUTE_EMITTER_HELP)]
    RouteEmitter(ring::Start),
    /// Start a router: it hands HTTP requests to instances
    #[command(after_help = ring::ROUTER_HELP)]
    Router(ring::Start),
    /// The parent of a process of a cell
    #[command(hide = true)]
    Shim { folder: PathBuf },
    /// Run an app with a route, and wait until it is reached; or change one that runs
    #[command(after_help = run_app::RUN_HELP)]
    RunApp(Remote<run_app::RunApp>),
    /// Stop an app that was started with run-app, and forget it
    #[command(after_help = "Examples:\n  corkboard stop-app hello")]
    StopApp(Remote<run_app::StopApp>),
    /// A small web app to try a cluster with; it tells which instance answers
    #[command(after_help = "Examples:\n  corkboard demo-app --port 8081 --message hello\n  \
        curl 'http://127.0.0.1:8081/slow?ms=500'\n\n\
        It answers every path; /healthz says ok, and /slow?ms=N answers after so many milliseconds.")]
    DemoApp(demo_app::DemoApp),
    /// Check or print a configuration file
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// List the domains that are fresh
    #[command(after_help = "Examples:\n  corkboard domains")]
    Domains(Remote<domains::List>),
    /// Declare a domain fresh: what is wanted in it is completely known
    #[command(after_help = "Examples:\n  corkboard set-domain cf-apps\n  corkboard set-domain cf-apps -t 120s")]
    SetDomain(Remote<domains::Set>),
    /// List the cells that are there
    #[command(after_help = "Examples:\n  corkboard cells\n  corkboard cells --json | jq -r .cell_id")]
    Cells(Remote<cells::List>),
    /// Show one cell
    #[command(after_help = "Examples:\n  corkboard cell cell-z1-0\n\n\
        With --config FILE, the same word starts a cell: corkboard rep --help")]
    Cell(Remote<cells::Show>),
    /// List desired LRPs: what should run
    #[command(
        after_help = "Examples:\n  corkboard desired-lrps -d cf-apps\n  corkboard desired-lrps --json | jq .instances"
    )]
    DesiredLrps(Remote<desired_lrps::List>),
    /// Show one desired LRP
    #[command(after_help = "Examples:\n  corkboard desired-lrp hello")]
    DesiredLrp(Remote<desired_lrps::Show>),
    /// List what placement needs to know about desired LRPs
    #[command(after_help = "Examples:\n  corkboard desired-lrp-scheduling-infos -d cf-apps")]
    DesiredLrpSchedulingInfos(Remote<desired_lrps::List>),
    /// Create a desired LRP
    #[command(after_help = "Examples:\n  corkboard create-desired-lrp @lrp.json\n  \
        corkboard create-desired-lrp \\\n    '{\"process_guid\":\"hello\",\"domain\":\"demo\",\"rootfs\":\"preloaded:cflinuxfs4\",\
        \"instances\":1,\"action\":{\"run\":{\"path\":\"/bin/sh\",\"user\":\"vcap\"}},\
        \"metric_tags\":{\"source_id\":{\"static\":\"hello\"}}}'")]
    CreateDesiredLrp(Remote<desired_lrps::Create>),
    /// Change a desired LRP; a new definition replaces its instances one after the other
    #[command(after_help = update_desired_lrp::HELP)]
    UpdateDesiredLrp(Remote<update_desired_lrp::Update>),
    /// Delete a desired LRP; its instances are stopped
    #[command(after_help = "Examples:\n  corkboard delete-desired-lrp hello")]
    DeleteDesiredLrp(Remote<desired_lrps::Delete>),
    /// List actual LRPs: what runs, or waits to
    #[command(after_help = "Examples:\n  corkboard actual-lrps -p hello -i 0\n  corkboard actual-lrps -c cell-z1-0")]
    ActualLrps(Remote<actual_lrps::List>),
    /// Deprecated: list actual LRPs in groups; use actual-lrps
    #[command(after_help = "Examples:\n  corkboard actual-lrp-groups -d cf-apps")]
    ActualLrpGroups(Remote<actual_lrps::ListGroups>),
    /// Deprecated: list the groups of one process guid; use actual-lrps -p GUID
    #[command(after_help = "Examples:\n  corkboard actual-lrp-groups-for-guid hello -i 0")]
    ActualLrpGroupsForGuid(Remote<actual_lrps::ListGroupsForGuid>),
    /// Stop one instance; it is started again if it is still wanted
    #[command(after_help = "Examples:\n  corkboard retire-actual-lrp hello 0")]
    RetireActualLrp(Remote<actual_lrps::Retire>),
    /// List tasks
    #[command(after_help = "Examples:\n  corkboard tasks -d cf-tasks\n  corkboard tasks -c cell-z1-0")]
    Tasks(Remote<tasks::List>),
    /// Show one task
    #[command(after_help = "Examples:\n  corkboard task once")]
    Task(Remote<tasks::Show>),
    /// Create a task
    #[command(after_help = "Examples:\n  corkboard create-task @task.json\n  \
        corkboard create-task \\\n    '{\"task_guid\":\"once\",\"domain\":\"demo\",\"rootfs\":\"preloaded:cflinuxfs4\",\
        \"action\":{\"run\":{\"path\":\"/bin/true\",\"user\":\"vcap\"}}}'")]
    CreateTask(Remote<tasks::Create>),
    /// Cancel a task; it completes as failed
    #[command(after_help = "Examples:\n  corkboard cancel-task once")]
    CancelTask(Remote<tasks::Which>),
    /// Delete a task that is completed
    #[command(after_help = "Examples:\n  corkboard delete-task once")]
    DeleteTask(Remote<tasks::Which>),
    /// Follow events about desired and actual LRPs, as JSON lines
    #[command(after_help = "Examples:\n  corkboard lrp-events -x\n  corkboard lrp-events -x -c cell-z1-0 | jq .type")]
    LrpEvents(Remote<events::Lrps>),
    /// Follow events about tasks, as JSON lines
    #[command(after_help = "Examples:\n  corkboard task-events | jq .type")]
    TaskEvents(Remote<events::Tasks>),
    /// Show what an app or a task wrote, asked of the cells that ran it
    #[command(after_help = logs::HELP)]
    Logs(Remote<logs::Logs>),
    /// Watch the cluster on one screen: cells, apps, instances, events, and the servers themselves
    #[command(after_help = top::HELP)]
    Top(Remote<top::Top>),
    /// List the locks in Locket, and whose they are
    #[command(after_help = locks::LOCKS_HELP)]
    Locks(OfLocket<locks::List>),
    /// List the presences in Locket: the cells that say they are there
    #[command(after_help = locks::PRESENCES_HELP)]
    Presences(OfLocket<locks::List>),
    /// Take a lock in Locket, or keep it
    #[command(after_help = locks::CLAIM_LOCK_HELP)]
    ClaimLock(OfLocket<locks::Claim>),
    /// Take a presence in Locket, or keep it
    #[command(after_help = locks::CLAIM_PRESENCE_HELP)]
    ClaimPresence(OfLocket<locks::Claim>),
    /// Give a lock or a presence in Locket back
    #[command(after_help = locks::RELEASE_LOCK_HELP)]
    ReleaseLock(OfLocket<locks::Release>),
    /// Watch and steer the update of an app: status, history, diff, pause, resume, cancel, undo
    #[command(subcommand, after_help = rollout::HELP)]
    Rollout(RolloutCommand),
    /// List the nodes of a store: who is master, who waits, and who could not take over
    #[command(after_help = "Examples:\n  corkboard nodes\n  corkboard nodes --healthURL http://127.0.0.1:8890\n  \
        corkboard nodes --config board.toml --json\n\n\
        Exit codes: 0 there is a master, 10 there is none at the moment, 12 there is none and no node can become it; 3, 4 and 5 \
        as for every command.")]
    Nodes(Remote<nodes::Nodes>),
    /// List who uses the API: its version, the endpoints it calls and when it last did
    #[command(after_help = "Examples:\n  corkboard clients\n  corkboard clients --deprecated\n  \
        corkboard clients --json | jq -r '.clients[] | select(.left_behind) | .name'\n\n\
        Exit codes: 0 nobody would be left behind by the next major version, 7 somebody would; 3, 4 and 5 as for every command.")]
    Clients(Remote<clients::Clients>),
    /// Bring data up to date, or back: status, plan, start, pause, resume, abort, finalize, rollback, history
    #[command(subcommand, after_help = MIGRATE_HELP)]
    Migrate(MigrateCommand),
    /// Look after the keys that encrypt records at rest: status, rotate, verify, generate, forget
    #[command(subcommand, after_help = KEYS_HELP)]
    Keys(KeysCommand),
    /// Look after records that cannot be read: list, show, retry, export, discard
    #[command(subcommand, after_help = "Examples:\n  corkboard quarantine list")]
    Quarantine(QuarantineCommand),
    /// Copy all records into a file, from a running server or from its store; or check such a file
    #[command(after_help = BACKUP_HELP)]
    Backup(Remote<Backup>),
    /// Make a store of a backup, in an empty directory or an unused prefix of etcd
    #[command(after_help = RESTORE_HELP)]
    Restore(Restore),
    /// Say that an empty or different store is meant
    #[command(subcommand)]
    Store(StoreCommand),
    /// Make an authority and certificates for a cluster to try things with
    #[command(after_help = dev_certs::HELP)]
    DevCerts(dev_certs::DevCerts),
    /// Print what makes a shell complete commands and flags
    #[command(after_help = "Examples:\n  corkboard completions bash > /etc/bash_completion.d/corkboard\n  \
        source <(corkboard completions zsh)")]
    Completions { shell: Shell },
    /// Print the version
    Version,
}

const MIGRATE_HELP: &str = "Examples:\n  corkboard migrate status --watch\n  corkboard migrate plan\n  \
    corkboard migrate finalize\n\n\
    Exit codes for scripts:\n  0   done, or nothing to do and all is well\n  3   wrong use; nothing was changed\n  \
    4   the server refused, and says why\n  5   anything else (for instance, no connection)\n  \
    7   plan: a record fails or loses something; rollback: something would be lost\n  \
    8   without a server: a key is missing that records need\n  \
    10  status: a migration is under way\n  11  status: it waits for the operator (held, paused, ready)\n  \
    12  status: it is blocked or failed";

const KEYS_HELP: &str = "Examples:\n  corkboard keys status\n  corkboard keys generate --out keys/B\n  \
    corkboard keys rotate --watch\n\n\
    Exit codes for scripts:\n  0   done, and all is well\n  3   wrong use; nothing was changed\n  \
    4   the server refused, and says why\n  5   anything else (for instance, no connection)\n  \
    7   verify: a record cannot be opened\n  8   a key is missing that records need, or has other bytes\n  \
    10  status: records are being rewritten or opened\n  \
    11  status: some are not under the active key, and no server runs\n  \
    12  status: records cannot be opened, so keys stay needed";

/// Where `nodes`, `migrate status` and `keys status` ask when no server is named.
pub(crate) const HEALTH_URL: &str = "CORKBOARD_HEALTH_URL";
/// The command that starts a server from a file, and the name of Diego's program for it.
const BBS: &str = "bbs";

/// The command line of this process, or the code to exit with when it says no command.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    Cli::try_parse_from(spelled_out(std::env::args_os())).map_err(|error| {
        // Help that was asked for goes to stdout; everything else to stderr. Who closed it does not want to read it.
        let _ = error.print();
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
            _ => ExitCode::from(EXIT_USAGE),
        }
    })
}

/// Diego's way to start a BBS in our words: under its name (a symbolic link `bbs` to this program), and with Go's single dash.
fn spelled_out(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let is_called_bbs = args.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(BBS)));
    if is_called_bbs {
        args.splice(..1, ["corkboard", BBS].map(OsString::from));
    }
    if args.get(1).is_some_and(|command| command == BBS) {
        for arg in &mut args[2..] {
            if arg == "-config" || arg.as_bytes().starts_with(b"-config=") {
                *arg = [OsStr::new("-"), &*arg].into_iter().collect();
            }
        }
    }
    // cfdot shows a cell by this name, and Diego's program that runs one is called rep.
    if args.get(1).is_some_and(|command| command == "cell")
        && args[2..].iter().any(|arg| arg == "--config" || arg.as_bytes().starts_with(b"--config="))
    {
        args[1] = OsString::from("rep");
    }
    args
}

pub(crate) fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let Cli { command, reach: outer } = cli;
    let done = match command {
        Command::Top(it) => top::run(it, outer, variable, trace_id, &many_threads()?),
        Command::Nodes(it) => return operate(it, outer, nodes::nodes).map(ExitCode::from),
        Command::Clients(it) => return operate(it, outer, clients::clients).map(ExitCode::from),
        Command::Migrate(command) => return migrate(command, outer).map(ExitCode::from),
        Command::Keys(command) => return keys(command, outer).map(ExitCode::from),
        Command::UpdateDesiredLrp(it) => {
            return ask(it, outer, |_| JsonFlag::default(), update_desired_lrp::update).map(ExitCode::from);
        }
        Command::Rollout(command) => return rollout::run(command, outer).map(ExitCode::from),
        Command::Quarantine(command) => return quarantine(command, outer).map(ExitCode::from),
        Command::Backup(it) => return back_up(it, outer).map(ExitCode::from),
        Command::Restore(args) => return restore(args).map(ExitCode::from),
        Command::RunApp(it) => run_app::run(it, outer, variable, trace_id()),
        Command::StopApp(it) => return ask(it, outer, |_| JsonFlag::default(), run_app::stop).map(ExitCode::from),
        Command::Store(StoreCommand::Confirm(it)) => {
            return ask(it, outer, |args| args.json, store::confirm).map(ExitCode::from);
        }
        Command::Up(args) => {
            logging::start(None)?;
            let bbs_url = variable("BBS_URL").filter(|url| !url.is_empty());
            many_threads()?.block_on(up::up(args, &program(std::env::args_os().next()), bbs_url.as_deref()))
        }
        Command::Bbs(args) => {
            let file = args.file()?;
            logging::start(file.shape())?;
            many_threads()?.block_on(server::serve(args, file))
        }
        Command::Locket(args) => {
            logging::start(None)?;
            many_threads()?.block_on(locket::serve(args))
        }
        Command::Auctioneer(args) => start(Program::Auctioneer, args),
        Command::Rep(args) => start(Program::Cell, args),
        Command::RouteEmitter(args) => start(Program::RouteEmitter, args),
        Command::Router(args) => start(Program::Router, args),
        Command::Shim { folder } => return Ok(ring::shim(&folder)),
        Command::DemoApp(args) => one_thread()?.block_on(demo_app::serve(args, variable)),
        Command::Config(command) => print(&config::run(command)?),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "corkboard", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Command::DevCerts(args) => return ended(dev_certs::dev_certs(&args), nowhere()).map(ExitCode::from),
        Command::Version => print(concat!("corkboard ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Locks(it) => it.run(outer, variable, &one_thread()?, locks::locks),
        Command::Presences(it) => it.run(outer, variable, &one_thread()?, locks::presences),
        Command::ClaimLock(it) => it.run(outer, variable, &one_thread()?, locks::claim_lock),
        Command::ClaimPresence(it) => it.run(outer, variable, &one_thread()?, locks::claim_presence),
        Command::ReleaseLock(it) => it.run(outer, variable, &one_thread()?, locks::release_lock),
        Command::Domains(it) => call(it, outer, |args| args.format, domains::list),
        Command::SetDomain(it) => call(it, outer, no_format, domains::set),
        Command::Cells(it) => call(it, outer, |args| args.format, cells::list),
        Command::Cell(it) => call(it, outer, |args| args.format, cells::show),
        Command::DesiredLrps(it) => call(it, outer, |args| args.format, desired_lrps::list),
        Command::DesiredLrp(it) => call(it, outer, |args| args.format, desired_lrps::show),
        Command::DesiredLrpSchedulingInfos(it) => {
            call(it, outer, |args| args.format, desired_lrps::list_scheduling_infos)
        }
        Command::CreateDesiredLrp(it) => call(it, outer, no_format, desired_lrps::create),
        Command::DeleteDesiredLrp(it) => call(it, outer, no_format, desired_lrps::delete),
        Command::ActualLrps(it) => call(it, outer, |args| args.format, actual_lrps::list),
        Command::ActualLrpGroups(it) => call(it, outer, |args| args.format, actual_lrps::list_groups),
        Command::ActualLrpGroupsForGuid(it) => call(it, outer, |args| args.format, actual_lrps::list_groups_for_guid),
        Command::RetireActualLrp(it) => call(it, outer, no_format, actual_lrps::retire),
        Command::Tasks(it) => call(it, outer, |args| args.format, tasks::list),
        Command::Task(it) => call(it, outer, |args| args.format, tasks::show),
        Command::CreateTask(it) => call(it, outer, no_format, tasks::create),
        Command::CancelTask(it) => call(it, outer, no_format, tasks::cancel),
        Command::DeleteTask(it) => call(it, outer, no_format, tasks::delete),
        Command::Logs(it) => logs::run(it, outer, variable, trace_id()),
        Command::LrpEvents(it) => call(it, outer, no_format, events::lrps),
        Command::TaskEvents(it) => call(it, outer, no_format, events::tasks),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn start(program: Program, args: ring::Start) -> Result<(), Failure> {
    logging::start(None)?;
    many_threads()?.block_on(ring::serve(program, args))
}

fn migrate(command: MigrateCommand, outer: ReachFlags) -> Result<u8, Failure> {
    match command {
        MigrateCommand::Status(it) => operate(it, outer, migrate::status),
        MigrateCommand::Plan(it) => operate(it, outer, migrate::plan),
        MigrateCommand::Start(it) => operate(it, outer, migrate::start),
        MigrateCommand::Pause(it) => operate(it, outer, migrate::pause),
        MigrateCommand::Resume(it) => operate(it, outer, migrate::resume),
        MigrateCommand::Abort(it) => operate(it, outer, migrate::abort),
        MigrateCommand::Finalize(it) => operate(it, outer, migrate::finalize),
        MigrateCommand::Rollback(it) => operate(it, outer, migrate::rollback),
        MigrateCommand::History(it) => operate(it, outer, migrate::history),
    }
}

fn keys(command: KeysCommand, outer: ReachFlags) -> Result<u8, Failure> {
    match command {
        KeysCommand::Status(it) => operate(it, outer, keys::status),
        KeysCommand::Rotate(it) => operate(it, outer, keys::rotate),
        KeysCommand::Verify(it) => operate(it, outer, keys::verify),
        KeysCommand::Forget(it) => operate(it, outer, keys::forget),
        KeysCommand::Generate(args) => {
            let mut console = Console::of_process(args.json);
            ended(keys::generate(args, &mut console), nowhere())
        }
    }
}

fn back_up(remote: Remote<Backup>, outer: ReachFlags) -> Result<u8, Failure> {
    if remote.args.verify {
        let mut console = Console::of_process(remote.args.json());
        return ended(backup::verify(&remote.args, &mut console), nowhere());
    }
    operate(remote, outer, backup::backup)
}

fn restore(args: Restore) -> Result<u8, Failure> {
    let config = crate::config::load(&args.config)?;
    let mut console = Console::of_process(args.json);
    // A mastership in etcd is renewed beside the work.
    ended(many_threads()?.block_on(backup::restore(&config, args, &mut console)), nowhere())
}

/// For a command that asks nobody.
fn nowhere() -> Address {
    Address { url: String::new(), origin: Origin::File }
}

fn quarantine(command: QuarantineCommand, outer: ReachFlags) -> Result<u8, Failure> {
    match command {
        QuarantineCommand::List(it) => ask(it, outer, |args| args.json, quarantine::list),
        QuarantineCommand::Show(it) => ask(it, outer, |args| args.json, quarantine::show),
        QuarantineCommand::Retry(it) => ask(it, outer, |args| args.json, quarantine::retry),
        QuarantineCommand::Export(it) => ask(it, outer, |args| args.json, quarantine::export),
        QuarantineCommand::Discard(it) => ask(it, outer, |args| args.json, quarantine::discard),
    }
}

/// For the commands of the operator's API, which have exit codes of their own.
pub(crate) fn ask<A: Args>(
    remote: Remote<A>,
    outer: ReachFlags,
    json: fn(&A) -> JsonFlag,
    work: impl AsyncFnOnce(&Client, A, &mut Console) -> Result<u8, CommandError>,
) -> Result<u8, Failure> {
    let Remote { args, reach } = remote;
    let (client, address) = reach.or(outer).client(variable, trace_id())?;
    let mut console = Console::of_process(json(&args));
    ended(one_thread()?.block_on(work(&client, args, &mut console)), address)
}

/// The same for those that a health port or the store itself may answer.
fn operate<A: Args + Errand>(
    remote: Remote<A>,
    outer: ReachFlags,
    work: impl AsyncFnOnce(&Via, A, &mut Console) -> Result<u8, CommandError>,
) -> Result<u8, Failure> {
    let Remote { args, reach } = remote;
    let (via, address) = via(args.place(), reach.or(outer))?;
    let mut console = Console::of_process(args.json());
    ended(one_thread()?.block_on(work(&via, args, &mut console)), address)
}

fn ended(outcome: Result<u8, CommandError>, address: Address) -> Result<u8, Failure> {
    match outcome {
        Ok(exit_code) => Ok(exit_code),
        Err(error) => Failure::of_command(error, address).map_or(Ok(migrate::EXIT_DONE), Err),
    }
}

fn via(place: Place<'_>, reach: ReachFlags) -> Result<(Via, Address), Failure> {
    let health = match place {
        Place::Store(file) => {
            let config = crate::config::load(file)?;
            let address = Address { url: file.display().to_string(), origin: Origin::File };
            return Ok((Via::Store(Box::new(config)), address));
        }
        Place::AnyNode(Some(url)) => Some(url.to_owned()),
        Place::AnyNode(None) if !reach.names_a_server() => variable(HEALTH_URL),
        Place::AnyNode(None) | Place::Server => None,
    };
    match health.filter(|url| !url.is_empty()) {
        Some(url) => {
            let (client, address) = health_client(url, trace_id())?;
            Ok((Via::Health(client), address))
        }
        None => {
            let (client, address) = reach.client(variable, trace_id())?;
            Ok((Via::Server(client), address))
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Makes the client, lets the command work with it, and adds to an error where the server was.
fn call<A: Args>(
    remote: Remote<A>,
    outer: ReachFlags,
    format: fn(&A) -> FormatFlags,
    work: impl AsyncFnOnce(&Client, A, &mut Output) -> Result<(), CommandError>,
) -> Result<(), Failure> {
    let Remote { args, reach } = remote;
    let (client, address) = reach.or(outer).client(variable, trace_id())?;
    let mut out = Output::stdout(format(&args));
    match one_thread()?.block_on(work(&client, args, &mut out)) {
        Ok(()) => Ok(()),
        Err(error) => Failure::of_command(error, address).map_or(Ok(()), Err),
    }
}

fn no_format<A>(_: &A) -> FormatFlags {
    FormatFlags::default()
}

/// A fresh id for each command, under which the server logs all that the command caused.
#[expect(clippy::disallowed_methods, reason = "the edge of the process is where random ids come from")]
fn trace_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Ok(()),
        Err(source) => Failure::of_output(source).map_or(Ok(()), Err),
    }
}

/// How this binary was called, so that commands we suggest can be copied: a bare name was found in PATH, a path works again.
fn program(first_argument: Option<OsString>) -> String {
    first_argument.map_or_else(|| "corkboard".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn many_threads() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|source| Failure::Process { doing: "preparing threads", source })
}

pub(crate) fn one_thread() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| Failure::Process { doing: "preparing a thread", source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn diegos_command_line_is_understood() {
        let check = |args: &str, expected: &str| {
            let args = spelled_out(args.split(' ').map(OsString::from));
            assert_eq!(args.join(OsStr::new(" ")), OsStr::new(expected));
        };
        check("/var/vcap/packages/bbs/bin/bbs -config=/a/bbs.json", "corkboard bbs --config=/a/bbs.json");
        check("bbs -config bbs.json --store s", "corkboard bbs --config bbs.json --store s");
        check("corkboard bbs -config bbs.json", "corkboard bbs --config bbs.json");
        check("corkboard bbs --config bbs.json", "corkboard bbs --config bbs.json");
        check("./corkboard cells -config", "./corkboard cells -config");
        check("bbs -configure", "corkboard bbs -configure");
        check("bbs", "corkboard bbs");
    }

    /// An example that does not parse is worse than none.
    #[test]
    fn every_command_for_people_has_an_example_that_parses() {
        let mut examples = 0;
        let top = Cli::command();
        let nested = top.get_subcommands().flat_map(clap::Command::get_subcommands);
        for command in top.get_subcommands().chain(nested) {
            let Some(help) = command.get_after_help().map(ToString::to_string) else { continue };
            for line in help.lines().filter(|line| line.starts_with("  corkboard ")) {
                let words: Vec<&str> = line.split(['|', '>']).next().unwrap().split_whitespace().collect();
                Cli::try_parse_from(spelled_out(words.iter().map(OsString::from)))
                    .unwrap_or_else(|error| panic!("{line}: {error}"));
                examples += 1;
            }
        }
        assert!(examples >= 30, "{examples}");
    }
}
