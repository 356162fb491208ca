//! The program: news in, messages out.
//!
//! One task owns the table. It takes in events as they come, lists everything now and then, registers everything whenever
//! routers want to hear it, and says unregistrations again. What arrives while a listing is on its way is applied at once and
//! once more on top of the listing. Whatever is away, the state server or the message bus, the table stays and is sent as
//! long as there is somebody to send it to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::client::{Client, ClientError};
use api::event::EventPayload;
use api::registry::bus::{BoxFuture, Bus, Message};
use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use crate::config::Config;
use crate::events::{Events, News};
use crate::greet::{self, Heard};
use crate::listing;
use crate::lock::Lock;
use crate::metrics::Metrics;
use crate::process::Desired;
use crate::repeats::Repeats;
use crate::row::{Kind, Row};
use crate::table::{Changes, Held, Listing, Swap, Table};

/// Events that wait for the table; when it is full the stream is not read, and a server that tires of that ends it, after
/// which everything is listed.
const NEWS_MAX: usize = 1024;
/// Events remembered for one listing; with more the listing is dropped and made again.
const EVENTS_PER_LISTING_MAX: usize = 100_000;
/// Processes whose routes are registered before news is looked at again.
const SWEEP_PROCESSES: usize = 8;
const SYNC_RETRY_PAUSE: Duration = Duration::from_secs(5);
const LOOKUP_RETRY_PAUSE: Duration = Duration::from_secs(1);
const GREETER_PAUSE: Duration = Duration::from_secs(1);

/// What the program works with.
pub struct Parts {
    pub client: Client,
    pub events: Box<dyn Events>,
    pub bus: Arc<dyn Bus>,
    pub lock: Box<dyn Lock>,
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("client", &self.client).field("bus", &self.bus).finish_non_exhaustive()
    }
}

/// Runs until told to stop. Nothing is unregistered then: the instances are as alive as before.
pub async fn run(config: Config, parts: Parts, mut stop: watch::Receiver<bool>) {
    let Parts { client, mut events, bus, mut lock, metrics } = parts;
    let mut connected = bus.connected();
    let watching = async {
        loop {
            metrics.bus_connected.set(i64::from(*connected.borrow_and_update()));
            if connected.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::pin!(watching);
    loop {
        let held = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = &mut watching => return,
            held = lock.acquire() => held,
        };
        metrics.lock_held.set(1);
        let stopping = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => true,
            () = &mut watching => true,
            () = held.lost() => false,
            () = speak(&config, &client, events.as_mut(), bus.as_ref(), &metrics) => false,
        };
        metrics.lock_held.set(0);
        if stopping {
            return;
        }
        tracing::warn!(
            "the lock of the route emitter is lost; another one may speak now, and this one waits for its turn"
        );
    }
}

/// Speaks until it is dropped.
async fn speak(config: &Config, client: &Client, events: &mut dyn Events, bus: &dyn Bus, metrics: &Metrics) {
    let (news, incoming) = mpsc::channel(NEWS_MAX);
    let (http, http_heard) = watch::channel(Heard::default());
    let (internal, internal_heard) = watch::channel(Heard::default());
    let mut cadences = vec![Cadence::new(Kind::Http, http_heard, config)];
    if config.rules.internal_routes {
        cadences.push(Cadence::new(Kind::Internal, internal_heard, config));
    }
    let mouth = Mouth { bus, metrics, repeats: Repeats::new(config.unregister_repeats) };
    let table = Table::new(config.rules, config.cell_id.clone());
    let work = Work {
        config,
        client,
        mouth,
        table,
        cadences,
        sync: None,
        resync: false,
        since_sync: Vec::new(),
        lookup: None,
        asked: BTreeSet::new(),
    };
    tokio::select! {
        () = follow(events, news) => {}
        () = greet_always(bus, Kind::Http, &http) => {}
        () = greet_always(bus, Kind::Internal, &internal), if config.rules.internal_routes => {}
        () = work.run(incoming) => {}
    }
}

async fn follow(events: &mut dyn Events, news: mpsc::Sender<News>) {
    loop {
        let next = events.next().await;
        if news.send(next).await.is_err() {
            return;
        }
    }
}

async fn greet_always(bus: &dyn Bus, kind: Kind, heard: &watch::Sender<Heard>) {
    loop {
        if let Err(error) = greet::greet(bus, kind.subjects(), heard).await {
            tracing::warn!(%error, "the routers cannot be greeted; trying again");
        }
        tokio::time::sleep(GREETER_PAUSE).await;
    }
}

/// When everything of one kind is registered.
#[derive(Debug)]
struct Cadence {
    kind: Kind,
    heard: watch::Receiver<Heard>,
    interval: Duration,
    next: Instant,
    /// How far registering everything has come: processes after this one remain. It is done in slices, so that news does not
    /// wait for it.
    sweep: Option<String>,
}

