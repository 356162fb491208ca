//! Stores of a size are brought from one key to the next: before a server lets anybody in, as an errand without a server, and
//! under clients. And a store that was never sealed is sealed for the first time.
//!
//! How long the rotation itself took is told by the store, which notes its begin and its end; all else is seen from outside.
//! After each, every list is read and counted, and the server must say that all records are under the one key.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use api::client::Question;
use serde::Serialize;
use serde_json::Value;

use super::{Bench, KEY_A, KEY_B, keys};
use crate::clients::Clients;
use crate::course::ROTATION;
use crate::quiet::{Quiet, Spent};
use crate::runs::{self, Online, Run};
use crate::server::{Encryption, Ending, Server};
use crate::sizes::Size;
use crate::stopwatch::Stopwatch;
use crate::stores;

const ERRAND: [&str; 2] = ["keys", "rotate"];
const ERRAND_MAX: Duration = Duration::from_secs(1_800);
const ASK_EVERY: Duration = Duration::from_millis(100);
/// A count that is wrong for longer is wrong.
const COUNTED_MAX: Duration = Duration::from_secs(10);
const NANOS_PER_S: f64 = 1e9;

/// The key that all are under already, and the next one beside it.
const BOTH_KEYS: [&str; 2] = [KEY_B, KEY_A];

#[derive(Debug, Serialize)]
pub struct Rotated {
    pub size: Size,
    /// Of the directory of the filled store.
    pub store_bytes: u64,
    pub fill_s: f64,
    pub offline: Rotation,
    /// A start of the same binary on the same records, when there is nothing to rotate.
    pub plain: Run,
    /// `None` when the binary has no such command.
    pub errand: Option<Errand>,
    pub online: Rotation,
    pub clients: Clients,
}

/// A start of a server until all its records are under the active key.
#[derive(Debug, Serialize)]
pub struct Rotation {
    pub run: Run,
    pub done: Done,
}

#[derive(Debug, Serialize)]
pub struct Errand {
    pub spent: Spent,
    pub done: Done,
}

/// What the store says of its last rotation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Done {
    /// From the note that it begins, before the first record is sealed, to the note that all records were opened.
    pub seconds: f64,
    /// Records as they lie in the store.
    pub records: u64,
}

impl Done {
    pub fn records_per_s(&self) -> f64 {
        self.records as f64 / self.seconds.max(1e-3)
    }
}

/// A store that was never sealed, sealed before anybody is let in.
#[derive(Debug, Serialize)]
pub struct FirstTime {
    pub size: Size,
    pub store_bytes: u64,
    pub rotation: Rotation,
}

pub(super) async fn measure(bench: &Bench<'_>, size: Size) -> anyhow::Result<Rotated> {
    let (filled, work) = (bench.home.join("filled"), bench.home.join("work"));
    bench.progress(size, "filling a store under the first key");
    let only_a = keys(&[KEY_A], "online");
    let fill_s = stores::fill(&bench.launch(&filled, Some(only_a)), size).await?;
    let store_bytes = stores::bytes_below(&filled.join("store"))?;

    stores::copy(&filled, &work)?;
    bench.progress(size, "offline, by a server");
    let (offline, mut server) = rotate(bench, &work, keys(&BOTH_KEYS, "offline"), size).await?;
    server.end(Ending::Stop).await?;
    bench.progress(size, "a plain start on the same records");
    let (plain, mut server) =
        runs::start(&bench.launch(&work, Some(keys(&[KEY_B], "offline"))), &ROTATION, bench.say).await?;
    stores::everything_is_there(&server, &bench.certificates, size).await?;
    server.end(Ending::Stop).await?;
    fs::remove_dir_all(&work)?;

    let errand = errand(bench, &filled, &work, size).await?;

    fs::rename(&filled, &work)?;
    let online = Online {
        before: bench.launch(&work, Some(only_a)),
        then: bench.launch(&work, Some(keys(&BOTH_KEYS, "online"))),
        subject: &ROTATION,
        size,
        watched: bench.watched,
    };
    let (run, clients, mut server) = online.run(bench.say).await?;
    let online = Rotation { run, done: bench.done(&server, KEY_B).await? };
    server.end(Ending::Stop).await?;
    fs::remove_dir_all(&work)?;
    Ok(Rotated { size, store_bytes, fill_s, offline, plain, errand, online, clients })
}

pub(super) async fn first_time(bench: &Bench<'_>, size: Size) -> anyhow::Result<FirstTime> {
    let dir = bench.home.join("plain");
    bench.progress(size, "filling a store without a key");
    stores::fill(&bench.launch(&dir, None), size).await?;
    let store_bytes = stores::bytes_below(&dir.join("store"))?;
    bench.progress(size, "sealed for the first time, offline");
    let (rotation, mut server) = rotate(bench, &dir, keys(&[KEY_A], "offline"), size).await?;
    server.end(Ending::Stop).await?;
    fs::remove_dir_all(&dir)?;
    Ok(FirstTime { size, store_bytes, rotation })
}

/// Starts a server on a store whose records have to get under the active key, and waits until they are.
async fn rotate(
    bench: &Bench<'_>,
    dir: &Path,
    encryption: Encryption<'_>,
    size: Size,
) -> anyhow::Result<(Rotation, Server)> {
    let (run, server) = runs::start(&bench.launch(dir, Some(encryption)), &ROTATION, bench.say).await?;
    let done = bench.done(&server, encryption.active).await?;
    stores::everything_is_there(&server, &bench.certificates, size).await?;
    Ok((Rotation { run, done }, server))
}

