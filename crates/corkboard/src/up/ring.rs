//! Starts all parts of `corkboard up` in order, and stops them in order.
//!
//! Starting: ports and folders, which may be taken, before anything else; then the state server, then everybody who needs it,
//! the router before the emitter that speaks to it. It is up when the state server knows all cells.
//!
//! Stopping: the router finishes what it has begun, nobody places anything any more, the apps end and the state server is told,
//! the cells end, and the state server closes its store last. No record of an instance stays behind, so that the next start has
//! nothing to wait for. If a part has failed, apps are left as they are: the next start finds them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::client::{Client, ClientConfig};
use api::registry::bus::InProcess;
use auctioneer::AlwaysMine;
use bbs::Ready;
use cell::executor::{Executor, LocalExecutor};
use route_emitter::events::Subscribed;
use route_emitter::lock::Alone;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use super::cells::{self, Cell, CellsError, Layout};
use super::parts::{Parts, with_causes};
use super::{Up, create, say};
use crate::failure::Failure;
use crate::server::{refuse_huge_pages, stop_signal};
use crate::welcome;

const STATE_SERVER: &str = "the state server";
const AUCTIONEER: &str = "the auctioneer";
const EMITTER: &str = "the route emitter";
const ROUTER: &str = "the router";

/// How long requests in flight may take when everything stops. Nobody else has to learn that the router goes.
const DRAIN_LIMIT: Duration = Duration::from_secs(20);
/// Between two questions whether the state server knows the cells.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// What was prepared before anything runs.
struct Prepared {
    router: TcpListener,
    /// Keeps the port for the auctioneer, whom the state server must know before it listens.
    auctioneer_port: (tokio::net::TcpSocket, SocketAddr),
    cells: Vec<Cell>,
    /// The last to go.
    board: PathBuf,
}

/// Runs until a signal, or until a part ends by itself.
pub(super) async fn run(args: Up, shell: welcome::Shell<'_>) -> Result<(), Failure> {
    refuse_huge_pages();
    let mut stop =
        Box::pin(stop_signal().map_err(|source| Failure::Process { doing: "listening for signals", source })?);
    let runs_as_root = rustix::process::geteuid().is_root() && args.run_as.is_none();
    let (prepared, mut config) = prepare(args).await?;
    config.outbound.auctioneer_url = Some(format!("http://{}", prepared.auctioneer_port.1));
    let executors: Vec<Arc<LocalExecutor>> = prepared.cells.iter().map(|cell| cell.executor.clone()).collect();

    let mut parts = Parts::new();
    let (stop_board, board_stopped) = oneshot::channel::<()>();
    let (tell, told) = oneshot::channel();
    let board = bbs::run(
        config,
        async {
            let _ = board_stopped.await;
        },
        |ready| drop(tell.send(ready)),
    );
    parts.start(STATE_SERVER, Box::pin(async { board.await.map_err(of_board) }));
    let ready = tokio::select! {
        Ok(ready) = told => ready,
        ended = parts.next_end() => {
            close(&executors).await;
            return Err(ended.unasked());
        }
        () = &mut stop => {
            drop(stop_board);
            let failures = parts.until_ended(STATE_SERVER).await;
            close(&executors).await;
            return first_of(failures);
        }
    };
    let router =
        prepared.router.local_addr().map_err(|source| Failure::Process { doing: "opening the router", source })?;
    let places = welcome::Places {
        api: ready.api,
        health: ready.health,
        router,
        cells: prepared.cells.iter().map(|cell| cell.id.to_string()).collect(),
        records: prepared.board.clone(),
        runs_as_root,
    };
    let client = client(&ready)?;
    let (stop_board, stops) = (Some(stop_board), Stops::default());
    let running = Running { parts, stop_board, executors, stops, failures: Vec::new() };
    let mut running = running.start(prepared, &ready, &client);
    let up = async {
        until_known(&client, places.cells.len()).await;
        say(&welcome::cluster(shell, &places));
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        () = up => None,
        () = stop => None,
        ended = running.parts.next_end() => Some(ended),
    };
    let Some(ended) = ended else {
        running.stop_apps().await;
        let stopped = running.stop().await;
        say("Stopped. What is desired runs again after the next start.\n");
        return stopped;
    };
    let part = ended.part.clone();
    let failure = ended.unasked();
    tracing::error!(
        part,
        error = failure.report().trim_end(),
        "a part has ended by itself, so that the others are stopped"
    );
    // Whatever that was, apps had no part in it.
    let _ = running.stop().await;
    say("Stopped, because a part of it failed. Apps run on, and the next start finds them.\n");
    Err(failure)
}

