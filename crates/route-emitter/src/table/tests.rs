//! The table row by row, and its promises over generated histories.

mod history;
mod properties;
mod rollouts;

use std::collections::BTreeMap;

use api::models::actual_lrp::Presence;
use api::models::{
    ActualLrp, ActualLrpInfo, ActualLrpInstanceChangedEvent, ActualLrpInstanceCreatedEvent, ActualLrpInstanceKey,
    ActualLrpInstanceRemovedEvent, ActualLrpKey, ActualLrpNetInfo, DesiredLrp, DesiredLrpChangedEvent,
    DesiredLrpCreatedEvent, DesiredLrpRemovedEvent, MetricTagValue, ModificationTag, PortMapping, ProtoRoutes,
};
use expect_test::{Expect, expect};

use super::*;

const RULES: Rules = Rules { direct_instance_routes: false, internal_routes: true };

fn routes(pairs: &[(&str, String)]) -> Option<ProtoRoutes> {
    let routes = pairs.iter().map(|(name, json)| ((*name).to_owned(), json.clone().into_bytes())).collect();
    Some(ProtoRoutes { routes })
}

/// A desired LRP with HTTP routes for port 8080.
fn desired(guid: &str, hostnames: &[&str], instances: i32, index: u32) -> DesiredLrp {
    let names: Vec<String> = hostnames.iter().map(|name| format!("{name:?}")).collect();
    DesiredLrp {
        process_guid: guid.into(),
        domain: "cf-apps".into(),
        log_guid: format!("log-{guid}"),
        instances,
        routes: routes(&[("cf-router", format!("[{{\"hostnames\":[{}],\"port\":8080}}]", names.join(",")))]),
        modification_tag: Some(ModificationTag { epoch: format!("d-{guid}"), index }),
        ..DesiredLrp::default()
    }
}

/// A running instance on a host and port of its own.
fn running(guid: &str, index: i32, instance: &str) -> ActualLrp {
    let port = 61000 + instance.bytes().map(u32::from).sum::<u32>() % 500;
    ActualLrp {
        actual_lrp_key: Some(ActualLrpKey { process_guid: guid.into(), index, domain: "cf-apps".into() }),
        actual_lrp_instance_key: Some(ActualLrpInstanceKey {
            instance_guid: instance.into(),
            cell_id: "cell-1".into(),
        }),
        actual_lrp_net_info: Some(ActualLrpNetInfo {
            address: "10.0.0.5".into(),
            instance_address: "10.255.1.2".into(),
            ports: vec![PortMapping {
                container_port: 8080,
                host_port: port,
                container_tls_proxy_port: 61001,
                host_tls_proxy_port: 0,
            }],
            ..ActualLrpNetInfo::default()
        }),
        state: "RUNNING".into(),
        since: 1,
        modification_tag: Some(ModificationTag { epoch: instance.into(), index: 1 }),
        ..ActualLrp::default()
    }
}

fn evacuating(lrp: ActualLrp) -> ActualLrp {
    let tag = ModificationTag { epoch: "evacuation".into(), index: 0 };
    ActualLrp { presence: Presence::Evacuating as i32, modification_tag: Some(tag), since: 2, ..lrp }
}

/// A record that nobody runs.
fn unclaimed(guid: &str, index: i32) -> ActualLrp {
    ActualLrp {
        state: "UNCLAIMED".into(),
        actual_lrp_instance_key: None,
        actual_lrp_net_info: None,
        modification_tag: Some(ModificationTag { epoch: format!("u-{guid}-{index}"), index: 0 }),
        ..running(guid, index, "")
    }
}

fn later(lrp: ActualLrp) -> ActualLrp {
    let mut tag = lrp.modification_tag.clone().unwrap();
    tag.index += 1;
    ActualLrp { modification_tag: Some(tag), ..lrp }
}

