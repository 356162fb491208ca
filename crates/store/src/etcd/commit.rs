//! Steps become transactions.
//!
//! Promise: each step lies whole in one transaction, which takes effect only while its master is in office and only once: it
//! compares the election key, and the revision that it goes on from. When the answer to a transaction is lost, it is sent
//! again as it was; if the first one took effect, the second finds the revision moved on to where it wanted to bring it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Shared;
use super::keys::Keys;
use super::links::{Pauses, Trouble};
use super::proto::{Compare, RequestOp, TxnRequest, TxnResponse};
use super::requests::{delete, found, has_value, is_absent, number_of, put, read, was_created_at};
use crate::error::StoreError;
use crate::kv::{HAS_BEGUN, Mastership, Op, STORED_BYTES_MAX, STORED_OPS_MAX, Step, check_group};
use crate::standing::Term;

/// What one transaction carries.
#[derive(Debug, Default)]
struct Parcel<'a> {
    /// By key, because etcd takes a key once in a transaction; the later operation wins, as it would one after the other.
    ops: HashMap<&'a str, &'a Op>,
    /// In order of first mention.
    order: Vec<&'a str>,
    bytes: usize,
    steps: u64,
}

impl<'a> Parcel<'a> {
    fn has_room_for(&self, step: &Step) -> bool {
        self.ops.len() + step.ops.len() <= STORED_OPS_MAX && self.bytes + step.bytes() <= STORED_BYTES_MAX
    }

    fn add(&mut self, step: &'a Step) {
        for op in &step.ops {
            match self.ops.insert(op.key(), op) {
                Some(earlier) => self.bytes -= earlier.bytes(),
                None => self.order.push(op.key()),
            }
            self.bytes += op.bytes();
        }
        self.steps += 1;
    }

    fn requests(&self, keys: &Keys) -> Vec<RequestOp> {
        let request = |key: &&str| match self.ops[*key] {
            Op::Put { key, value } => put(keys.record(key), value.clone(), 0),
            Op::Delete { key } => delete(keys.record(key)),
        };
        self.order.iter().map(request).collect()
    }
}

fn parcels(steps: &[Step]) -> Vec<Parcel<'_>> {
    let mut parcels: Vec<Parcel<'_>> = Vec::new();
    for step in steps {
        match parcels.last_mut().filter(|last| last.has_room_for(step)) {
            Some(last) => last.add(step),
            None => {
                let mut next = Parcel::default();
                next.add(step);
                parcels.push(next);
            }
        }
    }
    parcels
}

/// The revision of the newest step of a mastership. Whoever has it is the one that commits. What a node hears of by following
/// does not count here: a master goes on from what it wrote itself.
pub(super) type Newest = tokio::sync::Mutex<u64>;

/// A parcel as etcd gets it, but for the revision.
#[derive(Debug)]
struct Ready {
    requests: Vec<RequestOp>,
    steps: u64,
    bytes: u64,
}

pub(super) async fn commit(shared: &Arc<Shared>, held: &Mastership, steps: &[Step]) -> Result<u64, StoreError> {
    check_group(steps)?;
    if steps.iter().flat_map(|step| &step.ops).any(|op| !op.key().starts_with('/')) {
        return Err(StoreError::Misuse {
            what: "the key of a record in etcd begins with a slash, and this one does not",
        });
    }
    let ready = parcels(steps).into_iter().map(|parcel| Ready {
        requests: parcel.requests(&shared.keys),
        steps: parcel.steps,
        bytes: parcel.bytes as u64,
    });
    write(shared, held, ready.collect()).await
}

/// As a commit of that many steps without operations, in one transaction.
pub(super) async fn begin_after(shared: &Arc<Shared>, held: &Mastership, revision: u64) -> Result<(), StoreError> {
    if shared.revision.load(Ordering::Acquire) > 0 {
        return Err(HAS_BEGUN);
    }
    let skipped = Ready { requests: Vec::new(), steps: revision, bytes: 0 };
    let is_any = revision > 0;
    write(shared, held, is_any.then_some(skipped).into_iter().collect()).await.map(|_| ())
}

