//! What a process spent, and how quiet the machine was beside it: a figure that others spoilt must say so.

use std::time::Duration;

use serde::Serialize;

use crate::process::{Process, busy_seconds};
use crate::server::Server;
use crate::stopwatch::Stopwatch;

/// Others that took more than this many cores have changed the figures.
const OTHERS_CORES_MAX: f64 = 0.2;
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// What something took that ended with its process.
#[derive(Debug, Serialize)]
pub struct Spent {
    pub seconds: f64,
    pub written_bytes: u64,
    pub taken_by_others: f64,
}

/// The machine from some moment on.
#[derive(Debug)]
pub struct Quiet {
    watch: Stopwatch,
    busy_s: f64,
    ours_s: f64,
}

impl Quiet {
    pub fn start() -> anyhow::Result<Self> {
        Ok(Self { watch: Stopwatch::start(), busy_s: busy_seconds()?, ours_s: ourselves().cpu_seconds()? })
    }

    pub fn taken_by_others(&self, server_s: f64) -> anyhow::Result<f64> {
        let ours_s = ourselves().cpu_seconds()? - self.ours_s;
        Ok(((busy_seconds()? - self.busy_s - ours_s - server_s) / self.watch.seconds()).max(0.0))
    }

    /// Of a process that ends by itself, from now to its end. The kernel forgets what it used then, so it is asked until then.
    pub async fn until_ended(&self, server: &mut Server, longest: Duration) -> anyhow::Result<Spent> {
        let process = server.process();
        let (cpu_before_s, written_before) = (process.cpu_seconds()?, process.written_bytes()?);
        let (mut cpu_s, mut written_bytes) = (cpu_before_s, written_before);
        let ended = server.ended(longest);
        tokio::pin!(ended);
        loop {
            match tokio::time::timeout(ASKED_EVERY, &mut ended).await {
                Ok(ended) => break ended?,
                Err(_) => {
                    cpu_s = process.cpu_seconds().unwrap_or(cpu_s);
                    written_bytes = process.written_bytes().unwrap_or(written_bytes);
                }
            }
        }
        Ok(Spent {
            seconds: self.watch.seconds(),
            written_bytes: written_bytes - written_before,
            taken_by_others: self.taken_by_others(cpu_s - cpu_before_s)?,
        })
    }
}

/// What a report says of others that took so many cores, if it was too much.
pub fn note(most: f64) -> String {
    if most <= OTHERS_CORES_MAX {
        return String::new();
    }
    format!(
        "- **Others used this machine meanwhile, up to {most:.1} cores, so times and latencies are worse than on a quiet one.**\n"
    )
}

fn ourselves() -> Process {
    Process(std::process::id())
}
