//! A line delivers everything in order, nothing while it is cut, and refuses when told to.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use rig::etcd::{Cluster, Options};
use rig::proxy::Proxy;
use tokio::time::Instant;

use crate::{PATIENCE, SILENCE};

/// Both ends of one connection through the line: the caller's and the target's.
struct Ends {
    near: TcpStream,
    far: TcpStream,
}

fn target() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn ends(proxy: &Proxy, target: &TcpListener) -> Ends {
    let near = connect(proxy);
    let (far, _) = target.accept().unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    Ends { near, far }
}

#[track_caller]
fn check_arrives(mut from: &TcpStream, mut to: &TcpStream, text: &[u8]) {
    from.write_all(text).unwrap();
    check_reads(&mut to, text);
}

#[track_caller]
fn check_reads(to: &mut &TcpStream, text: &[u8]) {
    let mut read = vec![0; text.len()];
    to.read_exact(&mut read).unwrap();
    assert_eq!(read, text);
}

/// Neither bytes nor an end: the connection stalls.
#[track_caller]
fn check_silent(mut end: &TcpStream) {
    end.set_read_timeout(Some(SILENCE)).unwrap();
    let outcome = end.read(&mut [0; 1]);
    end.set_read_timeout(Some(PATIENCE)).unwrap();
    let kind = outcome.map_err(|error| error.kind());
    assert_eq!(kind, Err(ErrorKind::WouldBlock));
}

#[track_caller]
fn check_closed(mut end: &TcpStream) {
    let outcome = end.read(&mut [0; 1]).map_err(|error| error.kind());
    assert!(matches!(outcome, Ok(0) | Err(ErrorKind::ConnectionReset)), "{outcome:?}");
}

#[test]
fn bytes_pass_both_ways_in_order_and_an_end_is_passed_on() {
    let (listener, address) = target();
    let proxy = Proxy::to(address);
    let Ends { near, mut far } = ends(&proxy, &listener);
    check_arrives(&near, &far, b"there");
    check_arrives(&far, &near, b"and back");

    let much: Vec<u8> = (0..4_000_000_u32).map(|at| (at % 251) as u8).collect();
    let sent = much.clone();
    let sender = std::thread::spawn(move || {
        (&near).write_all(&sent).unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        near
    });
    let mut read = Vec::new();
    far.read_to_end(&mut read).unwrap();
    assert!(read == much, "{} bytes arrived of {}", read.len(), much.len());
    let near = sender.join().unwrap();
    check_arrives(&far, &near, b"the other half is open");
}

#[test]
fn a_line_that_is_cut_delivers_nothing_and_closes_nothing_until_it_is_healed() {
    let (listener, address) = target();
    let proxy = Proxy::to(address);
    let Ends { near, far } = ends(&proxy, &listener);
    check_arrives(&near, &far, b"before");

    proxy.cut();
    (&near).write_all(b"during").unwrap();
    (&far).write_all(b"answer").unwrap();
    check_silent(&far);
    check_silent(&near);

    let late = connect(&proxy);
    (&late).write_all(b"late").unwrap();
    check_silent(&late);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "the target sees no new connection");
    listener.set_nonblocking(false).unwrap();

    proxy.heal();
    check_reads(&mut &far, b"during");
    check_reads(&mut &near, b"answer");
    let (late_far, _) = listener.accept().unwrap();
    check_reads(&mut &late_far, b"late");
    check_arrives(&near, &far, b"after");
}

#[test]
fn an_end_that_closes_while_the_line_is_cut_looks_open_until_it_is_healed() {
    let (listener, address) = target();
    let proxy = Proxy::to(address);
    let Ends { near, far } = ends(&proxy, &listener);
    check_arrives(&near, &far, b"before");
    proxy.cut();
    drop(far);
    check_silent(&near);
    proxy.heal();
    check_closed(&near);
}

