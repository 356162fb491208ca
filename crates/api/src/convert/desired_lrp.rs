//! Desired LRPs, kept on the board as pieces that are concatenated into whatever view is asked for.
//!
//! ```text
//! routing info   = [routing]
//! DesiredLRP     = [routing][rest][run info]            as events carry it
//! DesiredLRP     = [routing][rest][run info][metrics]   as list and get answer it
//! scheduling info is a message of its own shape, kept as an item
//! ```
//!
//! The run info, most of the bytes, is shared by all versions of a record: scaling an app copies a few hundred bytes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes};
use model::desired_lrp::INTERNAL_ROUTER;
use model::{
    DesiredLrp, DesiredUpdate, DomainName, IdError, ImageCredentials, MetricTag, ModificationTag, Packed, ProcessGuid,
    Resources, UpdateStrategy,
};
use prost::Message;
use prost::encoding::{WireType, decode_key, skip_field};

use super::actual_lrp::wire_tag;
use super::{Item, frame_len, put_frame, put_sub_message};
use crate::models;
use crate::validate::{Invalid, compact_routes};

/// The tag that names the source of an app's metrics.
const SOURCE_ID: &str = "source_id";
/// Field numbers of `DesiredLRP` that are written or looked for by hand.
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
    routing: Bytes,
    rest: Bytes,
    run_info: Bytes,
    metrics: Bytes,
    scheduling: Item,
    has_layers: bool,
}

impl Encoded {
    pub fn of(lrp: &DesiredLrp) -> Self {
        Self {
            routing: routing_part(lrp).encode_to_vec().into(),
            rest: rest_part(lrp).encode_to_vec().into(),
            run_info: lrp.run_info.clone(),
            metrics: metrics_part(lrp),
            scheduling: Item::of(&scheduling_info(lrp)),
            has_layers: has_layers(&lrp.run_info),
        }
    }

    pub fn scheduling(&self) -> &Item {
        &self.scheduling
    }

    pub fn routing_framed_len(&self) -> usize {
        frame_len(self.routing.len())
    }

    pub fn put_routing(&self, buf: &mut impl BufMut) {
        put_frame(self.routing.len(), buf);
        buf.put_slice(&self.routing);
    }

    fn read_len(&self) -> usize {
        self.routing.len() + self.rest.len() + self.run_info.len() + self.metrics.len()
    }

    pub fn framed_len(&self) -> usize {
        frame_len(self.read_len())
    }

    /// The whole record as list and get answer it.
    pub fn put(&self, buf: &mut impl BufMut) {
        put_frame(self.read_len(), buf);
        for piece in [&self.routing, &self.rest, &self.run_info, &self.metrics] {
            buf.put_slice(piece);
        }
    }

    /// Whether the older read revision differs from the newest for this record.
    pub fn differs_in_r2(&self) -> bool {
        self.has_layers
    }

    /// The whole record as the older read revision shows it, framed.
    pub fn r2_item(&self) -> Item {
        let mut bytes = Vec::with_capacity(self.framed_len());
        for piece in [&self.routing, &self.rest, &self.run_info, &self.metrics] {
            bytes.put_slice(piece);
        }
        match crate::decode::<models::DesiredLrp>(&bytes) {
            Ok(lrp) => Item::of(&crate::revision::desired_lrp_v3_to_v2(lrp)),
            // Run info that was accepted once and does not decode now is shown as it is, rather than hidden.
            Err(_) => Item::frame(&bytes),
        }
    }

    /// As field `tag` of an event.
    pub(crate) fn put_in_event(&self, tag: u32, buf: &mut Vec<u8>) {
        put_sub_message(tag, &[&self.routing, &self.rest, &self.run_info], buf);
    }
}

/// The record as one message, as events carry it.
pub fn desired_lrp(lrp: &DesiredLrp) -> models::DesiredLrp {
    let encoded = Encoded::of(lrp);
    let mut bytes = Vec::new();
    for piece in [&encoded.routing, &encoded.rest, &encoded.run_info] {
        bytes.put_slice(piece);
    }
    crate::decode(&bytes).unwrap_or_default()
}

/// A validated request becomes a record. What the server owns (the tag, a deprecated timeout) is not taken from the client.
pub fn desire(wire: models::DesiredLrp, epoch: std::sync::Arc<str>) -> Result<DesiredLrp, IntakeError> {
    let volume_drivers = wire.volume_mounts.iter().map(|mount| mount.driver.clone()).collect();
    let mut wire = wire;
    let mut seen = BTreeSet::new();
    wire.ports.retain(|port| seen.insert(*port));
    wire.deprecated_start_timeout_s = 0;
    wire.modification_tag = None;
    let routes = compact_routes(wire.routes.take().unwrap_or_default())?.into();
    let lrp = DesiredLrp {
        process_guid: ProcessGuid::parse(&std::mem::take(&mut wire.process_guid))?,
        domain: DomainName::parse(&std::mem::take(&mut wire.domain))?,
        log_guid: std::mem::take(&mut wire.log_guid),
        annotation: std::mem::take(&mut wire.annotation),
        instances: std::mem::take(&mut wire.instances),
        resources: Resources {
            memory_mb: std::mem::take(&mut wire.memory_mb),
            disk_mb: std::mem::take(&mut wire.disk_mb),
            max_pids: std::mem::take(&mut wire.max_pids),
            root_fs: std::mem::take(&mut wire.root_fs),
        },
        placement_tags: std::mem::take(&mut wire.placement_tags),
        volume_drivers,
        routes,
        metric_tags: metric_tags(std::mem::take(&mut wire.metric_tags)),
        metrics_guid: std::mem::take(&mut wire.metrics_guid),
        update_strategy: UpdateStrategy(std::mem::take(&mut wire.update_strategy)),
        image_credentials: ImageCredentials {
            username: std::mem::take(&mut wire.image_username),
            password: std::mem::take(&mut wire.image_password),
        },
        tag: ModificationTag::first(epoch),
        run_info: Bytes::new(),
    };
    // What is left in the message is the run info.
    Ok(DesiredLrp { run_info: wire.encode_to_vec().into(), ..lrp })
}

