//! Entities of this version for tests: one of each kind with every field set, and generated ones.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::records::{
    Actual, Domain, Instance, MetricTag, MetricTagValue, NetInfo, Nothing, Port, ReportedTags, Resources, Run,
    Schedule, Tag, Task, TaskDefinition,
};
use super::{Desired, Entity, NUMBER};
use crate::versions::unknown::{Carried, Kept};

fn metric_tag(value: MetricTagValue) -> MetricTag {
    MetricTag { value: Some(value) }
}

fn desired() -> Desired {
    let metric_tags = [
        ("a".to_owned(), metric_tag(MetricTagValue::Static("x".into()))),
        ("b".to_owned(), metric_tag(MetricTagValue::Index(Nothing {}))),
        ("c".to_owned(), metric_tag(MetricTagValue::InstanceGuid(Nothing {}))),
    ];
    let schedule = Schedule {
        process_guid: "process".into(),
        domain: "cf-apps".into(),
        log_guid: "log".into(),
        annotation: "note".into(),
        instances: 3,
        resources: Some(Resources { memory_mb: 64, disk_mb: 128, max_pids: 10, root_fs: "preloaded:fs".into() }),
        placement_tags: vec!["ssd".into()],
        volume_drivers: vec!["nfs".into(), "nfs".into()],
        routes: [("cf-router".to_owned(), Bytes::from_static(b"[{}]"))].into(),
        metric_tags: metric_tags.into(),
        metrics_guid: "metrics".into(),
        update_strategy: 1,
        image_username: "user".into(),
        image_password: "hunter2".into(),
        tag: Some(Tag { epoch: "epoch".into(), index: 2 }),
        carried: vec![],
    };
    let run_info = Bytes::from_static(b"\x0a\x00opaque");
    let run = Run { process_guid: "process".into(), run_info, carried: vec![] };
    Desired { schedule: schedule.into(), run: run.into() }
}

fn actual() -> Actual {
    Actual {
        process_guid: "process".into(),
        index: 1,
        domain: "cf-apps".into(),
        instance: Some(Instance { instance_guid: "instance".into(), cell_id: "cell".into() }),
        net_info: Some(NetInfo {
            address: "10.0.0.1".into(),
            ports: vec![Port {
                container_port: 8080,
                host_port: 61001,
                container_tls_proxy_port: 61443,
                host_tls_proxy_port: 61002,
            }],
            instance_address: "10.255.0.1".into(),
            preferred_address: 1,
            instance_ipv6_address: "::1".into(),
        }),
        crash_count: 2,
        crash_reason: "boom".into(),
        state: 3,
        placement_error: "none".into(),
        since_ns: 1_700_000_000_000_000_000,
        tag: Some(Tag { epoch: "epoch".into(), index: 5 }),
        presence: 2,
        internal_routes: vec!["app.internal".into()],
        metric_tags: Some(ReportedTags { tags: [("a".to_owned(), "x".to_owned())].into() }),
        routable: true,
        availability_zone: "z1".into(),
        carried: vec![],
    }
}

fn task() -> Task {
    Task {
        guid: "task".into(),
        domain: "cf-tasks".into(),
        definition: Some(TaskDefinition {
            resources: Some(Resources { memory_mb: 1, disk_mb: 2, max_pids: 3, root_fs: "fs".into() }),
            placement_tags: vec!["ssd".into()],
            volume_drivers: vec!["nfs".into()],
            completion_callback_url: "https://cc/done".into(),
            annotation: "note".into(),
            encoded: Bytes::from_static(b"opaque"),
        }),
        state: 3,
        cell_id: "cell".into(),
        created_ns: 1,
        updated_ns: 2,
        first_completed_ns: 3,
        result: "ok".into(),
        failed: true,
        failure_reason: "why".into(),
        rejection_count: 1,
        rejection_reason: "full".into(),
        carried: vec![],
    }
}

