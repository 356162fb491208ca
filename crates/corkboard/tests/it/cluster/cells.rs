//! Cells with instances that run, as all nodes see them.

use std::path::Path;
use std::time::Duration;

use api::client::Client;
use api::models::{ActualLrPsRequest, ActualLrp};

use super::nodes::{Nodes, Plan};
use crate::durability::world::{Op, cell};
use crate::program::CELL;

pub(super) const CELLS: u64 = 2;
/// How long a new master listens for cells before it takes silence for absence.
pub(super) const GRACE: Duration = Duration::from_secs(30);
const APPS: u64 = 3;
/// Convergence looks all the time, so that what it could spoil it does spoil.
const TABLES: &str = "[timing]\nconverge_interval = \"1s\"\n[cells]\nfile = \"cells.jsonl\"";

/// Nodes that know the cells, none of them started.
pub(super) fn prepare() -> Nodes {
    let nodes = Nodes::prepare(Plan { tables: TABLES, ..Plan::default() });
    set_cells(nodes.dir.path(), 0..CELLS);
    nodes
}

/// From now on these cells are there and no others. The file is never seen half written.
pub(super) fn set_cells(dir: &Path, present: std::ops::Range<u64>) {
    let lines: String = present.map(|number| CELL.replace("cell-1", &cell(number)) + "\n").collect();
    std::fs::write(dir.join("cells.new"), lines).unwrap();
    std::fs::rename(dir.join("cells.new"), dir.join("cells.jsonl")).unwrap();
}

/// Instances that run, one of each app on each cell.
pub(super) async fn populate(client: &Client) {
    for app in 0..APPS {
        let guid = format!("app{app}");
        let desire = Op::Desire { guid: guid.clone(), instances: CELLS as i32, annotation: String::new() };
        desire.send(client).await.unwrap();
        for number in 0..CELLS {
            let (index, holder) = (number as i32, (format!("{guid}-{number}"), cell(number)));
            Op::Claim { guid: guid.clone(), index, holder: holder.clone() }.send(client).await.unwrap();
            Op::Start { guid: guid.clone(), index, holder }.send(client).await.unwrap();
        }
    }
}

/// All that is known of the instances on these cells, with the tags that count changes: equal means untouched.
pub(super) async fn instances_on(client: &Client, cells: std::ops::Range<u64>) -> Vec<ActualLrp> {
    let cells: Vec<String> = cells.map(cell).collect();
    let mut rows = client.actual_lrps(ActualLrPsRequest::default()).await.unwrap();
    let cell_of = |row: &ActualLrp| row.actual_lrp_instance_key.clone().unwrap_or_default().cell_id;
    rows.retain(|row| cells.contains(&cell_of(row)));
    rows.sort_by_key(|row| row.actual_lrp_key.clone().map(|key| (key.process_guid, key.index)));
    rows
}
