//! A desired LRP: a process that somebody wants a number of instances of.
//!
//! The part that scheduling, routing and convergence need is typed. The part that only a cell needs (actions, environment,
//! ports, image layers…) is one opaque, already encoded blob: it can be large, no decision here depends on it, and carrying it
//! unopened means that an unknown field in it survives.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::rollout::Terms;
use crate::{
    ActualLrpKey, Definition, DefinitionNumber, DomainName, History, InstanceKey, ModificationTag, Nanos,
    NewDefinition, Packed, PackedValue, ProcessGuid, Refusal, Unknown,
};

/// The routing key whose value names the internal host names of every instance. No other key is interpreted.
pub const INTERNAL_ROUTER: &str = "internal-router";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredLrp {
    pub process_guid: ProcessGuid,
    pub domain: DomainName,
    pub log_guid: String,
    pub annotation: String,
    pub instances: i32,
    pub resources: Resources,
    pub placement_tags: Vec<String>,
    /// The driver of each volume mount, in order, duplicates kept.
    pub volume_drivers: Vec<String>,
    /// Router name to compact JSON.
    pub routes: Packed<Bytes>,
    pub metric_tags: Packed<MetricTag>,
    /// The older way to name the metrics source; reads reconcile it with the tag `source_id`.
    pub metrics_guid: String,
    pub update_strategy: UpdateStrategy,
    pub image_credentials: ImageCredentials,
    pub tag: ModificationTag,
    /// What only the cell needs, encoded by the API crate.
    pub run_info: Bytes,
    /// The number of the definition above: what new instances get.
    pub definition: DefinitionNumber,
    /// What the client that set the definition calls it; empty for the first.
    pub definition_identifier: String,
    /// The definition that instances ran before, while some still do.
    pub previous: Option<Arc<Definition>>,
    /// `None` as long as there was no other definition than the first.
    pub history: Option<Arc<History>>,
    pub unknown: Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub memory_mb: i32,
    pub disk_mb: i32,
    pub max_pids: i32,
    pub root_fs: String,
}

/// How evacuation moves instances. Numbers this server does not know are kept and treated as rolling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateStrategy(pub i32);

impl UpdateStrategy {
    pub const ROLLING: Self = Self(0);
    pub const RECREATE: Self = Self(1);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricTag<T = String> {
    Static(T),
    Index,
    InstanceGuid,
}

impl<T: AsRef<str>> MetricTag<T> {
    pub fn resolve(&self, index: i32, instance: &InstanceKey) -> String {
        match self {
            Self::Static(text) => text.as_ref().to_owned(),
            Self::Index => index.to_string(),
            Self::InstanceGuid => instance.instance_guid.to_string(),
        }
    }
}

impl PackedValue for MetricTag {
    type Ref<'a> = MetricTag<&'a str>;

    fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Static(text) => {
                bytes.push(b'=');
                bytes.extend_from_slice(text.as_bytes());
            }
            Self::Index => bytes.push(b'i'),
            Self::InstanceGuid => bytes.push(b'g'),
        }
    }

    fn read(bytes: &[u8]) -> MetricTag<&str> {
        match bytes {
            b"i" => MetricTag::Index,
            b"g" => MetricTag::InstanceGuid,
            [_, text @ ..] => MetricTag::Static(String::read(text)),
            [] => MetricTag::Static(""),
        }
    }
}

/// Never printed: the password belongs to a registry, not to a log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ImageCredentials {
    pub username: String,
    pub password: String,
}

impl fmt::Debug for ImageCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.username.is_empty() { "ImageCredentials(none)" } else { "ImageCredentials(redacted)" })
    }
}

/// What an update may change. Absent parts stay; present ones replace the old value wholesale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredUpdate {
    pub instances: Option<i32>,
    pub routes: Option<Packed<Bytes>>,
    pub annotation: Option<String>,
    pub metric_tags: Option<Packed<MetricTag>>,
    pub image_credentials: Option<ImageCredentials>,
    pub update_strategy: Option<UpdateStrategy>,
    pub definition: Option<NewDefinition>,
    /// How running instances get to the new definition.
    pub terms: Terms,
    /// The domain that the client takes the process to be in. It cannot be changed.
    pub domain: Option<DomainName>,
}

impl DesiredLrp {
    /// The record after an update. The tag grows even when the update is empty.
    pub fn updated(&self, update: DesiredUpdate, now_ns: Nanos) -> Result<Self, Refusal> {
        if update.domain.is_some_and(|domain| domain != self.domain) {
            return Err(Refusal::OtherDomain);
        }
        let mut next = match update.definition {
            Some(definition) => self.redefined(definition, update.terms, now_ns)?,
            None => self.clone(),
        };
        next.tag = self.tag.next();
        if let Some(instances) = update.instances {
            next.instances = instances;
            next.ground_beyond(instances);
        }
        if let Some(routes) = update.routes {
            let is_redefined = next.definition != self.definition;
            if let Some(previous) = next.previous.as_mut().filter(|_| is_redefined && routes != self.routes) {
                Arc::make_mut(previous).routes = Some(self.routes.clone());
            }
            next.routes = routes;
        }
        if let Some(annotation) = update.annotation {
            next.annotation = annotation;
        }
        if let Some(metric_tags) = update.metric_tags {
            next.metric_tags = metric_tags;
        }
        if let Some(credentials) = update.image_credentials {
            next.image_credentials = credentials;
        }
        if let Some(strategy) = update.update_strategy {
            next.update_strategy = strategy;
        }
        Ok(next)
    }