async fn write(shared: &Arc<Shared>, held: &Mastership, ready: Vec<Ready>) -> Result<u64, StoreError> {
    let epoch = held.epoch();
    let (term, newest) = shared.office_of(epoch).ok_or(StoreError::NotMaster)?;
    let writing = Writing { shared: shared.clone(), term, newest, epoch, ready };
    // On a task of its own, so that it is carried to its end even if whoever asked for it goes away.
    match tokio::spawn(writing.run()).await {
        Ok(done) => done,
        Err(error) => Err(unconfirmed(format!("a commit ended early: {error}"))),
    }
}

struct Writing {
    shared: Arc<Shared>,
    term: Arc<Term>,
    newest: Arc<Newest>,
    epoch: u64,
    ready: Vec<Ready>,
}

impl Writing {
    async fn run(self) -> Result<u64, StoreError> {
        let mut newest = self.newest.lock().await;
        let mut any = false;
        for ready in &self.ready {
            match self.land(ready, *newest).await {
                Ok(()) => {}
                // What went before is there, so that nobody may take this for a commit of which nothing is there.
                Err(error) if any && !error.outcome_unknown() => return Err(unconfirmed(error.to_string())),
                Err(error) => return Err(error),
            }
            any = true;
            *newest += ready.steps;
            self.shared.revision.fetch_max(*newest, Ordering::AcqRel);
        }
        Ok(*newest)
    }

    /// Sends one transaction until it is known what became of it.
    async fn land(&self, ready: &Ready, revision: u64) -> Result<(), StoreError> {
        let target = revision + ready.steps;
        let transaction = self.transaction(ready, revision, target);
        let mut pauses = Pauses::new();
        let mut is_repeated = false;
        loop {
            if self.term.is_lost() {
                return Err(if is_repeated {
                    unconfirmed("this server is no longer master")
                } else {
                    StoreError::NotMaster
                });
            }
            let asked = self.shared.links.ask_once("committing", |link| {
                let transaction = transaction.clone();
                async move { link.kv().txn(transaction).await }
            });
            match asked.await {
                Ok(answer) if answer.succeeded => {
                    let at = answer.header.map_or(0, |header| header.revision);
                    self.shared.note_written(ready.bytes, at);
                    return Ok(());
                }
                Ok(answer) => return self.explain(&answer, revision, target, is_repeated),
                Err(Trouble::Final(StoreError::QuotaExceeded)) => match self.look(revision, target).await? {
                    // etcd refuses what it would need room for, but carries the one out that takes the last of it, and says
                    // the same of both.
                    true => return Ok(()),
                    false if !is_repeated => return Err(StoreError::QuotaExceeded),
                    false => {
                        self.term.lose("etcd did not say whether a write took effect");
                        return Err(unconfirmed("etcd is full"));
                    }
                },
                Err(Trouble::Final(error)) if is_repeated => {
                    // The first one may still be on its way, and the next commit could take it for its own.
                    self.term.lose("etcd did not say whether a write took effect");
                    return Err(unconfirmed(error.to_string()));
                }
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Elsewhere(why)) => {
                    if !is_repeated {
                        tracing::warn!(why, "etcd did not confirm a commit; it is sent again until it does");
                    }
                    is_repeated = true;
                }
            }
            pauses.next().await;
        }
    }

    /// Whether what was to bring the revision to `target` has done so.
    async fn look(&self, revision: u64, target: u64) -> Result<bool, StoreError> {
        let keys = &self.shared.keys;
        let reads = vec![read(keys.master()), read(keys.revision())];
        let transaction = TxnRequest { compare: vec![self.is_in_office()], success: reads.clone(), failure: reads };
        let mut pauses = Pauses::new();
        while !self.term.is_lost() {
            let asked = self.shared.links.ask_once("looking what became of a commit", |link| {
                let transaction = transaction.clone();
                async move { link.kv().txn(transaction).await }
            });
            match asked.await {
                Ok(answer) if answer.succeeded && number_of(found(&answer.responses, 1))? == revision => {
                    return Ok(false);
                }
                Ok(answer) => return self.explain(&answer, revision, target, true).map(|()| true),
                Err(_) => pauses.next().await,
            }
        }
        Err(unconfirmed("this server is no longer master"))
    }

    fn transaction(&self, ready: &Ready, revision: u64, target: u64) -> TxnRequest {
        let keys = &self.shared.keys;
        let mut success = ready.requests.clone();
        success.push(put(keys.revision(), text(target), 0));
        TxnRequest {
            compare: vec![self.is_in_office(), goes_on_from(keys, revision)],
            success,
            failure: vec![read(keys.master()), read(keys.revision())],
        }
    }

    fn is_in_office(&self) -> Compare {
        was_created_at(self.shared.keys.master(), i64::try_from(self.epoch).unwrap_or(i64::MAX))
    }

    /// A transaction did not take effect; this time.
    fn explain(&self, answer: &TxnResponse, revision: u64, target: u64, is_repeated: bool) -> Result<(), StoreError> {
        let master = found(&answer.responses, 0).map(|kv| kv.create_revision);
        let stored = number_of(found(&answer.responses, 1))?;
        if master != i64::try_from(self.epoch).ok() {
            self.term.lose("another server has become master");
            // An earlier one may have taken effect before that.
            return Err(if is_repeated {
                unconfirmed("another server has become master")
            } else {
                StoreError::NotMaster
            });
        }
        if is_repeated && stored == target {
            return Ok(());
        }
        self.term.lose(format!("the revision in etcd is {stored}, and this server left it at {revision}"));
        Err(StoreError::ForeignWrite { found: stored, left: revision })
    }
}

