//! Desired LRPs, kept on the board as pieces that are concatenated into whatever view is asked for.
//!
//! ```text
//! routing info   = [routing]
//! DesiredLRP     = [routing][rest][run info]            as events carry it
//! DesiredLRP     = [routing][rest][run info][metrics]   as list and get answer it
//! scheduling info is a message of its own shape, kept as an item
//! ```
//!
//! Routing and rest lie in one allocation, because most views need both and a board holds hundreds of thousands of them.
//! The run info, most of the bytes, is shared by all versions of a record: scaling an app copies a few hundred bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use bytes::{BufMut, Bytes};
use model::desired_lrp::INTERNAL_ROUTER;
use model::{
    DefinitionNumber, DesiredLrp, DesiredUpdate, DomainName, IdError, ImageCredentials, MetricTag, ModificationTag,
    NewDefinition, Packed, ProcessGuid, Resources, Unknown, UpdateStrategy,
};
use prost::Message;
use prost::encoding::{WireType, decode_key, skip_field};

use super::actual_lrp::{put_tag, shown_number};
use super::fields::{self, Fields};
use super::{Item, frame_len, put_frame, put_sub_message, rollout};
use crate::models;
use crate::validate::{Invalid, compact_routes};

/// The tag that names the source of an app's metrics.
const SOURCE_ID: &str = "source_id";
/// Field numbers of `DesiredLRP` that are written in more than one piece, or looked for.
const METRICS_GUID: u32 = 18;
const IMAGE_LAYERS: u32 = 34;
const METRIC_TAGS: u32 = 35;

#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    #[error(transparent)]
    Id(#[from] IdError),
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// The encoded pieces of one desired LRP.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Routing and rest.
    head: Bytes,
    routing_len: usize,
    run_info: Bytes,
    metrics: Bytes,
    scheduling: Item,
    has_layers: bool,
}

impl Encoded {
    pub fn of(lrp: &DesiredLrp) -> Self {
        let mut routing_len = 0;
        let head = fields::message(|message| {
            put_routing(lrp, message);
            routing_len = message.len();
            put_rest(lrp, message);
        });
        Self {
            head,
            routing_len,
            run_info: lrp.run_info.clone(),
            metrics: fields::message(|message| put_metrics(lrp, message)),
            scheduling: fields::item(|message| put_scheduling(lrp, message)),
            has_layers: has_layers(&lrp.run_info),
        }
    }

    pub fn scheduling(&self) -> &Item {
        &self.scheduling
    }

    pub fn routing_framed_len(&self) -> usize {
        frame_len(self.routing_len)
    }

    pub fn put_routing(&self, buf: &mut impl BufMut) {
        put_frame(self.routing_len, buf);
        buf.put_slice(&self.head[..self.routing_len]);
    }

    fn read_len(&self) -> usize {
        self.head.len() + self.run_info.len() + self.metrics.len()
    }

    pub fn framed_len(&self) -> usize {
        frame_len(self.read_len())
    }

    /// The whole record as list and get answer it.
    pub fn put(&self, buf: &mut impl BufMut) {
        put_frame(self.read_len(), buf);
        for piece in [&self.head, &self.run_info, &self.metrics] {
            buf.put_slice(piece);
        }
    }

    /// Whether the older read revision differs from the newest for this record.
    pub fn differs_in_r2(&self) -> bool {
        self.has_layers
    }

    /// The whole record as the older read revision shows it, framed.
    pub fn r2_item(&self) -> Item {
        self.item_in(crate::revision::desired_lrp_v3_to_v2)
    }

    /// The whole record in another shape, framed.
    pub fn item_in<M: Message>(&self, shape: impl FnOnce(models::DesiredLrp) -> M) -> Item {
        let mut bytes = Vec::with_capacity(self.framed_len());
        for piece in [&self.head, &self.run_info, &self.metrics] {
            bytes.put_slice(piece);
        }
        match crate::decode::<models::DesiredLrp>(&bytes) {
            Ok(lrp) => Item::of(&shape(lrp)),
            // Run info that was accepted once and does not decode now is shown as it is, rather than hidden.
            Err(_) => Item::frame(&bytes),
        }
    }

