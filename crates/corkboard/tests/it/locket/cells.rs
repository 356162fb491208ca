//! Cells that show in Locket that they are there.

use std::time::Duration;

use api::locket::{Kind, Resource};
use serde_json::Value;

use super::node::Node;
use super::world::{PATIENCE, World, until};

/// How long a cell is there that Locket no longer lists, without what is lost between two looks.
const KEPT_MIN: Duration = Duration::from_secs(7);

fn presence(key: &str, value: &str) -> Resource {
    Resource { key: key.into(), owner: format!("rep of {key}"), value: value.into(), kind: Kind::Presence }
}

fn show(world: &World, key: &str, value: &str) {
    let ttl = Duration::from_secs(3600);
    world.ask(async |client| client.lock(&presence(key, value), ttl, "id", PATIENCE).await.unwrap());
}

/// Names and zones, in order.
fn cells(node: &Node) -> Vec<String> {
    let outcome = node.command(&["cells"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let field = |cell: &Value, name: &str| cell[name].as_str().unwrap().to_owned();
    let cells = outcome.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut cells: Vec<_> = cells.map(|cell| field(&cell, "cell_id") + " in " + &field(&cell, "zone")).collect();
    cells.sort();
    cells
}

#[test]
fn cells_appear_change_and_vanish_and_garbage_is_none() {
    let world = World::new();
    let cell = |id: &str, zone: &str| format!(r#"{{"cell_id":"{id}","rep_address":"http://{id}","zone":"{zone}"}}"#);
    show(&world, "cell-1", &cell("cell-1", "z1"));
    show(&world, "garbage", "no cell at all");
    let node = world.node("a");
    until("it serves", || node.serves());
    until("what was there before is heard of", || cells(&node) == ["cell-1 in z1"]);
    show(&world, "cell-2", &cell("cell-2", "z1"));
    until("a cell appears", || cells(&node) == ["cell-1 in z1", "cell-2 in z1"]);
    show(&world, "cell-1", &cell("cell-1", "z2"));
    until("a cell changes", || cells(&node) == ["cell-1 in z2", "cell-2 in z1"]);
    world.ask(async |client| client.release(&presence("cell-2", ""), PATIENCE).await.unwrap());
    let took = until("a cell vanishes", || cells(&node) == ["cell-1 in z2"]);
    assert!(took > KEPT_MIN, "{took:?}");
    assert_eq!(node.terminate(), 0);
}
