//! `config check`, `config example`: for the file of a server or of a program around it, without starting it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bbs::config::{CallbackBody, Config, Encryption, Finalization, Mode, RotationMode, Standby, Start, Store};
use store::seal::KeyName;

use crate::config::{self, Account, Settings};
use crate::duration::show;
use crate::failure::Failure;
use crate::ring::{self, Subject};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration file and everything it names; starts nothing
    #[command(after_help = "Examples:\n  corkboard config check board.toml\n  \
            corkboard config check bbs.json --store /var/vcap/store/bbs/board\n  corkboard config check cell.toml\n\nExit code 0 and a summary, or 3 and every problem found.")]
    Check(Check),
    /// Print a configuration file with every key and its default
    #[command(after_help = "Examples:\n  corkboard config example > board.toml\n  \
            corkboard config example --program cell > cell.toml")]
    Example {
        /// The program that reads it
        #[arg(long, value_name = "NAME", default_value = "bbs")]
        program: Subject,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The file, in TOML, or that of Diego's own BBS
    file: PathBuf,
    /// Where the records are kept, as for `corkboard bbs`
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// The program that reads it [default: the one whose keys are in it]
    #[arg(long, value_name = "NAME")]
    program: Option<Subject>,
}

/// The text for stdout.
pub(crate) fn run(command: ConfigCommand) -> Result<String, Failure> {
    match command {
        ConfigCommand::Check(Check { file, store, program }) => {
            if let Some(program) = subject(&file, program)?.program() {
                if store.is_some() {
                    let what = format!(
                        "--store is for the state server, and {} is for the {}",
                        file.display(),
                        program.name()
                    );
                    return Err(Failure::Usage(what));
                }
                return Ok(format!("{}: no problems\n{}", file.display(), ring::check(program, &file)?));
            }
            let settings = config::File::read(&file)?.check(store.as_deref())?;
            let told = settings.account.as_ref().map(told).unwrap_or_default();
            Ok(format!("{}: no problems\n{}{told}", file.display(), summary(&settings)))
        }
        ConfigCommand::Example { program } => Ok(program.program().map_or(config::EXAMPLE, ring::example).to_owned()),
    }
}

/// Whose file it is: as the caller says, or as it looks.
fn subject(file: &Path, named: Option<Subject>) -> Result<Subject, Failure> {
    match named {
        Some(subject) => Ok(subject),
        None => Ok(config::File::read(file)?.subject()),
    }
}

/// What became of the keys of Diego's file.
fn told(account: &Account) -> String {
    let listed = |keys: Vec<String>| if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
    let used = listed(account.used.iter().map(ToString::to_string).collect());
    let ignored = listed(account.ignored.iter().map(|(key, why)| format!("{key} ({why})")).collect());
    let unknown = listed(account.unknown.iter().map(|key| key.escape_debug().to_string()).collect());
    let mut text = format!(
        "This is a file of Diego's BBS. Its {} database is not touched.\n  \
         used        {used}\n  ignored     {ignored}\n  unknown     {unknown}\n",
        account.database
    );
    for remark in &account.remarks {
        let _ = writeln!(text, "Note: {remark}.");
    }
    text
}

/// What somebody who is about to start a server wants to see once more.
fn summary(Settings { config, serve_locket, .. }: &Settings) -> String {
    let scheme = if config.tls.is_some() { "https, client certificates required" } else { "plain http" };
    let outbound = &config.outbound;
    let auctioneer = outbound.auctioneer_url.as_deref().unwrap_or("none; instances wait until a cell claims them");
    let timing = &config.timing;
    let mut lines = vec![
        ("node", config.node.clone()),
        ("API", format!("{} ({scheme})", config.listen)),
        ("health", format!("{} (plain http)", config.health)),
        ("store", config.store.to_string()),
        ("identity", config.identity.display().to_string()),
        ("migration", migration(config)),
        ("encryption", encryption(config)),
        ("auctioneer", auctioneer.to_owned()),
        ("converge", format!("every {}", show(timing.converge_interval))),
        (
            "tasks",
            format!(
                "offered again after {}, failed after {} or more than {} rejections, deleted {} after completion",
                show(timing.kick_task),
                show(timing.expire_pending_task),
                config.task_rejections_max,
                show(timing.expire_completed_task),
            ),
        ),
    ];
    if let Store::Etcd(options) = &config.store {
        lines.extend([("lease", lease(options)), ("standby", standby(config.standby).to_owned())]);
    }
    if let Some(locket) = &config.locket {
        lines.push(("locket", format!("{}, as {}", locket.address, locket.owner)));
    }
    if let Some(listen) = serve_locket {
        lines.push(("Locket", format!("served on {listen} (TLS, client certificates required)")));
    }
    if outbound.callback_body == CallbackBody::Full {
        lines.push(("callbacks", "how a task ended; it is deleted when the receiver has answered".to_owned()));
    }
    lines.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "  {name:<11} {value}");
        text
    })
}

fn lease(options: &store::etcd::Options) -> String {
    let compaction = if options.compacts { "the master compacts etcd" } else { "somebody else compacts etcd" };
    format!("a master that is not heard of is replaced after {}; {compaction}", show(options.lease))
}

fn standby(standby: Standby) -> &'static str {
    match standby {
        Standby::Closed => "while it waits, it refuses connections to the API",
        Standby::Redirect => "while it waits, it sends clients to the master",
    }
}

fn encryption(config: &Config) -> String {
    let Some(Encryption { keyring, rotation, .. }) = &config.encryption else {
        return "none; records are stored as they are".to_owned();
    };
    let names: Vec<&str> = keyring.names().map(KeyName::as_str).collect();
    let mode = match rotation.mode {
        RotationMode::Online => "online",
        RotationMode::Offline => "offline",
    };
    format!("key {} seals, {} can be opened; rotation {mode}", keyring.active(), names.join(", "))
}

fn migration(config: &Config) -> String {
    let mode = match config.migration.mode {
        Mode::Online => "online",
        Mode::ReadOnly => "read-only",
        Mode::Offline => "offline",
    };
    let start = match config.migration.start {
        Start::Auto => "starts by itself",
        Start::Manual => "starts with `corkboard migrate start`",
    };
    let end = match config.migration.finalization {
        Finalization::Auto => "ends by itself",
        Finalization::Manual => "ends with `corkboard migrate finalize`",
    };
    let drain = match config.rollback_on_drain_to {
        Some(version) => format!("; goes back to data version {version} when stopped"),
        None => String::new(),
    };
    format!("{mode}, {start}, {end}{drain}")
}
