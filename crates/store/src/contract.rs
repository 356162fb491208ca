//! The contract of [`Store`] as tests: one function per promise, run against every implementation.
//!
//! Promise: a store that passes keeps what the state server relies on. The memory store is trusted in simulations
//! because it passes what the durable ones pass. Each function panics with a sentence when its promise is broken.
//!
//! To test an implementation, give a [`Site`] for it and run every function under a tokio runtime with at least two
//! threads; [`promises!`](crate::promises) writes the list, so that a promise added here is run everywhere. What only
//! one implementation promises (locks, damage, full disks) is tested beside it.

mod claims;
mod limits;
mod pages;
mod snapshots;
mod steps;
mod writers;

pub use claims::{claims_end_by_themselves, claims_have_one_owner};
pub use limits::{large_values, limits_refuse_and_change_nothing};
pub use pages::{page_edges, pages_are_bounded_in_bytes, prefixes, scan_order};
pub use snapshots::{first_revisions, snapshots_stand_still};
pub use steps::{binary_values, deletes, overwrites, step_order, steps_of_a_group};
pub use writers::{concurrent_readers, fencing, fencing_over_reopen, reopening, revisions_over_reopen};

use bytes::Bytes;

use crate::kv::{Mastership, Step, Store};

/// A place where one store lives: a directory, a cluster, a map.
pub trait Site {
    /// Opens the store. The first time it is empty; later calls, made after the former store was dropped, find its
    /// data.
    fn open(&self) -> Box<dyn Store>;
}

/// Writes one test per promise. When you add a promise above, add it here.
#[macro_export]
macro_rules! promises {
    ($site:expr) => {
        $crate::promises!(@each $site,
            binary_values, claims_end_by_themselves, claims_have_one_owner, concurrent_readers, deletes, fencing,
            fencing_over_reopen, first_revisions, large_values, limits_refuse_and_change_nothing, overwrites, page_edges,
            pages_are_bounded_in_bytes, prefixes, reopening, revisions_over_reopen, scan_order, snapshots_stand_still,
            step_order, steps_of_a_group
        );
    };
    (@each $site:expr, $($promise:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $crate::contract::$promise(&$site).await;
            }
        )*
    };
}

async fn campaign(store: &dyn Store) -> Mastership {
    store.campaign("contract").await.expect("an idle store has room for a master")
}

async fn commit(store: &dyn Store, held: &Mastership, steps: &[Step]) -> u64 {
    store.commit(held, steps).await.expect("a valid commit of the master succeeds")
}

fn puts(records: &[(&str, &str)]) -> Step {
    let mut step = Step::default();
    for (key, value) in records {
        step.put(*key, value.as_bytes().to_vec());
    }
    step
}

/// All records under a prefix, read in pages of `limit`.
async fn all(store: &dyn Store, prefix: &str, limit: usize) -> Vec<(String, Bytes)> {
    let mut records = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = store.scan(prefix, after.as_deref(), limit).await.expect("a scan succeeds");
        assert!(page.records.len() <= limit.max(1), "a page holds at most `limit` records");
        assert!(page.next.is_none() || !page.records.is_empty(), "only a page with records has a next one");
        records.extend(page.records);
        match page.next {
            Some(next) => after = Some(next),
            None => return records,
        }
    }
}

async fn keys(store: &dyn Store, prefix: &str) -> Vec<String> {
    all(store, prefix, 1_000).await.into_iter().map(|(key, _)| key).collect()
}