    /// As field `tag` of an event.
    pub(crate) fn put_in_event(&self, tag: u32, buf: &mut Vec<u8>) {
        put_sub_message(tag, &[&self.head, &self.run_info], buf);
    }
}

/// The record as one message, as events carry it.
pub fn desired_lrp(lrp: &DesiredLrp) -> models::DesiredLrp {
    let encoded = Encoded::of(lrp);
    let bytes = [&encoded.head[..], &encoded.run_info[..]].concat();
    crate::decode(&bytes).unwrap_or_default()
}

/// A validated request becomes a record. What the server owns (the tag, a deprecated timeout) is not taken from the client.
pub fn desire(wire: models::DesiredLrp, epoch: std::sync::Arc<str>) -> Result<DesiredLrp, IntakeError> {
    let parts = Parts::of(wire, String::new());
    let definition = parts.definition;
    let routes = compact_routes(parts.routes)?.into();
    Ok(DesiredLrp {
        process_guid: ProcessGuid::parse(&parts.process_guid)?,
        domain: DomainName::parse(&parts.domain)?,
        log_guid: definition.log_guid,
        annotation: parts.annotation,
        instances: parts.instances,
        resources: definition.resources,
        placement_tags: definition.placement_tags,
        volume_drivers: definition.volume_drivers,
        routes,
        metric_tags: parts.metric_tags,
        metrics_guid: definition.metrics_guid,
        update_strategy: parts.update_strategy,
        image_credentials: parts.image_credentials,
        tag: ModificationTag::first(epoch),
        run_info: definition.run_info,
        definition: DefinitionNumber::FIRST,
        definition_identifier: definition.identifier,
        previous: None,
        history: None,
        unknown: Unknown::default(),
    })
}

/// A validated update. A definition in it replaces all that `DesireLRP` sets except what the update names itself: the number
/// of instances, routes and annotation always, metric tags and credentials where it has them.
pub fn update(wire: models::DesiredLrpUpdate) -> Result<DesiredUpdate, IntakeError> {
    let mut update = match (wire.desired_lrp, wire.update_identifier) {
        (Some(lrp), Some(identifier)) => redefine(lrp, identifier)?,
        _ => DesiredUpdate::default(),
    };
    update.terms = rollout::terms(wire.rollout.unwrap_or_default());
    update.instances = wire.instances;
    update.routes = wire.routes.map(compact_routes).transpose()?.map(Into::into);
    update.annotation = wire.annotation;
    if !wire.metric_tags.is_empty() {
        update.metric_tags = Some(metric_tags(wire.metric_tags));
    }
    if let (Some(username), Some(password)) = (wire.image_username, wire.image_password) {
        update.image_credentials = Some(ImageCredentials { username, password });
    }
    Ok(update)
}

fn redefine(wire: models::DesiredLrp, identifier: String) -> Result<DesiredUpdate, IntakeError> {
    let parts = Parts::of(wire, identifier);
    let domain = if parts.domain.is_empty() { None } else { Some(DomainName::parse(&parts.domain)?) };
    Ok(DesiredUpdate {
        metric_tags: Some(parts.metric_tags),
        image_credentials: Some(parts.image_credentials),
        update_strategy: Some(parts.update_strategy),
        definition: Some(parts.definition),
        domain,
        ..DesiredUpdate::default()
    })
}

/// The message taken apart: the definition, and what belongs to the process whatever it runs.
struct Parts {
    process_guid: String,
    domain: String,
    annotation: String,
    instances: i32,
    routes: models::ProtoRoutes,
    metric_tags: Packed<MetricTag>,
    update_strategy: UpdateStrategy,
    image_credentials: ImageCredentials,
    definition: NewDefinition,
}

