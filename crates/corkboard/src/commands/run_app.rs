//! `run-app`, `stop-app`: an app with a route in one command, and its end.
//!
//! `run-app` says what is wanted and waits until it is true: the instances are placed, healthy, and reached through a router. On
//! the way it shows how far that is; if it cannot become true it says why, with the app's own last words. What it wanted stays
//! wanted, however long it waits.
//!
//! Apps that are run like this have a domain of their own, which is fresh for ever: the state server itself is the only place
//! that knows what is wanted in it, so that what it knows is always complete.
//!
//! An app that runs already is changed: instances and routes at once, anything else by an update, which the server carries out
//! instance by instance and takes back if it fails.

mod definition;
mod probe;
mod wait;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use api::client::logs::CellLogs;
use api::client::{Client, ClientError};
use api::models::error::Type;
use api::models::{DesiredLrp, DesiredLrpUpdate};
use url::Url;

use self::probe::Router;
use self::wait::Wait;
use super::guid;
use super::logs::harmless::harmless;
use super::rollout::{Look, Phase, TermsFlags, follow, in_words};
use crate::cli::one_thread;
use crate::console::{Console, JsonFlag};
use crate::duration;
use crate::failure::{CommandError, Failure};
use crate::reach::{Address, ReachFlags, Remote, is_loopback};
use crate::up::DEFAULT_ROUTER;

/// Of everything that is run like this, and of nothing else.
const DOMAIN: &str = "corkboard-apps";
/// Until it is taken back.
const FRESH_FOR_EVER_S: u32 = 0;

pub(crate) const RUN_HELP: &str = "Examples:\n  corkboard run-app --route hello.local --instances 2 -- corkboard demo-app\n  \
    corkboard run-app --route files.local --health-path / -- 'python3 -m http.server $PORT'\n  \
    corkboard run-app --name worker --memory 256M --env QUEUE=mail -- /opt/worker/run\n\n\
    The app listens on the port in $PORT. A command of one word with spaces is run by /bin/sh. With a server on this machine, a \
    program is looked for as your shell does; elsewhere it is left to the cell.\n\n\
    Running it again changes what is different: instances and routes at once, everything else as an update that replaces instances \
    one after the other while they are used, and is taken back if it fails (corkboard rollout --help). An update has deadlines of \
    its own and is followed to its end.\n\n\
    Exit codes:\n  0  every instance is healthy, and reached through the router where one is known\n  3  wrong use\n  \
    4  the server refused\n  5  it did not come about, and the message says why; it stays desired";

#[derive(Debug, clap::Args)]
pub(crate) struct RunApp {
    /// The host name of its requests, and a path if it has only those below; may be repeated
    #[arg(long, value_name = "HOST[/PATH]", value_parser = words::route)]
    pub(super) route: Vec<String>,
    /// What it is called: letters, digits, - and _ [default: the first part of the route]
    #[arg(long, value_name = "NAME", value_parser = words::name, required_unless_present = "route")]
    name: Option<String>,
    /// How many instances of it run
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) instances: i32,
    /// The memory of an instance, in megabytes, or as 256M or 2G
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = words::size_mb)]
    pub(super) memory: i32,
    /// The room of an instance on the disk
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = words::size_mb)]
    pub(super) disk: i32,
    /// A variable of its environment; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = words::variable)]
    pub(super) env: Vec<(String, String)>,
    /// It is healthy while this path answers with 200; without it, while its port can be connected to
    #[arg(long, value_name = "PATH", value_parser = words::path, conflicts_with = "no_health_check", requires = "route")]
    pub(super) health_path: Option<String>,
    /// It is healthy while it runs
    #[arg(long)]
    pub(super) no_health_check: bool,
    /// The root file system
    #[arg(long, value_name = "URL", default_value = "preloaded:cflinuxfs4")]
    pub(super) rootfs: String,
    /// The user it runs as, where cells can choose
    #[arg(long, value_name = "USER", default_value = "vcap")]
    pub(super) user: String,
    /// The router to reach it through [default: that of `corkboard up`, if the server is on this machine]
    #[arg(long, value_name = "URL", env = "CORKBOARD_ROUTER_URL", hide_env_values = true)]
    router: Option<String>,
    /// How long to wait for it; an update has deadlines of its own
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    wait_timeout: Duration,
    #[command(flatten)]
    terms: TermsFlags,
    /// What is run, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StopApp {
    #[arg(value_name = "NAME", value_parser = guid)]
    name: String,
    /// How long to wait until nothing of it runs
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    wait_timeout: Duration,
}

