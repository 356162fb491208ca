//! Tests of this version as a whole: the frozen bytes of each record, round trips, and what is quarantined.
//!
//! When the golden test fails, the layout at rest has changed. That is a new data version, never an update of the
//! expected bytes here.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use expect_test::{Expect, expect};
use model::{
    ActualLrp, ActualLrpKey, ActualState, CellId, DesiredLrp, Domain, DomainName, ImageCredentials, InstanceGuid,
    InstanceKey, MetricTag, ModificationTag, NetInfo, PortMapping, Presence, ProcessGuid, Resources, Task,
    TaskDefinition, TaskGuid, TaskState, UpdateStrategy,
};
use proptest::prelude::*;

use super::*;
use crate::kv::{Op, Step};
use crate::versions::{Entity, Quarantined};

fn desired() -> DesiredLrp {
    DesiredLrp {
        process_guid: ProcessGuid::parse("process").unwrap(),
        domain: DomainName::parse("cf-apps").unwrap(),
        log_guid: "log".into(),
        annotation: "note".into(),
        instances: 3,
        resources: Resources { memory_mb: 64, disk_mb: 128, max_pids: 10, root_fs: "preloaded:fs".into() },
        placement_tags: vec!["ssd".into()],
        volume_drivers: vec!["nfs".into(), "nfs".into()],
        routes: [("cf-router".into(), Bytes::from_static(b"[{}]"))].into(),
        metric_tags: [
            ("a".into(), MetricTag::Static("x".into())),
            ("b".into(), MetricTag::Index),
            ("c".into(), MetricTag::InstanceGuid),
        ]
        .into(),
        metrics_guid: "metrics".into(),
        update_strategy: UpdateStrategy::RECREATE,
        image_credentials: ImageCredentials { username: "user".into(), password: "hunter2".into() },
        tag: ModificationTag { epoch: "epoch".into(), index: 2 },
        run_info: Bytes::from_static(b"\x0a\x00opaque"),
        definition: model::DefinitionNumber::FIRST,
        definition_identifier: String::new(),
        previous: None,
        unknown: model::Unknown::default(),
    }
}

fn actual() -> ActualLrp {
    ActualLrp {
        key: ActualLrpKey {
            process_guid: ProcessGuid::parse("process").unwrap(),
            index: 1,
            domain: DomainName::parse("cf-apps").unwrap(),
        },
        instance: Some(InstanceKey {
            instance_guid: InstanceGuid::parse("instance").unwrap(),
            cell_id: CellId::parse("cell").unwrap(),
        }),
        net_info: NetInfo {
            address: "10.0.0.1".into(),
            ports: vec![PortMapping {
                container_port: 8080,
                host_port: 61001,
                container_tls_proxy_port: 61443,
                host_tls_proxy_port: 61002,
            }],
            instance_address: "10.255.0.1".into(),
            preferred_address: 1,
            instance_ipv6_address: "::1".into(),
        },
        crash_count: 2,
        crash_reason: "boom".into(),
        state: ActualState::Running,
        placement_error: "none".into(),
        since_ns: 1_700_000_000_000_000_000,
        tag: ModificationTag { epoch: "epoch".into(), index: 5 },
        presence: Presence::Evacuating,
        internal_routes: vec!["app.internal".into()],
        metric_tags: Some([("a".into(), "x".into())].into()),
        routable: true,
        availability_zone: "z1".into(),
        definition: model::DefinitionNumber::FIRST,
        unknown: model::Unknown::default(),
    }
}

fn task() -> Task {
    Task {
        guid: TaskGuid::parse("task").unwrap(),
        domain: DomainName::parse("cf-tasks").unwrap(),
        definition: Arc::new(TaskDefinition {
            resources: Resources { memory_mb: 1, disk_mb: 2, max_pids: 3, root_fs: "fs".into() },
            placement_tags: vec!["ssd".into()],
            volume_drivers: vec!["nfs".into()],
            completion_callback_url: "https://cc/done".into(),
            annotation: "note".into(),
            encoded: Bytes::from_static(b"opaque"),
        }),
        state: TaskState::Completed,
        cell_id: Some(CellId::parse("cell").unwrap()),
        created_ns: 1,
        updated_ns: 2,
        first_completed_ns: 3,
        result: "ok".into(),
        failed: true,
        failure_reason: "why".into(),
        rejection_count: 1,
        rejection_reason: "full".into(),
        unknown: model::Unknown::default(),
    }
}

