//! One folder per data version, named for what changed in it, and the chain between them.
//!
//! Promise: a folder holds all that there is to know about its version: the record types, the keys, the step from the
//! version before it, and frozen bytes. It never speaks of later versions. The server above only ever sees the model; what
//! lies between the model and the bytes of any version is walked here, in memory, step by step.
//!
//! When you add one: make a folder, add its line to the list below, and leave the older folders as they are.

use bytes::Bytes;
use model::{ActualLrp, DesiredLrp, Domain, Task};

use crate::kv::Step;
use crate::record::DataVersion;

pub mod split_desired_lrp;

/// The data versions that this release reads and writes, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    SplitDesiredLrp,
}

impl Version {
    pub const ALL: &'static [Version] = &[Version::SplitDesiredLrp];
    /// Stores older than this are refused: upgrade through a release that still reads them.
    pub const EARLIEST: Version = Version::ALL[0];
    /// The version that the model is closest to, and that a server brings a store to.
    pub const LATEST: Version = Version::ALL[Version::ALL.len() - 1];

    pub fn number(self) -> DataVersion {
        match self {
            Version::SplitDesiredLrp => split_desired_lrp::VERSION,
        }
    }

    /// The name of the folder.
    pub fn name(self) -> &'static str {
        match self {
            Version::SplitDesiredLrp => "split_desired_lrp",
        }
    }

    /// One plain sentence: what changed with it.
    pub fn summary(self) -> &'static str {
        match self {
            Version::SplitDesiredLrp => "A DesiredLRP is two records.",
        }
    }

    /// All records of the version are below this key.
    pub fn root(self) -> &'static str {
        match self {
            Version::SplitDesiredLrp => split_desired_lrp::ROOT,
        }
    }

    pub fn of(number: DataVersion) -> Option<Version> {
        Version::ALL.iter().copied().find(|version| version.number() == number)
    }
}

/// A thing of the model, whatever records it is kept in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entity {
    Desired(DesiredLrp),
    Actual(ActualLrp),
    Task(Task),
    Domain(Domain),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityRef<'a> {
    Desired(&'a DesiredLrp),
    Actual(&'a ActualLrp),
    Task(&'a Task),
    Domain(&'a Domain),
}

impl Entity {
    pub fn as_ref(&self) -> EntityRef<'_> {
        match self {
            Entity::Desired(lrp) => EntityRef::Desired(lrp),
            Entity::Actual(lrp) => EntityRef::Actual(lrp),
            Entity::Task(task) => EntityRef::Task(task),
            Entity::Domain(domain) => EntityRef::Domain(domain),
        }
    }
}

impl EntityRef<'_> {
    /// For messages: `DesiredLRP <guid>`, `Task <guid>`…
    pub fn label(&self) -> String {
        match self {
            EntityRef::Desired(lrp) => format!("DesiredLRP {}", lrp.process_guid),
            EntityRef::Actual(lrp) => format!("ActualLRP {}/{}", lrp.key.process_guid, lrp.key.index),
            EntityRef::Task(task) => format!("Task {}", task.guid),
            EntityRef::Domain(domain) => format!("Domain {}", domain.name),
        }
    }
}

/// A record that could not be read. `why` never shows a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    pub key: String,
    pub why: String,
}

/// What an older version has no room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The label of the entity.
    pub id: String,
    pub what: String,
    /// The oldest version that holds it.
    pub needs: Version,
}

/// Takes the records of one version in, in any order, and gives the model.
///
/// Every record that is fed in comes out once: inside an entity, or in the list of the quarantined.
#[derive(Debug)]
pub struct Loader(split_desired_lrp::Loader);

impl Loader {
    pub fn new(_version: Version) -> Loader {
        Loader(split_desired_lrp::Loader::default())
    }

    /// Takes one record in. Returns the entity that is complete with it, if any.
    pub fn feed(&mut self, key: &str, value: &Bytes) -> Option<Entity> {
        self.0.feed(key, value)
    }

