//! What etcd itself takes in: puts of records as large as the server's, straight from a client that does nothing else.
//!
//! One transaction at a time is what a single ordered writer can reach at best. Four in flight show what etcd has left. Keys
//! are overwritten again and again, as claims overwrite; values look random, as sealed ones do.

use std::time::Duration;

use bytes::Bytes;
use rig::etcd::Cluster;
use serde::Serialize;
use tokio::task::JoinSet;

use super::client::Client;
use super::spent::{Meter, Spent};
use crate::latency::{Latencies, Summary};
use crate::noise::Noise;
use crate::stopwatch::Stopwatch;

const KEYS: u64 = 10_000;
const VALUES: usize = 64;
const PREFIX: &str = "/floor/";
const SEED: u64 = 11;

/// A record as the server writes it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shape {
    pub key_bytes: usize,
    pub value_bytes: usize,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Direct {
    pub batch: u64,
    pub in_flight: u64,
    pub records_per_s: f64,
    /// Of one transaction.
    pub latency: Summary,
    pub spent: Spent,
}

pub(super) async fn measure(
    cluster: &Cluster,
    client: &Client,
    shape: Shape,
    (batch, in_flight): (u64, u64),
    duration: Duration,
) -> anyhow::Result<Direct> {
    let mut noise = Noise::new(SEED);
    let values: Vec<Bytes> = (0..VALUES).map(|_| Bytes::from(noise.bytes(shape.value_bytes))).collect();
    let (meter, watch) = (Meter::start(cluster, None)?, Stopwatch::start());
    let mut lanes = JoinSet::new();
    for lane in 0..in_flight {
        let (mut client, values) = (client.clone(), values.clone());
        lanes.spawn(async move {
            let mut latencies = Latencies::default();
            // Every lane has keys of its own, so that none waits for another.
            let mut next = 0;
            while watch.elapsed() < duration {
                let records = (0..batch).map(|at| {
                    let number = (next + at) % KEYS * in_flight + lane;
                    (key(number, shape.key_bytes), values[(next + at) as usize % VALUES].clone())
                });
                let call = Stopwatch::start();
                client.put(records).await?;
                latencies.record(call.elapsed());
                next += batch;
            }
            anyhow::Ok(latencies)
        });
    }
    let mut all = Latencies::default();
    for latencies in lanes.join_all().await {
        all.merge(&latencies?);
    }
    let (seconds, latency) = (watch.seconds(), all.summary());
    let records_per_s = (latency.count * batch) as f64 / seconds;
    Ok(Direct { batch, in_flight, records_per_s, latency, spent: meter.stop(cluster)? })
}

/// As long as it should be, and never the same for two numbers.
fn key(number: u64, bytes: usize) -> Bytes {
    let width = bytes.saturating_sub(PREFIX.len());
    Bytes::from(format!("{PREFIX}{number:0width$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_as_long_as_asked_for_and_differ() {
        assert_eq!(key(7, 12), "/floor/00007");
        assert_ne!(key(1_234_567, 12), key(1_234_568, 12), "too short for the number, and still another key");
    }
}
