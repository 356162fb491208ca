//! Where an app or a task runs, again and again: what the state server lists, and the events that say when to look.
//!
//! Events are also evidence: an instance that crashed within a moment is in no list any more, and its event names the cell that
//! still keeps its lines. A state server that does not answer is said once, and asked on.

use std::collections::BTreeSet;
use std::time::Duration;

use api::cell::logs::LogsOf;
use api::client::{Client, ClientError, Feed, FeedItem};
use api::event::{Event, EventPayload};
use api::models::{ActualLrPsRequest, ActualLrp, ActualLrpInstanceKey, ActualLrpKey, error, task};
use model::Cell;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// For one call; the next comes soon.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks when nothing is heard.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
const TASK_INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks when much is heard, and after a call that failed.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) enum Sight {
    /// All cells, and the names of those that run or ran it.
    Seen {
        cells: Vec<Cell>,
        hosts: BTreeSet<String>,
    },
    Away {
        why: String,
    },
    Back,
    /// The task is over.
    Over,
}

/// Tells until nobody listens or a task is over.
pub(super) async fn watch(bbs: Client, of: LogsOf, tell: mpsc::Sender<Sight>) {
    let (mut feed, mut is_away, mut hosts) = (None, false, BTreeSet::new());
    loop {
        let sight = match look(&bbs, &of, &mut feed).await {
            Ok(None) => Sight::Over,
            Ok(Some((cells, seen))) => {
                hosts.extend(seen);
                Sight::Seen { cells, hosts: hosts.clone() }
            }
            Err(error) => Sight::Away { why: error.to_string() },
        };
        let (was_away, is_over) = (is_away, matches!(sight, Sight::Over));
        is_away = matches!(sight, Sight::Away { .. });
        let is_said = is_away && was_away;
        if was_away && !is_away && tell.send(Sight::Back).await.is_err() {
            return;
        }
        if !is_said && tell.send(sight).await.is_err() || is_over {
            return;
        }
        tokio::time::sleep(PAUSE).await;
        match &mut feed {
            Some(_) if is_away => {}
            Some(feed) => {
                // Having heard nothing for a while is as good a reason to look as having heard something.
                let _ = timeout(LOOK_INTERVAL, heard(feed, &of, &mut hosts)).await;
            }
            None => tokio::time::sleep(TASK_INTERVAL).await,
        }
    }
}

type Seen = (Vec<Cell>, BTreeSet<String>);

/// `None` when the task is over.
async fn look(bbs: &Client, of: &LogsOf, feed: &mut Option<Feed>) -> Result<Option<Seen>, ClientError> {
    let bbs = bbs.clone().with_timeout(Some(CALL_TIMEOUT));
    let hosts = match of {
        LogsOf::Process { guid, index } => {
            // Listen first, then list: no change falls between the two.
            if feed.is_none() {
                *feed = Some(bbs.follow_instance_events("").await?);
            }
            let request = ActualLrPsRequest { process_guid: guid.clone(), index: *index, ..Default::default() };
            bbs.actual_lrps(request).await?.into_iter().filter_map(host).collect()
        }
        LogsOf::Task { guid } => match bbs.task_by_guid(guid).await {
            Ok(task) if matches!(task.state(), task::State::Completed | task::State::Resolving) => return Ok(None),
            Ok(task) => BTreeSet::from([task.cell_id]),
            Err(error) if error.is(error::Type::ResourceNotFound) => return Ok(None),
            Err(error) => return Err(error),
        },
    };
    let cells = bbs.cells().await?.into_iter().filter_map(|cell| api::convert::cell_from_wire(cell).ok());
    Ok(Some((cells.collect(), hosts)))
}

fn host(lrp: ActualLrp) -> Option<String> {
    lrp.actual_lrp_instance_key.map(|key| key.cell_id).filter(|cell| !cell.is_empty())
}

/// Waits until something happened to the app, or may have.
async fn heard(feed: &mut Feed, of: &LogsOf, hosts: &mut BTreeSet<String>) {
    loop {
        match feed.next().await {
            Ok(FeedItem::Event(event)) => {
                if let Some((key, instance)) = subject(event)
                    && matches!(of, LogsOf::Process { guid, .. } if *guid == key.process_guid)
                {
                    hosts.extend(instance.map(|instance| instance.cell_id).filter(|cell| !cell.is_empty()));
                    return;
                }
            }
            Err(ClientError::Event { .. }) => {}
            Ok(FeedItem::Gap(_)) | Err(_) => return,
        }
    }
}

fn subject(event: Event) -> Option<(ActualLrpKey, Option<ActualLrpInstanceKey>)> {
    let of_lrp = |lrp: Option<ActualLrp>| lrp.map(|lrp| (lrp.actual_lrp_key, lrp.actual_lrp_instance_key));
    let (key, instance) = match event.payload {
        EventPayload::ActualLrpCrashed(it) => Some((it.actual_lrp_key, it.actual_lrp_instance_key)),
        EventPayload::ActualLrpInstanceCreated(it) => of_lrp(it.actual_lrp),
        EventPayload::ActualLrpInstanceRemoved(it) => of_lrp(it.actual_lrp),
        EventPayload::ActualLrpInstanceChanged(it) => Some((it.actual_lrp_key, it.actual_lrp_instance_key)),
        _ => None,
    }?;
    Some((key?, instance))
}
