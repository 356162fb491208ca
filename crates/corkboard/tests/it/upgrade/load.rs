//! Clients that never stop: each changes records of its own, and knows what was acknowledged.
//!
//! A client meets success, or it meets nobody: a refused or broken connection, or a 503 that says what the server is doing,
//! and these only while no server is there that has answered and may stay. Now and then, and after each break, it reads its own
//! records: they are what was acknowledged, with the one call that was under way carried out whole or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use api::client::{Client, ClientError, TransportKind};
use api::models::{ActualLrPsRequest, DesiredLrPsRequest, TasksRequest};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::site::{Life, Presence, Site};
use crate::durability::census::Census;
use crate::durability::dice::Dice;
use crate::durability::world::{Op, World};

const CLIENTS: usize = 4;
const KNOCK_AGAIN: Duration = Duration::from_millis(2);
/// One call of so many reads.
const READ_EVERY: u64 = 16;
/// What makes a migration last for a moment.
const STOCK_LRPS: usize = 60;
const STOCK_TASKS: usize = 80;

/// What the clients have met, so that a test cannot pass without having tested anything.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) acknowledged: AtomicU64,
    pub(crate) in_doubt: AtomicU64,
    pub(crate) read_back: AtomicU64,
    pub(crate) turned_away: AtomicU64,
}

pub(crate) struct Load {
    pub(crate) tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Customer>>,
}

impl Load {
    /// Begins to call, whether a server is there or not.
    pub(crate) fn start(site: &Site, dice: &mut Dice) -> Self {
        let (tally, stop) = (Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
        let customer = |number: usize| Customer {
            name: format!("c{number}"),
            dice: dice.split(),
            client: site.client(),
            lives: site.lives.clone(),
            tally: tally.clone(),
            world: World::default(),
            doubt: None,
        };
        let customers: Vec<Customer> = (0..CLIENTS).map(customer).collect();
        let clients = customers.into_iter().map(|customer| tokio::spawn(customer.work(stop.clone()))).collect();
        Self { tally, stop, clients }
    }

    fn acknowledged(&self) -> u64 {
        self.tally.acknowledged.load(Ordering::Relaxed)
    }

    /// Until so many more calls were acknowledged.
    pub(crate) async fn more(&self, calls: u64) {
        let until = self.acknowledged() + calls;
        while self.acknowledged() < until {
            // Their panic tells more than a wait without end.
            assert!(self.clients.iter().all(|client| !client.is_finished()), "a client has given up");
            tokio::time::sleep(KNOCK_AGAIN).await;
        }
    }

    /// Ends the calls and compares all that was acknowledged with all that is shown.
    pub(crate) async fn check(self, site: &Site, stock: &World) {
        self.stop.store(true, Ordering::SeqCst);
        let mut expected = vec![("stock".to_owned(), stock.clone())];
        for client in self.clients {
            let customer = client.await.unwrap();
            expected.push((customer.name, customer.world));
        }
        let census = Census::take(&site.client()).await;
        let mut records = 0;
        for (name, world) in &expected {
            assert_eq!(&census.world_of(name), world, "not what {name} was acknowledged");
            records += world.lrps.len() + world.rows.len() + world.tasks.len() + world.domains.len();
        }
        assert_eq!(census.records(), records, "there are records that nobody wrote");
    }
}

/// Records that stay as they are.
pub(crate) async fn stock(site: &Site) -> World {
    let (client, mut world) = (site.client(), World::default());
    let lrps = (0..STOCK_LRPS).map(|at| {
        let (guid, annotation) = (format!("stock-{at}"), "stays".to_owned());
        Op::Desire { guid, instances: 3, annotation }
    });
    for op in lrps.chain((0..STOCK_TASKS).map(|at| Op::DesireTask { guid: format!("stock-{at}") })) {
        op.clone().send(&client).await.unwrap();
        world = world.after(&op);
    }
    world
}

struct Customer {
    name: String,
    dice: Dice,
    client: Client,
    lives: watch::Sender<Life>,
    tally: Arc<Tally>,
    /// As acknowledged.
    world: World,
    /// The call that was under way when the connection broke.
    doubt: Option<Op>,
}

impl Customer {
    async fn work(mut self, stop: Arc<AtomicBool>) -> Self {
        let mut lives = self.lives.subscribe();
        while !stop.load(Ordering::SeqCst) || self.doubt.is_some() {
            let life = *lives.wait_for(|life| life.presence != Presence::Absent).await.unwrap();
            let reads = self.doubt.is_some() || self.dice.below(READ_EVERY) == 0;
            let outcome = if reads { self.read_back().await } else { self.change().await };
            match outcome {
                Ok(()) => self.answered(life),
                Err(error) => {
                    self.excuse(life, &error);
                    tokio::time::sleep(KNOCK_AGAIN).await;
                }
            }
        }
        self
    }

    async fn change(&mut self) -> Result<(), ClientError> {
        let op = self.world.choose(&self.name, &mut self.dice);
        let sent = op.clone().send(&self.client).await;
        match &sent {
            Ok(()) => {
                self.world = self.world.after(&op);
                self.tally.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(ClientError::Transport { kind: TransportKind::Refused, .. }) => {}
            Err(_) => self.doubt = Some(op),
        }
        sent
    }

    /// Reads all that was acknowledged, and what became of the call in doubt.
    async fn read_back(&mut self) -> Result<(), ClientError> {
        let census = Census {
            lrps: self.client.desired_lrps(DesiredLrPsRequest::default()).await?,
            rows: self.client.actual_lrps(ActualLrPsRequest::default()).await?,
            tasks: self.client.tasks(TasksRequest::default()).await?,
            domains: self.client.domains().await?,
        };
        let found = census.world_of(&self.name);
        let Some(op) = self.doubt.take() else {
            assert_eq!(found, self.world, "not what {} was acknowledged", self.name);
            self.tally.read_back.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        let after = self.world.after(&op);
        let whole = found == self.world || found == after;
        let allowed = if op.is_one_step(&self.world) { whole } else { found.is_between(&self.world, &after) };
        assert!(allowed, "neither without nor with {op:?}: {found:#?}\ninstead of {:#?}", self.world);
        self.world = found;
        self.tally.in_doubt.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn answered(&self, life: Life) {
        self.lives.send_if_modified(|now| {
            let is_first = *now == Life { presence: Presence::Starting, ..life };
            if is_first {
                now.presence = Presence::Serving;
            }
            is_first
        });
    }

    /// Whether this had to be expected when the call was made, or has become so since.
    fn excuse(&self, life: Life, error: &ClientError) {
        let now = *self.lives.borrow();
        let served_all_the_time = life == now && now.presence == Presence::Serving;
        match error {
            ClientError::Status { status: 503, phase: Some(_), .. } | ClientError::Transport { .. } => {
                assert!(!served_all_the_time, "a server that had answered let {} down: {error:?}", self.name);
                self.tally.turned_away.fetch_add(1, Ordering::Relaxed);
            }
            other => panic!("no client should meet this: {other:?}\nin {:#?}", self.world),
        }
    }
}
