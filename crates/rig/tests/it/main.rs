//! What other tests stand on, tested: clusters, certificates, and lines that are cut.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

// Other crates know this one as `rig`; so do its tests.
extern crate corkboard_rig as rig;

mod etcd;
mod netns;
mod pki;
mod proxy;

use std::time::Duration;

use tokio::time::Instant;

/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to look for what must not come. Where it would come, it takes well under a millisecond.
const SILENCE: Duration = Duration::from_millis(150);

/// For what another process does, which nobody announces.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A zombie has no open port and no files any more: whoever inherits it will reap it.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}
