//! Entities of the model for tests: one of each kind, those that only a rollout leaves behind, and generated ones.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use model::rollout::{Flight, OLDER_MAX, Pause, Phase, Terms};
use model::{
    ActualLrp, ActualLrpKey, ActualState, CellId, Definition, DefinitionNumber, DesiredLrp, Domain, DomainName, History,
    ImageCredentials, InstanceGuid, InstanceKey, MetricTag, ModificationTag, NetInfo, PortMapping, Presence,
    ProcessGuid, Resources, Rollout, Task, TaskDefinition, TaskGuid, TaskState, Unknown, UpdateStrategy,
};
use proptest::prelude::*;

use super::extras::{Extras, ONLY, SCHEDULE};
use super::{NUMBER, records};
use crate::versions::Entity;
use crate::versions::unknown::{Carried, Kept};

pub(crate) fn desired() -> DesiredLrp {
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
        definition: DefinitionNumber(3),
        definition_identifier: "blue".into(),
        previous: Some(Arc::new(Definition {
            number: DefinitionNumber(2),
            identifier: "green".into(),
            resources: Resources { memory_mb: 32, disk_mb: 64, max_pids: 5, root_fs: "preloaded:old".into() },
            placement_tags: vec!["hdd".into()],
            volume_drivers: vec!["smb".into()],
            log_guid: "old-log".into(),
            metrics_guid: "old-metrics".into(),
            run_info: Bytes::from_static(b"\x0a\x00old"),
            routes: None,
        })),
        history: None,
        unknown: Unknown::default(),
    }
}

/// [`desired`] in the middle of a rollout, with an older definition.
pub(crate) fn rolling() -> DesiredLrp {
    let older = Definition {
        number: DefinitionNumber(1),
        identifier: String::new(),
        resources: Resources { memory_mb: 16, disk_mb: 32, max_pids: 2, root_fs: "preloaded:oldest".into() },
        placement_tags: vec![],
        volume_drivers: vec![],
        log_guid: "first-log".into(),
        metrics_guid: "first-metrics".into(),
        run_info: Bytes::from_static(b"\x0a\x00first"),
        routes: None,
    };
    let terms = Terms {
        in_flight: 2,
        canaries: 1,
        canary_pause: Pause::For(3),
        healthy_ns: 4,
        instance_deadline_ns: 5,
        deadline_ns: 6,
        reverts: true,
    };
    let rollout = Rollout {
        from: DefinitionNumber(2),
        to: DefinitionNumber(3),
        terms,
        started_ns: 7,
        phase: Phase::Canary,
        phase_since_ns: 8,
        held_ns: 9,
        reverts: true,
        why: "boom".into(),
        canaries_passed: true,
        flights: vec![Flight { index: 0, begun_ns: 10 }, Flight { index: 2, begun_ns: 11 }],
    };
    let history = History { made: 4, older: vec![Arc::new(older)], rollout: Some(rollout) };
    DesiredLrp { history: Some(Arc::new(history)), ..desired() }
}

pub(crate) fn actual() -> ActualLrp {
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
        definition: DefinitionNumber(2),
        leaving: false,
        unknown: Unknown::default(),
    }
}

pub(crate) fn leaving() -> ActualLrp {
    ActualLrp { leaving: true, ..actual() }
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
        unknown: Unknown::default(),
    }
}

fn domain() -> Domain {
    Domain {
        name: DomainName::parse("cf-apps").unwrap(),
        expires_ns: Domain::NEVER_NS,
        unknown: Unknown::default(),
    }
}

/// In key order, as a scan gives them.
pub(crate) fn all_kinds() -> Vec<Entity> {
    vec![Entity::Actual(actual()), Entity::Desired(desired()), Entity::Domain(domain()), Entity::Task(task())]
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

/// The first, more often than any other.
fn number() -> impl Strategy<Value = DefinitionNumber> {
    prop_oneof![Just(1), 2..5u32, 1..=u32::MAX].prop_map(DefinitionNumber)
}

fn identifier() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(String::new()), 1 => text()]
}

/// What a record has beside what is known: mostly nothing, as in life.
fn extra() -> impl Strategy<Value = (Bytes, Vec<Carried>)> {
    // Field 32 and others far behind it: one byte of some value.
    let field = |(more, value): (u8, u8)| [0x82, 2 + more, 1, value];
    let unknown = prop::collection::vec((0..8u8, any::<u8>()).prop_map(field), 0..3);
    // For other versions than this, in the one order.
    let owner = (prop::sample::select(vec![1, 7, NUMBER.0 - 1, NUMBER.0 + 1]), "[a-b]{0,1}");
    let carried = prop::collection::btree_map(owner, bytes(), 0..3).prop_map(|entries| {
        entries.into_iter().map(|((version, record), fields)| Carried { version, record, fields }).collect()
    });
    let some = (unknown.prop_map(|fields| Bytes::from(fields.concat())), carried);
    prop_oneof![3 => Just((Bytes::new(), Vec::new())), 1 => some]
}

fn unknown_of(extras: impl IntoIterator<Item = (u32, (Bytes, Vec<Carried>))>) -> Extras {
    let mut noted = Extras::default();
    for (record, (unknown, carried)) in extras {
        noted.take_from(record, &mut Kept { message: records::Domain { carried, ..Default::default() }, unknown });
    }
    noted
}

prop_compose! {
    fn any_definition()(
        (number, identifier, resources, run_info) in (number(), identifier(), any_resources(), bytes()),
        (placement_tags, volume_drivers, log_guid, metrics_guid) in (texts(), texts(), text(), text()),
        routes in prop::option::of(prop::collection::btree_map(text(), bytes(), 0..3).prop_map(Into::into)),
    ) -> Definition {
        Definition {
            number, identifier, resources, placement_tags, volume_drivers, log_guid, metrics_guid, run_info, routes,
        }
    }
}