fn domain() -> Domain {
    Domain {
        name: DomainName::parse("cf-apps").unwrap(),
        expires_ns: Domain::NEVER_NS,
        unknown: model::Unknown::default(),
    }
}

fn step_of(entities: &[Entity]) -> Step {
    let mut step = Step::default();
    for entity in entities {
        match entity {
            Entity::Desired(lrp) => put_desired(&mut step, lrp, Part::Both),
            Entity::Actual(lrp) => put_actual(&mut step, lrp),
            Entity::Task(task) => put_task(&mut step, task),
            Entity::Domain(domain) => put_domain(&mut step, domain),
        }
    }
    step
}

fn records_of(entities: &[Entity]) -> BTreeMap<String, Bytes> {
    let put = |op| match op {
        Op::Put { key, value } => (key, value),
        Op::Delete { key } => panic!("{key} is deleted"),
    };
    step_of(entities).ops.into_iter().map(put).collect()
}

fn load(records: &BTreeMap<String, Bytes>) -> (Vec<Entity>, Vec<Quarantined>) {
    let mut loader = Loader::default();
    let entities = records.iter().filter_map(|(key, value)| loader.feed(key, value)).collect();
    (entities, loader.finish())
}

fn all_kinds() -> Vec<Entity> {
    vec![Entity::Actual(actual()), Entity::Desired(desired()), Entity::Domain(domain()), Entity::Task(task())]
}

/// Printable characters as they are, all else as hex: a difference can be read.
fn check_bytes(entity: Entity, expected: &Expect) {
    let mut text = String::new();
    for (key, value) in records_of(&[entity]) {
        text.push_str(&format!("{key}\n{}\n", value.escape_ascii()));
    }
    expected.assert_eq(&text);
}