    /// Instances may still run the definition before the present one, so there is no room for a third. Whoever sends the same
    /// update again gets the same answer again.
    fn redefined(&self, new: NewDefinition, terms: Terms, now_ns: Nanos) -> Result<Self, Refusal> {
        let (history, present) = (self.history.as_deref(), self.present_definition());
        let made = history.map_or(0, |history| history.made).max(self.definition.0);
        let definition = new.numbered(DefinitionNumber(made).next());
        if definition.identifier == self.definition_identifier {
            return match definition.is_the_same(&present) {
                true => Ok(self.clone()),
                false => Err(Refusal::DefinitionInUse { identifier: definition.identifier }),
            };
        }
        self.refuse_while_rolling()?;
        let mut older = history.iter().flat_map(|history| &history.older);
        if older.any(|kept| kept.identifier == definition.identifier) {
            let (process_guid, identifier) = (self.process_guid.clone(), definition.identifier);
            return Err(Refusal::DefinitionKept { process_guid, identifier });
        }
        if definition.is_the_same(&present) {
            return Err(Refusal::Unchanged { identifier: self.definition_identifier.clone() });
        }
        Ok(self.going_to(&definition, terms, now_ns))
    }

    pub(crate) fn refuse_while_rolling(&self) -> Result<(), Refusal> {
        let Some(previous) = &self.previous else { return Ok(()) };
        let process_guid = self.process_guid.clone();
        Err(match self.rollout() {
            Some(rollout) if rollout.reverts => Refusal::RollingBack { process_guid },
            _ => Refusal::UpdateInProgress {
                process_guid,
                present: self.definition_identifier.clone(),
                previous: previous.identifier.clone(),
            },
        })
    }

    pub fn present_definition(&self) -> Definition {
        Definition {
            number: self.definition,
            identifier: self.definition_identifier.clone(),
            resources: self.resources.clone(),
            placement_tags: self.placement_tags.clone(),
            volume_drivers: self.volume_drivers.clone(),
            log_guid: self.log_guid.clone(),
            metrics_guid: self.metrics_guid.clone(),
            run_info: self.run_info.clone(),
            routes: None,
        }
    }

    /// The record as instances of one of its definitions are to see it: those that still have the previous one see that.
    pub fn as_defined(self: &Arc<Self>, number: DefinitionNumber) -> Arc<Self> {
        match self.previous.as_ref().filter(|previous| previous.number == number) {
            Some(previous) => Arc::new(self.using(previous)),
            None => self.clone(),
        }
    }

    /// The record as each of its definitions makes it: the one in use, the previous one, and former ones, the latest first.
    pub fn definitions(&self) -> impl Iterator<Item = Self> {
        let older = self.history.iter().flat_map(|history| &history.older);
        let others = self.previous.iter().chain(older).map(|definition| self.using(definition));
        std::iter::once(self.clone()).chain(others)
    }

    /// The routes of instances that have this definition.
    fn routes_of(&self, number: DefinitionNumber) -> &Packed<Bytes> {
        let previous = self.previous.as_ref().filter(|previous| previous.number == number);
        previous.and_then(|previous| previous.routes.as_ref()).unwrap_or(&self.routes)
    }

    /// What a definition is called; `None` when instances cannot have it any more.
    pub fn identifier_of(&self, number: DefinitionNumber) -> Option<&str> {
        let previous = self.previous.as_ref().filter(|previous| previous.number == number);
        match number == self.definition {
            true => Some(&self.definition_identifier),
            false => previous.map(|previous| previous.identifier.as_str()),
        }
    }

    /// Whether instances had this definition once, and cannot have it any more.
    pub fn had_definition(&self, number: DefinitionNumber) -> bool {
        let made = self.history.as_ref().map_or(0, |history| history.made).max(self.definition.0);
        number.0 <= made && self.identifier_of(number).is_none()
    }

    /// The definition that instances can have and that is called so.
    pub fn definition_called(&self, identifier: &str) -> Option<DefinitionNumber> {
        let previous = self.previous.as_ref().filter(|previous| previous.identifier == identifier);
        match identifier == self.definition_identifier {
            true => Some(self.definition),
            false => previous.map(|previous| previous.number),
        }
    }

    pub fn internal_router(&self) -> Option<&[u8]> {
        self.routes.get(INTERNAL_ROUTER)
    }

