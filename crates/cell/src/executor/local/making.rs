//! From a reservation to the end: making a container, living in it, removing it.
//!
//! Making it again does no harm, so that a cell that died in the middle begins from the start. What fails here is the fault of
//! the cell and not of the app: another cell may do better.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::Duration;

use api::models;
use tokio::sync::watch;

use super::super::files::cache::Wanted;
use super::super::files::root::RootDir;
use super::super::files::{Checksum, unpack};
use super::super::health::Network;
use super::super::life::{Life, Witness};
use super::super::logs::{Output, Stream};
use super::super::{Event, Port, RunSpec, State};
use super::entry::{self, Entry, STOPPED_BEFORE};
use super::ground::Grounded;
use super::{Inner, sandbox};

const REMOVE_ATTEMPTS_MAX: u32 = 5;
const REMOVE_PAUSE_MS: u64 = 200;

/// Layers of images as what they mean: shared ones are dependencies that are kept, the others are fetched before anything runs.
pub(crate) fn without_layers(spec: RunSpec) -> RunSpec {
    let lrp = models::DesiredLrp {
        image_layers: spec.image_layers,
        cached_dependencies: spec.cached_dependencies,
        setup: spec.setup,
        legacy_download_user: spec.legacy_download_user.clone(),
        ..models::DesiredLrp::default()
    };
    let lrp = api::revision::desired_lrp_v3_to_v2(lrp);
    RunSpec { image_layers: Vec::new(), cached_dependencies: lrp.cached_dependencies, setup: lrp.setup, ..spec }
}

/// Lives the life of a container, from wherever it is, and completes it.
pub(crate) async fn live(inner: Arc<Inner>, entry: Arc<Entry>) {
    let Some(spec) = entry.spec() else {
        inner.tell(entry.complete("the record has nothing to run".to_owned(), true));
        entry.ended.send_replace(true);
        return;
    };
    let stream = entry.stream.get_or_init(|| stream(&inner, &entry, &spec)).clone();
    let output = Output::new(stream);
    let made = if entry.container().state == State::Initializing {
        tokio::select! {
            made = make(&inner, &entry, &spec) => made,
            () = entry.cancel.cancelled() => Err((STOPPED_BEFORE.to_owned(), false)),
        }
    } else {
        Ok(entry.container().ports.clone())
    };
    let (reason, is_retryable) = match made {
        Err(failed) => failed,
        Ok(ports) => {
            if entry.container().state == State::Initializing {
                inner.tell(entry.created(ports.clone()));
            }
            (run(&inner, &entry, &spec, ports, output).await, false)
        }
    };
    entry.end_processes().await;
    let (folder, checked) = (entry.folder().to_owned(), inner.clone());
    let _ = tokio::task::spawn_blocking(move || checked.sandbox.release(&folder)).await;
    tracing::info!(container = %entry.guid, reason, "completed");
    inner.tell(entry.complete(reason, is_retryable));
    entry.ended.send_replace(true);
}

fn stream(inner: &Inner, entry: &Entry, spec: &RunSpec) -> Arc<Stream> {
    let owner = entry.container().owner.clone();
    let kept = inner.archive.open(&owner, || inner.entries().keys().cloned().collect());
    Stream::new(owner, spec.log.clone(), inner.lines.clone(), kept)
}

type Failed = (String, bool);

/// The reason is for whoever wonders why nothing runs.
async fn make(inner: &Arc<Inner>, entry: &Arc<Entry>, spec: &Arc<RunSpec>) -> Result<Vec<Port>, Failed> {
    let retryable = |why: String| (why, true);
    inner.sandbox.health().map_err(|why| retryable(format!("failed to create container: {why}")))?;
    if !spec.volume_mounts.is_empty() {
        return Err(retryable("failed to mount volume: this cell has no volume drivers".to_owned()));
    }
    let failed = |error: io::Error| retryable(format!("failed to create container: {error}"));
    let reservation = entry.container().reservation.clone();
    inner.sandbox.make(entry.folder(), &reservation).map_err(failed)?;
    let root = RootDir::open(&entry.root()).map_err(failed)?;
    let owner = match inner.sandbox.first_user(spec, &root) {
        Ok(owner) => owner,
        Err(why) => return Err((format!("failed to create container: {why}"), false)),
    };
    if let Some((user, group)) = owner.filter(|_| inner.sandbox.owns_root()) {
        std::os::unix::fs::chown(root.path(), Some(user), Some(group)).map_err(failed)?;
    }
    for file in &spec.volume_mounted_files {
        let written = root.write(file.path.as_ref(), file.content.as_bytes(), owner);
        written.map_err(|error| retryable(format!("failed to create volume mounted files: {error}")))?;
    }
    let steps = fs::DirBuilder::new().recursive(true).mode(0o700).create(entry.folder().join("steps"));
    steps.map_err(failed)?;
    dependencies(inner, entry, spec, &root, owner).await.map_err(|why| {
        tracing::warn!(container = %entry.guid, why, "a cached dependency cannot be had");
        retryable("failed to download cached artifacts".to_owned())
    })?;
    let ports = inner.ports().allocate(&spec.ports);
    ports.ok_or_else(|| retryable("failed to create container: all host ports are taken".to_owned()))
}