pub fn update(wire: models::DesiredLrpUpdate) -> Result<DesiredUpdate, IntakeError> {
    Ok(DesiredUpdate {
        instances: wire.instances,
        routes: wire.routes.map(compact_routes).transpose()?.map(Into::into),
        annotation: wire.annotation,
        metric_tags: Some(metric_tags(wire.metric_tags)).filter(|tags| !tags.is_empty()),
        image_credentials: match (wire.image_username, wire.image_password) {
            (Some(username), Some(password)) => Some(ImageCredentials { username, password }),
            _ => None,
        },
    })
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

fn wire_metric_tag(tag: MetricTag<&str>) -> models::MetricTagValue {
    use models::metric_tag_value::DynamicValue;
    match tag {
        MetricTag::Static(text) => models::MetricTagValue { r#static: text.to_owned(), dynamic: 0 },
        MetricTag::Index => models::MetricTagValue { r#static: String::new(), dynamic: DynamicValue::Index.into() },
        MetricTag::InstanceGuid => {
            models::MetricTagValue { r#static: String::new(), dynamic: DynamicValue::InstanceGuid.into() }
        }
    }
}

fn wire_routes(routes: &Packed<Bytes>) -> models::ProtoRoutes {
    models::ProtoRoutes { routes: routes.iter().map(|(name, json)| (name.to_owned(), json.to_vec())).collect() }
}

fn routing_part(lrp: &DesiredLrp) -> models::DesiredLrp {
    models::DesiredLrp {
        process_guid: lrp.process_guid.to_string(),
        domain: lrp.domain.to_string(),
        log_guid: lrp.log_guid.clone(),
        instances: lrp.instances,
        routes: Some(wire_routes(&lrp.routes)),
        modification_tag: Some(wire_tag(&lrp.tag)),
        metric_tags: lrp.metric_tags.iter().map(|(name, tag)| (name.to_owned(), wire_metric_tag(tag))).collect(),
        ..Default::default()
    }
}

fn rest_part(lrp: &DesiredLrp) -> models::DesiredLrp {
    models::DesiredLrp {
        root_fs: lrp.resources.root_fs.clone(),
        disk_mb: lrp.resources.disk_mb,
        memory_mb: lrp.resources.memory_mb,
        max_pids: lrp.resources.max_pids,
        metrics_guid: lrp.metrics_guid.clone(),
        annotation: lrp.annotation.clone(),
        placement_tags: lrp.placement_tags.clone(),
        image_username: lrp.image_credentials.username.clone(),
        image_password: lrp.image_credentials.password.clone(),
        update_strategy: lrp.update_strategy.0,
        ..Default::default()
    }
}

/// What reads add so that the older and the newer way to name the metrics source agree.
fn metrics_part(lrp: &DesiredLrp) -> Bytes {
    let mut bytes = Vec::new();
    match lrp.metric_tags.get(SOURCE_ID) {
        Some(MetricTag::Static(source)) if lrp.metrics_guid.is_empty() => {
            prost::encoding::string::encode(METRICS_GUID, &source.to_owned(), &mut bytes);
        }
        None if !lrp.metrics_guid.is_empty() => {
            let tag = wire_metric_tag(MetricTag::Static(&lrp.metrics_guid));
            let entry = BTreeMap::from([(SOURCE_ID.to_owned(), tag)]);
            prost::encoding::btree_map::encode(
                prost::encoding::string::encode,
                prost::encoding::string::encoded_len,
                prost::encoding::message::encode,
                prost::encoding::message::encoded_len,
                METRIC_TAGS,
                &entry,
                &mut bytes,
            );
        }
        _ => {}
    }
    bytes.into()
}

fn scheduling_info(lrp: &DesiredLrp) -> models::DesiredLrpSchedulingInfo {
    models::DesiredLrpSchedulingInfo {
        desired_lrp_key: Some(models::DesiredLrpKey {
            process_guid: lrp.process_guid.to_string(),
            domain: lrp.domain.to_string(),
            log_guid: lrp.log_guid.clone(),
        }),
        annotation: lrp.annotation.clone(),
        instances: lrp.instances,
        desired_lrp_resource: Some(models::DesiredLrpResource {
            memory_mb: lrp.resources.memory_mb,
            disk_mb: lrp.resources.disk_mb,
            root_fs: lrp.resources.root_fs.clone(),
            max_pids: lrp.resources.max_pids,
        }),
        routes: Some(wire_routes(&lrp.routes)),
        modification_tag: Some(wire_tag(&lrp.tag)),
        volume_placement: Some(models::VolumePlacement { driver_names: lrp.volume_drivers.clone() }),
        placement_tags: lrp.placement_tags.clone(),
    }
}

/// Walks the top-level fields only: cheap enough to do for every record at start-up.
fn has_layers(run_info: &Bytes) -> bool {
    let mut rest = run_info.clone();
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