impl Cadence {
    fn new(kind: Kind, heard: watch::Receiver<Heard>, config: &Config) -> Self {
        let interval = config.register_interval;
        Self { kind, heard, interval, next: Instant::now() + interval, sweep: None }
    }

    /// At a random moment soon, from the beginning: somebody missed what was said so far.
    fn soon(&mut self, jitter_factor: f64) {
        self.sweep = None;
        let jitter = self.interval.mul_f64(jitter_factor.clamp(0.0, 1.0) * rand::random::<f64>());
        self.next = self.next.min(Instant::now() + jitter);
    }
}

/// Says things to routers.
struct Mouth<'a> {
    bus: &'a dyn Bus,
    metrics: &'a Metrics,
    repeats: Repeats,
}

impl Mouth<'_> {
    async fn tell(&mut self, changes: Changes) {
        self.repeats.note(&changes);
        self.metrics.repeats_waiting.set(count(self.repeats.len()));
        let fresh = |row: &Row| if changes.arrival { row.fresh_message() } else { row.message.clone() };
        for row in &changes.register {
            self.say(row.kind.subjects().register, fresh(row).encode()).await;
        }
        for row in &changes.unregister {
            self.say(row.kind.subjects().unregister, row.message.encode()).await;
        }
    }

    async fn say(&self, subject: &'static str, payload: Bytes) {
        let registers = subject.ends_with(".register");
        match self.bus.publish(Message { subject: subject.to_owned(), reply: None, payload }).await {
            Ok(()) if registers => drop(self.metrics.registered.inc()),
            Ok(()) => drop(self.metrics.unregistered.inc()),
            Err(error) => {
                self.metrics.publish_failures.inc();
                tracing::debug!(%error, subject, "a message to the routers did not leave");
            }
        }
    }
}

type Fetch<T> = BoxFuture<'static, Result<T, ClientError>>;

struct Work<'a> {
    config: &'a Config,
    client: &'a Client,
    mouth: Mouth<'a>,
    table: Table,
    cadences: Vec<Cadence>,
    sync: Option<Fetch<Listing>>,
    /// The listing that is on its way is too old to be the last.
    resync: bool,
    /// What came since the listing was asked for.
    since_sync: Vec<EventPayload>,
    /// Asks for the routes of processes that run and are unknown.
    lookup: Option<Fetch<Vec<Desired>>>,
    /// What was asked for since the last listing; the server need not be asked twice.
    asked: BTreeSet<String>,
}

