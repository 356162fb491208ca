//! A migration or a rollback, gone through in memory: every entity there, back and there again. Nothing is written.
//!
//! Promise: what is reported as sound can be written in the other version and read from it again. Going up, it also comes
//! back exactly as it was; going down, exactly so unless something is reported as lost.

use bytes::Bytes;

use super::{AnyEntity, AnyLoader, Lost, Quarantined, StepError, Version};

#[derive(Debug)]
pub struct Rehearsal {
    from: Version,
    to: Version,
    records: AnyLoader,
}

/// What became of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsed {
    /// The label of the entity.
    pub id: String,
    pub records_after: usize,
    /// Keys and values.
    pub bytes_after: usize,
    pub lost: Vec<Lost>,
    /// Why it does not come back as it was.
    pub failure: Option<String>,
}

impl Rehearsal {
    pub fn new(from: Version, to: Version) -> Rehearsal {
        Rehearsal { from, to, records: AnyLoader::new(from) }
    }

    /// Takes one record in. Returns what became of the entity that is complete with it, if any.
    pub fn feed(&mut self, key: &str, value: &Bytes) -> Option<Rehearsed> {
        let before = self.records.feed(key, value)?;
        let mut rehearsed =
            Rehearsed { id: before.label(), records_after: 0, bytes_after: 0, lost: Vec::new(), failure: None };
        rehearsed.failure = self.rehearse(&before, &mut rehearsed).err().map(|StepError(why)| why);
        Some(rehearsed)
    }

    /// What could not be read, in key order.
    pub fn finish(self) -> Vec<Quarantined> {
        self.records.finish()
    }

    fn rehearse(&self, before: &AnyEntity, rehearsed: &mut Rehearsed) -> Result<(), StepError> {
        before.clone().into_model()?;
        let (there, lost) = before.clone().walk(self.to)?;
        let records = there.records();
        rehearsed.records_after = records.len();
        rehearsed.bytes_after = records.iter().map(|(key, value)| key.len() + value.len()).sum();
        rehearsed.lost = lost;
        self.read_again(&there, &records)?;
        let (back, _) = there.clone().walk(self.from)?;
        if rehearsed.lost.is_empty() && back != *before {
            return Err(failure(self.from, "it does not come back as it was"));
        }
        let (again, _) = back.walk(self.to)?;
        if again == there { Ok(()) } else { Err(failure(self.to, "it is not the same when it comes there again")) }
    }

    fn read_again(&self, there: &AnyEntity, records: &[(String, Bytes)]) -> Result<(), StepError> {
        let mut loader = AnyLoader::new(self.to);
        let mut read = None;
        for (key, value) in records {
            read = loader.feed(key, value).or(read);
        }
        if let Some(unread) = loader.finish().pop() {
            return Err(failure(self.to, &format!("its record {} could not be read: {}", unread.key, unread.why)));
        }
        if read.as_ref() == Some(there) { Ok(()) } else { Err(failure(self.to, "it is not read as it was written")) }
    }
}

fn failure(version: Version, what: &str) -> StepError {
    StepError(format!("in data version {} ({}) {what}", version.number(), version.name()))
}