/// Everything that may be wrong or taken, before anything is started.
async fn prepare(args: Up) -> Result<(Prepared, bbs::config::Config), Failure> {
    let run_as = rustix::process::geteuid().is_root().then(|| args.run_as.clone().unwrap_or_else(|| "root".to_owned()));
    let layout = Layout { folder: args.cells_folder(), cells: args.cells, ports: args.app_ports.clone(), run_as };
    let (address, board, folder) = (args.router, args.board(), args.folder_to_create());
    let config = args.config().map_err(|problems| Failure::Usage(problems.to_string()))?;
    let router = TcpListener::bind(address).await.map_err(|error| {
        Failure::Unfinished(format!(
            "the router cannot listen on {address}: {error}. Is another program using it? Choose another address with --router"
        ))
    })?;
    let auctioneer_port =
        cells::reserve_port().map_err(|source| Failure::Process { doing: "reserving a port", source })?;
    create(folder)?;
    let cells = layout.open().map_err(of_cells)?;
    layout.clear_former().await.map_err(of_cells)?;
    Ok((Prepared { router, auctioneer_port, cells, board }, config))
}

fn of_cells(error: CellsError) -> Failure {
    match error {
        CellsError::Folder { ref source, .. } if source.kind() == std::io::ErrorKind::NotFound => Failure::Unfinished(
            format!("{error}: a directory above it does not exist; create it, or choose another one with --dir"),
        ),
        CellsError::Ports => Failure::Usage(error.to_string()),
        error => Failure::Unfinished(with_causes(&error)),
    }
}

fn client(ready: &Ready) -> Result<Client, Failure> {
    let config = ClientConfig { name: "up".to_owned(), ..ClientConfig::new(format!("http://{}", ready.api)) };
    Client::new(config).map_err(|error| Failure::Unfinished(error.to_string()))
}