impl Work<'_> {
    async fn run(mut self, mut incoming: mpsc::Receiver<News>) {
        let mut connected = self.mouth.bus.connected();
        connected.mark_unchanged();
        let unregister = self.config.unregister_interval.max(Duration::from_millis(1));
        let mut repeat = interval_at(Instant::now() + unregister, unregister);
        repeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next_sync = Instant::now();
        let mut next_lookup = Instant::now();
        loop {
            let next_emission = self.cadences.iter().map(|cadence| cadence.next).min().unwrap_or(next_sync);
            tokio::select! {
                news = incoming.recv() => match news {
                    None => return,
                    Some(News::Event(event)) => self.take(event).await,
                    Some(News::Away) => drop(self.mouth.metrics.state_server_away.set(1)),
                    Some(News::Missed) => {
                        self.mouth.metrics.state_server_away.set(0);
                        // A listing that is on its way was asked for before the stream was open: another one follows it.
                        self.resync = self.sync.is_some();
                        next_sync = Instant::now();
                    }
                },
                () = sleep_until(next_sync), if self.sync.is_none() => self.begin_sync(),
                result = in_flight(&mut self.sync) => {
                    self.sync = None;
                    let pause = self.end_sync(result).await;
                    let again = std::mem::take(&mut self.resync);
                    next_sync = Instant::now() + if again { Duration::ZERO } else { pause };
                }
                () = sleep_until(next_lookup), if self.wants_lookup() => self.begin_lookup(),
                result = in_flight(&mut self.lookup) => {
                    self.lookup = None;
                    next_lookup = Instant::now() + self.end_lookup(result).await;
                }
                () = sleep_until(next_emission) => self.begin_sweeps(),
                () = std::future::ready(()), if self.is_sweeping() => self.sweep().await,
                () = any_heard(&mut self.cadences) => self.meet_routers(),
                _ = repeat.tick() => self.repeat().await,
                Ok(()) = connected.changed() => if *connected.borrow_and_update() {
                    self.cadences.iter_mut().for_each(|cadence| cadence.soon(0.0));
                },
            }
            self.show();
        }
    }

    async fn take(&mut self, event: EventPayload) {
        self.mouth.metrics.events.inc();
        if self.sync.is_some() {
            if self.since_sync.len() >= EVENTS_PER_LISTING_MAX {
                tracing::warn!("more happened during a listing than is remembered; it is made again");
                self.begin_sync();
            }
            self.since_sync.push(event.clone());
        }
        let changes = self.table.apply(event);
        self.mouth.tell(changes).await;
    }

    fn begin_sync(&mut self) {
        self.since_sync.clear();
        let held = if self.config.cell_id.is_some() { self.table.held() } else { Held::new() };
        self.sync = Some(Box::pin(listing::fetch(self.client.clone(), self.config.cell_id.clone(), held)));
    }

    /// Returns after how long the next listing is due.
    async fn end_sync(&mut self, result: Result<Listing, ClientError>) -> Duration {
        let events = std::mem::take(&mut self.since_sync);
        let metrics = self.mouth.metrics;
        match result.map(|listing| self.table.swap(listing, events)) {
            Ok(Swap::Taken(changes)) => {
                metrics.synced();
                metrics.tcp_mappings.set(count(self.table.tcp_mappings().count()));
                self.asked.clear();
                if !changes.unregister.is_empty() {
                    let (new, gone) = (changes.register.len(), changes.unregister.len());
                    tracing::info!(new, gone, "the listing of the state server changed routes that no event spoke of");
                }
                self.mouth.tell(changes).await;
                self.config.sync_interval
            }
            Ok(Swap::Refused) => {
                metrics.syncs_refused.inc();
                tracing::warn!(
                    routes = self.table.row_count(),
                    "the state server lists nothing at all; that is not taken for the end of every app, and all routes stay. \
                     If the apps are really gone, restart the route emitter and the routers"
                );
                self.config.sync_interval
            }
            Err(error) => {
                metrics.sync_failures.inc();
                tracing::warn!(%error, "the state server could not be asked for all routes; they stay as they are");
                self.config.sync_interval.min(SYNC_RETRY_PAUSE)
            }
        }
    }

    fn wants_lookup(&self) -> bool {
        self.lookup.is_none() && self.sync.is_none() && self.unknown().next().is_some()
    }

    fn unknown(&self) -> impl Iterator<Item = &str> {
        self.table.without_desired().filter(|guid| !self.asked.contains(*guid))
    }

    fn begin_lookup(&mut self) {
        let (client, guids): (_, Vec<String>) = (self.client.clone(), self.unknown().map(ToOwned::to_owned).collect());
        self.asked.extend(guids.iter().cloned());
        self.lookup = Some(Box::pin(async move { listing::routing_infos(&client, guids).await }));
    }

    /// Returns after how long it may be asked again.
    async fn end_lookup(&mut self, result: Result<Vec<Desired>, ClientError>) -> Duration {
        match result {
            Ok(found) => {
                for desired in found {
                    let changes = self.table.desire(desired);
                    self.mouth.tell(Changes { arrival: true, ..changes }).await;
                }
            }
            Err(error) => {
                self.asked.clear();
                tracing::debug!(%error, "the routes of a new process are not known yet");
            }
        }
        LOOKUP_RETRY_PAUSE
    }

    fn begin_sweeps(&mut self) {
        let now = Instant::now();
        for cadence in self.cadences.iter_mut().filter(|cadence| cadence.next <= now) {
            cadence.next = now + cadence.interval;
            // One that takes longer than its interval is not started over, or it would never end.
            cadence.sweep.get_or_insert_default();
        }
    }

    fn is_sweeping(&self) -> bool {
        self.cadences.iter().any(|cadence| cadence.sweep.is_some())
    }

    async fn sweep(&mut self) {
        for cadence in &mut self.cadences {
            let Some(after) = &cadence.sweep else { continue };
            let (rows, next) = self.table.rows_after(after, SWEEP_PROCESSES);
            cadence.sweep = next;
            for row in rows.iter().filter(|row| row.kind == cadence.kind) {
                self.mouth.say(row.kind.subjects().register, row.message.encode()).await;
            }
        }
    }

    /// A router that starts knows nothing yet.
    fn meet_routers(&mut self) {
        for cadence in &mut self.cadences {
            if !cadence.heard.has_changed().unwrap_or(false) {
                continue;
            }
            let heard = *cadence.heard.borrow_and_update();
            self.mouth.metrics.router_starts.inc();
            cadence.interval = heard.interval.unwrap_or(cadence.interval);
            cadence.soon(self.config.jitter_factor);
        }
    }

    async fn repeat(&mut self) {
        for row in self.mouth.repeats.due() {
            self.mouth.say(row.kind.subjects().unregister, row.message.encode()).await;
        }
        self.mouth.metrics.repeats_waiting.set(count(self.mouth.repeats.len()));
    }

    fn show(&self) {
        self.mouth.metrics.routes.set(count(self.table.row_count()));
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

async fn in_flight<T>(fetch: &mut Option<Fetch<T>>) -> Result<T, ClientError> {
    match fetch {
        Some(fetch) => fetch.await,
        None => std::future::pending().await,
    }
}

/// Waits for a router to introduce itself.
async fn any_heard(cadences: &mut [Cadence]) {
    let heard = cadences.iter_mut().map(|cadence| {
        let mut heard = cadence.heard.clone();
        Box::pin(async move {
            // The greeter goes away only together with whoever waits here.
            if heard.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    });
    futures_util::future::select_all(heard).await;
}
