//! Where the picture comes from: one subscription, one list, then events; and now and then a list again, to be sure.
//!
//! It costs a server little: lists when the view begins, after a gap, after an outage and every [`LIST_EVERY`]; cells and the
//! documents of the operator's API, which are small, every [`ASK_EVERY`]. Updates go through a bounded queue: while it is full
//! nothing is read from the server, which then ends the stream as it does for every slow reader, and all is listed anew.

use std::time::Duration;

use api::client::{Client, ClientError, Feed, FeedItem, Question};
use api::models::{ActualLrPsRequest, DesiredLrPsRequest, TasksRequest};
use tokio::sync::mpsc::Sender;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::picture::{Everything, Server, Standing, Update};
use crate::commands::migrate::{Ask, Document, OPERATOR_ROOT, Via};
use crate::commands::nodes;
use crate::failure::CommandError;

const LIST_EVERY: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_secs(5);
/// A server that takes longer for a list is as good as away.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_secs(1);

/// Whom to ask: the server for everything, and for the nodes the health port if one is named.
pub(super) struct Source {
    pub(super) server: Via,
    pub(super) client: Client,
    pub(super) health: Option<Via>,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
enum Outage {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Silence,
    /// The reader went home.
    #[error("nobody reads any more")]
    NoReader,
}

impl Source {
    /// Once, for a snapshot.
    pub(super) async fn look(&self) -> Result<[Update; 3], CommandError> {
        let cells = self.client.cells().await?;
        let everything = list(&self.client).await?;
        Ok([
            Update::Cells(cells),
            Update::Everything(Box::new(everything)),
            Update::Server(Box::new(self.ask_server().await)),
        ])
    }

    /// Until nobody reads any more.
    pub(super) async fn follow(&self, to: Sender<Update>) {
        tokio::join!(self.follow_records(&to), self.follow_server(&to));
    }

    async fn follow_records(&self, to: &Sender<Update>) {
        loop {
            let ended = Box::pin(self.session(to)).await;
            if matches!(ended, Outage::NoReader) || to.send(Update::Away(in_words(&ended))).await.is_err() {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// One time of good luck.
    async fn session(&self, to: &Sender<Update>) -> Outage {
        let begin = async {
            // Subscribed first, so that no change falls between the two.
            let lrps = patiently(self.client.follow_instance_events("")).await?;
            let tasks = patiently(self.client.follow_task_events()).await?;
            self.list_all(to).await?;
            Ok((lrps, tasks))
        };
        match begin.await {
            Ok((lrps, tasks)) => match Box::pin(self.read(lrps, tasks, to)).await {
                Ok(never) => never,
                Err(outage) => outage,
            },
            Err(outage) => outage,
        }
    }

    async fn read(&self, mut lrps: Feed, mut tasks: Feed, to: &Sender<Update>) -> Result<Outage, Outage> {
        let mut lists = interval(LIST_EVERY);
        lists.set_missed_tick_behavior(MissedTickBehavior::Delay);
        lists.tick().await;
        loop {
            let item = tokio::select! {
                item = lrps.next() => item,
                item = tasks.next() => item,
                () = to.closed() => return Err(Outage::NoReader),
                _ = lists.tick() => {
                    self.list_all(to).await?;
                    continue;
                }
            };
            match item {
                Ok(FeedItem::Event(event)) => send(to, Update::Event(Box::new(event.payload))).await?,
                // An event of a newer server changed something that cannot be understood; a list can.
                Ok(FeedItem::Gap(_)) | Err(ClientError::Event { .. }) => self.list_all(to).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn list_all(&self, to: &Sender<Update>) -> Result<(), Outage> {
        send(to, Update::Cells(patiently(self.client.cells()).await?)).await?;
        let everything = patiently(list(&self.client)).await?;
        send(to, Update::Everything(Box::new(everything))).await
    }

    /// An outage here is told by the other half.
    async fn follow_server(&self, to: &Sender<Update>) {
        let mut ticks = interval(ASK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = to.closed() => return,
            }
            let cells = patiently(self.client.cells()).await;
            let told = async {
                if let Ok(cells) = cells {
                    send(to, Update::Cells(cells)).await?;
                }
                send(to, Update::Server(Box::new(self.ask_server().await))).await
            };
            if told.await.is_err() {
                return;
            }
        }
    }

    async fn ask_server(&self) -> Server {
        let nodes = async { nodes::ask(self.health.as_ref().unwrap_or(&self.server)).await?.read() };
        let migration = async { self.server.ask(&Ask::Status).await?.read::<Standing>() };
        let question = Question::get(&format!("{OPERATOR_ROOT}/keys"), &[]);
        let keys = async { Document::of(&self.client.ask(&question).await?)?.read::<Standing>() };
        Server { nodes: Some(told(nodes).await), migration: Some(told(migration).await), keys: Some(told(keys).await) }
    }
}

async fn told<T>(answer: impl Future<Output = Result<T, CommandError>>) -> Result<T, String> {
    match timeout(PATIENCE, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(in_words(&error)),
        Err(_) => Err(in_words(&Outage::Silence)),
    }
}

async fn patiently<T>(call: impl Future<Output = Result<T, ClientError>>) -> Result<T, Outage> {
    match timeout(PATIENCE, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Outage::Silence),
    }
}

async fn list(client: &Client) -> Result<Everything, ClientError> {
    Ok(Everything {
        desired: client.desired_lrp_scheduling_infos(DesiredLrPsRequest::default()).await?,
        actual: client.actual_lrps(ActualLrPsRequest::default()).await?,
        tasks: client.tasks(TasksRequest::default()).await?,
    })
}

async fn send(to: &Sender<Update>, update: Update) -> Result<(), Outage> {
    to.send(update).await.map_err(|_| Outage::NoReader)
}

/// An error and its causes in one line.
fn in_words(error: &dyn std::error::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
