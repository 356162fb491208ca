//! Clients that know all nodes and write down everything they meet.
//!
//! Each desired LRP is a register whose value is its annotation; one of them is removed and created again all the time. A
//! client makes a call once, records what became of it, and goes to the next node when the answer was not the one it wanted,
//! as Diego's clients do. What says that nothing was changed (a refused connection, a 503 with a code, a redirect, an error of
//! the protocol) has failed for certain; whatever leaves that open is recorded as unknown.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::client::{Client, ClientError, TransportKind};
use api::models::DesiredLrpUpdate;
use api::models::error::Type;
use rig::history::{Call, Recorder};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::nodes::Nodes;
use crate::durability::dice::Dice;
use crate::durability::world::lrp;
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE};

const WRITERS: usize = 4;
const READERS: usize = 4;
const REGISTERS: u64 = 6;
/// Registers that no client of the crowd touches, so that what a test writes there is seen for certain.
const QUIET_REGISTERS: u64 = 4;
/// The register that comes and goes.
const FLEETING: &str = "r0";
/// One call of so many removes the fleeting register.
const REMOVE_EVERY: u64 = 12;
/// Numbers of clients that know one node only begin here.
pub(super) const LONELY: usize = 100;
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two calls of a client, so that many nodes and clients fit on a small machine.
const BREATH: Duration = Duration::from_millis(8);

#[derive(Clone, Debug)]
pub(super) enum Act {
    Create(String),
    Update(String),
    Remove,
    Read,
}

/// How a call ended, with the words of whoever did not carry it out.
#[derive(Debug)]
pub(super) enum Met {
    Done,
    Saw(Option<String>),
    Failed(ClientError),
    Unknown(ClientError),
}

/// What all clients of a test share.
pub(super) struct Book {
    pub(super) recorder: Recorder,
    lives: Arc<[AtomicUsize]>,
    /// For the value of each acknowledged write, the node and its life that acknowledged it, where that is certain.
    acknowledged_by: Mutex<HashMap<String, (usize, usize)>>,
    /// Why outcomes are unknown, and how often.
    doubts: Mutex<BTreeMap<String, usize>>,
    stop: AtomicBool,
    done: AtomicU64,
    values: AtomicU64,
}

impl Book {
    /// A value that nobody wrote before.
    pub(super) fn fresh(&self) -> String {
        format!("v{}", self.values.fetch_add(1, Ordering::Relaxed))
    }

    /// One call to one node, recorded.
    pub(super) async fn call(&self, who: usize, (at, client): (usize, &Client), key: &str, act: Act) -> Met {
        let call = match &act {
            Act::Create(value) | Act::Update(value) => Call::Write(value.clone()),
            Act::Remove => Call::Delete,
            Act::Read => Call::Read,
        };
        let life = self.lives[at].load(Ordering::SeqCst);
        let token = self.recorder.begin(who, key, call);
        let met = send(client, key, &act).await;
        match &met {
            Met::Done => token.ok_write(),
            Met::Saw(value) => token.ok_read(value.clone()),
            Met::Failed(_) => token.failed(),
            Met::Unknown(error) => {
                *self.doubts.lock().unwrap().entry(error.to_string()).or_default() += 1;
                token.unknown();
            }
        }
        if matches!(met, Met::Done | Met::Saw(_)) {
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        if let (Met::Done, Act::Create(value) | Act::Update(value)) = (&met, act)
            && self.lives[at].load(Ordering::SeqCst) == life
        {
            self.acknowledged_by.lock().unwrap().insert(value, (at, life));
        }
        met
    }

    pub(super) fn doubts(&self) -> BTreeMap<String, usize> {
        self.doubts.lock().unwrap().clone()
    }

    pub(super) fn acknowledged_by(&self, value: &str) -> Option<(usize, usize)> {
        self.acknowledged_by.lock().unwrap().get(value).copied()
    }
}

async fn send(client: &Client, key: &str, act: &Act) -> Met {
    let answer = match act {
        Act::Create(value) => client.desire_lrp(lrp(key, 0, value)).await,
        Act::Update(value) => {
            let update = DesiredLrpUpdate { annotation: Some(value.clone()), ..DesiredLrpUpdate::default() };
            client.update_desired_lrp(key, update).await
        }
        Act::Remove => client.remove_desired_lrp(key).await,
        Act::Read => match client.desired_lrp_by_process_guid(key).await {
            Ok(lrp) => return Met::Saw(Some(lrp.annotation)),
            Err(error) if error.is(Type::ResourceNotFound) => return Met::Saw(None),
            Err(error) => Err(error),
        },
    };
    match answer {
        Ok(()) => Met::Done,
        Err(error) if says_nothing_changed(&error) => Met::Failed(error),
        Err(error) => Met::Unknown(error),
    }
}

fn says_nothing_changed(error: &ClientError) -> bool {
    match error {
        ClientError::Bbs { error, .. } => error.kind() != Type::Unrecoverable && error.kind() != Type::UnknownError,
        ClientError::Status { status: 307, .. } => true,
        ClientError::Status { status: 503, body, .. } => body.contains("\"code\":"),
        ClientError::Transport { kind, .. } => matches!(kind, TransportKind::Refused),
        _ => false,
    }
}

pub(super) fn register(number: u64) -> String {
    format!("r{number}")
}

/// Nobody but the test itself calls for these.
pub(super) fn quiet_registers() -> impl Iterator<Item = String> {
    (REGISTERS..REGISTERS + QUIET_REGISTERS).map(register)
}

pub(super) struct Crowd {
    pub(super) book: Arc<Book>,
    clients: Vec<JoinHandle<Duration>>,
}

impl Crowd {
    /// Creates the registers and begins to call.
    pub(super) async fn start(nodes: &mut Nodes, dice: &mut Dice) -> Self {
        let book = Arc::new(Book {
            recorder: Recorder::new(),
            lives: nodes.lives(),
            acknowledged_by: Mutex::default(),
            doubts: Mutex::default(),
            stop: AtomicBool::new(false),
            done: AtomicU64::new(0),
            values: AtomicU64::new(0),
        });
        let master = nodes.master().await;
        let client = nodes.client(master, PATIENCE);
        for number in 0..REGISTERS + QUIET_REGISTERS {
            let met = book.call(0, (master, &client), &register(number), Act::Create(book.fresh())).await;
            assert!(matches!(met, Met::Done), "{met:?}");
        }
        let customer = |number: usize| Customer {
            number,
            dice: dice.split(),
            clients: nodes.clients(CALL_TIMEOUT),
            at: number % nodes.all().len(),
            book: book.clone(),
            is_fleeting_there: true,
        };
        let customers: Vec<Customer> = (1..=WRITERS + READERS).map(customer).collect();
        let clients = customers.into_iter().map(|customer| tokio::spawn(customer.work())).collect();
        Self { book, clients }
    }