/// The state server reads every second who is there; before that nobody could place anything.
async fn until_known(client: &Client, cells: usize) {
    while !client.cells().await.is_ok_and(|known| known.len() >= cells) {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Containers go on; nothing was asked of them.
async fn close(executors: &[Arc<LocalExecutor>]) {
    for executor in executors {
        executor.close().await;
    }
}

/// One for each step of the stop.
#[derive(Debug, Default)]
struct Stops {
    router: watch::Sender<bool>,
    placing: watch::Sender<bool>,
    cells: watch::Sender<bool>,
}

struct Running {
    parts: Parts,
    /// Dropping it stops the state server.
    stop_board: Option<oneshot::Sender<()>>,
    executors: Vec<Arc<LocalExecutor>>,
    stops: Stops,
    failures: Vec<Failure>,
}

impl Running {
    fn start(mut self, prepared: Prepared, ready: &Ready, client: &Client) -> Self {
        let Prepared { router, auctioneer_port: (port, address), cells, .. } = prepared;
        let bus = Arc::new(InProcess::new());
        let stop = self.stops.router.subscribe();
        let limits =
            router::Limits { drain_wait: Duration::ZERO, drain_timeout: DRAIN_LIMIT, ..router::Limits::default() };
        let config = router::Config { limits, ..router::Config::default() };
        let metrics = Arc::new(router::metrics::Metrics::new());
        let parts = router::Parts { listener: router, tls: None, health: None, bus: bus.clone(), metrics };
        self.parts.start(ROUTER, async move {
            router::run(config, parts, stop).await;
            Ok(())
        });

        let stop = until(self.stops.placing.subscribe());
        let config = auctioneer::Config { listen: address, seed: chance(), ..auctioneer::Config::default() };
        let bbs = client.clone();
        self.parts.start(AUCTIONEER, async move {
            // The port is listened on from here on, so that nobody else has to keep it.
            let ended = Box::pin(auctioneer::run(config, bbs, AlwaysMine, stop, move |_| drop(port))).await;
            ended.map_err(|error| of_part(AUCTIONEER, &error))
        });
        for cell in cells {
            let name = cell.id.to_string();
            let work = cell.run(client.clone(), ready.shelf.clone(), self.stops.cells.subscribe());
            let part = name.clone();
            self.parts.start(&name, async move { work.await.map_err(|error| of_part(&part, &error)) });
        }

        let stop = self.stops.placing.subscribe();
        // There is one emitter, and nobody it could speak over.
        let config = route_emitter::Config { jitter_factor: 0.0, ..route_emitter::Config::default() };
        let parts = route_emitter::Parts {
            client: client.clone(),
            events: Box::new(Subscribed::new(client.clone(), None)),
            bus,
            lock: Box::new(Alone),
            metrics: Arc::new(route_emitter::metrics::Metrics::new()),
        };
        self.parts.start(EMITTER, async move {
            Box::pin(route_emitter::run(config, parts, stop)).await;
            Ok(())
        });
        self
    }

    /// Nothing new comes in, what was begun is finished, and then everything that runs is asked to end.
    async fn stop_apps(&mut self) {
        let instances: usize = self.executors.iter().map(|executor| executor.list().len()).sum();
        say(&match instances {
            0 => "Stopping.\n".to_owned(),
            1 => "Stopping, with the one instance that runs. Ctrl-C again ends at once and leaves it running.\n"
                .to_owned(),
            _ => format!(
                "Stopping, with the {instances} instances that run. Ctrl-C again ends at once and leaves them running.\n"
            ),
        });
        self.stop_outer().await;
        cells::stop_all(&self.executors).await;
    }

    /// Who brings requests and work.
    async fn stop_outer(&mut self) {
        self.stops.router.send_replace(true);
        self.await_end(ROUTER).await;
        self.stops.placing.send_replace(true);
        self.await_end(AUCTIONEER).await;
        self.await_end(EMITTER).await;
    }

    async fn stop(mut self) -> Result<(), Failure> {
        self.stop_outer().await;
        self.stops.cells.send_replace(true);
        for number in 1..=self.executors.len() {
            self.await_end(&format!("cell-{number}")).await;
        }
        drop(self.stop_board.take());
        self.await_end(STATE_SERVER).await;
        first_of(self.failures)
    }

    async fn await_end(&mut self, part: &str) {
        let failures = self.parts.until_ended(part).await;
        self.failures.extend(failures);
    }
}

fn first_of(failures: Vec<Failure>) -> Result<(), Failure> {
    failures.into_iter().next().map_or(Ok(()), Err)
}

/// An error of a part, in its words.
fn of_part(part: &str, error: &dyn std::error::Error) -> Failure {
    Failure::Unfinished(format!("{part} cannot go on: {}", with_causes(error)))
}

/// Those of the state server have exit codes of their own.
fn of_board(error: bbs::RunError) -> Failure {
    match error {
        bbs::RunError::Listen { port, address, source } => {
            let flag = if port == "health" { "--health" } else { "--listen" };
            Failure::Unfinished(format!(
                "the state server cannot listen on {address} for its {port} port: {source}. Is another program using it? \
                 Choose another address with {flag}"
            ))
        }
        error => Failure::Server(error),
    }
}

async fn until(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What chance is drawn from when instances are placed.
fn chance() -> u64 {
    use cell::rep::clock::{Clock as _, MachineClock};
    u64::try_from(MachineClock.draw() >> u64::BITS).unwrap_or_default()
}