impl Parts {
    fn of(mut wire: models::DesiredLrp, identifier: String) -> Self {
        let mut seen = BTreeSet::new();
        wire.ports.retain(|port| seen.insert(*port));
        wire.deprecated_start_timeout_s = 0;
        wire.modification_tag = None;
        forget_definitions(&mut wire);
        let parts = Self {
            process_guid: take(&mut wire.process_guid),
            domain: take(&mut wire.domain),
            annotation: take(&mut wire.annotation),
            instances: take(&mut wire.instances),
            routes: wire.routes.take().unwrap_or_default(),
            metric_tags: metric_tags(take(&mut wire.metric_tags)),
            update_strategy: UpdateStrategy(take(&mut wire.update_strategy)),
            image_credentials: ImageCredentials {
                username: take(&mut wire.image_username),
                password: take(&mut wire.image_password),
            },
            definition: NewDefinition {
                identifier,
                resources: Resources {
                    memory_mb: take(&mut wire.memory_mb),
                    disk_mb: take(&mut wire.disk_mb),
                    max_pids: take(&mut wire.max_pids),
                    root_fs: take(&mut wire.root_fs),
                },
                placement_tags: take(&mut wire.placement_tags),
                volume_drivers: wire.volume_mounts.iter().map(|mount| mount.driver.clone()).collect(),
                log_guid: take(&mut wire.log_guid),
                metrics_guid: take(&mut wire.metrics_guid),
                run_info: Bytes::new(),
            },
        };
        // What is left in the message is the run info.
        let definition = NewDefinition { run_info: wire.encode_to_vec().into(), ..parts.definition };
        Self { definition, ..parts }
    }
}

/// What the server says about definitions is not a part of one.
fn forget_definitions(wire: &mut models::DesiredLrp) {
    wire.definition_identifier.clear();
    wire.definition_number = 0;
    wire.previous_definition_identifier.clear();
    wire.previous_definition_number = 0;
    wire.previous_routes = None;
    wire.rollout = None;
}

/// The host names that the internal router should know for this LRP; `None` when the route has an unknown shape.
pub fn internal_hostnames(lrp: &DesiredLrp) -> Option<BTreeSet<String>> {
    #[derive(serde::Deserialize)]
    struct InternalRoute {
        #[serde(default)]
        hostname: String,
    }
    match lrp.routes.get(INTERNAL_ROUTER) {
        None => Some(BTreeSet::new()),
        Some(json) => {
            let routes: Option<Vec<InternalRoute>> = serde_json::from_slice(json).ok()?;
            Some(routes.unwrap_or_default().into_iter().map(|route| route.hostname).collect())
        }
    }
}

