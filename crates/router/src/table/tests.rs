//! Hosts and paths, turns, age and silence.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::silence::Silence;

fn message(uris: &[&str], port: u16, instance: &str) -> RegistryMessage {
    RegistryMessage {
        host: "10.0.0.1".into(),
        port,
        uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
        app: "app".into(),
        private_instance_id: instance.into(),
        private_instance_index: port.to_string(),
        ..RegistryMessage::default()
    }
}

fn table() -> Table {
    Table::new(&Config::default())
}

fn chosen(choice: &Choice) -> String {
    match choice {
        Choice::Endpoint(endpoint) => endpoint.identity.instance_id.clone(),
        Choice::UnknownRoute => "unknown".to_owned(),
        Choice::NoEndpoints => "none".to_owned(),
    }
}

fn ask(table: &Table, host: &str, path: &str) -> String {
    chosen(&table.choose(host, path, None, &[], Instant::now()))
}

#[tokio::test]
async fn the_longest_path_and_the_nearest_host_win() {
    let (mut table, now) = (table(), Instant::now());
    for (uri, instance) in [
        ("a.com", "root"),
        ("A.com/shop/", "shop"),
        ("a.com/shop/cart", "cart"),
        ("*.a.com", "wild"),
        ("*.b.a.com/x", "wilder"),
    ] {
        table.register(&message(&[uri], 1, instance), now);
    }
    let rows = [
        ("a.com", "/", "root"),
        ("a.com", "/shop", "shop"),
        ("a.com", "/shopping", "root"),
        ("a.com", "/shop/list", "shop"),
        ("a.com", "/shop/cart/1", "cart"),
        ("c.a.com", "/shop", "wild"),
        ("c.b.a.com", "/x/y", "wilder"),
        ("c.b.a.com", "/y", "wild"),
        ("com", "/", "unknown"),
        ("b.com", "/", "unknown"),
    ];
    for (host, path, expected) in rows {
        assert_eq!(ask(&table, host, path), expected, "{host}{path}");
    }
    assert_eq!(table.route_count(), 5);
}

#[tokio::test]
async fn everybody_gets_a_turn_and_those_who_failed_wait() {
    let (mut table, now) = (table(), Instant::now());
    for (port, instance) in [(1, "a"), (2, "b"), (3, "c")] {
        table.register(&message(&["x"], port, instance), now);
    }
    let round: Vec<_> = (0..6).map(|_| ask(&table, "x", "/")).collect();
    assert_eq!(round, ["a", "b", "c", "a", "b", "c"]);
    let Choice::Endpoint(a) = table.choose("x", "/", None, &[], now) else { panic!("there are three") };
    a.fail(now);
    assert!((0..6).all(|_| ask(&table, "x", "/") != "a"));
    let Choice::Endpoint(other) = table.choose("x", "/", None, std::slice::from_ref(&a), now) else {
        panic!("two are left")
    };
    let Choice::Endpoint(third) = table.choose("x", "/", None, &[a.clone(), other.clone()], now) else {
        panic!("one is left")
    };
    other.fail(now);
    third.fail(now);
    // All have failed: better a bad one than none.
    assert_ne!(ask(&table, "x", "/"), "none");
    assert_eq!(chosen(&table.choose("x", "/", None, &[a.clone(), other, third], now)), "none");
    a.recover();
    assert!((0..3).all(|_| ask(&table, "x", "/") == "a"));
}

#[tokio::test]
async fn the_least_busy_is_chosen_where_the_route_says_so() {
    let (mut table, now) = (table(), Instant::now());
    let options = serde_json::json!({"loadbalancing": "least-connection"});
    for (port, instance) in [(1, "a"), (2, "b")] {
        table.register(&RegistryMessage { options: Some(options.clone()), ..message(&["x"], port, instance) }, now);
    }
    let Choice::Endpoint(first) = table.choose("x", "/", None, &[], now) else { panic!("there are two") };
    let busy = crate::endpoint::InFlight::new(first.clone());
    assert!((0..5).all(|_| ask(&table, "x", "/") != first.identity.instance_id));
    drop(busy);
    assert_eq!(first.in_flight(), 0);
}