    pub(super) fn done(&self) -> u64 {
        self.book.done.load(Ordering::Relaxed)
    }

    /// Until so many more calls were answered as hoped.
    pub(super) async fn more(&self, calls: u64) {
        let until = self.done() + calls;
        let deadline = Instant::now() + PATIENCE;
        while self.done() < until {
            // Their panic tells more than a wait without end.
            assert!(self.clients.iter().all(|client| !client.is_finished()), "a client has given up");
            assert!(Instant::now() < deadline, "the clients get no further: {} of {until}", self.done());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends the calls. Gives the longest time that one client was without an answer it wanted.
    pub(super) async fn stop(self) -> (Arc<Book>, Duration) {
        self.book.stop.store(true, Ordering::SeqCst);
        let mut longest = Duration::ZERO;
        for client in self.clients {
            longest = longest.max(client.await.unwrap());
        }
        (self.book, longest)
    }
}

struct Customer {
    number: usize,
    dice: Dice,
    clients: Vec<Client>,
    /// Which node is asked.
    at: usize,
    book: Arc<Book>,
    is_fleeting_there: bool,
}

impl Customer {
    /// Gives the longest time between two answers that it wanted.
    async fn work(mut self) -> Duration {
        let (mut longest, mut last) = (Duration::ZERO, Instant::now());
        while !self.book.stop.load(Ordering::SeqCst) {
            let key = register(self.dice.below(REGISTERS));
            let act = self.choose(&key);
            let met = self.book.call(self.number, (self.at, &self.clients[self.at]), &key, act).await;
            match met {
                Met::Done | Met::Saw(_) => {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
                // Another client was faster with the fleeting one.
                Met::Failed(ClientError::Bbs { error, .. }) => {
                    assert_eq!(key, FLEETING, "{error:?}");
                    self.is_fleeting_there = error.kind() != Type::ResourceNotFound;
                    last = Instant::now();
                }
                Met::Failed(_) | Met::Unknown(_) => self.at = (self.at + 1) % self.clients.len(),
            }
            tokio::time::sleep(BREATH).await;
        }
        longest
    }

    fn choose(&mut self, key: &str) -> Act {
        if self.number > WRITERS {
            return Act::Read;
        }
        if key != FLEETING {
            return Act::Update(self.book.fresh());
        }
        if !self.is_fleeting_there {
            self.is_fleeting_there = true;
            return Act::Create(self.book.fresh());
        }
        if self.dice.below(REMOVE_EVERY) == 0 { Act::Remove } else { Act::Update(self.book.fresh()) }
    }
}

/// All values as one node shows them.
pub(super) async fn all_values(client: &Client) -> HashMap<String, String> {
    let lrps = client.desired_lrps(api::models::DesiredLrPsRequest::default()).await.unwrap();
    let known: HashSet<String> = (0..REGISTERS + QUIET_REGISTERS).map(register).collect();
    let ours = lrps.into_iter().filter(|lrp| known.contains(&lrp.process_guid));
    ours.map(|lrp| (lrp.process_guid, lrp.annotation)).collect()
}