/// In key order, as a scan gives them.
pub(crate) fn all_kinds() -> Vec<Entity> {
    let domain = Domain { name: "cf-apps".into(), expires_ns: i64::MAX, carried: vec![] };
    vec![
        Entity::Actual(Box::new(actual().into())),
        Entity::Desired(Box::new(desired())),
        Entity::Domain(domain.into()),
        Entity::Task(Box::new(task().into())),
    ]
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

/// Mostly none, as in life; otherwise fields behind the last known one of any record.
fn unknown() -> impl Strategy<Value = Bytes> {
    // Field 32 and others far behind it: one byte of some value.
    let field = |(more, value): (u8, u8)| [0x82, 2 + more, 1, value];
    let fields = prop::collection::vec((0..8u8, any::<u8>()).prop_map(field), 1..3);
    prop_oneof![3 => Just(Bytes::new()), 1 => fields.prop_map(|fields| Bytes::from(fields.concat()))]
}

/// For other versions than this, in the one order.
fn carried() -> impl Strategy<Value = Vec<Carried>> {
    let owner = (prop::sample::select(vec![1, 7, NUMBER.0 + 1]), "[a-b]{0,1}");
    let entries = prop::collection::btree_map(owner, bytes(), 0..3);
    entries.prop_map(|entries| {
        entries.into_iter().map(|((version, record), fields)| Carried { version, record, fields }).collect()
    })
}

prop_compose! {
    fn any_resources()(memory_mb in any::<i32>(), disk_mb in any::<i32>(), max_pids in any::<i32>(), root_fs in text())
        -> Resources {
        Resources { memory_mb, disk_mb, max_pids, root_fs }
    }
}

prop_compose! {
    fn any_tag()(epoch in text(), index in any::<u32>()) -> Tag {
        Tag { epoch, index }
    }
}

fn any_metric_tag() -> impl Strategy<Value = MetricTag> {
    let value = prop_oneof![
        text().prop_map(MetricTagValue::Static),
        Just(MetricTagValue::Index(Nothing {})),
        Just(MetricTagValue::InstanceGuid(Nothing {})),
    ];
    value.prop_map(metric_tag)
}

prop_compose! {
    fn any_desired()(
        (process_guid, domain, log_guid, annotation, metrics_guid) in (id(), id(), text(), text(), text()),
        (image_username, image_password, run_info) in (text(), text(), bytes()),
        (instances, update_strategy, resources, tag) in (any::<i32>(), any::<i32>(), any_resources(), any_tag()),
        (placement_tags, volume_drivers) in (texts(), texts()),
        routes in prop::collection::btree_map(text(), bytes(), 0..3),
        metric_tags in prop::collection::btree_map(text(), any_metric_tag(), 0..3),
        (schedule_unknown, run_unknown) in (unknown(), unknown()),
        (schedule_carried, run_carried) in (carried(), carried()),
    ) -> Desired {
        let run = Run { process_guid: process_guid.clone(), run_info, carried: run_carried };
        let schedule = Schedule {
            process_guid, domain, log_guid, annotation, instances, placement_tags, volume_drivers, routes, metric_tags,
            metrics_guid, update_strategy, image_username, image_password,
            resources: Some(resources), tag: Some(tag), carried: schedule_carried,
        };
        Desired {
            schedule: Kept { message: schedule, unknown: schedule_unknown },
            run: Kept { message: run, unknown: run_unknown },
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
            Port { container_port, host_port, container_tls_proxy_port, host_tls_proxy_port }
        });
        NetInfo { address, ports: ports.collect(), instance_address, preferred_address, instance_ipv6_address }
    }
}

prop_compose! {
    fn any_actual()(
        (process_guid, domain, index) in (id(), id(), any::<i32>()),
        instance in prop::option::of((id(), id())),
        (net_info, tag, internal_routes) in (any_net_info(), any_tag(), texts()),
        (crash_count, since_ns, routable) in any::<(i32, i64, bool)>(),
        (crash_reason, placement_error, availability_zone) in (text(), text(), text()),
        (state, presence) in (1..=4u32, 1..=3u32),
        metric_tags in prop::option::of(prop::collection::btree_map(text(), text(), 0..3)),
        (unknown, carried) in (unknown(), carried()),
    ) -> Kept<Actual> {
        let instance = instance.map(|(instance_guid, cell_id)| Instance { instance_guid, cell_id });
        let message = Actual {
            process_guid, index, domain, instance, crash_count, crash_reason, state, placement_error, since_ns,
            presence, internal_routes, routable, availability_zone, carried,
            net_info: Some(net_info), tag: Some(tag),
            metric_tags: metric_tags.map(|tags: BTreeMap<String, String>| ReportedTags { tags }),
        };
        Kept { message, unknown }
    }
}

prop_compose! {
    fn any_task()(
        (guid, domain, cell_id) in (id(), id(), prop::option::of(id())),
        (resources, placement_tags, volume_drivers, encoded) in (any_resources(), texts(), texts(), bytes()),
        (completion_callback_url, annotation, result) in (text(), text(), text()),
        (failure_reason, rejection_reason) in (text(), text()),
        (created_ns, updated_ns, first_completed_ns, failed, rejection_count) in any::<(i64, i64, i64, bool, i32)>(),
        state in 1..=4u32,
        (unknown, carried) in (unknown(), carried()),
    ) -> Kept<Task> {
        let definition = TaskDefinition {
            resources: Some(resources), placement_tags, volume_drivers, completion_callback_url, annotation, encoded,
        };
        let message = Task {
            guid, domain, state, created_ns, updated_ns, first_completed_ns, result, failed, failure_reason,
            rejection_count, rejection_reason, carried,
            definition: Some(definition), cell_id: cell_id.unwrap_or_default(),
        };
        Kept { message, unknown }
    }
}

prop_compose! {
    fn any_domain()(name in id(), expires_ns in any::<i64>(), (unknown, carried) in (unknown(), carried()))
        -> Kept<Domain> {
        Kept { message: Domain { name, expires_ns, carried }, unknown }
    }
}

pub(crate) fn any_entity() -> BoxedStrategy<Entity> {
    // Boxed, because the parts of all kinds together would fill the stack of a test.
    prop_oneof![
        any_desired().boxed().prop_map(|desired| Entity::Desired(Box::new(desired))),
        any_actual().boxed().prop_map(|actual| Entity::Actual(Box::new(actual))),
        any_task().boxed().prop_map(|task| Entity::Task(Box::new(task))),
        any_domain().prop_map(Entity::Domain),
    ]
    .boxed()
}