/// What of this process matters.
#[derive(Debug)]
struct Here {
    /// Who asks cells for the last words of an app.
    cells: CellLogs,
    /// Where relative programs are.
    folder: PathBuf,
    /// Where others are looked for.
    search: String,
}

impl RunApp {
    /// The name, which the route may stand in for.
    fn name(&self) -> Result<String, CommandError> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let first = self.route.first().map(String::as_str).unwrap_or_default();
        let first = first.split(['.', '/']).next().unwrap_or_default();
        words::name(first).map_err(|_| {
            CommandError::Usage(format!("{first:?} cannot be the name of an app; give it one with --name"))
        })
    }
}

pub(crate) fn run(
    remote: Remote<RunApp>,
    outer: ReachFlags,
    env: impl Fn(&str) -> Option<String>,
    trace_id: String,
) -> Result<(), Failure> {
    let Remote { args, reach } = remote;
    let reach = reach.or(outer);
    let folder = std::env::current_dir()
        .map_err(|source| Failure::Process { doing: "finding the current directory", source })?;
    let cells = CellLogs::new(reach.tls_files(&env).as_ref());
    let here = Here { cells, folder, search: env("PATH").unwrap_or_default() };
    let (client, address) = reach.client(env, trace_id)?;
    let mut console = Console::of_process(JsonFlag::default());
    match one_thread()?.block_on(run_and_wait(&client, &address, &here, args, &mut console)) {
        Ok(()) => Ok(()),
        Err(error) => Failure::of_command(error, address).map_or(Ok(()), Err),
    }
}

async fn run_and_wait(
    client: &Client,
    address: &Address,
    here: &Here,
    args: RunApp,
    console: &mut Console,
) -> Result<(), CommandError> {
    let name = args.name()?;
    let is_local = Url::parse(&address.url).is_ok_and(|url| is_loopback(&url));
    let router = match &args.router {
        Some(url) => Some(Router::new(url, true)?),
        None if is_local => Some(Router::new(&format!("http://{DEFAULT_ROUTER}"), false)?),
        None => None,
    };
    let command = words::command(&args.command, is_local.then_some(here))?;
    let wanted = definition::desired(&name, DOMAIN, &args, command);
    let wanted_of = (args.instances, wanted.check_definition.is_some());
    let mut wait = Wait::begin(client, &here.cells, &name, wanted_of).await?;
    let what = Box::pin(desire(client, wanted, &args.terms)).await?;
    let plural = if args.instances == 1 { "" } else { "s" };
    console.line(&format!("{name} {what}, with {} instance{plural}", args.instances))?;
    let before = Look::at(client, &name).now().await?;
    if before.is_under_way() {
        until_updated(client, &name, &wait, before.started_at, console).await?;
        wait = Wait::begin(client, &here.cells, &name, wanted_of).await?;
    }
    let router = if args.instances == 0 { None } else { router };
    let reached = wait.until_there(console, router.as_ref(), &args.route, args.wait_timeout).await?;
    match (reached, args.route.first().filter(|_| args.instances > 0)) {
        (_, None) => {}
        (Some(router), Some(route)) => {
            let (host, path) = probe::host_and_path(route);
            console.line(&format!("Try:\n  curl -H 'Host: {host}' {}{path}", router.url()))?;
        }
        (None, Some(route)) => console.line(&format!(
            "Its route is {route}. Whether a router knows it was not checked, because none is known; name one with --router"
        ))?,
    }
    Ok(())
}

