//! An update: the old and the new instance of one index are on one machine for a while.

use std::fs;

use corkboard_cell::executor::{ContainerGuid, Executor, LogsOf, LogsWanted, RunSpec, State, Update};
use model::DefinitionNumber;
use serde_json::Value;

use crate::cell::{Cell, is_alive, shell, spec, wait_for};

/// Says who it is and which port it was given, and goes on until it is told to end.
fn app(name: &str) -> RunSpec {
    let script =
        format!("echo $$ > pid; echo {name} at $PORT; while [ ! -f end ]; do sleep 0.02; done; echo {name} ends");
    RunSpec { ports: vec![8080], ..spec(shell(&script)) }
}

async fn made_from(cell: &Cell, guid: &ContainerGuid, number: u32) {
    let update = Update { definition: Some(DefinitionNumber(number)), ..Update::default() };
    cell.executor.update(guid, update).await.unwrap();
}

/// The lines of the index, as `<container> <text>`, without those of the cell itself.
async fn lines(cell: &Cell) -> Vec<String> {
    let of = LogsOf::Process { guid: "process".to_owned(), index: Some(3) };
    let kept = cell.executor.kept_logs(LogsWanted { of, after_ns: 0, lines_max: 100 }).await.unwrap();
    let mut lines: Vec<String> = kept.lines.iter().map(|line| format!("{} {}", line.container, line.text)).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn two_instances_of_one_index_have_nothing_in_common_but_their_index() {
    let mut cell = Cell::new();
    let old = cell.run("old", app("old")).await;
    let new = cell.run("new", app("new")).await;
    let (one, two) = (cell.state(&old, State::Running).await, cell.state(&new, State::Running).await);
    let pids = [cell.file(&old, "pid").await, cell.file(&new, "pid").await];
    assert_ne!(pids[0], pids[1]);
    assert_ne!(cell.root(&old), cell.root(&new));
    assert_eq!((one.ports[0].container, two.ports[0].container), (8080, 8080));
    assert_ne!(one.ports[0].host, two.ports[0].host);
    let written = loop {
        let written = lines(&cell).await;
        if written.len() >= 2 {
            break written;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    let at = |name: &str, port: u16| format!("{name} {name} at {port}");
    assert_eq!(written, [at("new", two.ports[0].host), at("old", one.ports[0].host)]);
    let usage = cell.executor.usage().await;
    assert!(usage.contains_key(&old) && usage.contains_key(&new), "{usage:?}");

    // The old one goes, and the new one does not notice.
    cell.executor.stop(&old).await.unwrap();
    assert!(cell.end(&old).await.contains("stopped"));
    cell.delete(&old).await;
    assert!(!is_alive(&pids[0]) && is_alive(&pids[1]));
    assert_eq!(cell.executor.get(&new).unwrap().state, State::Running);
    assert_eq!(cell.executor.remaining().containers, 9);
    // What it wrote is still there.
    assert!(lines(&cell).await.contains(&at("old", one.ports[0].host)));
    fs::write(cell.root(&new).join("end"), "").unwrap();
    cell.end(&new).await;
    cell.delete(&new).await;
}

#[tokio::test]
async fn what_a_container_was_made_from_is_known_after_a_restart() {
    let mut cell = Cell::new();
    let mut guids = Vec::new();
    for (name, number) in [("one", 1), ("two", 2), ("older", 2), ("unsaid", 0)] {
        let guid = cell.run(name, app(name)).await;
        if number > 0 {
            made_from(&cell, &guid, number).await;
        }
        cell.state(&guid, State::Running).await;
        guids.push(guid);
    }
    let records: Vec<_> = guids.iter().map(|guid| cell.root(guid).with_file_name("record.json")).collect();
    let folder = cell.close().await;
    // As a cell wrote it that knew no definitions.
    let mut record: Value = serde_json::from_str(&fs::read_to_string(&records[2]).unwrap()).unwrap();
    assert_eq!(record.as_object_mut().unwrap().remove("definition"), Some(2.into()));
    fs::write(&records[2], record.to_string()).unwrap();
    let unsaid: Value = serde_json::from_str(&fs::read_to_string(&records[3]).unwrap()).unwrap();
    assert_eq!(unsaid.get("definition"), None, "nothing is written that was not said");

    let mut cell = Cell::open(folder, |_| {});
    let found: Vec<_> = guids.iter().map(|guid| cell.executor.get(guid).unwrap()).collect();
    let numbers: Vec<_> = found.iter().map(|container| container.definition.map(|number| number.0)).collect();
    assert_eq!(numbers, [Some(1), Some(2), None, None]);
    assert!(found.iter().all(|container| container.state == State::Running));
    // New routes and tags leave it as it is.
    cell.executor.update(&guids[1], Update::default()).await.unwrap();
    assert_eq!(cell.executor.get(&guids[1]).unwrap().definition, Some(DefinitionNumber(2)));
    for guid in &guids {
        fs::write(cell.root(guid).join("end"), "").unwrap();
        wait_for(|| cell.executor.get(guid).filter(|container| container.state == State::Completed)).await;
        cell.delete(guid).await;
    }
}
