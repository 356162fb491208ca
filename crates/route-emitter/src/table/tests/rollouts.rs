//! Updates: for a while an index has two instances, with ports and routes of their own.

use super::*;

/// All kinds of routes, all to one port.
fn all_routes(name: &str, port: u16, external_port: u16) -> Option<ProtoRoutes> {
    routes(&[
        ("cf-router", format!(r#"[{{"hostnames":["{name}.com"],"port":{port}}}]"#)),
        ("internal-router", format!(r#"[{{"hostname":"{name}.internal"}}]"#)),
        (
            "tcp-router",
            format!(r#"[{{"router_group_guid":"g","external_port":{external_port},"container_port":{port}}}]"#),
        ),
    ])
}

fn tagged(index: u32, lrp: DesiredLrp) -> DesiredLrp {
    DesiredLrp { modification_tag: Some(ModificationTag { epoch: "d-pg".into(), index }), ..lrp }
}

/// Definition 1: port 8080 under `old`. Definition 2: port 9090 under `new`.
fn first() -> DesiredLrp {
    DesiredLrp { routes: all_routes("old", 8080, 1080), ..desired("pg", &[], 2, 0) }
}

fn during_update(index: u32) -> DesiredLrp {
    let update = DesiredLrp {
        routes: all_routes("new", 9090, 1090),
        definition_number: 2,
        previous_definition_number: 1,
        previous_routes: first().routes,
        ..first()
    };
    tagged(index, update)
}

fn after_update(index: u32) -> DesiredLrp {
    let done = DesiredLrp { previous_definition_number: 0, previous_routes: None, ..during_update(index) };
    tagged(index, done)
}

fn taken_back(index: u32) -> DesiredLrp {
    let back = DesiredLrp {
        definition_number: 0,
        previous_definition_number: 2,
        previous_routes: during_update(index).routes,
        ..first()
    };
    tagged(index, back)
}

fn old() -> ActualLrp {
    running("pg", 0, "a")
}

fn leaving() -> ActualLrp {
    later(ActualLrp { presence: Presence::Evacuating as i32, leaving: true, ..old() })
}

/// The record of the index with the other definition, before a cell has it.
fn awaited() -> ActualLrp {
    ActualLrp { definition_number: 2, ..unclaimed("pg", 0) }
}

fn new() -> ActualLrp {
    let mut lrp = later(ActualLrp {
        modification_tag: unclaimed("pg", 0).modification_tag,
        definition_number: 2,
        ..running("pg", 0, "b")
    });
    lrp.actual_lrp_net_info.as_mut().unwrap().ports[0].container_port = 9090;
    lrp
}

fn stays() -> ActualLrp {
    later(ActualLrp { presence: Presence::Ordinary as i32, leaving: false, ..leaving() })
}

fn told(changes: &Changes) -> String {
    shown(changes).lines().map(|line| format!("    {line}\n")).collect()
}

/// One update from beginning to end, as events tell it.
fn update() -> Vec<(&'static str, EventPayload)> {
    vec![
        ("the process is wanted", wanted(first())),
        ("an instance runs", created(old())),
        ("a new definition", updated(first(), during_update(1))),
        ("the instance leaves", changed(&old(), &leaving())),
        ("another is wanted", created(awaited())),
        ("it runs", changed(&awaited(), &new())),
    ]
}

fn play(table: &mut Table, events: Vec<(&'static str, EventPayload)>) -> String {
    events.into_iter().map(|(what, event)| format!("{what}\n{}", told(&table.apply(event)))).collect()
}

#[test]
fn both_instances_of_an_index_are_routed_each_by_its_definition_and_until_it_is_gone() {
    let mut table = Table::new(RULES, None);
    let mut events = update();
    events.extend([
        ("it has proven itself", removed(leaving())),
        ("the update is complete", updated(during_update(1), after_update(2))),
    ]);
    expect![[r#"
        the process is wanted
        an instance runs
            + old.com 10.0.0.5:61097 a[0]
            + old.internal,0.old.internal 10.255.1.2:0 [0]
        a new definition
        the instance leaves
        another is wanted
        it runs
            + new.com 10.0.0.5:61098 b[0]
            + new.internal,0.new.internal 10.255.1.2:0 [0]
        it has proven itself
            - old.com 10.0.0.5:61097 a[0]
            - old.internal,0.old.internal 10.255.1.2:0 [0]
        the update is complete
    "#]]
    .assert_eq(&play(&mut table, events));
}

#[test]
fn an_update_that_is_taken_back_leaves_the_instance_that_was_there() {
    let mut table = Table::new(RULES, None);
    let mut events = update();
    events.extend([
        ("it is taken back", updated(during_update(1), taken_back(2))),
        ("the old one stays", created(stays())),
        ("the new one goes", removed(new())),
        ("the old record of the old one goes", removed(leaving())),
    ]);
    let text = play(&mut table, events);
    let end = text.split_once("it is taken back").unwrap().1;
    expect![[r#"

        the old one stays
        the new one goes
            - new.com 10.0.0.5:61098 b[0]
            - new.internal,0.new.internal 10.255.1.2:0 [0]
        the old record of the old one goes
    "#]]
    .assert_eq(end);
    assert_eq!(table.rows().count(), 2);
}

/// A listing in the middle says the same as the events before it.
#[test]
fn a_listing_tells_the_two_apart_as_events_do() {
    let mut table = Table::new(RULES, None);
    play(&mut table, update());
    let both = || listing(&[during_update(1)], &[leaving(), new()], &["cf-apps"]);
    swapped(&mut table, both(), vec![], &expect![""]);
    let mut fresh = Table::new(RULES, None);
    swapped(
        &mut fresh,
        both(),
        vec![],
        &expect![[r#"
        + new.com 10.0.0.5:61098 b[0]
        + old.com 10.0.0.5:61097 a[0]
        + new.internal,0.new.internal 10.255.1.2:0 [0]
        + old.internal,0.old.internal 10.255.1.2:0 [0]
    "#]],
    );
    assert_eq!(table, fresh);
    // The index is listed, without the one that left.
    swapped(
        &mut fresh,
        listing(&[during_update(1)], &[new()], &["cf-apps"]),
        vec![],
        &expect![[r#"
        - old.com 10.0.0.5:61097 a[0]
        - old.internal,0.old.internal 10.255.1.2:0 [0]
    "#]],
    );
    // Nothing is said of the index.
    swapped(&mut table, listing(&[during_update(1)], &[], &["cf-apps"]), vec![], &expect![""]);
}

#[test]
fn each_instance_is_routed_by_the_definition_that_it_names() {
    let number = |definition_number| ActualLrp { definition_number, ..old() };
    let same_routes = DesiredLrp { previous_routes: None, ..during_update(1) };
    let no_routes = DesiredLrp { previous_routes: Some(ProtoRoutes::default()), ..during_update(1) };
    let mut text = String::new();
    for (record, desired) in [
        ("an update with other routes", during_update(1)),
        ("an update with the same routes", same_routes),
        ("an update of what had no routes", no_routes),
        ("an update that is taken back", taken_back(1)),
        ("no update", after_update(1)),
        ("no definition but the first", first()),
    ] {
        for (named, instance) in [("1, unsaid", number(0)), ("1", number(1)), ("2", number(2)), ("9", number(9))] {
            let mut instance = instance;
            // Reachable at both ports, so that the routes alone decide.
            let ports = &mut instance.actual_lrp_net_info.as_mut().unwrap().ports;
            ports.push(PortMapping { container_port: 9090, host_port: 9, ..ports[0] });
            let mut table = Table::new(RULES, None);
            table.apply(wanted(desired.clone()));
            let changes = table.apply(created(instance));
            let hosts: Vec<String> = changes.register.iter().map(|row| row.message.uris[0].clone()).collect();
            let tcp: Vec<u32> = table.tcp_mappings().map(|mapping| mapping.external_port).collect();
            text.push_str(&format!("{record}, instance of {named}: {} {tcp:?}\n", hosts.join(" ")));
        }
    }
    expect![[r#"
        an update with other routes, instance of 1, unsaid: old.com old.internal [1080]
        an update with other routes, instance of 1: old.com old.internal [1080]
        an update with other routes, instance of 2: new.com new.internal [1090]
        an update with other routes, instance of 9: new.com new.internal [1090]
        an update with the same routes, instance of 1, unsaid: new.com new.internal [1090]
        an update with the same routes, instance of 1: new.com new.internal [1090]
        an update with the same routes, instance of 2: new.com new.internal [1090]
        an update with the same routes, instance of 9: new.com new.internal [1090]
        an update of what had no routes, instance of 1, unsaid:  []
        an update of what had no routes, instance of 1:  []
        an update of what had no routes, instance of 2: new.com new.internal [1090]
        an update of what had no routes, instance of 9: new.com new.internal [1090]
        an update that is taken back, instance of 1, unsaid: old.com old.internal [1080]
        an update that is taken back, instance of 1: old.com old.internal [1080]
        an update that is taken back, instance of 2: new.com new.internal [1090]
        an update that is taken back, instance of 9: old.com old.internal [1080]
        no update, instance of 1, unsaid: new.com new.internal [1090]
        no update, instance of 1: new.com new.internal [1090]
        no update, instance of 2: new.com new.internal [1090]
        no update, instance of 9: new.com new.internal [1090]
        no definition but the first, instance of 1, unsaid: old.com old.internal [1080]
        no definition but the first, instance of 1: old.com old.internal [1080]
        no definition but the first, instance of 2: old.com old.internal [1080]
        no definition but the first, instance of 9: old.com old.internal [1080]
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_cell_routes_what_leaves_it_until_the_record_is_gone() {
    let mut elsewhere = new();
    elsewhere.actual_lrp_instance_key.as_mut().unwrap().cell_id = "cell-2".into();
    let mut table = Table::new(RULES, Some("cell-1".into()));
    table.apply(created(old()));
    table.desire(Desired::of(first()));
    for event in [
        updated(first(), during_update(1)),
        changed(&old(), &leaving()),
        created(awaited()),
        changed(&awaited(), &elsewhere),
    ] {
        check(&mut table, event, &expect![""]);
    }
    let both = listing(&[during_update(1)], &[leaving(), elsewhere.clone()], &["cf-apps"]);
    swapped(&mut table, both, vec![], &expect![""]);
    // It went while nobody listened: the server says that the index is elsewhere.
    let gone = listing(&[during_update(1)], &[elsewhere], &["cf-apps"]);
    swapped(
        &mut table,
        gone,
        vec![],
        &expect![[r#"
        - old.com 10.0.0.5:61097 a[0]
        - old.internal,0.old.internal 10.255.1.2:0 [0]
    "#]],
    );
}