/// Says what is wanted, as a new app or as a change; returns which in words.
async fn desire(client: &Client, wanted: DesiredLrp, terms: &TermsFlags) -> Result<String, CommandError> {
    let known = match client.desired_lrp_by_process_guid(&wanted.process_guid).await {
        Ok(known) => Some(known),
        Err(error) if error.is(Type::ResourceNotFound) => None,
        Err(error) => return Err(error.into()),
    };
    known.iter().try_for_each(definition::check_ours)?;
    let terms = terms.over(None)?;
    client.upsert_domain(DOMAIN, FRESH_FOR_EVER_S).await?;
    let Some(known) = known else {
        client.desire_lrp(wanted).await?;
        return Ok("is desired".to_owned());
    };
    let redefined = definition::redefined(&known, &wanted);
    let is_same = known.instances == wanted.instances && known.routes == wanted.routes;
    if redefined.is_empty() && is_same {
        return Ok("is desired already".to_owned());
    }
    let (guid, routes) = (known.process_guid, wanted.routes.clone());
    let mut update = DesiredLrpUpdate { instances: Some(wanted.instances), ..DesiredLrpUpdate::default() };
    update.routes = routes.filter(|routes| known.routes.as_ref() != Some(routes));
    if redefined.is_empty() {
        client.update_desired_lrp(&guid, update).await?;
        return Ok("is changed".to_owned());
    }
    let kept = client.desired_lrp_definitions(&guid).await.map_err(|error| in_words(&guid, error))?;
    let identifier = definition::next_identifier(&kept);
    let update = DesiredLrpUpdate {
        desired_lrp: Some(wanted),
        update_identifier: Some(identifier.clone()),
        rollout: terms,
        ..update
    };
    client.update_desired_lrp(&guid, update).await.map_err(|error| in_words(&guid, error))?;
    Ok(format!("is updated to {identifier} ({})", redefined.join(", ")))
}

/// Follows an update until every instance has the new definition.
async fn until_updated(
    client: &Client,
    name: &str,
    wait: &Wait<'_>,
    started_ns: i64,
    console: &mut Console,
) -> Result<(), CommandError> {
    let sight = follow(client, name, console).await?;
    let why = harmless(&sight.why);
    let text = match sight.phase {
        Phase::Done if sight.reverts => {
            let said = match wait.last_lines_of_the_gone(started_ns).await {
                lines if lines.is_empty() => "The new instances have written nothing that is known here.".to_owned(),
                lines => format!("The last that was written by instances that are gone:\n  {}", lines.join("\n  ")),
            };
            format!(
                "the update of {name} was taken back: {why}\n{said}\nIts instances run what they ran before. See \
                 `corkboard logs {name}`, and what would have changed with `corkboard rollout diff {name}`"
            )
        }
        Phase::Halted => format!(
            "the update of {name} failed: {why}. What runs, runs on. Take it back with `corkboard rollout cancel {name}`, or try on \
             with `corkboard rollout resume {name}`"
        ),
        Phase::Canary | Phase::Paused => format!(
            "the update of {name} waits for somebody; every instance runs. Go on with `corkboard rollout resume {name} --wait`, or \
             take it back with `corkboard rollout cancel {name}`"
        ),
        _ => return Ok(()),
    };
    Err(CommandError::Unfinished(text))
}

/// Nobody wants the app any more; waits until nothing of it runs.
pub(crate) async fn stop(client: &Client, args: StopApp, console: &mut Console) -> Result<u8, CommandError> {
    let StopApp { name, wait_timeout } = args;
    match client.desired_lrp_by_process_guid(&name).await {
        Ok(known) => definition::check_ours(&known)?,
        Err(error) if error.is(Type::ResourceNotFound) => {
            return Err(CommandError::NotFound(format!(
                "there is no app {name}; `corkboard desired-lrps -d {DOMAIN}` lists those that there are"
            )));
        }
        Err(error) => return Err(error.into()),
    }
    match client.remove_desired_lrp(&name).await {
        // Somebody was faster.
        Err(ClientError::Bbs { .. }) | Ok(()) => {}
        Err(error) => return Err(error.into()),
    }
    wait::until_gone(client, &name, wait_timeout).await?;
    console.line(&format!("{name} is stopped"))?;
    Ok(0)
}