async fn errand(bench: &Bench<'_>, filled: &Path, work: &Path, size: Size) -> anyhow::Result<Option<Errand>> {
    if !has_errand(&bench.binary)? {
        bench.progress(size, "skipped: this binary has no `corkboard keys rotate`");
        return Ok(None);
    }
    stores::copy(filled, work)?;
    bench.progress(size, "offline, as an errand");
    let launch = bench.launch(work, Some(keys(&BOTH_KEYS, "offline")));
    let quiet = Quiet::start()?;
    let mut process = launch.spawn_command(&ERRAND)?;
    let spent = quiet.until_ended(&mut process, ERRAND_MAX).await?;
    (bench.say)(&format!("  {:6.1} s: ended", spent.seconds));
    // A server with the new key alone finds everything, or the errand has not done what it says.
    let (mut server, _) = bench.launch(work, Some(keys(&[KEY_B], "offline"))).start().await?;
    let done = bench.done(&server, KEY_B).await?;
    stores::everything_is_there(&server, &bench.certificates, size).await?;
    server.end(Ending::Stop).await?;
    fs::remove_dir_all(work)?;
    Ok(Some(Errand { spent, done }))
}

fn has_errand(binary: &Path) -> anyhow::Result<bool> {
    let mut command = Command::new(binary);
    command.args(ERRAND).arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status().with_context(|| format!("{} could not be started", binary.display()))?.success())
}

impl Bench<'_> {
    /// The document about keys.
    pub(super) async fn keys(&self, server: &Server) -> anyhow::Result<Value> {
        server.ask(&self.certificates, &Question::get("/corkboard/v1/keys", &[])).await
    }

    /// How many records there are, all of them under this key. The server counts now and then, so it may take a moment.
    pub(super) async fn all_under(&self, server: &Server, key: &str) -> anyhow::Result<u64> {
        let watch = Stopwatch::start();
        loop {
            let told = self.keys(server).await?;
            if let Some(records) = all_under(&told, key) {
                return Ok(records);
            }
            anyhow::ensure!(watch.elapsed() < COUNTED_MAX, "Not all records are under key {key}: {told}");
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// What the last rotation was, which must have ended with all records under this key.
    async fn done(&self, server: &Server, key: &str) -> anyhow::Result<Done> {
        let records = self.all_under(server, key).await?;
        let history = server.ask(&self.certificates, &Question::get("/corkboard/v1/history", &[])).await?;
        let seconds = last_rotation_s(&history).with_context(|| format!("The history has no rotation: {history}"))?;
        Ok(Done { seconds, records })
    }
}

/// How many records the document about keys counts, if all are under this key.
fn all_under(told: &Value, key: &str) -> Option<u64> {
    let line = told["keys"].as_array()?.iter().find(|line| line["name"] == key)?;
    let settled = told["state"] == "settled" && told["marker"] == key && told["plain_records"] == 0;
    let records = told["records"].as_u64().filter(|_| settled && line["records"] == told["records"])?;
    (records > 0).then_some(records)
}

/// `None` also when the last one has not ended.
fn last_rotation_s(history: &Value) -> Option<f64> {
    let entries = history["entries"].as_array()?;
    let last = |what: &str| {
        let of_kind = entries.iter().filter(|entry| entry["what"] == what);
        of_kind.filter_map(|entry| entry["at_ns"].as_i64()).max()
    };
    let (begun_ns, ended_ns) = (last("key_rotation_begun")?, last("key_rotation_ended")?);
    (ended_ns >= begun_ns).then(|| (ended_ns - begun_ns) as f64 / NANOS_PER_S)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_rotation_counts_if_it_has_ended() {
        let history = |entries: &[(&str, i64)]| {
            let entry = |(what, at_s): &(&str, i64)| json!({ "what": what, "at_ns": at_s * 1_000_000_000 });
            json!({ "entries": entries.iter().map(entry).collect::<Vec<_>>() })
        };
        let (begun, ended) = ("key_rotation_begun", "key_rotation_ended");
        let check = |entries: &[(&str, i64)], seconds: Option<f64>| {
            assert_eq!(last_rotation_s(&history(entries)), seconds, "{entries:?}");
        };
        check(&[("created", 1), (begun, 2), (ended, 3), (begun, 10), (ended, 14)], Some(4.0));
        check(&[(ended, 14), (begun, 10), (ended, 3), (begun, 2)], Some(4.0));
        check(&[(begun, 2), (ended, 3), (begun, 10)], None);
        check(&[("created", 1)], None);
        check(&[], None);
    }

    #[test]
    fn all_are_under_a_key_only_if_the_marker_the_state_and_the_counts_say_so() {
        let told = || {
            let keys = json!([{ "name": "A", "records": 0 }, { "name": "B", "records": 7 }]);
            json!({ "state": "settled", "marker": "B", "plain_records": 0, "records": 7, "keys": keys })
        };
        assert_eq!(all_under(&told(), "B"), Some(7));
        assert_eq!(all_under(&told(), "A"), None);
        for (member, value) in [
            ("state", json!("verifying")),
            ("marker", json!(null)),
            ("plain_records", json!(1)),
            ("records", json!(8)),
            ("records", json!(0)),
            ("keys", json!([])),
        ] {
            let mut told = told();
            told[member] = value;
            assert_eq!(all_under(&told, "B"), None, "{told}");
        }
    }
}
