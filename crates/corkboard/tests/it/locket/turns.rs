//! Who serves, and when the other one does.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use api::locket::session::TTL;
use rig::proxy::Proxy;
use rustix::process::Signal;

use super::node::{Node, answer, free_address};
use super::world::{PATIENCE, World, until};

/// A node that waits asks every second; then it opens the store.
const AT_ONCE: Duration = Duration::from_secs(4);
/// The same after the former node was killed, and some time for a machine that is busy with other tests.
const AFTER_A_DEATH: Duration = Duration::from_secs(TTL.as_secs() + 2 + 3);

/// The first node serves, the second one waits.
fn pair(world: &World) -> (Node, Node) {
    let a = world.node("a");
    until("the first node serves", || a.serves());
    let b = world.node("b");
    until("the second node waits", || waits_for(&b).as_deref() == Some("owner-a"));
    (a, b)
}

/// Who has the lock that a node waits for.
fn waits_for(node: &Node) -> Option<String> {
    let (_, status) = node.health("/status")?;
    status["standby"]["waits_for_lock"]["owner"].as_str().map(str::to_owned)
}

fn set_domain(node: &Node, name: &str) {
    let outcome = node.command(&["set-domain", name]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

fn domains(node: &Node) -> Vec<String> {
    let outcome = node.command(&["domains"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    outcome.stdout.lines().map(|line| line.trim_matches('"').to_owned()).collect()
}

#[test]
fn one_waits_and_a_stop_hands_over_at_once() {
    let world = World::new();
    let (a, b) = pair(&world);
    assert_eq!(world.owner().as_deref(), Some("owner-a"));
    assert!(b.refuses_connections(), "clients move on to the next address");
    let (_, status) = b.health("/status").unwrap();
    let standby = &status["standby"];
    assert_eq!((status["phase"].as_str(), standby["waits_for_lock"]["name"].as_str()), (Some("waiting"), Some("bbs")));
    assert!(status["explanation"].as_str().unwrap().contains("waits for its lock in Locket"), "{status}");
    assert!(status["store"].is_null(), "only the node that has the lock opens the store: {status}");
    let (code, nodes) = b.health("/nodes").unwrap();
    assert_eq!(code, 503);
    assert!(nodes["message"].as_str().unwrap().contains("is with owner-a"), "{nodes}");
    let (code, nodes) = a.health("/nodes").unwrap();
    assert_eq!((code, nodes["master"].as_str()), (200, Some("a")), "{nodes}");

    set_domain(&a, "before");
    assert_eq!(a.terminate(), 0);
    let took = until("the second node serves", || b.serves());
    assert!(took < AT_ONCE, "{took:?}");
    assert_eq!(domains(&b), ["before"]);
    assert_eq!((world.owner().as_deref(), b.phase().as_str()), (Some("owner-b"), "serving"));
    assert_eq!(b.terminate(), 0);
    assert_eq!(world.owner(), None);
}

#[test]
fn a_node_that_waits_stops_when_asked() {
    let world = World::new();
    let (a, b) = pair(&world);
    assert_eq!(b.terminate(), 0);
    assert!(a.serves());
    assert_eq!(world.owner().as_deref(), Some("owner-a"));
}

#[test]
fn a_node_that_was_killed_is_followed_when_its_time_is_over() {
    let world = World::new();
    let (a, b) = pair(&world);
    set_domain(&a, "before");
    a.kill();
    let took = until("the second node serves", || b.serves());
    assert!(took < AFTER_A_DEATH && took > TTL / 2, "{took:?}");
    assert_eq!(domains(&b), ["before"]);
}

#[test]
fn a_node_that_was_killed_and_started_again_has_its_lock_still() {
    let world = World::new();
    let (a, b) = pair(&world);
    a.kill();
    let a = world.node("a");
    until("it serves again", || a.serves());
    assert_eq!(waits_for(&b).as_deref(), Some("owner-a"));
}

#[test]
fn a_holder_that_does_not_reach_locket_ends_before_the_other_one_begins() {
    let world = World::new();
    let line = Proxy::to(world.address);
    let mut a = world.node_over("a", line.address());
    until("the first node serves", || a.serves());
    let b = world.node("b");
    until("the second node waits", || waits_for(&b).is_some());
    set_domain(&a, "before");
    line.cut();
    let took = until("the first node ends", || {
        let (former, next) = (a.serves(), b.serves());
        assert!(!former || !next, "both answer");
        a.process.has_ended()
    });
    assert!(took < TTL, "{took:?}");
    assert_eq!(a.end(), 1);
    until("the second node serves", || b.serves());
    assert_eq!(domains(&b), ["before"]);
}

#[test]
fn a_holder_that_was_paused_answers_nobody_when_it_goes_on() {
    let world = World::new();
    let (mut a, mut b) = pair(&world);
    a.process.signal(Signal::STOP);
    until("the other one has the lock", || world.owner().as_deref() == Some("owner-b"));
    // The directory is still in the hands of the process that was paused.
    assert_eq!(b.end(), 5);
    let mut asked = TcpStream::connect(a.api).unwrap();
    asked.set_read_timeout(Some(PATIENCE)).unwrap();
    asked
        .write_all(b"POST /v1/domains/list HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    a.process.signal(Signal::CONT);
    let answered = answer(&mut asked).map(|(status, _)| status);
    assert!(matches!(answered, None | Some(503)), "{answered:?}");
    assert_eq!(a.end(), 1);
}

#[test]
fn nobody_notices_a_restart_of_locket() {
    let mut world = World::new();
    let (mut a, mut b) = pair(&world);
    for _ in 0..2 {
        world.stop_locket();
        let silent =
            |node: &Node| node.health("/status").unwrap().1["standby"]["waits_for_lock"]["trouble"].is_string();
        until("the node that waits says that Locket has trouble", || {
            assert!(a.serves());
            silent(&b)
        });
        world.start_locket();
        until("and that it has none any more", || {
            assert!(a.serves());
            !silent(&b)
        });
    }
    assert!(!a.process.has_ended() && !b.process.has_ended());
    assert_eq!((waits_for(&b).as_deref(), world.owner().as_deref()), (Some("owner-a"), Some("owner-a")));
}

#[test]
fn without_a_locket_a_server_does_not_start() {
    let world = World::new();
    let mut lonely = world.node_over("a", free_address());
    until("its health port is up", || lonely.phase() == "waiting");
    assert!(lonely.refuses_connections());
    assert_eq!(lonely.end(), 5);
    lonely.process.wait_for_log("this server does not start without its lock in Locket: ");
}