    /// That of instances with this definition.
    pub fn internal_router_of(&self, number: DefinitionNumber) -> Option<&[u8]> {
        self.routes_of(number).get(INTERNAL_ROUTER)
    }

    pub fn key(&self, index: i32) -> ActualLrpKey {
        ActualLrpKey { process_guid: self.process_guid.clone(), index, domain: self.domain.clone() }
    }

    /// The metric tags as the container of this instance should emit them.
    pub fn resolved_tags(&self, index: i32, instance: &InstanceKey) -> BTreeMap<String, String> {
        self.metric_tags.iter().map(|(name, tag)| (name.to_owned(), tag.resolve(index, instance))).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::Rollout;

    fn lrp() -> DesiredLrp {
        DesiredLrp {
            process_guid: ProcessGuid::parse("app").unwrap(),
            domain: DomainName::parse("domain").unwrap(),
            log_guid: "log".into(),
            annotation: "note".into(),
            instances: 3,
            resources: Resources { memory_mb: 1, ..Resources::default() },
            placement_tags: vec!["old".into()],
            volume_drivers: vec!["nfs".into()],
            routes: Packed::default(),
            metric_tags: Packed::default(),
            metrics_guid: "metrics".into(),
            update_strategy: UpdateStrategy::ROLLING,
            image_credentials: ImageCredentials::default(),
            tag: ModificationTag::first("epoch".into()),
            run_info: Bytes::from_static(b"old"),
            definition: DefinitionNumber::FIRST,
            definition_identifier: String::new(),
            previous: None,
            history: None,
            unknown: Unknown::default(),
        }
    }

    fn definition(identifier: &str) -> NewDefinition {
        NewDefinition {
            identifier: identifier.into(),
            resources: Resources { memory_mb: 2, ..Resources::default() },
            placement_tags: vec!["new".into()],
            volume_drivers: vec![],
            log_guid: "new log".into(),
            metrics_guid: "new metrics".into(),
            run_info: Bytes::from_static(b"new"),
        }
    }

    fn to(identifier: &str) -> DesiredUpdate {
        DesiredUpdate { definition: Some(definition(identifier)), ..DesiredUpdate::default() }
    }

    #[test]
    fn a_new_definition_replaces_its_parts_and_keeps_the_old_ones_beside_them() {
        let (before, new) = (lrp(), definition("v2"));
        let after = before.updated(DesiredUpdate { instances: Some(5), ..to("v2") }, 7).unwrap();
        let old = Definition {
            number: DefinitionNumber(1),
            identifier: String::new(),
            resources: before.resources.clone(),
            placement_tags: before.placement_tags.clone(),
            volume_drivers: before.volume_drivers.clone(),
            log_guid: before.log_guid.clone(),
            metrics_guid: before.metrics_guid.clone(),
            run_info: before.run_info.clone(),
            routes: None,
        };
        let expected = DesiredLrp {
            instances: 5,
            tag: before.tag.next(),
            resources: new.resources,
            placement_tags: new.placement_tags,
            volume_drivers: new.volume_drivers,
            log_guid: new.log_guid,
            metrics_guid: new.metrics_guid,
            run_info: new.run_info,
            definition: DefinitionNumber(2),
            definition_identifier: "v2".into(),
            previous: Some(Arc::new(old)),
            ..before
        };
        let rollout = Rollout::new(DefinitionNumber(1), DefinitionNumber(2), Terms::default(), 7);
        let history = History { made: 2, older: vec![], rollout: Some(rollout) };
        assert_eq!(after, DesiredLrp { history: Some(Arc::new(history)), ..expected });
    }

    fn check(lrp: &DesiredLrp, update: DesiredUpdate, expected: &Expect) {
        expected.assert_eq(&lrp.updated(update, 7).unwrap_err().to_string());
    }

    #[test]
    fn one_update_at_a_time_and_not_into_another_domain() {
        let second = lrp().updated(to("v2"), 7).unwrap();
        check(
            &second,
            to("v3"),
            &expect![[
                r#"the update to the definition "v2" is not finished, because instances still have the first definition; nothing was changed. See how far it is with `corkboard rollout status app`, or take it back with `corkboard rollout cancel app`"#
            ]],
        );
        let elsewhere = DesiredUpdate { domain: Some(DomainName::parse("other").unwrap()), ..to("v2") };
        check(
            &lrp(),
            elsewhere,
            &expect![
                "the domain of a desired LRP cannot be changed; nothing was changed. Leave it out of the new definition"
            ],
        );
    }

    #[test]
    fn what_is_no_definition_can_be_updated_at_any_time() {
        let second = lrp().updated(to("v2"), 7).unwrap();
        let update = DesiredUpdate { annotation: Some("new".into()), domain: Some(lrp().domain), ..Default::default() };
        let after = second.updated(update, 8).unwrap();
        assert_eq!(after, DesiredLrp { annotation: "new".into(), tag: second.tag.next(), ..second });
    }
}
