//! How many files a process may have open: a thousand cells are many sockets.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Of a cell in this process: two ports, Locket, a stream of events, what the auctioneer and the state server keep open towards
/// it, and what it keeps open towards the state server itself.
const PER_CELL: u64 = 14;
const BESIDES: u64 = 500;

/// Raises the limit to what the system allows, for this process and those that it starts; says what it is then.
pub(super) fn raise(cells: u64) -> anyhow::Result<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    let most = limit.maximum.unwrap_or(u64::MAX);
    let needed = cells * PER_CELL + BESIDES;
    anyhow::ensure!(
        most >= needed,
        "{cells} cells need {needed} open files, and a process may have {most} here. Nothing was measured. Raise the hard limit \
         (ulimit -Hn {needed} as root), or take fewer cells: --cells {}",
        most.saturating_sub(BESIDES) / PER_CELL
    );
    Ok(most)
}