#[tokio::test]
async fn a_request_may_insist_on_an_instance() {
    let (mut table, now) = (table(), Instant::now());
    table.register(&message(&["x"], 1, "a"), now);
    table.register(&message(&["x"], 2, "b"), now);
    let wish = |app: &str, index: &str| Wish { app: app.into(), index: index.into() };
    for (wish, expected) in [(wish("app", "2"), "b"), (wish("app", "3"), "none"), (wish("other", "2"), "none")] {
        assert_eq!(chosen(&table.choose("x", "/", Some(&wish), &[], now)), expected);
    }
}

#[tokio::test]
async fn late_news_of_a_former_instance_says_nothing_about_the_new_one() {
    let (mut table, now) = (table(), Instant::now());
    table.register(&message(&["x"], 1, "old"), now);
    let Choice::Endpoint(old) = table.choose("x", "/", None, &[], now) else { panic!("it is registered") };
    table.register(&message(&["x"], 1, "new"), now);
    table.unregister(&message(&["x"], 1, "old"), now);
    assert_eq!(ask(&table, "x", "/"), "new");
    table.register(&message(&["x"], 1, "new"), now);
    let Choice::Endpoint(new) = table.choose("x", "/", None, &[], now) else { panic!("it is registered") };
    assert!(!Arc::ptr_eq(&old, &new));
    table.unregister(&RegistryMessage { private_instance_id: String::new(), ..message(&["x"], 1, "") }, now);
    assert_eq!(ask(&table, "x", "/"), "none");
}

fn check_age(table: &mut Table, now: Instant, expected: &Expect) {
    let pruned = table.prune(now);
    expected.assert_eq(&format!("pruned {pruned}, x: {}, y: {}\n", ask(table, "x", "/"), ask(table, "y", "/")));
}

#[tokio::test]
async fn what_is_not_registered_again_is_forgotten_and_its_route_a_little_later() {
    let (mut table, start) = (table(), Instant::now());
    let at = |s: u64| start + Duration::from_secs(s);
    table.register(&message(&["x", "y"], 1, "a"), start);
    table.register(&RegistryMessage { stale_threshold_in_seconds: 10, ..message(&["x"], 2, "b") }, start);
    check_age(
        &mut table,
        at(10),
        &expect![[r#"
        pruned 0, x: a, y: a
    "#]],
    );
    check_age(
        &mut table,
        at(11),
        &expect![[r#"
        pruned 1, x: a, y: a
    "#]],
    );
    table.register(&message(&["x"], 1, "a"), at(100));
    check_age(
        &mut table,
        at(121),
        &expect![[r#"
        pruned 1, x: a, y: none
    "#]],
    );
    check_age(
        &mut table,
        at(152),
        &expect![[r#"
        pruned 0, x: a, y: unknown
    "#]],
    );
    table.refresh(at(230));
    check_age(
        &mut table,
        at(240),
        &expect![[r#"
        pruned 0, x: a, y: unknown
    "#]],
    );
    check_age(
        &mut table,
        at(351),
        &expect![[r#"
        pruned 1, x: none, y: unknown
    "#]],
    );
}

#[tokio::test]
async fn nothing_is_forgotten_while_nobody_is_heard() {
    let start = Instant::now();
    let at = |s: u64| start + Duration::from_secs(s);
    let mut silence = Silence::new(Duration::from_secs(120), true, start);
    assert!(!silence.lasts(at(60)));
    assert!(!silence.heard(at(60)), "it was never silent");
    assert!(silence.lasts(at(121)));
    assert!(silence.heard(at(500)), "the first word after a silence");
    assert!(!silence.heard(at(501)));
    silence.connected(false);
    assert!(silence.lasts(at(502)));
    assert!(silence.heard(at(503)));
    assert!(!silence.lasts(at(504)));
}

proptest! {
    #[test]
    fn whatever_is_registered_is_found_until_it_is_unregistered(uri in "[^/?]{1,20}(/.{0,20})?", other in ".{0,30}") {
        let (mut table, now) = (table(), Instant::now());
        table.register(&message(&[&uri, &other], 1, "a"), now);
        let (host, path) = split(&uri);
        let found = table.choose(&host, &path, None, &[], now);
        prop_assert_eq!(chosen(&found), "a");
        table.unregister(&message(&[&uri, &other], 1, "a"), now);
        prop_assert_eq!(table.endpoint_count(), 0);
        prop_assert_eq!(chosen(&table.choose(&host, &path, None, &[], now)), "none");
    }
}