fn metric_tags(wire: BTreeMap<String, models::MetricTagValue>) -> Packed<MetricTag> {
    use models::metric_tag_value::DynamicValue;
    wire.into_iter()
        .map(|(name, value)| {
            let tag = match value.dynamic() {
                DynamicValue::Index => MetricTag::Index,
                DynamicValue::InstanceGuid => MetricTag::InstanceGuid,
                DynamicValue::Invalid => MetricTag::Static(value.r#static),
            };
            (name, tag)
        })
        .collect()
}

/// An entry of the metric tags of a `DesiredLRP`.
fn put_metric_tag(name: &str, tag: MetricTag<&str>, message: &mut Fields<'_>) {
    use models::metric_tag_value::DynamicValue;
    message.entry(METRIC_TAGS, name, |entry, at| match tag {
        // A value that says nothing is left out of its entry.
        MetricTag::Static("") => {}
        MetricTag::Static(text) => entry.sub(at, |value| value.text(1, text)),
        MetricTag::Index => entry.sub(at, |value| value.number(2, i32::from(DynamicValue::Index))),
        MetricTag::InstanceGuid => entry.sub(at, |value| value.number(2, i32::from(DynamicValue::InstanceGuid))),
    });
}

fn put_routes(routes: &Packed<Bytes>, part: &mut Fields<'_>) {
    for (name, json) in routes.iter() {
        part.entry(1, name, |entry, at| entry.bytes(at, json));
    }
}

fn put_routing(lrp: &DesiredLrp, message: &mut Fields<'_>) {
    message.text(1, lrp.process_guid.as_str());
    message.text(2, lrp.domain.as_str());
    message.number(4, lrp.instances);
    message.sub(15, |part| put_routes(&lrp.routes, part));
    message.text(17, &lrp.log_guid);
    message.sub(21, |part| put_tag(&lrp.tag, part));
    for (name, tag) in lrp.metric_tags.iter() {
        put_metric_tag(name, tag, message);
    }
    put_definitions(lrp, message);
}

fn put_definitions(lrp: &DesiredLrp, message: &mut Fields<'_>) {
    message.text(100, &lrp.definition_identifier);
    message.number(101, shown_number(lrp.definition));
    if let Some(previous) = &lrp.previous {
        message.text(102, &previous.identifier);
        message.number(103, previous.number.0);
        if let Some(routes) = &previous.routes {
            message.sub(104, |part| put_routes(routes, part));
        }
    }
    if let Some(rollout) = lrp.history.as_ref().and_then(|history| history.rollout.as_ref()) {
        message.sub(105, |part| rollout::put(rollout, part));
    }
}

fn put_rest(lrp: &DesiredLrp, message: &mut Fields<'_>) {
    message.text(3, &lrp.resources.root_fs);
    message.number(10, lrp.resources.disk_mb);
    message.number(11, lrp.resources.memory_mb);
    message.text(METRICS_GUID, &lrp.metrics_guid);
    message.text(19, &lrp.annotation);
    for tag in &lrp.placement_tags {
        message.always_text(28, tag);
    }
    message.number(29, lrp.resources.max_pids);
    message.text(31, &lrp.image_credentials.username);
    message.text(32, &lrp.image_credentials.password);
    message.number(39, lrp.update_strategy.0);
}

/// What reads add so that the older and the newer way to name the metrics source agree.
fn put_metrics(lrp: &DesiredLrp, message: &mut Fields<'_>) {
    match lrp.metric_tags.get(SOURCE_ID) {
        Some(MetricTag::Static(source)) if lrp.metrics_guid.is_empty() => message.always_text(METRICS_GUID, source),
        None if !lrp.metrics_guid.is_empty() => {
            put_metric_tag(SOURCE_ID, MetricTag::Static(&lrp.metrics_guid), message);
        }
        _ => {}
    }
}

fn put_scheduling(lrp: &DesiredLrp, message: &mut Fields<'_>) {
    message.sub(1, |key| {
        key.text(1, lrp.process_guid.as_str());
        key.text(2, lrp.domain.as_str());
        key.text(3, &lrp.log_guid);
    });
    message.text(2, &lrp.annotation);
    message.number(3, lrp.instances);
    message.sub(4, |resource| {
        resource.number(1, lrp.resources.memory_mb);
        resource.number(2, lrp.resources.disk_mb);
        resource.text(3, &lrp.resources.root_fs);
        resource.number(4, lrp.resources.max_pids);
    });
    message.sub(5, |part| put_routes(&lrp.routes, part));
    message.sub(6, |part| put_tag(&lrp.tag, part));
    message.sub(7, |placement| {
        for driver in &lrp.volume_drivers {
            placement.always_text(1, driver);
        }
    });
    for tag in &lrp.placement_tags {
        message.always_text(8, tag);
    }
}

/// Walks the top-level fields only: cheap enough to do for every record at start-up.
fn has_layers(run_info: &[u8]) -> bool {
    let mut rest = run_info;
    let limit = prost::encoding::DecodeContext::default();
    while !rest.is_empty() {
        match decode_key(&mut rest) {
            Ok((IMAGE_LAYERS, WireType::LengthDelimited)) => return true,
            Ok((tag, wire_type)) => {
                if skip_field(wire_type, tag, &mut rest, limit.clone()).is_err() {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    false
}
