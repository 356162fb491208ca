//! A played cell: tells a state, takes work or does not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use api::models::CellPresence;
use api::rep::{CellState, Resources, RootfsProvider, Work};
use futures_util::FutureExt;
use tokio::sync::{Semaphore, mpsc};

use crate::peer::{Heard, Peer, Reply};
use crate::world::patiently;

const HEARD_MAX: usize = 1024;

/// What becomes of work.
#[derive(Clone)]
pub(crate) enum Taking {
    All,
    Nothing,
    /// Accepts all, and claims to have refused this.
    Refusing(Work),
    Status(u16),
    Garbage,
    HangUp,
}

pub(crate) struct Cell {
    pub(crate) presence: CellPresence,
    pub(crate) played: Arc<Played>,
    work: mpsc::Receiver<(String, String)>,
    _peer: Peer,
}

/// How the cell behaves, which a test may change at any time.
pub(crate) struct Played {
    pub(crate) state: Mutex<CellState>,
    pub(crate) state_status: Mutex<u16>,
    pub(crate) taking: Mutex<Taking>,
    /// How many answers to questions for the state may leave.
    pub(crate) answers: Semaphore,
    pub(crate) asked: AtomicUsize,
    asked_signal: Semaphore,
}

impl Cell {
    pub(crate) async fn start(id: &str) -> Self {
        Self::start_with(id, None).await
    }

    pub(crate) async fn start_with(id: &str, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let available = Resources { memory_mb: 1000, disk_mb: 1000, containers: 100 };
        let mut state = CellState { cell_id: id.into(), zone: "z1".into(), ..CellState::default() };
        (state.available, state.total) = (available.clone(), available);
        state.rootfs_providers.0.insert("preloaded".into(), RootfsProvider::FixedSet(["s".to_owned()].into()));
        let played = Arc::new(Played {
            state: Mutex::new(state),
            state_status: Mutex::new(200),
            taking: Mutex::new(Taking::All),
            answers: Semaphore::new(1_000_000),
            asked: AtomicUsize::new(0),
            asked_signal: Semaphore::new(0),
        });
        let (sender, work) = mpsc::channel(HEARD_MAX);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let peer = Peer::start(
            tls,
            Arc::new({
                let played = played.clone();
                move |heard| played.clone().answer(heard, sender.clone()).boxed()
            }),
        )
        .await;
        let address = format!("{scheme}://{}", peer.address);
        let presence = CellPresence { cell_id: id.into(), rep_url: address, ..CellPresence::default() };
        Self { presence, played, work, _peer: peer }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut CellState)) {
        change(&mut self.played.state.lock().unwrap());
    }

    pub(crate) fn take(&self, taking: Taking) {
        *self.played.taking.lock().unwrap() = taking;
    }

    /// From now on the cell does not answer until [`Played::answers`] gets a permit.
    pub(crate) fn hold_answers(&self) {
        self.played.answers.forget_permits(1_000_000);
    }

    /// Waits until the cell was asked for its state once more than it was waited for.
    pub(crate) async fn asked(&self) {
        patiently(self.played.asked_signal.acquire()).await.unwrap().forget();
    }

    pub(crate) fn times_asked(&self) -> usize {
        self.played.asked.load(Ordering::SeqCst)
    }

    /// The next work, with the id it came under, byte for byte.
    pub(crate) async fn work(&mut self) -> (String, String) {
        patiently(self.work.recv()).await.expect("the cell is there")
    }

    /// The starts in the next work, sorted.
    pub(crate) async fn started(&mut self) -> String {
        starts_in(&self.work().await.1)
    }

    /// The starts in the next work that is here already.
    pub(crate) fn started_so_far(&mut self) -> Option<String> {
        self.work.try_recv().ok().map(|(_, body)| starts_in(&body))
    }

    pub(crate) fn got_nothing(&mut self) -> bool {
        self.started_so_far().is_none()
    }
}

fn starts_in(body: &str) -> String {
    let work: Work = serde_json::from_str(body).unwrap();
    let lrps = work.lrps.iter().map(|lrp| format!("{}/{}", lrp.process_guid, lrp.index));
    let mut starts: Vec<_> = lrps.chain(work.tasks.iter().map(|task| task.task_guid.clone())).collect();
    starts.sort_unstable();
    starts.join(" ")
}

impl Played {
    async fn answer(self: Arc<Self>, heard: Heard, work: mpsc::Sender<(String, String)>) -> Reply {
        match (heard.method.as_str(), heard.path.as_str()) {
            ("GET", "/state") => {
                self.asked.fetch_add(1, Ordering::SeqCst);
                self.asked_signal.add_permits(1);
                self.answers.acquire().await.unwrap().forget();
                let state = api::json::to_string(&*self.state.lock().unwrap());
                Reply::json(*self.state_status.lock().unwrap(), state)
            }
            ("POST", "/work") => {
                let body = String::from_utf8(heard.body.to_vec()).unwrap();
                let taking = self.taking.lock().unwrap().clone();
                work.send((heard.trace.unwrap_or_default(), body.clone())).await.unwrap();
                match taking {
                    Taking::All => Reply::json(200, r#"{"LRPs":null,"Tasks":null}"#.into()),
                    Taking::Nothing => Reply::json(200, body),
                    Taking::Refusing(work) => Reply::json(200, api::json::to_string(&work)),
                    Taking::Status(status) => Reply::json(status, body),
                    Taking::Garbage => Reply::json(200, "<html>".into()),
                    Taking::HangUp => Reply::HANG_UP,
                }
            }
            _ => Reply::json(404, String::new()),
        }
    }
}