async fn dependencies(
    inner: &Inner,
    entry: &Entry,
    spec: &RunSpec,
    root: &RootDir,
    owner: super::super::files::root::Owner,
) -> Result<(), String> {
    let bytes_max = sandbox::disk_bytes_max(&entry.container());
    for wanted in &spec.cached_dependencies {
        let checksum = Checksum::parse(&wanted.checksum_algorithm, &wanted.checksum_value)?;
        let key = if wanted.cache_key.is_empty() { &wanted.from } else { &wanted.cache_key };
        let got = inner.cache.get(Wanted { address: &wanted.from, key, checksum: checksum.as_ref() }).await;
        let file = got.map_err(|error| error.to_string())?.file;
        let into = root.reopen().map_err(|error| error.to_string())?;
        let to = wanted.to.clone();
        let unpacked = tokio::task::spawn_blocking(move || unpack::unpack(file, &into, &to, owner, bytes_max));
        unpacked.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Lives, and gives the reason of the end; none if it did what it should.
async fn run(inner: &Arc<Inner>, entry: &Arc<Entry>, spec: &Arc<RunSpec>, ports: Vec<Port>, output: Output) -> String {
    let started = watch::Sender::new(false);
    let receiver = started.subscribe();
    let ground = match Grounded::new(inner.clone(), entry.clone(), spec.clone(), started) {
        Ok(ground) => ground,
        Err(error) => return format!("the root folder of the container is gone: {error}"),
    };
    let prober = Network { address: inner.config.address, ports, turns: inner.turns.clone() };
    let witness = Told { inner: inner.clone(), entry: entry.clone(), is_ready: !has_readiness(spec) };
    let life = Life {
        spec,
        ground: &ground,
        prober: &prober,
        witness: &witness,
        times: inner.config.checks,
        output,
        is_running: entry.container().state == State::Running,
        started: receiver,
    };
    match Box::pin(life.live(&entry.cancel)).await {
        Ok(()) => String::new(),
        Err(failure) => failure.to_string(),
    }
}

fn has_readiness(spec: &RunSpec) -> bool {
    spec.check_definition.as_ref().is_some_and(|definition| !definition.readiness_checks.is_empty())
}

struct Told {
    inner: Arc<Inner>,
    entry: Arc<Entry>,
    /// Without readiness checks it is ready as soon as it runs.
    is_ready: bool,
}

impl Witness for Told {
    fn running(&self) {
        self.inner.tell(self.entry.running(self.is_ready));
    }

    fn routable(&self, is_routable: bool) {
        if let Some(changed) = self.entry.routable(is_routable) {
            self.inner.tell(changed);
        }
    }
}

/// Waits for the end of a container that was asked to end, and removes it.
pub(crate) async fn delete(inner: Arc<Inner>, entry: Arc<Entry>) {
    let mut ended = entry.ended.subscribe();
    let _ = ended.wait_for(|ended| *ended).await;
    entry.end_processes().await;
    for attempt in 1.. {
        let (folder, checked) = (entry.folder().to_owned(), inner.clone());
        let removed = tokio::task::spawn_blocking(move || entry::remove(&folder, &checked.sandbox)).await;
        let error = match removed {
            Ok(Ok(())) => break,
            Ok(Err(error)) => error,
            Err(error) => io::Error::other(error),
        };
        if attempt == REMOVE_ATTEMPTS_MAX {
            tracing::error!(container = %entry.guid, %error, "a container cannot be removed; it is kept and can be deleted again");
            entry.delete_failed();
            return;
        }
        tokio::time::sleep(Duration::from_millis(REMOVE_PAUSE_MS)).await;
    }
    inner.ports().give_back(&entry.container().ports);
    inner.entries().remove(&entry.guid);
    let _ = inner.events.send(Event::Deleted(entry.guid.clone()));
}
