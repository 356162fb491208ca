//! What goes in comes out: intake, pieces, framing, events.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use model::event::{DesiredEvent, Event, InstanceEvent, TaskEvent};
use model::{
    ActualLrp, ActualLrpKey, ActualState, CellId, DesiredUpdate, DomainName, ImageCredentials, InstanceGuid,
    InstanceKey, MetricTag, ModificationTag, NetInfo, PortMapping, Presence, ProcessGuid, Resources, Task, TaskGuid,
    UpdateStrategy,
};
use proptest::prelude::*;
use prost::Message;

use super::desired_lrp::{self, Encoded};
use super::{Item, Stream, actual_item, actual_lrp, payload, report_of_start, task_definition, task_item};
use crate::models;

fn wire_lrp() -> models::DesiredLrp {
    models::DesiredLrp {
        process_guid: "pg".into(),
        domain: "d".into(),
        root_fs: "preloaded:cflinuxfs4".into(),
        instances: 2,
        environment_variables: vec![models::EnvironmentVariable { name: "A".into(), value: "B".into() }],
        action: Some(models::Action {
            run_action: Some(models::RunAction { path: "/bin/sh".into(), user: "vcap".into(), ..Default::default() }),
            ..Default::default()
        }),
        start_timeout_ms: 60_000,
        deprecated_start_timeout_s: 60,
        disk_mb: 10,
        memory_mb: 20,
        ports: vec![8080, 2222, 8080],
        routes: Some(models::ProtoRoutes {
            routes: BTreeMap::from([("cf-router".into(), br#"[ {"port": 8080} ]"#.to_vec())]),
        }),
        log_guid: "lg".into(),
        metrics_guid: "mg".into(),
        annotation: "note".into(),
        modification_tag: Some(models::ModificationTag { epoch: "forged".into(), index: 9 }),
        volume_mounts: vec![models::VolumeMount { driver: "nfs".into(), ..Default::default() }],
        placement_tags: vec!["zone".into()],
        max_pids: 5,
        image_username: "user".into(),
        image_password: "secret".into(),
        metric_tags: BTreeMap::from([(
            "source_id".into(),
            models::MetricTagValue { r#static: "mg".into(), dynamic: 0 },
        )]),
        update_strategy: 1,
        ..Default::default()
    }
}

fn stored() -> model::DesiredLrp {
    desired_lrp::desire(wire_lrp(), Arc::from("epoch")).unwrap()
}

/// The record as list and get show it.
fn read(lrp: &model::DesiredLrp) -> models::DesiredLrp {
    let mut framed = BytesMut::new();
    Encoded::of(lrp).put(&mut framed);
    models::DesiredLrpResponse::decode(framed.freeze()).unwrap().desired_lrp.unwrap()
}

#[test]
fn a_desired_lrp_reads_back_as_it_was_desired() {
    let expected = models::DesiredLrp {
        ports: vec![8080, 2222],
        deprecated_start_timeout_s: 0,
        routes: Some(models::ProtoRoutes {
            routes: BTreeMap::from([("cf-router".into(), br#"[{"port":8080}]"#.to_vec())]),
        }),
        modification_tag: Some(models::ModificationTag { epoch: "epoch".into(), index: 0 }),
        ..wire_lrp()
    };
    assert_eq!(read(&stored()), expected);
    assert_eq!(desired_lrp::desired_lrp(&stored()), expected);
}

#[test]
fn scaling_shares_the_run_info() {
    let before = stored();
    let after = before.updated(DesiredUpdate { instances: Some(7), ..Default::default() }, 0).unwrap();
    assert_eq!(before.run_info.as_ptr(), after.run_info.as_ptr());
    assert_eq!(read(&after).instances, 7);
    assert_eq!(read(&after).modification_tag.unwrap().index, 1);
}

#[test]
fn a_definition_in_an_update_is_what_the_same_lrp_would_be_desired_with() {
    let wire = models::DesiredLrp { memory_mb: 99, update_strategy: 1, ..wire_lrp() };
    let update = models::DesiredLrpUpdate {
        desired_lrp: Some(wire.clone()),
        update_identifier: Some("v2".into()),
        ..Default::default()
    };
    let update = desired_lrp::update(update).unwrap();
    assert_eq!((&update.instances, &update.routes, &update.annotation), (&None, &None, &None));
    let empty = model::DesiredLrp { annotation: String::new(), instances: 0, ..stored() };
    let after = empty.updated(update, 0).unwrap();
    let desired = desired_lrp::desire(wire, "epoch".into()).unwrap();
    let expected = model::DesiredLrp {
        annotation: String::new(),
        instances: 0,
        tag: after.tag.clone(),
        definition: model::DefinitionNumber(2),
        definition_identifier: "v2".into(),
        previous: after.previous.clone(),
        history: after.history.clone(),
        ..desired
    };
    assert_eq!(after, expected);
    assert_eq!(format!("{:?}", after.previous), "Some(Definition(1 \"\"))");
}

#[test]
fn the_two_names_of_a_metrics_source_agree_on_reads_and_are_raw_in_events() {
    let tag = |text: &str| models::MetricTagValue { r#static: text.into(), dynamic: 0 };
    let mut only_tag = stored();
    only_tag.metrics_guid.clear();
    assert_eq!(read(&only_tag).metrics_guid, "mg");
    assert_eq!(desired_lrp::desired_lrp(&only_tag).metrics_guid, "");

    let mut only_guid = stored();
    only_guid.metric_tags = Default::default();
    assert_eq!(read(&only_guid).metric_tags.get("source_id"), Some(&tag("mg")));
    assert!(desired_lrp::desired_lrp(&only_guid).metric_tags.is_empty());
}

#[test]
fn the_routing_view_holds_what_routers_need_and_nothing_else() {
    let mut framed = BytesMut::new();
    let encoded = Encoded::of(&stored());
    encoded.put_routing(&mut framed);
    assert_eq!(framed.len(), encoded.routing_framed_len());
    let shown = models::DesiredLrPsResponse::decode(framed.freeze()).unwrap().desired_lrps.remove(0);
    let whole = read(&stored());
    let expected = models::DesiredLrp {
        process_guid: whole.process_guid,
        domain: whole.domain,
        log_guid: whole.log_guid,
        instances: whole.instances,
        routes: whole.routes,
        modification_tag: whole.modification_tag,
        metric_tags: whole.metric_tags,
        ..Default::default()
    };
    assert_eq!(shown, expected);
}

#[test]
fn the_scheduling_view_always_names_its_volume_placement() {
    let lrp = desired_lrp::desire(models::DesiredLrp { volume_mounts: vec![], ..wire_lrp() }, "e".into()).unwrap();
    let item = Encoded::of(&lrp).scheduling().clone();
    let shown = models::DesiredLrpSchedulingInfo::decode(item.message()).unwrap();
    assert_eq!(shown.volume_placement, Some(models::VolumePlacement::default()));
    assert_eq!(shown.desired_lrp_resource.unwrap().root_fs, "preloaded:cflinuxfs4");
}

#[test]
fn only_image_layers_make_the_older_revision_differ() {
    assert!(!Encoded::of(&stored()).differs_in_r2());
    let layer = models::ImageLayer { name: "l".into(), url: "http://l".into(), layer_type: 1, ..Default::default() };
    let layered = models::DesiredLrp { image_layers: vec![layer], ..wire_lrp() };
    let encoded = Encoded::of(&desired_lrp::desire(layered, "e".into()).unwrap());
    assert!(encoded.differs_in_r2());
    let shown = models::DesiredLrp::decode(encoded.r2_item().message()).unwrap();
    assert!(shown.image_layers.is_empty());
    assert_eq!(shown.cached_dependencies[0].from, "http://l");
}

#[test]
fn framed_lengths_are_exact() {
    for bytes in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
        let item = Item::frame(&vec![7; bytes]);
        assert_eq!(item.framed().len(), super::frame_len(bytes));
        assert_eq!(item.message().len(), bytes);
    }
    let encoded = Encoded::of(&stored());
    let mut framed = BytesMut::new();
    encoded.put(&mut framed);
    assert_eq!(framed.len(), encoded.framed_len());
}

fn row() -> ActualLrp {
    let key = ActualLrpKey {
        process_guid: ProcessGuid::parse("pg").unwrap(),
        index: 0,
        domain: DomainName::parse("d").unwrap(),
    };
    ActualLrp::unclaimed(key, "epoch".into(), 5)
}

#[test]
fn an_unclaimed_row_still_carries_its_empty_parts() {
    let message = actual_item(&row()).message();
    let bytes = message.as_ref();
    assert!(
        bytes.windows(4).any(|window| window == [0x12, 0x00, 0x1a, 0x00]),
        "empty instance key and net info: {bytes:x?}"
    );
    assert!(
        bytes.windows(2).any(|window| window == [0x68, 0x00]),
        "routable is said even when it is false: {bytes:x?}"
    );
}

#[test]
fn a_report_without_routable_is_routable_and_the_oldest_start_knows_no_routes() {
    let request = models::StartActualLrpRequest {
        actual_lrp_internal_routes: vec![models::ActualLrpInternalRoute { hostname: "h".into() }],
        metric_tags: BTreeMap::from([("k".into(), "v".into())]),
        ..Default::default()
    };
    let newest = report_of_start(request.clone(), false);
    assert!(newest.routable && newest.internal_routes == ["h"] && newest.metric_tags.is_some());
    let oldest = report_of_start(request, true);
    assert!(oldest.routable && oldest.internal_routes.is_empty() && oldest.metric_tags.is_none());
}

#[test]
fn a_change_event_names_the_instance_that_had_the_row() {
    let by = InstanceKey { instance_guid: InstanceGuid::parse("ig").unwrap(), cell_id: CellId::parse("cell").unwrap() };
    let report = report_of_start(models::StartActualLrpRequest::default(), false);
    let tag = ModificationTag::first("e".into());
    let running = ActualLrp::running(row().key, by, report, Presence::Ordinary, tag, 1);
    let crashed = running.crashed("boom", 2);
    let event = Event::Instance(InstanceEvent::Changed { before: Arc::new(running), after: Arc::new(crashed) });
    let shown = payload(&event, Stream::Newest, "trace");
    assert_eq!(shown.name, "actual_lrp_instance_changed");
    let shown = models::ActualLrpInstanceChangedEvent::decode(shown.message).unwrap();
    assert_eq!(shown.actual_lrp_instance_key.unwrap().instance_guid, "ig");
    assert_eq!(shown.trace_id, "trace");
}

#[test]
fn desired_events_carry_whole_records_in_both_shapes() {
    let lrp = Arc::new(stored());
    let event = Event::Desired(DesiredEvent::Changed { before: lrp.clone(), after: lrp.clone() });
    let newest = payload(&event, Stream::Newest, "t");
    let shown = models::DesiredLrpChangedEvent::decode(newest.message).unwrap();
    assert_eq!(shown.before, Some(desired_lrp::desired_lrp(&lrp)));
    assert_eq!((shown.after == shown.before, shown.trace_id.as_str()), (true, "t"));

    let oldest = models::DesiredLrpChangedEvent::decode(payload(&event, Stream::Oldest, "").message).unwrap();
    assert_eq!(oldest.after.unwrap().deprecated_start_timeout_s, 60);
}

#[test]
fn a_task_reads_back_as_it_was_desired() {
    let definition = models::TaskDefinition {
        root_fs: "preloaded:x".into(),
        annotation: "note".into(),
        result_file: "/r".into(),
        ..Default::default()
    };
    let task =
        Task::desire(TaskGuid::parse("t").unwrap(), DomainName::parse("d").unwrap(), task_definition(&definition), 3);
    let shown = models::Task::decode(task_item(&task).message()).unwrap();
    assert_eq!(shown.task_definition, Some(definition));
    assert_eq!((shown.state(), shown.created_at), (models::task::State::Pending, 3));
    let event = payload(&Event::Task(TaskEvent::Created(Arc::new(task))), Stream::Newest, "");
    assert_eq!(models::TaskCreatedEvent::decode(event.message).unwrap().task, Some(shown));
}

#[test]
fn rows_survive_the_wire() {
    let shown = actual_lrp(&row());
    assert_eq!(shown.state, "UNCLAIMED");
    assert_eq!(models::ActualLrp::decode(actual_item(&row()).message()).unwrap(), shown);
}

// What is written by hand must be what the generated messages would say, byte for byte.

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{0,12}", "[a-z]{120,140}"]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{1,40}", "\\PC{1,10}"]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3)
}

fn tag() -> impl Strategy<Value = ModificationTag> {
    (text(), any::<u32>()).prop_map(|(epoch, index)| ModificationTag { epoch: epoch.into(), index })
}

prop_compose! {
    fn net_info()(
        (address, instance_address, instance_ipv6_address) in (text(), text(), text()),
        ports in prop::collection::vec(any::<[u32; 4]>(), 0..12),
        preferred_address in any::<i32>(),
    ) -> NetInfo {
        let port = |[container_port, host_port, container_tls_proxy_port, host_tls_proxy_port]: [u32; 4]| PortMapping {
            container_port, host_port, container_tls_proxy_port, host_tls_proxy_port,
        };
        let ports = ports.into_iter().map(port).collect();
        NetInfo { address, ports, instance_address, preferred_address, instance_ipv6_address }
    }
}

prop_compose! {
    fn any_row()(
        (process_guid, index, domain) in (id(), prop_oneof![Just(0), any::<i32>()], id()),
        instance in prop::option::of((id(), id())),
        net_info in prop_oneof![Just(NetInfo::default()), net_info()],
        (crash_count, crash_reason, placement_error) in (any::<i32>(), text(), text()),
        (state, since_ns, tag) in (prop::sample::select(ActualState::ALL.to_vec()), any::<i64>(), tag()),
        presence in prop::sample::select(vec![Presence::Ordinary, Presence::Evacuating, Presence::Suspect]),
        (internal_routes, routable, availability_zone) in (texts(), any::<bool>(), text()),
        metric_tags in prop::option::of(prop::collection::btree_map(text(), text(), 0..4)),
    ) -> ActualLrp {
        let process_guid = ProcessGuid::parse(&process_guid).unwrap();
        let instance = instance.map(|(guid, cell)| InstanceKey {
            instance_guid: InstanceGuid::parse(&guid).unwrap(),
            cell_id: CellId::parse(&cell).unwrap(),
        });
        ActualLrp { leaving: false,
            key: ActualLrpKey { process_guid, index, domain: DomainName::parse(&domain).unwrap() },
            metric_tags: metric_tags.map(Into::into),
            instance, net_info, crash_count, crash_reason, state, placement_error, since_ns, tag, presence,
            internal_routes, routable, availability_zone,
            definition: model::DefinitionNumber::FIRST,
            unknown: model::Unknown::default(),
        }
    }
}

fn metric_tags() -> impl Strategy<Value = BTreeMap<String, MetricTag>> {
    let name = prop_oneof![Just("source_id".to_owned()), text()];
    let tag = prop_oneof![text().prop_map(MetricTag::Static), Just(MetricTag::Index), Just(MetricTag::InstanceGuid)];
    prop::collection::btree_map(name, tag, 0..4)
}

fn routes() -> impl Strategy<Value = BTreeMap<String, Bytes>> {
    prop::collection::btree_map(text(), prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from), 0..3)
}

prop_compose! {
    fn any_desired()(
        (process_guid, domain) in (id(), id()),
        (log_guid, annotation, metrics_guid, root_fs) in (text(), text(), text(), text()),
        [instances, memory_mb, disk_mb, max_pids, update_strategy] in any::<[i32; 5]>(),
        (placement_tags, volume_drivers) in (texts(), texts()),
        (routes, metric_tags) in (routes(), metric_tags()),
        (username, password, tag) in (text(), text(), tag()),
    ) -> model::DesiredLrp {
        model::DesiredLrp { history: None,
            process_guid: ProcessGuid::parse(&process_guid).unwrap(),
            domain: DomainName::parse(&domain).unwrap(),
            resources: Resources { memory_mb, disk_mb, max_pids, root_fs },
            routes: routes.into(),
            metric_tags: metric_tags.into(),
            update_strategy: UpdateStrategy(update_strategy),
            image_credentials: ImageCredentials { username, password },
            run_info: Bytes::from_static(b"\xd8\x01\x3c"),
            definition: model::DefinitionNumber::FIRST,
            definition_identifier: String::new(),
            previous: None,
            unknown: model::Unknown::default(),
            log_guid, annotation, instances, placement_tags, volume_drivers, metrics_guid, tag,
        }
    }
}

fn metric_tag_message(tag: MetricTag<&str>) -> models::MetricTagValue {
    use models::metric_tag_value::DynamicValue;
    let (text, dynamic) = match tag {
        MetricTag::Static(text) => (text, DynamicValue::Invalid),
        MetricTag::Index => ("", DynamicValue::Index),
        MetricTag::InstanceGuid => ("", DynamicValue::InstanceGuid),
    };
    models::MetricTagValue { r#static: text.to_owned(), dynamic: dynamic.into() }
}

fn tag_message(lrp: &model::DesiredLrp) -> models::ModificationTag {
    models::ModificationTag { epoch: lrp.tag.epoch.to_string(), index: lrp.tag.index }
}

fn routes_message(lrp: &model::DesiredLrp) -> models::ProtoRoutes {
    models::ProtoRoutes { routes: lrp.routes.iter().map(|(name, json)| (name.to_owned(), json.to_vec())).collect() }
}

fn routing_message(lrp: &model::DesiredLrp) -> models::DesiredLrp {
    models::DesiredLrp {
        process_guid: lrp.process_guid.to_string(),
        domain: lrp.domain.to_string(),
        log_guid: lrp.log_guid.clone(),
        instances: lrp.instances,
        routes: Some(routes_message(lrp)),
        modification_tag: Some(tag_message(lrp)),
        metric_tags: lrp.metric_tags.iter().map(|(name, tag)| (name.to_owned(), metric_tag_message(tag))).collect(),
        ..Default::default()
    }
}

fn rest_message(lrp: &model::DesiredLrp) -> models::DesiredLrp {
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

fn scheduling_message(lrp: &model::DesiredLrp) -> models::DesiredLrpSchedulingInfo {
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
        routes: Some(routes_message(lrp)),
        modification_tag: Some(tag_message(lrp)),
        volume_placement: Some(models::VolumePlacement { driver_names: lrp.volume_drivers.clone() }),
        placement_tags: lrp.placement_tags.clone(),
    }
}

/// What reads add about the source of metrics.
fn metrics_bytes(lrp: &model::DesiredLrp) -> Vec<u8> {
    let mut bytes = Vec::new();
    match lrp.metric_tags.get("source_id") {
        Some(MetricTag::Static(source)) if lrp.metrics_guid.is_empty() => {
            prost::encoding::string::encode(18, &source.to_owned(), &mut bytes);
        }
        None if !lrp.metrics_guid.is_empty() => {
            let tag = metric_tag_message(MetricTag::Static(&lrp.metrics_guid));
            let metric_tags = BTreeMap::from([("source_id".to_owned(), tag)]);
            bytes = models::DesiredLrp { metric_tags, ..Default::default() }.encode_to_vec();
        }
        _ => {}
    }
    bytes
}

proptest! {
    #[test]
    fn a_row_is_encoded_as_its_message_would_be(row in any_row()) {
        prop_assert_eq!(actual_item(&row), Item::of(&actual_lrp(&row)));
    }

    #[test]
    fn a_desired_lrp_is_encoded_as_its_messages_would_be(lrp in any_desired()) {
        let encoded = Encoded::of(&lrp);
        let routing = routing_message(&lrp).encode_to_vec();
        let mut shown = BytesMut::new();
        encoded.put_routing(&mut shown);
        prop_assert_eq!(shown.freeze(), Item::frame(&routing).framed().clone());

        let whole = [routing, rest_message(&lrp).encode_to_vec(), lrp.run_info.to_vec(), metrics_bytes(&lrp)].concat();
        let mut shown = BytesMut::new();
        encoded.put(&mut shown);
        prop_assert_eq!(shown.freeze(), Item::frame(&whole).framed().clone());
        prop_assert_eq!(encoded.scheduling(), &Item::of(&scheduling_message(&lrp)));
    }
}