fn goes_on_from(keys: &Keys, revision: u64) -> Compare {
    match revision {
        0 => is_absent(keys.revision()),
        revision => has_value(keys.revision(), text(revision)),
    }
}

fn text(number: u64) -> Bytes {
    Bytes::from(number.to_string())
}

fn unconfirmed(why: impl Into<String>) -> StoreError {
    StoreError::InDoubt { why: why.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn step(ops: &[(&str, Option<usize>)]) -> Step {
        let mut step = Step::default();
        for (key, bytes) in ops {
            match bytes {
                Some(bytes) => step.put(*key, vec![0; *bytes]),
                None => step.delete(*key),
            }
        }
        step
    }

    fn shape(steps: &[Step]) -> Vec<(u64, usize, usize)> {
        parcels(steps).iter().map(|parcel| (parcel.steps, parcel.ops.len(), parcel.bytes)).collect()
    }

    #[test]
    fn steps_share_a_transaction_where_they_fit() {
        let small = step(&[("/a", Some(10)), ("/b", None)]);
        assert_eq!(shape(&vec![small.clone(); 3]), [(3, 2, 14)], "a key counts once");
        let wide: Vec<Step> = (0..3).map(|n| step(&(0..60).map(|_| ("/x", Some(n))).collect::<Vec<_>>())).collect();
        assert_eq!(shape(&wide).iter().map(|(steps, ..)| steps).sum::<u64>(), 3);
        let large = step(&[("/large", Some(STORED_BYTES_MAX - 6))]);
        assert_eq!(shape(&[small.clone(), large, small]).len(), 3, "a full step is alone");
    }

    proptest! {
        #[test]
        fn what_is_in_a_parcel_is_what_the_steps_leave(
            steps in prop::collection::vec(
                prop::collection::vec((0usize..40, prop::option::of(0usize..400_000)), 0..60), 1..12)
        ) {
            let names: Vec<String> = (0..40).map(|n| format!("/{n}")).collect();
            let steps: Vec<Step> = steps
                .iter()
                .map(|ops| step(&ops.iter().map(|(key, bytes)| (names[*key].as_str(), *bytes)).collect::<Vec<_>>()))
                .filter(|step| step.check().is_ok())
                .collect();
            let mut expected: HashMap<&str, &Op> = HashMap::new();
            steps.iter().flat_map(|step| &step.ops).for_each(|op| _ = expected.insert(op.key(), op));
            let mut left: HashMap<&str, &Op> = HashMap::new();
            let all = parcels(&steps);
            for parcel in &all {
                prop_assert!(parcel.ops.len() <= STORED_OPS_MAX && parcel.bytes <= STORED_BYTES_MAX);
                prop_assert_eq!(parcel.bytes, parcel.ops.values().map(|op| op.bytes()).sum::<usize>());
                prop_assert_eq!(parcel.order.len(), parcel.ops.len());
                left.extend(parcel.ops.iter().map(|(key, op)| (*key, *op)));
            }
            prop_assert_eq!(left, expected);
            prop_assert_eq!(all.iter().map(|parcel| parcel.steps).sum::<u64>(), steps.len() as u64);
        }
    }
}