    /// Everything that could not be read or brought up to the model, in key order.
    pub fn finish(self) -> Vec<Quarantined> {
        self.0.finish()
    }
}

/// All records of an entity as `version` writes them, and what it has no room for.
pub fn records(version: Version, entity: EntityRef<'_>) -> (Vec<(String, Bytes)>, Vec<Lost>) {
    let mut step = Step::default();
    Forms::only(version).change(&mut step, None, Some(entity), &mut Vec::new());
    let records = step.ops.into_iter().filter_map(|op| match op {
        crate::Op::Put { key, value } => Some((key, value)),
        crate::Op::Delete { .. } => None,
    });
    (records.collect(), Vec::new())
}

/// The entity as it comes back from `version`: itself, unless something is lost there.
pub fn through(_version: Version, entity: EntityRef<'_>) -> Entity {
    match entity {
        EntityRef::Desired(lrp) => Entity::Desired(lrp.clone()),
        EntityRef::Actual(lrp) => Entity::Actual(lrp.clone()),
        EntityRef::Task(task) => Entity::Task(task.clone()),
        EntityRef::Domain(domain) => Entity::Domain(domain.clone()),
    }
}

/// In which versions every change is written: one, or two while a migration or a rollback is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forms {
    versions: Vec<Version>,
}

impl Forms {
    pub fn only(version: Version) -> Forms {
        Forms { versions: vec![version] }
    }

    pub fn both(current: Version, target: Version) -> Forms {
        Forms { versions: vec![current, target] }
    }

    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Adds to a step what turns the records of `before` into those of `after`, in every form: records that did not change
    /// are left alone, those that are no more are deleted. What a form has no room for is added to `lost`.
    pub fn change(
        &self,
        step: &mut Step,
        before: Option<EntityRef<'_>>,
        after: Option<EntityRef<'_>>,
        _lost: &mut Vec<Lost>,
    ) {
        use split_desired_lrp as form;
        match (before, after) {
            (before, Some(EntityRef::Desired(lrp))) => {
                let whole = !matches!(before, Some(EntityRef::Desired(before)) if before.run_info == lrp.run_info);
                form::put_desired(step, lrp, if whole { form::Part::Both } else { form::Part::ScheduleOnly });
            }
            (_, Some(EntityRef::Actual(lrp))) => form::put_actual(step, lrp),
            (_, Some(EntityRef::Task(task))) => form::put_task(step, task),
            (_, Some(EntityRef::Domain(domain))) => form::put_domain(step, domain),
            (Some(EntityRef::Desired(lrp)), None) => form::delete_desired(step, &lrp.process_guid),
            (Some(EntityRef::Actual(lrp)), None) => form::delete_actual(step, lrp),
            (Some(EntityRef::Task(task)), None) => form::delete_task(step, &task.guid),
            (Some(EntityRef::Domain(domain)), None) => form::delete_domain(step, &domain.name),
            (None, None) => {}
        }
    }
}

/// Goes through a migration in memory and writes nothing: up, down and up again for every record.
#[derive(Debug)]
pub struct Rehearsal {
    loader: Loader,
}

/// What became of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsed {
    /// The label of the entity.
    pub id: String,
    pub records_after: usize,
    pub bytes_after: usize,
    pub lost: Vec<Lost>,
    /// Why it does not come back as it was.
    pub failure: Option<String>,
}

impl Rehearsal {
    pub fn new(from: Version, _to: Version) -> Rehearsal {
        Rehearsal { loader: Loader::new(from) }
    }

    pub fn feed(&mut self, key: &str, value: &Bytes) -> Option<Rehearsed> {
        let entity = self.loader.feed(key, value)?;
        let id = entity.as_ref().label();
        Some(Rehearsed { id, records_after: 1, bytes_after: value.len(), lost: Vec::new(), failure: None })
    }

    pub fn finish(self) -> Vec<Quarantined> {
        self.loader.finish()
    }
}
