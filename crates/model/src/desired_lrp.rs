//! A desired LRP: a process that somebody wants a number of instances of.
//!
//! The part that scheduling, routing and convergence need is typed. The part that only a cell needs (actions, environment,
//! ports, image layers…) is one opaque, already encoded blob: it can be large, no decision here depends on it, and carrying it
//! unopened means that an unknown field in it survives.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{
    ActualLrpKey, Definition, DefinitionNumber, DomainName, InstanceKey, ModificationTag, Packed, PackedValue,
    ProcessGuid, Unknown,
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
}

impl DesiredLrp {
    /// The record after an update. The tag grows even when the update is empty.
    #[must_use]
    pub fn updated(&self, update: DesiredUpdate) -> Self {
        let mut next = self.clone();
        next.tag = self.tag.next();
        if let Some(instances) = update.instances {
            next.instances = instances;
        }
        if let Some(routes) = update.routes {
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
        next
    }

    pub fn internal_router(&self) -> Option<&[u8]> {
        self.routes.get(INTERNAL_ROUTER)
    }

    pub fn key(&self, index: i32) -> ActualLrpKey {
        ActualLrpKey { process_guid: self.process_guid.clone(), index, domain: self.domain.clone() }
    }

    /// The metric tags as the container of this instance should emit them.
    pub fn resolved_tags(&self, index: i32, instance: &InstanceKey) -> BTreeMap<String, String> {
        self.metric_tags.iter().map(|(name, tag)| (name.to_owned(), tag.resolve(index, instance))).collect()
    }
}
