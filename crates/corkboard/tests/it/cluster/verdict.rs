//! What must hold at the end of every test with several nodes, whatever was done to them.
//!
//! One order of the calls explains all that the clients saw; a master that has just been elected holds everything that was
//! acknowledged; masters came one after the other, each with a higher epoch, and no write was acknowledged under an epoch
//! after one under a higher epoch had been.

use std::collections::BTreeMap;

use rig::history::{Call, History, Ledger, Outcome};

use super::clients::{Book, Crowd, all_values};
use super::nodes::Nodes;
use super::say;
use crate::upgrade::site::PATIENCE;

/// Ends the calls and the nodes, and looks at everything.
pub(super) async fn check(mut nodes: Nodes, crowd: Crowd) {
    let (book, longest_gap) = crowd.stop().await;
    let master = nodes.master().await;
    nodes.stop(master).await;
    let next = nodes.master().await;
    assert_ne!(next, master, "somebody else had to become master");
    let values = all_values(&nodes.client(next, PATIENCE)).await;
    let history = book.recorder.history().unwrap();
    let checked = history.check().unwrap_or_else(|violation| panic!("{violation}\n{}", nodes.logs()));
    let missing = Ledger::of(&history).missing(|key| values.get(key).cloned());
    assert!(missing.is_empty(), "{}", missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    let epochs = epochs(&nodes);
    check_epochs(&history, &book, &epochs);
    say(&format!(
        "{checked:?}; {} masters; a client waited at most {longest_gap:?}; unknown: {:#?}",
        epochs.len(),
        book.doubts()
    ));
    nodes.finish().await;
}

/// By node and life.
fn epochs(nodes: &Nodes) -> BTreeMap<(usize, usize), u64> {
    let mut epochs = BTreeMap::new();
    for at in nodes.all() {
        let mut before = 0;
        for life in 1..=nodes.life(at) {
            let Some(epoch) = nodes.epoch(at, life) else { continue };
            assert!(epoch > before, "n{at} was master under {epoch} after {before}");
            before = epoch;
            assert!(epochs.values().all(|other| *other != epoch), "{epoch} was given twice: {epochs:?}");
            epochs.insert((at, life), epoch);
        }
    }
    epochs
}

fn check_epochs(history: &History, book: &Book, epochs: &BTreeMap<(usize, usize), u64>) {
    // When each acknowledged write began and ended, and under which epoch.
    let mut writes = Vec::new();
    for recorded in history.calls() {
        if let (Call::Write(value), Outcome::Done, Some(end)) = (&recorded.call, &recorded.outcome, recorded.end)
            && let Some(whom) = book.acknowledged_by(value)
        {
            let epoch =
                *epochs.get(&whom).unwrap_or_else(|| panic!("{whom:?} acknowledged {value} and never was master"));
            writes.push((recorded.begin, end, epoch));
        }
    }
    let mut by_end = writes.clone();
    by_end.sort_by_key(|(_, end, _)| *end);
    let (mut ended, mut highest) = (by_end.iter().peekable(), 0);
    for (begin, _, epoch) in writes {
        while let Some((.., earlier)) = ended.next_if(|(_, end, _)| *end < begin) {
            highest = highest.max(*earlier);
        }
        assert!(epoch >= highest, "a write was acknowledged under epoch {epoch} after one under {highest}");
    }
}