fn info(lrp: &ActualLrp) -> ActualLrpInfo {
    ActualLrpInfo {
        actual_lrp_net_info: lrp.actual_lrp_net_info.clone(),
        state: lrp.state.clone(),
        since: lrp.since,
        modification_tag: lrp.modification_tag.clone(),
        presence: lrp.presence,
        routable: lrp.routable,
        availability_zone: lrp.availability_zone.clone(),
        definition_number: lrp.definition_number,
        leaving: lrp.leaving,
        ..ActualLrpInfo::default()
    }
}

fn wanted(lrp: DesiredLrp) -> EventPayload {
    EventPayload::DesiredLrpCreated(DesiredLrpCreatedEvent { desired_lrp: Some(lrp), ..Default::default() })
}

fn updated(before: DesiredLrp, after: DesiredLrp) -> EventPayload {
    let (before, after) = (Some(before), Some(after));
    EventPayload::DesiredLrpChanged(DesiredLrpChangedEvent { before, after, ..Default::default() })
}

fn unwanted(lrp: DesiredLrp) -> EventPayload {
    EventPayload::DesiredLrpRemoved(DesiredLrpRemovedEvent { desired_lrp: Some(lrp), ..Default::default() })
}

fn created(lrp: ActualLrp) -> EventPayload {
    EventPayload::ActualLrpInstanceCreated(ActualLrpInstanceCreatedEvent {
        actual_lrp: Some(lrp),
        ..Default::default()
    })
}

/// As the server tells it: the instance is that of the record after the change, or else the one before.
fn changed(before: &ActualLrp, after: &ActualLrp) -> EventPayload {
    EventPayload::ActualLrpInstanceChanged(ActualLrpInstanceChangedEvent {
        actual_lrp_key: after.actual_lrp_key.clone(),
        actual_lrp_instance_key: after.actual_lrp_instance_key.clone().or(before.actual_lrp_instance_key.clone()),
        before: Some(info(before)),
        after: Some(info(after)),
        ..Default::default()
    })
}

fn removed(lrp: ActualLrp) -> EventPayload {
    EventPayload::ActualLrpInstanceRemoved(ActualLrpInstanceRemovedEvent {
        actual_lrp: Some(lrp),
        ..Default::default()
    })
}

fn listing(desired: &[DesiredLrp], actual: &[ActualLrp], fresh: &[&str]) -> Listing {
    Listing {
        desired: desired.iter().cloned().map(Desired::of).collect(),
        actual: actual.to_vec(),
        fresh: fresh.iter().map(|domain| (*domain).to_owned()).collect(),
    }
}

fn shown(changes: &Changes) -> String {
    let line = |sign: &str, row: &Row| {
        let m = &row.message;
        format!(
            "{sign} {} {}:{} {}[{}]\n",
            m.uris.join(","),
            m.host,
            m.port,
            m.private_instance_id,
            m.private_instance_index
        )
    };
    let new = changes.register.iter().map(|row| line("+", row));
    new.chain(changes.unregister.iter().map(|row| line("-", row))).collect()
}

/// One process `pg` with one hostname and instance `a`, over which rows are tried.
fn one_route() -> Table {
    let mut table = Table::new(RULES, None);
    table.apply(wanted(desired("pg", &["x.com"], 2, 0)));
    table.apply(created(running("pg", 0, "a")));
    table
}

fn check(table: &mut Table, event: EventPayload, expected: &Expect) {
    expected.assert_eq(&shown(&table.apply(event)));
}