#[test]
fn the_bytes_of_each_record_are_frozen() {
    check_bytes(
        Entity::Desired(desired()),
        &expect![[r#"
        /v1442529338/desired/run/process
        00031442529338:\n\x07process\x12\x08\n\x00opaque
        /v1442529338/desired/schedule/process
        00031442529338:\n\x07process\x12\x07cf-apps\x1a\x03log\"\x04note(\x032\x15\x08@\x10\x80\x01\x18\n\"\x0cpreloaded:fs:\x03ssdB\x03nfsB\x03nfsJ\x11\n\tcf-router\x12\x04[{}]R\x08\n\x01a\x12\x03\n\x01xR\x07\n\x01b\x12\x02\x12\x00R\x07\n\x01c\x12\x02\x1a\x00Z\x07metrics`\x01j\x04userr\x07hunter2z\t\n\x05epoch\x10\x02
    "#]],
    );
    check_bytes(
        Entity::Actual(actual()),
        &expect![[r#"
        /v1442529338/actual/process/1/evacuating
        00031442529338:\n\x07process\x10\x01\x1a\x07cf-apps\"\x10\n\x08instance\x12\x04cell*.\n\x0810.0.0.1\x12\x0f\x08\x90?\x10\xc9\xdc\x03\x18\x83\xe0\x03 \xca\xdc\x03\x1a\n10.255.0.1 \x01*\x03::10\x02:\x04boom@\x03J\x04noneP\x80\x80\xa8\xb1\xe3\x9f\xe7\xcb\x17Z\t\n\x05epoch\x10\x05`\x02j\x0capp.internalr\x08\n\x06\n\x01a\x12\x01xx\x01\x82\x01\x02z1
    "#]],
    );
    check_bytes(
        Entity::Task(task()),
        &expect![[r#"
        /v1442529338/task/task
        00031442529338:\n\x04task\x12\x08cf-tasks\x1a5\n\n\x08\x01\x10\x02\x18\x03\"\x02fs\x12\x03ssd\x1a\x03nfs\"\x0fhttps://cc/done*\x04note2\x06opaque \x03*\x04cell0\x018\x02@\x03J\x02okP\x01Z\x03why`\x01j\x04full
    "#]],
    );
    check_bytes(
        Entity::Domain(domain()),
        &expect![[r#"
        /v1442529338/domain/cf-apps
        00031442529338:\n\x07cf-apps\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f
    "#]],
    );
}

#[test]
fn what_was_written_is_loaded() {
    assert_eq!(load(&records_of(&all_kinds())), (all_kinds(), vec![]));
}

#[test]
fn an_update_leaves_the_run_record_alone() {
    let mut step = Step::default();
    put_desired(&mut step, &desired(), Part::ScheduleOnly);
    let keys: Vec<&str> = step.ops.iter().map(Op::key).collect();
    assert_eq!(keys, ["/v1442529338/desired/schedule/process"]);
}

#[test]
fn what_is_put_is_deleted_again() {
    let mut step = Step::default();
    delete_desired(&mut step, &desired().process_guid);
    delete_actual(&mut step, &actual());
    delete_task(&mut step, &task().guid);
    delete_domain(&mut step, &domain().name);
    let mut deleted: Vec<&str> = step.ops.iter().map(Op::key).collect();
    deleted.sort_unstable();
    assert!(records_of(&all_kinds()).keys().eq(deleted));
}

#[test]
fn records_that_may_hold_secrets_print_only_their_name() {
    let printed = format!("{:?} {:?}", convert::schedule(&desired()), convert::run(&desired()));
    assert_eq!(printed, "Schedule Run");
    assert_eq!(format!("{:?}", convert::task(&task())), "Task");
}

/// Loads all kinds after one record was changed, and expects that everything else is unharmed.
fn check_quarantine(change: impl FnOnce(&mut BTreeMap<String, Bytes>), entities: usize, expected: &Expect) {
    let mut records = records_of(&all_kinds());
    change(&mut records);
    let (loaded, quarantined) = load(&records);
    assert_eq!(loaded.len(), entities);
    let lines: Vec<String> = quarantined.iter().map(|one| format!("{}: {}", one.key, one.why)).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn what_cannot_be_read_is_quarantined_with_its_reason() {
    const RUN: &str = "/v1442529338/desired/run/process";
    const SCHEDULE: &str = "/v1442529338/desired/schedule/process";
    const TASK: &str = "/v1442529338/task/task";
    const DOMAIN: &str = "/v1442529338/domain/cf-apps";
    let set = |key: &'static str, value: &'static [u8]| {
        move |records: &mut BTreeMap<String, Bytes>| drop(records.insert(key.into(), Bytes::from_static(value)))
    };
    check_quarantine(
        |records| drop(records.remove(RUN)),
        3,
        &expect!["/v1442529338/desired/schedule/process: its run record is missing or unreadable"],
    );
    check_quarantine(
        |records| drop(records.remove(SCHEDULE)),
        3,
        &expect!["/v1442529338/desired/run/process: its schedule record is missing or unreadable"],
    );
    check_quarantine(
        set(RUN, b"junk"),
        3,
        &expect![[r#"
        /v1442529338/desired/run/process: the value has no record header
        /v1442529338/desired/schedule/process: its run record is missing or unreadable"#]],
    );
    check_quarantine(
        set(SCHEDULE, b"00031442529338:\x0a\x07process"),
        3,
        &expect![[r#"
        /v1442529338/desired/run/process: its schedule record is missing or unreadable
        /v1442529338/desired/schedule/process: a domain must not be empty"#]],
    );
    check_quarantine(
        set(TASK, b"0003999:\x0a\x04task"),
        3,
        &expect!["/v1442529338/task/task: the record is of data version 999, and 1442529338 is expected here"],
    );
    check_quarantine(
        set(TASK, b"00031442529338:\xff\xff"),
        3,
        &expect![
            "/v1442529338/task/task: its payload is not the message it should be (failed to decode Protobuf message: invalid varint)"
        ],
    );
    check_quarantine(
        set(TASK, b"00031442529338:\x0a\x04task"),
        3,
        &expect!["/v1442529338/task/task: the record has no definition"],
    );
    check_quarantine(
        set(TASK, b"{\"guid\":\"task\"}"),
        3,
        &expect!["/v1442529338/task/task: the record is of data version 1, and 1442529338 is expected here"],
    );
    check_quarantine(
        set(TASK, b"0007blue:sealed"),
        3,
        &expect!["/v1442529338/task/task: the record is sealed with key blue, which this server cannot open"],
    );
    check_quarantine(
        set(DOMAIN, b"00031442529338:"),
        3,
        &expect!["/v1442529338/domain/cf-apps: a domain must not be empty"],
    );
    check_quarantine(
        set(DOMAIN, b"00031442529338:\x0a\x05other"),
        3,
        &expect!["/v1442529338/domain/cf-apps: its content belongs under the key /v1442529338/domain/other"],
    );
    check_quarantine(
        set("/v1442529338/new-kind/x", b"00031442529338:"),
        4,
        &expect!["/v1442529338/new-kind/x: its key names no kind of record of this version"],
    );
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[ -~]{0,12}", "\\PC{0,6}"]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{1,20}", "\\PC{1,10}"]
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3)
}

prop_compose! {
    fn any_resources()(memory_mb in any::<i32>(), disk_mb in any::<i32>(), max_pids in any::<i32>(), root_fs in text())
        -> Resources {
        Resources { memory_mb, disk_mb, max_pids, root_fs }
    }
}

prop_compose! {
    fn any_tag()(epoch in text(), index in any::<u32>()) -> ModificationTag {
        ModificationTag { epoch: epoch.into(), index }
    }
}

fn any_metric_tag() -> impl Strategy<Value = MetricTag> {
    prop_oneof![text().prop_map(MetricTag::Static), Just(MetricTag::Index), Just(MetricTag::InstanceGuid)]
}

prop_compose! {
    fn any_desired()(
        (guid, name) in (id(), id()),
        (log_guid, annotation, metrics_guid, username, password) in (text(), text(), text(), text(), text()),
        (instances, strategy) in any::<(i32, i32)>(),
        (resources, tag, run_info) in (any_resources(), any_tag(), bytes()),
        (placement_tags, volume_drivers) in (texts(), texts()),
        routes in prop::collection::btree_map(text(), bytes(), 0..3).prop_map(Into::into),
        metric_tags in prop::collection::btree_map(text(), any_metric_tag(), 0..3).prop_map(Into::into),
    ) -> DesiredLrp {
        DesiredLrp {
            process_guid: ProcessGuid::parse(&guid).unwrap(),
            domain: DomainName::parse(&name).unwrap(),
            update_strategy: UpdateStrategy(strategy),
            image_credentials: ImageCredentials { username, password },
            log_guid, annotation, instances, resources, placement_tags, volume_drivers, routes, metric_tags,
            metrics_guid, tag, run_info,
            definition: model::DefinitionNumber::FIRST,
            definition_identifier: String::new(),
            previous: None,
            unknown: model::Unknown::default(),
        }
    }
}

prop_compose! {
    fn any_net_info()(
        (address, instance_address, instance_ipv6_address) in (text(), text(), text()),
        preferred_address in any::<i32>(),
        ports in prop::collection::vec(any::<[u32; 4]>(), 0..3),
    ) -> NetInfo {
        let ports = ports.into_iter().map(|[container_port, host_port, container_tls_proxy_port, host_tls_proxy_port]| {
            PortMapping { container_port, host_port, container_tls_proxy_port, host_tls_proxy_port }
        });
        NetInfo { address, ports: ports.collect(), instance_address, preferred_address, instance_ipv6_address }
    }
}

prop_compose! {
    fn any_actual()(
        (guid, name, index) in (id(), id(), any::<i32>()),
        instance in prop::option::of((id(), id())),
        (net_info, tag, internal_routes) in (any_net_info(), any_tag(), texts()),
        (crash_count, since_ns, routable) in any::<(i32, i64, bool)>(),
        (crash_reason, placement_error, availability_zone) in (text(), text(), text()),
        state in prop::sample::select(ActualState::ALL.to_vec()),
        presence in prop::sample::select(vec![Presence::Ordinary, Presence::Evacuating, Presence::Suspect]),
        metric_tags in prop::option::of(prop::collection::btree_map(text(), text(), 0..3).prop_map(Into::into)),
    ) -> ActualLrp {
        let instance = instance.map(|(instance, cell)| InstanceKey {
            instance_guid: InstanceGuid::parse(&instance).unwrap(),
            cell_id: CellId::parse(&cell).unwrap(),
        });
        let (process_guid, domain) = (ProcessGuid::parse(&guid).unwrap(), DomainName::parse(&name).unwrap());
        ActualLrp {
            key: ActualLrpKey { process_guid, index, domain },
            instance, net_info, crash_count, crash_reason, state, placement_error, since_ns, tag, presence,
            internal_routes, metric_tags, routable, availability_zone,
            definition: model::DefinitionNumber::FIRST,
            unknown: model::Unknown::default(),
        }
    }
}

prop_compose! {
    fn any_task()(
        (guid, name, cell) in (id(), id(), prop::option::of(id())),
        (resources, placement_tags, volume_drivers, encoded) in (any_resources(), texts(), texts(), bytes()),
        (completion_callback_url, annotation, result) in (text(), text(), text()),
        (failure_reason, rejection_reason) in (text(), text()),
        (created_ns, updated_ns, first_completed_ns, failed, rejection_count) in any::<(i64, i64, i64, bool, i32)>(),
        state in prop::sample::select(TaskState::ALL.to_vec()),
    ) -> Task {
        let definition = TaskDefinition {
            resources, placement_tags, volume_drivers, completion_callback_url, annotation, encoded,
        };
        Task {
            guid: TaskGuid::parse(&guid).unwrap(),
            domain: DomainName::parse(&name).unwrap(),
            definition: Arc::new(definition),
            cell_id: cell.map(|cell| CellId::parse(&cell).unwrap()),
            state, created_ns, updated_ns, first_completed_ns, result, failed, failure_reason, rejection_count,
            rejection_reason,
            unknown: model::Unknown::default(),
        }
    }
}

fn any_entity() -> impl Strategy<Value = Entity> {
    prop_oneof![
        any_desired().prop_map(Entity::Desired),
        any_actual().prop_map(Entity::Actual),
        any_task().prop_map(Entity::Task),
        (id(), any::<i64>()).prop_map(|(name, expires_ns)| {
            Entity::Domain(Domain {
                name: DomainName::parse(&name).unwrap(),
                expires_ns,
                unknown: model::Unknown::default(),
            })
        }),
    ]
}

proptest! {
    #[test]
    fn every_entity_comes_back(entity in any_entity()) {
        let step = step_of(std::slice::from_ref(&entity));
        prop_assert!(step.check().is_ok());
        let records = records_of(std::slice::from_ref(&entity));
        prop_assert_eq!(load(&records), (vec![entity], vec![]));
    }

    #[test]
    fn no_payload_makes_the_loader_panic(kind in 0..5usize, payload in prop::collection::vec(any::<u8>(), 0..60)) {
        let key = ["actual/p/1/ordinary", "desired/run/p", "desired/schedule/p", "domain/d", "task/t"][kind];
        let key = format!("{ROOT}{key}");
        let value = [b"00031442529338:".as_slice(), &payload].concat();
        let (entities, quarantined) = load(&BTreeMap::from([(key, Bytes::from(value))]));
        prop_assert_eq!(entities.len() + quarantined.len(), 1);
    }
}
