//! Those who listen: one for each cell, as its route emitter would, and one for all of them.
//!
//! Every event is decoded. A change of state carries the time at which the server took it up, on the clock of this machine, so its
//! delay is known without asking: it holds the commit, the way here and the decoding.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::client::{Client, Subscription};
use api::event::EventPayload;
use api::models::ActualLrpInstanceChangedEvent;
use cell::rep::clock::{Clock, MachineClock};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::latency::{Latencies, Summary};
use crate::stopwatch::Stopwatch;

const RUNNING: &str = "RUNNING";
const PAUSE: Duration = Duration::from_millis(200);

/// What some listeners have heard together since it was last asked for.
#[derive(Debug, Default)]
pub(super) struct Ear {
    events: AtomicU64,
    /// Instances that began to run.
    started: AtomicU64,
    /// Changes of instances of any kind.
    changes: AtomicU64,
    /// Streams that ended before their time.
    interruptions: AtomicU64,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    delays: Latencies,
    started_last: Option<Stopwatch>,
    probe: Option<Probe>,
}

/// A change of an instance that somebody waits for.
#[derive(Debug)]
struct Probe {
    instance: String,
    to_routable: bool,
    tell: oneshot::Sender<()>,
}

/// What was heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) events: u64,
    pub(super) started: u64,
    pub(super) changes: u64,
    pub(super) interruptions: u64,
    pub(super) delays: Summary,
    /// How long ago the last instance began to run.
    pub(super) quiet_s: Option<f64>,
}

impl Ear {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn heard(&self) -> Heard {
        let inside = self.inside();
        Heard {
            events: self.events.load(Ordering::Relaxed),
            started: self.started.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
            interruptions: self.interruptions.load(Ordering::Relaxed),
            delays: inside.delays.summary(),
            quiet_s: inside.started_last.map(|last| last.seconds()),
        }
    }

    /// Counts from zero again.
    pub(super) fn forget(&self) {
        for counter in [&self.events, &self.started, &self.changes, &self.interruptions] {
            counter.store(0, Ordering::Relaxed);
        }
        *self.inside() = Inside::default();
    }

    fn hear(&self, payload: &EventPayload) {
        self.events.fetch_add(1, Ordering::Relaxed);
        if let EventPayload::ActualLrpInstanceChanged(changed) = payload {
            self.hear_change(changed);
        }
    }

    fn hear_change(&self, changed: &ActualLrpInstanceChangedEvent) {
        let (Some(before), Some(after)) = (&changed.before, &changed.after) else { return };
        self.changes.fetch_add(1, Ordering::Relaxed);
        if before.state != after.state {
            let delay_ns = u64::try_from(MachineClock.now_ns() - after.since).unwrap_or(0);
            let mut inside = self.inside();
            inside.delays.record(Duration::from_nanos(delay_ns));
            if after.state == RUNNING {
                inside.started_last = Some(Stopwatch::start());
                self.started.fetch_add(1, Ordering::Relaxed);
            }
        } else if before.routable != after.routable {
            let guid = changed.actual_lrp_instance_key.as_ref().map(|key| key.instance_guid.as_str());
            let is_it = |probe: &mut Probe| guid == Some(&probe.instance) && after.routable == Some(probe.to_routable);
            if let Some(probe) = self.inside().probe.take_if(is_it) {
                let _ = probe.tell.send(());
            }
        }
    }

    /// Told when a change of an instance was heard. It is to be made after this has returned.
    pub(super) fn expect(&self, instance: &str, to_routable: bool) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        self.inside().probe = Some(Probe { instance: instance.to_owned(), to_routable, tell });
        told
    }
}

/// Listens until the set is dropped. Ready when the server has accepted.
pub(super) async fn listen(
    listeners: &mut JoinSet<()>,
    client: &Client,
    cell_id: String,
    ear: &Arc<Ear>,
) -> anyhow::Result<()> {
    let (tell, told) = oneshot::channel();
    let (client, ear) = (client.clone(), ear.clone());
    listeners.spawn(async move {
        let mut tell = Some(tell);
        let mut last_event_id = None;
        loop {
            let what = Subscription { cell_id: cell_id.clone(), last_event_id: last_event_id.take() };
            if let Ok(mut stream) = client.subscribe_to_instance_events(what).await {
                if let Some(tell) = tell.take() {
                    let _ = tell.send(());
                }
                while let Ok(Some(event)) = stream.next().await {
                    ear.hear(&event.payload);
                }
                last_event_id = Some(stream.last_event_id().to_owned()).filter(|id| !id.is_empty());
            }
            ear.interruptions.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(PAUSE).await;
        }
    });
    Ok(told.await?)
}