fn any_pause() -> impl Strategy<Value = Pause> {
    prop_oneof![Just(Pause::UntilResumed), Just(Pause::For(0)), any::<i64>().prop_map(Pause::For)]
}

prop_compose! {
    fn any_terms()(
        (in_flight, canaries) in (prop_oneof![0..4u32, any::<u32>()], any::<u32>()),
        canary_pause in any_pause(),
        (healthy_ns, instance_deadline_ns, deadline_ns, reverts) in any::<(i64, i64, i64, bool)>(),
    ) -> Terms {
        Terms { in_flight, canaries, canary_pause, healthy_ns, instance_deadline_ns, deadline_ns, reverts }
    }
}

prop_compose! {
    fn any_rollout()(
        (from, to, terms, why) in (number(), number(), any_terms(), text()),
        phase in prop::sample::select(Phase::ALL.to_vec()),
        (started_ns, phase_since_ns, held_ns, reverts, canaries_passed) in any::<(i64, i64, i64, bool, bool)>(),
        flights in prop::collection::btree_map(any::<i32>(), any::<i64>(), 0..4),
    ) -> Rollout {
        let flights = flights.into_iter().map(|(index, begun_ns)| Flight { index, begun_ns });
        Rollout {
            flights: flights.take(terms.in_flight.max(1) as usize).collect(),
            from, to, terms, started_ns, phase, phase_since_ns, held_ns, reverts, why, canaries_passed,
        }
    }
}

fn any_older(count: Range<usize>) -> impl Strategy<Value = Vec<Arc<Definition>>> {
    prop::collection::vec(any_definition().prop_map(Arc::new), count)
}

prop_compose! {
    fn any_history()(
        made in any::<u32>(),
        older in prop_oneof![4 => any_older(0..3), 1 => any_older(0..OLDER_MAX + 1)],
        rollout in prop::option::of(any_rollout()),
    ) -> History {
        History { made, older, rollout }
    }
}

/// A history as a DesiredLRP with these definitions can have it: no number is there twice, and a rollout that is not over
/// leads from the one to the other.
fn fitted(mut history: History, definition: DefinitionNumber, previous: Option<DefinitionNumber>) -> History {
    let mut taken: BTreeSet<_> = previous.into_iter().chain([definition]).collect();
    history.older.retain(|kept| taken.insert(kept.number));
    if let Some(rollout) = history.rollout.as_mut().filter(|rollout| !rollout.is_over()) {
        match previous {
            Some(previous) => (rollout.from, rollout.to) = (previous, definition),
            None => rollout.phase = Phase::Done,
        }
    }
    history
}

prop_compose! {
    pub(crate) fn any_desired()(
        (guid, name) in (id(), id()),
        (log_guid, annotation, metrics_guid, username, password) in (text(), text(), text(), text(), text()),
        (instances, strategy) in any::<(i32, i32)>(),
        (resources, tag, run_info) in (any_resources(), any_tag(), bytes()),
        (placement_tags, volume_drivers) in (texts(), texts()),
        routes in prop::collection::btree_map(text(), bytes(), 0..3).prop_map(Into::into),
        metric_tags in prop::collection::btree_map(text(), any_metric_tag(), 0..3).prop_map(Into::into),
        (definition, definition_identifier) in (number(), identifier()),
        previous in prop::option::of(any_definition()),
        history in prop::option::of(any_history()),
        (first, second, third, others) in (extra(), extra(), extra(), prop::collection::vec(extra(), OLDER_MAX)),
    ) -> DesiredLrp {
        let previous = previous.filter(|previous: &Definition| previous.number != definition);
        let history = history.map(|history| fitted(history, definition, previous.as_ref().map(|one| one.number)));
        let mut extras = vec![(SCHEDULE, first), (definition.0, second)];
        extras.extend(previous.iter().map(|previous| (previous.number.0, third.clone())));
        let older = history.iter().flat_map(|history| &history.older);
        extras.extend(older.zip(others).map(|(kept, extra)| (kept.number.0, extra)));
        let extras = unknown_of(extras);
        let (previous, history) = (previous.map(Arc::new), history.map(Arc::new));
        DesiredLrp {
            process_guid: ProcessGuid::parse(&guid).unwrap(),
            domain: DomainName::parse(&name).unwrap(),
            update_strategy: UpdateStrategy(strategy),
            image_credentials: ImageCredentials { username, password },
            log_guid, annotation, instances, resources, placement_tags, volume_drivers, routes, metric_tags,
            metrics_guid, tag, run_info,
            unknown: extras.packed(),
            definition, definition_identifier, previous, history,
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
        (definition, leaving, extra) in (number(), prop::bool::weighted(0.3), extra()),
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
            definition, leaving,
            unknown: unknown_of([(ONLY, extra)]).packed(),
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
        extra in extra(),
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
            unknown: unknown_of([(ONLY, extra)]).packed(),
        }
    }
}

pub(crate) fn any_entity() -> BoxedStrategy<Entity> {
    // Boxed, because the parts of all kinds together would fill the stack of a test.
    prop_oneof![
        any_desired().boxed().prop_map(Entity::Desired),
        any_actual().boxed().prop_map(Entity::Actual),
        any_task().boxed().prop_map(Entity::Task),
        (id(), any::<i64>(), extra()).prop_map(|(name, expires_ns, extra)| {
            Entity::Domain(Domain {
                name: DomainName::parse(&name).unwrap(),
                expires_ns,
                unknown: unknown_of([(ONLY, extra)]).packed(),
            })
        }),
    ]
    .boxed()
}
