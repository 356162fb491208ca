//! `top`: the whole cluster on one screen, as it is now: cells, apps, instances, events, and the servers themselves.
//!
//! `source.rs` asks the server, `picture.rs` is what is known, `summary.rs` what it adds up to, `view.rs` what the operator
//! looks at, `screens.rs` makes the frame of it, and `screen.rs` is the terminal. Between source and screen everything is
//! pure. Off a terminal the same is printed once.

mod frame;
mod listing;
mod picture;
mod screen;
mod screens;
mod server;
mod snapshot;
mod source;
mod summary;
#[cfg(test)]
mod tests;
mod view;
mod words;

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use bbs::clock::{Clock as _, SystemClock};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::migrate::Via;
use crate::cli::HEALTH_URL;
use crate::failure::{CommandError, Failure};
use crate::reach::{ReachFlags, Remote, health_client};
use picture::{Picture, Update};
use screen::{Input, Screen};
use screens::Scene;
use source::Source;
use summary::Summary;
use view::{Goes, View};

pub(crate) const HELP: &str = "Examples:\n  corkboard top\n  corkboard top --app hello\n  corkboard top --json | jq .totals\n\n\
    Keys: q quits, Tab and 1 to 5 change the view, the arrows choose, Enter shows instances, / filters, s sorts.";

/// Fast enough for the eye, and the most that a busy cluster costs this process.
const FRAME_EVERY: Duration = Duration::from_millis(250);
/// Adding up takes at most one part in so many of the time, however large the cluster is.
const SUMS_SHARE: u32 = 10;
/// A frame later is soon enough for the rest; see `source.rs` for what happens when it is full.
const UPDATES_QUEUED_MAX: usize = 1_024;

#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// Print what there is now, and end; so it is without a terminal too
    #[arg(long)]
    once: bool,
    /// Print it as one JSON object, and end
    #[arg(long)]
    json: bool,
    /// Show only rows in which this occurs; / changes it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Begin with the instances of this app; a snapshot then has them too
    #[arg(long, value_name = "PROCESS_GUID")]
    app: Option<String>,
    /// Ask the health port at this URL for the nodes, which answers also while no server serves [env: CORKBOARD_HEALTH_URL]
    #[arg(long = "healthURL", alias = "health-url", value_name = "URL")]
    health_url: Option<String>,
}

/// `env` looks up a variable of the environment; `trace_id` is a fresh one each time.
pub(crate) fn run(
    remote: Remote<Top>,
    outer: ReachFlags,
    env: fn(&str) -> Option<String>,
    trace_id: fn() -> String,
    runtime: &Runtime,
) -> Result<(), Failure> {
    let Remote { args, reach } = remote;
    let health = args.health_url.clone().or_else(|| env(HEALTH_URL)).filter(|url| !url.is_empty());
    let health = health.map(|url| health_client(url, trace_id())).transpose()?.map(|(client, _)| Via::Health(client));
    let (client, address) = reach.or(outer).client(env, trace_id())?;
    let source = Source { server: Via::Server(client.clone()), client, health };
    let has_colours = env("NO_COLOR").is_none_or(|value| value.is_empty());
    match runtime.block_on(top(source, args, &address.url, has_colours)) {
        Ok(()) => Ok(()),
        Err(error) => Failure::of_command(error, address).map_or(Ok(()), Err),
    }
}

async fn top(source: Source, args: Top, address: &str, has_colours: bool) -> Result<(), CommandError> {
    let view = View::new(args.filter, args.app.as_deref(), screen::size());
    let is_live = io::stdout().is_terminal() && io::stdin().is_terminal() && !args.once && !args.json;
    if is_live {
        return live(source, view, address, has_colours).await;
    }
    let now_ns = SystemClock.now_ns();
    let mut picture = Picture::default();
    for update in source.look().await? {
        picture.take(update, now_ns);
    }
    let summary = Summary::of(&picture);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", snapshot::document(&picture, &summary, &view, now_ns))?;
    } else {
        out.write_all(snapshot::text(&picture, &summary, &view, now_ns).as_bytes())?;
    }
    Ok(out.flush()?)
}

async fn live(source: Source, view: View, address: &str, has_colours: bool) -> Result<(), CommandError> {
    let (to, updates) = channel(UPDATES_QUEUED_MAX);
    let mut screen = Screen::take(has_colours)?;
    let mut signals = Signals::new()?;
    // Beside the drawing, so that a long list does not hold up a key. It ends when nobody reads any more.
    tokio::spawn(async move { Box::pin(source.follow(to)).await });
    tokio::select! {
        done = show(&mut screen, updates, view, address) => done,
        () = signals.any() => Ok(()),
    }
}

/// Draws what comes and does what is pressed, until the operator leaves.
async fn show(
    screen: &mut Screen,
    mut updates: Receiver<Update>,
    mut view: View,
    address: &str,
) -> Result<(), CommandError> {
    let (mut picture, mut summary) = (Picture::default(), Summary::default());
    let (mut is_summed_up, mut sums_wait) = (true, Instant::now());
    let mut frames = interval(FRAME_EVERY);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            input = screen.input() => match input {
                Input::Key(key) => {
                    if view.press(key, &picture, &summary) == Goes::Home {
                        return Ok(());
                    }
                }
                Input::Resized => view.size = screen::size(),
                Input::End => return Ok(()),
            },
            _ = frames.tick() => {
                if !is_summed_up && sums_wait <= Instant::now() {
                    let begun = Instant::now();
                    summary = Summary::of(&picture);
                    is_summed_up = true;
                    sums_wait = begun + begun.elapsed() * SUMS_SHARE;
                }
            }
            Some(update) = updates.recv() => {
                picture.take(update, SystemClock.now_ns());
                is_summed_up = false;
                continue;
            }
        }
        let scene = Scene { picture: &picture, summary: &summary, view: &view, address, now_ns: SystemClock.now_ns() };
        screen.draw(screens::frame(&scene), view.size)?;
    }
}

/// Those that ask a program to end.
struct Signals {
    terminate: Signal,
    hang_up: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