/// Once `cut` has returned, not one more byte comes out, though the sender never stops.
#[test]
fn nothing_that_was_under_way_slips_through_a_cut() {
    let (listener, address) = target();
    let proxy = Proxy::to(address);
    let Ends { near, mut far } = ends(&proxy, &listener);
    let sender = std::thread::spawn(move || while (&near).write_all(&[7; 4096]).is_ok() {});
    for _ in 0..20 {
        far.read_exact(&mut [0; 64 * 1024]).unwrap();
        proxy.cut();
        drain(&mut far);
        check_silent(&far);
        proxy.heal();
    }
    drop(proxy);
    sender.join().unwrap();
}

/// What the kernel had received before the cut may still be read, and nothing else comes after it.
fn drain(far: &mut TcpStream) {
    far.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut chunk = vec![0; 1024 * 1024];
    while far.read(&mut chunk).is_ok_and(|length| length > 0) {}
    far.set_read_timeout(Some(PATIENCE)).unwrap();
}

#[test]
fn refused_means_closed_and_refused_and_healing_brings_back_the_same_address() {
    let (listener, address) = target();
    let proxy = Proxy::to(address);
    let url = proxy.url("https");
    assert_eq!(url, format!("https://{}", proxy.address()));
    for _ in 0..3 {
        let Ends { near, far } = ends(&proxy, &listener);
        check_arrives(&near, &far, b"before");
        proxy.refuse();
        check_closed(&near);
        check_closed(&far);
        assert_eq!(TcpStream::connect(proxy.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        proxy.heal();
    }
    proxy.refuse();
    proxy.cut();
    let stalled = connect(&proxy);
    check_silent(&stalled);
    proxy.refuse();
    check_closed(&stalled);
    assert_eq!(proxy.url("https"), url);
}

#[test]
fn a_delay_is_paid_once_per_direction_and_not_once_per_chunk() {
    const DELAY: Duration = Duration::from_millis(200);
    let (listener, address) = target();
    let proxy = Proxy::to(address);
    let Ends { near, far } = ends(&proxy, &listener);
    check_arrives(&near, &far, b"at once");
    proxy.delay(DELAY);
    let started = Instant::now();
    check_arrives(&near, &far, b"there");
    check_arrives(&far, &near, b"and back");
    assert!(started.elapsed() >= 2 * DELAY, "{:?}", started.elapsed());

    let started = Instant::now();
    check_arrives(&near, &far, &[7; 512 * 1024]);
    assert!(started.elapsed() < 10 * DELAY, "32 chunks cost {:?}", started.elapsed());

    proxy.delay(Duration::ZERO);
    let started = Instant::now();
    check_arrives(&near, &far, b"at once");
    assert!(started.elapsed() < DELAY, "{:?}", started.elapsed());
}

#[test]
fn a_target_that_is_down_shows_as_a_connection_that_closes() {
    let (listener, address) = target();
    let proxy = Proxy::to(address);
    drop(listener);
    check_closed(&connect(&proxy));
}

#[test]
fn dropping_a_proxy_closes_what_it_carried() {
    let (listener, address) = target();
    let proxy = Proxy::to(address);
    let Ends { near, far } = ends(&proxy, &listener);
    let address = proxy.address();
    proxy.cut();
    drop(proxy);
    check_closed(&near);
    check_closed(&far);
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn a_line_to_a_cluster_with_tls_can_be_used_and_cut_from_a_task() {
    let cluster = Cluster::start(Options { tls: true, ..Options::default() });
    let proxy = Proxy::to(cluster.address(0));
    let through = |wait: &str| {
        let url = proxy.url("https");
        let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
        let files = [("cacert", cluster.ca()), ("cert", cluster.cert()), ("key", cluster.key())];
        let mut command = std::process::Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(files.map(|(name, path)| flag(name, &path.display())));
        command.args([flag("endpoints", &url), flag("command-timeout", &wait), flag("dial-timeout", &wait)]);
        command.args(["put", "a", "1"]).output().unwrap().status.success()
    };
    assert!(through("30s"));
    proxy.cut();
    assert!(!through("500ms"));
    proxy.heal();
    assert!(through("30s"));
}
