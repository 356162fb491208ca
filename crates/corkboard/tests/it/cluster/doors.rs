//! What clients meet at the door of a node that waits, and what nodes that share a name are told.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use tokio::time::Instant;

use super::nodes::{Nodes, Plan};
use crate::upgrade::site::{LOOK_AGAIN, PATIENCE};

#[tokio::test]
async fn a_node_that_waits_refuses_connections_and_keeps_its_port() {
    let mut nodes = Nodes::start(Plan::default()).await;
    let waiting = nodes.standby().await;
    wait_until_it_waits(&nodes, waiting).await;
    let address = nodes.api(waiting);
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let taken = TcpListener::bind(address).map(drop).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);

    let master = nodes.master().await;
    nodes.stop(master).await;
    nodes.master().await;
    nodes.finish().await;
}

#[tokio::test]
async fn a_node_that_waits_sends_clients_to_the_master_if_it_is_told_to() {
    let mut nodes = Nodes::start(Plan { keys: "standby = \"redirect\"", ..Plan::default() }).await;
    for _ in 0..2 {
        let (master, waiting) = (nodes.master().await, nodes.standby().await);
        let path = "/v1/desired_lrps/list.r3?a=b";
        let expected = format!("location: {}{path}", nodes.url(master));
        let since = Instant::now();
        loop {
            let answer = post(nodes.api(waiting), path).unwrap_or_default();
            if answer.starts_with("HTTP/1.1 307 ") && answer.contains(&expected) {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "no way to {expected}: {answer}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        nodes.stop(master).await;
        nodes.restart(master);
    }
    nodes.finish().await;
}

#[tokio::test]
async fn two_nodes_of_one_name_are_noticed() {
    let mut nodes = Nodes::prepare(Plan::default());
    nodes.node(1).name = "n0".to_owned();
    nodes.restart(0);
    nodes.restart(1);
    nodes.restart(2);
    let since = Instant::now();
    for at in nodes.all() {
        loop {
            let list = nodes.ask_health(at, "/nodes").await.unwrap_or_default();
            if list["warnings"].to_string().contains("two nodes call themselves \\\"n0\\\"") {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "n{at} sees nothing odd in {list}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    nodes.finish().await;
}

async fn wait_until_it_waits(nodes: &Nodes, at: usize) {
    let since = Instant::now();
    while nodes.ask_health(at, "/status").await.unwrap_or_default()["standby"]["master"].is_null() {
        assert!(since.elapsed() < PATIENCE, "{}", nodes.logs());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn post(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
