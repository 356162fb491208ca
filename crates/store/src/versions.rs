//! One folder per data version, named for what changed in it, and the chain between them.
//!
//! Promise: a folder holds all that there is to know about its version: the record types, the keys, the step from the
//! version before it, and frozen bytes. It never speaks of later versions. The server above only ever sees the model; what
//! lies between the model and the bytes of any version is walked here, in memory, step by step.
//!
//! Only the newest folder knows the model. Writing in that form alone is what a server does all day, so it has a way of
//! its own that neither copies the model nor compares bytes; any other form is walked to.

use bytes::Bytes;
use model::{ActualLrp, DesiredLrp, Domain, Presence, Task};
use thiserror::Error;

use crate::kv::Step;
use crate::record::DataVersion;

mod place;
mod rehearsal;
#[cfg(test)]
mod tests;
pub mod unknown;

pub use rehearsal::{Rehearsal, Rehearsed};

macro_rules! versions {
    ($oldest:ident = $oldest_folder:ident; $($name:ident = $folder:ident after $before:ident;)*) => {
        pub mod $oldest_folder;
        $(pub mod $folder;)*

        /// The data versions that this release reads and writes, oldest first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Version {
            $oldest,
            $($name,)*
        }

        impl Version {
            pub const ALL: &'static [Version] = &[Version::$oldest, $(Version::$name,)*];

            pub fn number(self) -> DataVersion {
                match self {
                    Version::$oldest => $oldest_folder::NUMBER,
                    $(Version::$name => $folder::NUMBER,)*
                }
            }

            /// The name of the folder.
            pub fn name(self) -> &'static str {
                match self {
                    Version::$oldest => $oldest_folder::NAME,
                    $(Version::$name => $folder::NAME,)*
                }
            }

            /// One plain sentence: what changed with it.
            pub fn summary(self) -> &'static str {
                match self {
                    Version::$oldest => $oldest_folder::SUMMARY,
                    $(Version::$name => $folder::SUMMARY,)*
                }
            }

            /// All records of the version are below this key.
            pub fn root(self) -> &'static str {
                match self {
                    Version::$oldest => $oldest_folder::ROOT,
                    $(Version::$name => $folder::ROOT,)*
                }
            }
        }

        /// All records of one thing, as some version has them.
        #[derive(Clone, Debug, PartialEq)]
        enum AnyEntity {
            $oldest($oldest_folder::Entity),
            $($name($folder::Entity),)*
        }

        impl AnyEntity {
            fn version(&self) -> Version {
                match self {
                    AnyEntity::$oldest(_) => Version::$oldest,
                    $(AnyEntity::$name(_) => Version::$name,)*
                }
            }

            fn label(&self) -> String {
                match self {
                    AnyEntity::$oldest(entity) => entity.label(),
                    $(AnyEntity::$name(entity) => entity.label(),)*
                }
            }

            fn write(&self, put: &mut dyn FnMut(String, Bytes)) {
                match self {
                    AnyEntity::$oldest(entity) => entity.write(put),
                    $(AnyEntity::$name(entity) => entity.write(put),)*
                }
            }

            /// One version up. The newest stays what it is.
            fn up(self) -> Result<AnyEntity, StepError> {
                match self {
                    $(AnyEntity::$before(older) => $folder::up(older).map(AnyEntity::$name),)*
                    newest => Ok(newest),
                }
            }

            /// One version down, and what is lost. The oldest stays what it is.
            fn down(self) -> (AnyEntity, Vec<Loss>) {
                match self {
                    $(AnyEntity::$name(newer) => {
                        let (older, losses) = $folder::down(newer);
                        (AnyEntity::$before(older), losses)
                    })*
                    oldest => (oldest, Vec::new()),
                }
            }
        }

        /// What a record with this key belongs to, in `version`. `None` for a key under which no record of it can be read.
        pub fn subject(version: Version, key: &str) -> Option<Subject> {
            match version {
                Version::$oldest => $oldest_folder::subject(key),
                $(Version::$name => $folder::subject(key),)*
            }
        }

        #[derive(Debug)]
        enum AnyLoader {
            $oldest($oldest_folder::Loader),
            $($name($folder::Loader),)*
        }

        impl AnyLoader {
            fn new(version: Version) -> AnyLoader {
                match version {
                    Version::$oldest => AnyLoader::$oldest($oldest_folder::Loader::default()),
                    $(Version::$name => AnyLoader::$name($folder::Loader::default()),)*
                }
            }

            fn feed(&mut self, key: &str, value: &Bytes) -> Option<AnyEntity> {
                match self {
                    AnyLoader::$oldest(loader) => loader.feed(key, value).map(AnyEntity::$oldest),
                    $(AnyLoader::$name(loader) => loader.feed(key, value).map(AnyEntity::$name),)*
                }
            }

            fn finish(self) -> Vec<Quarantined> {
                match self {
                    AnyLoader::$oldest(loader) => loader.finish(),
                    $(AnyLoader::$name(loader) => loader.finish(),)*
                }
            }
        }
    };
}

// When you add one: make a folder, append its line here, change the two lines below, and leave the older folders as they
// are, but for the conversions to and from the model, which move to the new one.
versions! {
    InitialJson = initial_json;
    Protobuf = protobuf after InitialJson;
    SplitDesiredLrp = split_desired_lrp after Protobuf;
    LrpDefinitions = lrp_definitions after SplitDesiredLrp;
}
use AnyEntity::LrpDefinitions as Latest;
use lrp_definitions as latest;

