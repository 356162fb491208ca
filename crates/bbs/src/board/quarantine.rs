//! Stored records that cannot be read: kept byte for byte, named, and never written over.
//!
//! Promise: nothing but an operator deletes one. When a command stores a record under the key of one that cannot be read, the
//! old bytes move aside in the same step, so that the platform goes on and nothing is lost.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use model::Nanos;
use percent_encoding::percent_decode_str;
use store::root::{displaced_key, original_key};
use store::{Op, Step, Version};

use super::Board;

/// By id, which is the key under which the bytes lie.
pub type Quarantine = OrdMap<String, Arc<Kept>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Never shows a value.
    pub why: String,
    pub bytes: Bytes,
    pub place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where it was written, in the data version that is served.
    InPlace,
    /// Moved aside, because its key was needed or its data version is no longer served.
    Displaced,
}

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Self::InPlace => "in place",
            Self::Displaced => "displaced",
        }
    }
}

impl Kept {
    /// What was moved aside, as somebody finds it who does not know why it could not be read.
    pub fn displaced(bytes: Bytes) -> Self {
        let why = "it could not be read, and a newer record needed its key".to_owned();
        Self { why, bytes, place: Place::Displaced }
    }
}

impl Board {
    /// Tells whoever reads the log of records that cannot be read and are still in their place.
    pub fn report_quarantine(&self) {
        for (key, kept) in self.quarantine.iter().filter(|(_, kept)| kept.place == Place::InPlace) {
            tracing::error!(
                key,
                why = kept.why,
                "a stored record cannot be read; it is kept and left out, and `corkboard quarantine list` shows it"
            );
        }
    }

    /// The guids of desired LRPs of which a record cannot be read. They are wanted, though nobody can say how.
    pub fn unreadable_processes(&self) -> HashSet<String> {
        self.quarantine.keys().filter_map(|id| process_of(original_key(id).unwrap_or(id))).collect()
    }

    /// Looks through the operations of a step from `first` on, and moves aside what they would write over.
    pub fn keep_what_is_in_the_way(&mut self, step: &mut Step, first: usize, now_ns: Nanos) {
        if self.quarantine.is_empty() {
            return;
        }
        let is_in_place = |key: &&str| self.quarantine.get(*key).is_some_and(|kept| kept.place == Place::InPlace);
        let in_the_way: Vec<String> =
            step.ops[first..].iter().map(Op::key).filter(is_in_place).map(ToOwned::to_owned).collect();
        for key in in_the_way {
            let Some(kept) = self.quarantine.remove(&key) else { continue };
            let aside = displaced_key(now_ns, &key);
            step.put(aside.clone(), kept.bytes.clone());
            let why = format!("{} (it lay under {key}, which a newer record needed)", kept.why);
            self.quarantine.insert(aside, Arc::new(Kept { why, place: Place::Displaced, ..Kept::clone(&kept) }));
        }
    }
}

/// The guid in the key of a record of a desired LRP, in any data version.
fn process_of(key: &str) -> Option<String> {
    let version = Version::ALL.iter().find(|version| key.starts_with(version.root()))?;
    let rest = key[version.root().len()..].strip_prefix("desired/")?;
    let name = if *version < Version::SplitDesiredLrp {
        rest
    } else {
        // `schedule/<guid>`, `run/<guid>`, `definition/<guid>/<number>`
        rest.split('/').nth(1)?
    };
    Some(percent_decode_str(name).decode_utf8_lossy().into_owned())
}

/// What moves all records aside that lie below `root`, in as many steps as it takes.
pub fn displace_all(quarantine: &Quarantine, root: &str, now_ns: Nanos) -> (Vec<Step>, Quarantine) {
    let mut steps: Vec<Step> = Vec::new();
    let mut after = quarantine.clone();
    for (key, kept) in quarantine.iter().filter(|(key, _)| key.starts_with(root)) {
        let aside = displaced_key(now_ns, key);
        let room = steps.last().is_some_and(|step| {
            step.ops.len() < store::STEP_OPS_MAX
                && step.bytes() + aside.len() + kept.bytes.len() < store::STEP_BYTES_MAX
        });
        if !room {
            steps.push(Step::default());
        }
        if let Some(step) = steps.last_mut() {
            step.put(aside.clone(), kept.bytes.clone());
        }
        after.remove(key);
        let why = format!("{} (it lay under {key}, in a data version that is no longer served)", kept.why);
        after.insert(aside, Arc::new(Kept { why, place: Place::Displaced, ..Kept::clone(kept) }));
    }
    (steps, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_of_an_unreadable_desired_lrp_is_known_by_its_key() {
        let check = |key: &str, guid: Option<&str>| assert_eq!(process_of(key).as_deref(), guid, "{key}");
        check("/v1/desired/a%2Fb", Some("a/b"));
        check("/v1/desired/schedule", Some("schedule"));
        check("/v1441411196/desired/g", Some("g"));
        check("/v1442529338/desired/run/g", Some("g"));
        check("/v1794700800/desired/schedule/g", Some("g"));
        check("/v1794700800/desired/definition/g%20h/0000000001", Some("g h"));
        check("/v1794700800/task/g", None);
        check("/v7/desired/g", None);
        let kept = Kept { why: "poison".into(), bytes: Bytes::new(), place: Place::Displaced };
        let id = "/quarantine/00000000000000000007/v1442529338/desired/schedule/g";
        let board = Board { quarantine: Quarantine::unit(id.into(), Arc::new(kept)), ..Board::default() };
        assert_eq!(board.unreadable_processes(), HashSet::from(["g".to_owned()]));
    }

    #[test]
    fn what_is_in_the_way_moves_aside_in_the_same_step() {
        let kept = Kept { why: "it is poisoned".into(), bytes: Bytes::from_static(b"?"), place: Place::InPlace };
        let mut board = Board { quarantine: Quarantine::unit("/v1/task/t".into(), Arc::new(kept)), ..Board::default() };
        let mut step = Step::default();
        step.put("/v1/task/t", "new");
        step.put("/v1/task/u", "new");
        board.keep_what_is_in_the_way(&mut step, 1, 7);
        assert_eq!(step.ops.len(), 2, "an operation before `first` is not looked at");
        board.keep_what_is_in_the_way(&mut step, 0, 7);
        let aside = "/quarantine/00000000000000000007/v1/task/t";
        assert_eq!(step.ops[2], Op::Put { key: aside.into(), value: Bytes::from_static(b"?") });
        assert_eq!(original_key(aside), Some("/v1/task/t"));
        let ids: Vec<_> = board.quarantine.keys().collect();
        assert_eq!(ids, [aside]);
        assert_eq!(board.quarantine[aside].place, Place::Displaced);
        board.keep_what_is_in_the_way(&mut step, 0, 8);
        assert_eq!(step.ops.len(), 3, "it is moved once");
    }
}
