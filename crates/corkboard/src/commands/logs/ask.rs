//! Asks all cells at once what they keep. Each has its own time limit, so that one that hangs does not hold up the others for
//! long.

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use api::cell::logs::{LogMessage, LogQuery};
use api::client::logs::{CellLogs, LogsError};
use model::Cell;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Told;

/// Cells that are asked at the same time.
const CALLS_MAX: usize = 32;
const CELL_TIMEOUT: Duration = Duration::from_secs(20);

/// What cells answered.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// By time.
    pub(super) lines: Vec<Told>,
    /// What they had and did not tell.
    pub(super) lost: u64,
    /// The time of each cell before it looked.
    pub(super) clocks: HashMap<String, i64>,
    /// Who did not answer, and why.
    pub(super) silent: Vec<(String, String)>,
}

pub(super) async fn all(logs: &CellLogs, cells: &[Cell], query: &LogQuery) -> Heard {
    let places = Arc::new(Semaphore::new(CALLS_MAX));
    let mut calls = JoinSet::new();
    for cell in cells {
        let (logs, cell, query, places) = (logs.clone(), cell.clone(), query.clone(), places.clone());
        calls.spawn(async move {
            let _place = places.acquire().await;
            let mut heard = Heard::default();
            let outcome = timeout(CELL_TIMEOUT, one(&logs, &cell, &query, &mut heard)).await;
            let why = match outcome {
                Ok(Ok(())) => return heard,
                Ok(Err(error)) => reason(&error),
                Err(_) => format!("it did not answer within {} s", CELL_TIMEOUT.as_secs()),
            };
            Heard { silent: vec![(cell.id.to_string(), why)], ..heard }
        });
    }
    let mut all = Heard::default();
    while let Some(heard) = calls.join_next().await {
        let Ok(heard) = heard else { continue };
        all.lines.extend(heard.lines);
        all.lost += heard.lost;
        all.clocks.extend(heard.clocks);
        all.silent.extend(heard.silent);
    }
    all.lines.sort_by(|a, b| (a.line.at_ns, a.line.container()).cmp(&(b.line.at_ns, b.line.container())));
    all.silent.sort();
    all
}

async fn one(logs: &CellLogs, cell: &Cell, query: &LogQuery, heard: &mut Heard) -> Result<(), LogsError> {
    let mut stream = logs.open(cell, query).await?;
    let mut clock = None;
    while let Some(message) = stream.next().await? {
        match message {
            LogMessage::Hello { now_ns, .. } => clock = Some(now_ns),
            LogMessage::Line(line) => heard.lines.push(Told { cell: cell.id.to_string(), line }),
            LogMessage::Lost { lines } => heard.lost += lines,
            LogMessage::Beat | LogMessage::Unknown => {}
        }
    }
    // Only a whole answer is one from which to go on.
    heard.clocks.extend(clock.map(|clock| (cell.id.to_string(), clock)));
    Ok(())
}

/// An error with its causes, in one line.
pub(super) fn reason(error: &LogsError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