#[test]
fn a_route_needs_both_a_wish_and_an_instance() {
    let mut table = Table::new(RULES, None);
    check(&mut table, created(running("pg", 0, "a")), &expect![""]);
    assert_eq!(table.without_desired().collect::<Vec<_>>(), ["pg"]);
    check(
        &mut table,
        wanted(desired("pg", &["x.com", "y.com"], 1, 0)),
        &expect![[r#"
        + x.com 10.0.0.5:61097 a[0]
        + y.com 10.0.0.5:61097 a[0]
    "#]],
    );
    assert_eq!(table.without_desired().count(), 0);
    check(
        &mut table,
        removed(running("pg", 0, "a")),
        &expect![[r#"
        - x.com 10.0.0.5:61097 a[0]
        - y.com 10.0.0.5:61097 a[0]
    "#]],
    );
    assert_eq!(table.row_count(), 0);
}

#[test]
fn only_instances_that_run_and_want_requests_are_routed() {
    let mut table = one_route();
    let shy = ActualLrp { routable: Some(false), ..running("pg", 1, "b") };
    let open = later(ActualLrp { routable: Some(true), ..shy.clone() });
    let shy_again = later(ActualLrp { routable: Some(false), ..open.clone() });
    check(&mut table, created(shy.clone()), &expect![""]);
    check(
        &mut table,
        changed(&shy, &open),
        &expect![[r#"
        + x.com 10.0.0.5:61098 b[1]
    "#]],
    );
    check(
        &mut table,
        changed(&open, &shy_again),
        &expect![[r#"
        - x.com 10.0.0.5:61098 b[1]
    "#]],
    );
    let claimed = ActualLrp { state: "CLAIMED".into(), ..running("pg", 1, "c") };
    check(&mut table, created(claimed.clone()), &expect![""]);
    check(
        &mut table,
        changed(&claimed, &later(running("pg", 1, "c"))),
        &expect![[r#"
        + x.com 10.0.0.5:61099 c[1]
    "#]],
    );
    let crashed =
        later(later(ActualLrp { state: "CRASHED".into(), actual_lrp_instance_key: None, ..running("pg", 1, "c") }));
    check(
        &mut table,
        changed(&later(running("pg", 1, "c")), &crashed),
        &expect![[r#"
        - x.com 10.0.0.5:61099 c[1]
    "#]],
    );
}

#[test]
fn evacuation_says_nothing_until_the_replacement_runs() {
    let mut table = one_route();
    let (old, leaving) = (running("pg", 0, "a"), evacuating(running("pg", 0, "a")));
    check(&mut table, changed(&old, &leaving), &expect![""]);
    check(&mut table, created(unclaimed("pg", 0)), &expect![""]);
    let new = later(ActualLrp { modification_tag: unclaimed("pg", 0).modification_tag, ..running("pg", 0, "b") });
    check(
        &mut table,
        changed(&unclaimed("pg", 0), &new),
        &expect![[r#"
        + x.com 10.0.0.5:61098 b[0]
    "#]],
    );
    assert_eq!(table.row_count(), 2, "both instances of the index are routed");
    check(
        &mut table,
        removed(leaving),
        &expect![[r#"
        - x.com 10.0.0.5:61097 a[0]
    "#]],
    );
}

#[test]
fn an_instance_that_is_listed_twice_is_one_row_and_stays_while_either_record_does() {
    let mut table = one_route();
    check(&mut table, created(evacuating(running("pg", 0, "a"))), &expect![""]);
    check(&mut table, removed(running("pg", 0, "a")), &expect![""]);
    assert_eq!(table.row_count(), 1);
}

#[test]
fn internal_routes_name_the_index_too() {
    let mut table = Table::new(RULES, None);
    let internal = routes(&[("internal-router", r#"[{"hostname":"x.internal"}]"#.into())]);
    table.apply(wanted(DesiredLrp { routes: internal, ..desired("pg", &[], 2, 0) }));
    table.apply(created(running("pg", 0, "a")));
    check(
        &mut table,
        created(running("pg", 1, "b")),
        &expect![[r#"
            + x.internal,1.x.internal 10.255.1.2:0 [1]
        "#]],
    );
    assert_eq!(table.row_count(), 2);
    let without = Table::new(Rules::default(), None);
    assert_eq!(Table { processes: table.processes, ..without }.rows().count(), 0, "they are a setting");
}

#[test]
fn routes_come_and_go_with_the_wish() {
    let mut table = one_route();
    let (first, second) = (desired("pg", &["x.com"], 2, 0), desired("pg", &["y.com", "x.com"], 2, 1));
    check(
        &mut table,
        updated(first.clone(), second.clone()),
        &expect![[r#"
        + y.com 10.0.0.5:61097 a[0]
    "#]],
    );
    check(
        &mut table,
        updated(second.clone(), desired("pg", &["y.com"], 2, 2)),
        &expect![[r#"
        - x.com 10.0.0.5:61097 a[0]
    "#]],
    );
    check(&mut table, updated(first, second), &expect![""]);
    check(&mut table, unwanted(desired("pg", &["y.com"], 2, 1)), &expect![""]);
    check(
        &mut table,
        unwanted(desired("pg", &["y.com"], 2, 2)),
        &expect![[r#"
        - y.com 10.0.0.5:61097 a[0]
    "#]],
    );
}

#[test]
fn instances_beyond_the_desired_number_are_not_routed() {
    let mut table = one_route();
    check(
        &mut table,
        created(running("pg", 1, "b")),
        &expect![[r#"
        + x.com 10.0.0.5:61098 b[1]
    "#]],
    );
    check(&mut table, created(running("pg", 2, "c")), &expect![""]);
    check(
        &mut table,
        updated(DesiredLrp::default(), desired("pg", &["x.com"], 1, 1)),
        &expect![[r#"
        - x.com 10.0.0.5:61098 b[1]
    "#]],
    );
    check(
        &mut table,
        updated(DesiredLrp::default(), desired("pg", &["x.com"], 3, 2)),
        &expect![[r#"
        + x.com 10.0.0.5:61098 b[1]
        + x.com 10.0.0.5:61099 c[2]
    "#]],
    );
    check(&mut table, updated(DesiredLrp::default(), desired("pg", &["x.com"], 0, 3)), &expect![""]);
}

/// Diego's emitter registers the new row and then unregisters the old one, which a router takes for the same endpoint.
#[test]
fn a_row_that_only_says_something_else_is_registered_again_and_never_unregistered() {
    let mut table = one_route();
    let mut other = desired("pg", &["x.com"], 2, 1);
    other.routes = routes(&[("cf-router", r#"[{"hostnames":["x.com"],"port":8080,"protocol":"http2"}]"#.into())]);
    check(
        &mut table,
        updated(desired("pg", &["x.com"], 2, 0), other),
        &expect![[r#"
        + x.com 10.0.0.5:61097 a[0]
    "#]],
    );
}

#[test]
fn a_port_that_passed_to_another_process_stays_registered() {
    let mut table = one_route();
    table.apply(wanted(desired("green", &["x.com"], 1, 0)));
    let same_port =
        ActualLrp { actual_lrp_net_info: running("pg", 0, "a").actual_lrp_net_info, ..running("green", 0, "g") };
    check(
        &mut table,
        created(same_port),
        &expect![[r#"
        + x.com 10.0.0.5:61097 g[0]
    "#]],
    );
    check(&mut table, removed(running("pg", 0, "a")), &expect![""]);
    check(
        &mut table,
        unwanted(desired("green", &["x.com"], 1, 0)),
        &expect![[r#"
        - x.com 10.0.0.5:61097 g[0]
    "#]],
    );
}

#[test]
fn older_news_changes_nothing() {
    let mut table = one_route();
    let moved = |index| ActualLrp {
        modification_tag: Some(ModificationTag { epoch: "a".into(), index }),
        actual_lrp_net_info: running("pg", 0, "z").actual_lrp_net_info,
        ..running("pg", 0, "a")
    };
    for index in [0, 1] {
        check(&mut table, changed(&moved(index), &moved(index)), &expect![""]);
    }
    check(&mut table, removed(moved(0)), &expect![""]);
    check(
        &mut table,
        changed(&moved(1), &moved(2)),
        &expect![[r#"
        + x.com 10.0.0.5:61122 a[0]
        - x.com 10.0.0.5:61097 a[0]
    "#]],
    );
}

#[test]
fn everything_can_be_told_in_slices() {
    let mut table = Table::new(RULES, None);
    for guid in ["a", "b", "c", "d", "e"] {
        table.apply(wanted(desired(guid, &["x.com"], 1, 0)));
        table.apply(created(running(guid, 0, guid)));
    }
    for size in 1..7 {
        let (mut told, mut after) = (Vec::new(), Some(String::new()));
        while let Some(guid) = after {
            let (rows, next) = table.rows_after(&guid, size);
            assert!(rows.len() <= size);
            told.extend(rows);
            after = next;
        }
        assert_eq!(told, table.rows().collect::<Vec<_>>(), "slices of {size}");
    }
}

fn swapped(table: &mut Table, listing: Listing, events: Vec<EventPayload>, expected: &Expect) {
    expected.assert_eq(&match table.swap(listing, events) {
        Swap::Taken(changes) => shown(&changes),
        Swap::Refused => "refused\n".to_owned(),
    });
}

#[test]
fn a_listing_withdraws_only_what_it_speaks_of() {
    let fresh = ["cf-apps"];
    let want = || desired("pg", &["x.com"], 2, 0);
    let other = || desired("other", &["o.com"], 1, 0);
    swapped(&mut one_route(), listing(&[], &[], &[]), vec![], &expect!["refused\n"]);
    swapped(&mut one_route(), listing(&[], &[], &fresh), vec![], &expect!["refused\n"]);
    // Everything but our process.
    swapped(&mut one_route(), listing(&[other()], &[], &[]), vec![], &expect![""]);
    swapped(
        &mut one_route(),
        listing(&[other()], &[], &fresh),
        vec![],
        &expect![[r#"
        - x.com 10.0.0.5:61097 a[0]
    "#]],
    );
    // The process is there, but nothing is said of index 0.
    swapped(&mut one_route(), listing(&[want()], &[], &fresh), vec![], &expect![""]);
    swapped(
        &mut one_route(),
        listing(&[want()], &[running("pg", 1, "b")], &fresh),
        vec![],
        &expect![[r#"
        + x.com 10.0.0.5:61098 b[1]
    "#]],
    );
    swapped(
        &mut one_route(),
        listing(&[want()], &[unclaimed("pg", 0)], &fresh),
        vec![],
        &expect![[r#"
        - x.com 10.0.0.5:61097 a[0]
    "#]],
    );
    // Another instance took the place.
    swapped(
        &mut one_route(),
        listing(&[want()], &[running("pg", 0, "b")], &fresh),
        vec![],
        &expect![[r#"
        + x.com 10.0.0.5:61098 b[0]
        - x.com 10.0.0.5:61097 a[0]
    "#]],
    );
    // Routes of an incomplete domain stay, also when only the instances are listed.
    swapped(&mut one_route(), listing(&[], &[running("pg", 0, "a")], &[]), vec![], &expect![""]);
}

#[test]
fn events_that_came_during_a_listing_are_applied_to_it() {
    let mut table = one_route();
    let gone = removed(running("pg", 0, "a"));
    table.apply(gone.clone());
    let old_news = listing(&[desired("pg", &["x.com"], 2, 0)], &[running("pg", 0, "a")], &["cf-apps"]);
    swapped(&mut table, old_news, vec![gone], &expect![""]);
    assert_eq!(table.row_count(), 0);
}

#[test]
fn on_a_cell_only_its_own_instances_count() {
    let mut table = Table::new(RULES, Some("cell-1".into()));
    check(&mut table, wanted(desired("pg", &["x.com"], 2, 0)), &expect![""]);
    assert_eq!(table.held().len(), 0, "nobody here runs it");
    let mut elsewhere = running("pg", 1, "b");
    elsewhere.actual_lrp_instance_key.as_mut().unwrap().cell_id = "cell-2".into();
    check(&mut table, created(elsewhere.clone()), &expect![""]);
    check(&mut table, created(running("pg", 0, "a")), &expect![""]);
    expect![[r#"
        + x.com 10.0.0.5:61097 a[0]
    "#]]
    .assert_eq(&shown(&table.desire(Desired::of(desired("pg", &["x.com"], 2, 0)))));
    // The instance moved: its index is listed, on another cell.
    let mut moved = elsewhere;
    moved.actual_lrp_key.as_mut().unwrap().index = 0;
    swapped(
        &mut table,
        listing(&[desired("pg", &["x.com"], 2, 0)], &[moved], &[]),
        vec![],
        &expect![[r#"
        - x.com 10.0.0.5:61097 a[0]
    "#]],
    );
    assert_eq!(table.held().len(), 0);
}

#[test]
fn messages_are_diegos() {
    let mut table = Table::new(RULES, None);
    let dynamic = |dynamic: i32| MetricTagValue { dynamic, ..MetricTagValue::default() };
    let fixed = |text: &str| MetricTagValue { r#static: text.into(), ..MetricTagValue::default() };
    let http = r#"[{"hostnames":["a.example.com"],"port":8080,"route_service_url":"https://rs.example.com","isolation_segment":"iso","protocol":"http2","options":{"loadbalancing":"least-connection"}}]"#;
    let lrp = DesiredLrp {
        log_guid: "log-guid-1".into(),
        metric_tags: BTreeMap::from([
            ("app".into(), fixed("my-app")),
            ("idx".into(), dynamic(1)),
            ("ig".into(), dynamic(2)),
            ("source_id".into(), fixed("log-guid-1")),
        ])
        .into_iter()
        .collect(),
        routes: routes(&[
            ("cf-router", http.into()),
            ("internal-router", r#"[{"hostname":"a.apps.internal"}]"#.into()),
            ("tcp-router", r#"[{"router_group_guid":"tcp","external_port":1024,"container_port":8080}]"#.into()),
        ]),
        ..desired("pg-1", &[], 1, 0)
    };
    table.apply(wanted(lrp));
    let mut actual =
        ActualLrp { availability_zone: "z1".into(), since: 1_794_765_154_773_714_207, ..running("pg-1", 0, "ig-0") };
    let port = PortMapping {
        container_port: 8080,
        host_port: 61001,
        host_tls_proxy_port: 61002,
        container_tls_proxy_port: 61443,
    };
    actual.actual_lrp_net_info.as_mut().unwrap().ports = vec![port];
    let changes = table.apply(created(actual.clone()));
    assert!(changes.arrival);
    let text = |row: &Row| String::from_utf8(row.fresh_message().encode().to_vec()).unwrap();
    expect![[r#"{"host":"10.0.0.5","port":61001,"tls_port":61002,"uris":["a.example.com"],"protocol":"http2","app":"log-guid-1","route_service_url":"https://rs.example.com","private_instance_id":"ig-0","private_instance_index":"0","server_cert_domain_san":"ig-0","isolation_segment":"iso","endpoint_updated_at_ns":1794765154773714207,"tags":{"app":"my-app","component":"route-emitter","idx":"0","ig":"ig-0","source_id":"log-guid-1"},"availability_zone":"z1","options":{"loadbalancing":"least-connection"}}"#]]
        .assert_eq(&text(&changes.register[0]));
    expect![[r#"{"host":"10.255.1.2","port":0,"uris":["a.apps.internal","0.a.apps.internal"],"app":"log-guid-1","private_instance_index":"0","endpoint_updated_at_ns":1794765154773714207,"tags":{"component":"route-emitter"}}"#]]
        .assert_eq(&text(&changes.register[1]));
    expect![[r#"TcpMapping { router_group_guid: "tcp", external_port: 1024, host: "10.0.0.5", backend_port: 61001, backend_tls_port: 61002, instance_guid: "ig-0" }"#]]
        .assert_eq(&format!("{:?}", table.tcp_mappings().next().unwrap()));

    // Straight to the container, without options.
    let mut direct = later(actual.clone());
    direct.actual_lrp_net_info.as_mut().unwrap().preferred_address = 1;
    let changes = table.apply(changed(&actual, &direct));
    let m = &changes.register[0].message;
    assert_eq!((m.host.as_str(), m.port, m.tls_port, &m.options), ("10.255.1.2", 8080, 61443, &None));
    assert_eq!(changes.unregister.len(), 1);
}