impl Version {
    /// Stores older than this are refused: upgrade through a release that still reads them.
    pub const EARLIEST: Version = Version::ALL[0];
    /// The version that the model is closest to, and that a server brings a store to.
    pub const LATEST: Version = Version::ALL[Version::ALL.len() - 1];

    pub fn of(number: DataVersion) -> Option<Version> {
        Version::ALL.iter().copied().find(|version| version.number() == number)
    }
}

/// Why an entity cannot be brought up. Never shows a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct StepError(pub String);

/// What the version before has no room for, as a phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub what: String,
}

impl AnyEntity {
    fn of(entity: EntityRef<'_>) -> AnyEntity {
        Latest(latest::of_model(entity))
    }

    /// Neighbour by neighbour to another version, and what was lost on the way.
    fn walk(mut self, to: Version) -> Result<(AnyEntity, Vec<Lost>), StepError> {
        let mut lost = Vec::new();
        while self.version() < to {
            self = self.up()?;
        }
        while self.version() > to {
            let needs = self.version();
            let (older, losses) = self.down();
            lost.extend(losses.into_iter().map(|loss| Lost { id: older.label(), what: loss.what, needs }));
            self = older;
        }
        Ok((self, lost))
    }

    fn into_model(self) -> Result<Entity, StepError> {
        match self.walk(Version::LATEST)? {
            (Latest(entity), _) => latest::into_model(entity).map_err(|error| StepError(error.to_string())),
            (other, _) => Err(StepError(format!("{} is not the newest version", other.version().name()))),
        }
    }

    fn records(&self) -> Vec<(String, Bytes)> {
        let mut records = Vec::new();
        self.write(&mut |key, value| records.push((key, value)));
        records
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

/// Which thing of the model a record is a part of, as its key says. Whether there can be such a thing is not said: a name may
/// be empty or too long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// By its process guid.
    Desired(String),
    Actual {
        guid: String,
        index: i32,
        presence: Presence,
    },
    Task(String),
    Domain(String),
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
            EntityRef::Actual(lrp) => {
                let presence = match lrp.presence {
                    Presence::Ordinary => "",
                    Presence::Evacuating => " (evacuating)",
                    Presence::Suspect => " (suspect)",
                };
                format!("ActualLRP {}/{}{presence}", lrp.key.process_guid, lrp.key.index)
            }
            EntityRef::Task(task) => format!("Task {}", task.guid),
            EntityRef::Domain(domain) => format!("Domain {}", domain.name),
        }
    }

    fn cloned(self) -> Entity {
        match self {
            EntityRef::Desired(lrp) => Entity::Desired(lrp.clone()),
            EntityRef::Actual(lrp) => Entity::Actual(lrp.clone()),
            EntityRef::Task(task) => Entity::Task(task.clone()),
            EntityRef::Domain(domain) => Entity::Domain(domain.clone()),
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
pub struct Loader {
    records: AnyLoader,
    quarantined: Vec<Quarantined>,
}

impl Loader {
    pub fn new(version: Version) -> Loader {
        Loader { records: AnyLoader::new(version), quarantined: Vec::new() }
    }

    /// Takes one record in. Returns the entity that is complete with it, if any.
    pub fn feed(&mut self, key: &str, value: &Bytes) -> Option<Entity> {
        let entity = self.records.feed(key, value)?;
        // The loader of the newest version has checked all that the model asks for, so that nothing is kept for the case
        // that it cannot be brought up.
        let spare = (entity.version() != Version::LATEST).then(|| entity.clone());
        match entity.into_model() {
            Ok(entity) => Some(entity),
            Err(StepError(why)) => {
                let mut keys = vec![key.to_owned()];
                if let Some(spare) = spare {
                    keys = spare.records().into_iter().map(|(key, _)| key).collect();
                }
                self.quarantined.extend(keys.into_iter().map(|key| Quarantined { key, why: why.clone() }));
                None
            }
        }
    }

    /// Everything that could not be read or brought up to the model, in key order.
    pub fn finish(mut self) -> Vec<Quarantined> {
        self.quarantined.extend(self.records.finish());
        self.quarantined.sort_by(|a, b| a.key.cmp(&b.key));
        self.quarantined
    }
}

/// All records of an entity as `version` writes them, and what it has no room for.
pub fn records(version: Version, entity: EntityRef<'_>) -> (Vec<(String, Bytes)>, Vec<Lost>) {
    let (entity, lost) = lowered(version, entity);
    (entity.records(), lost)
}

/// Coming down cannot fail; only going up can.
fn lowered(version: Version, entity: EntityRef<'_>) -> (AnyEntity, Vec<Lost>) {
    let entity = AnyEntity::of(entity);
    entity.walk(version).expect("the model is of the newest version, and there is no step up from it")
}

/// The entity as it comes back from `version`: itself, unless something is lost there.
pub fn through(version: Version, entity: EntityRef<'_>) -> Entity {
    // What came down comes up again, which the tests of every step show. If it ever should not, it is not changed here.
    lowered(version, entity).0.into_model().unwrap_or_else(|_| entity.cloned())
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
        lost: &mut Vec<Lost>,
    ) {
        for version in &self.versions {
            if *version == Version::LATEST {
                latest::change(step, before, after);
                continue;
            }
            let old = before.map(|before| records(*version, before).0).unwrap_or_default();
            let (new, losses) = after.map(|after| records(*version, after)).unwrap_or_default();
            for (key, _) in &old {
                if new.iter().all(|(kept, _)| kept != key) {
                    step.delete(key.as_str());
                }
            }
            new.into_iter().filter(|record| !old.contains(record)).for_each(|(key, value)| step.put(key, value));
            lost.extend(losses);
        }
    }
}
