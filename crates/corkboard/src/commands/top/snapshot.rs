//! The picture printed once: all rows as text for a pipe or a file, or as one JSON object.

use serde::Serialize;
use serde_json::{Value, json};

use super::frame::{Column, Frame, Look, Row, TextLine, span, table};
use super::listing::Listing;
use super::picture::{Instance, Picture, Standing};
use super::screens::{self, APP_COLUMNS, CELL_COLUMNS, INSTANCE_COLUMNS};
use super::server;
use super::summary::Summary;
use super::view::{Tab, View};
use crate::commands::migrate::moment;

/// No terminal, no edge.
const WIDE: usize = usize::MAX;
/// Sentences of the server are still wrapped.
const PARAGRAPH_COLUMNS: usize = 120;

pub(super) fn text(picture: &Picture, summary: &Summary, view: &View, now_ns: i64) -> String {
    let mut lines = vec![vec![span(format!("{} UTC", moment(now_ns)), Look::Strong)], screens::sums(picture, summary)];
    for tab in tabs(view) {
        let view = view.turned_to(tab);
        let (columns, rows): (&[Column], Vec<Row>) = match Listing::of(picture, summary, &view) {
            Listing::Apps(rows) => (APP_COLUMNS, rows.iter().map(|row| screens::app(row)).collect()),
            Listing::Cells(rows) => (CELL_COLUMNS, rows.iter().map(|row| screens::cell(row)).collect()),
            Listing::Instances(rows) => {
                (INSTANCE_COLUMNS, rows.iter().map(|row| screens::instance(row, now_ns)).collect())
            }
            Listing::Events(_) | Listing::Server(_) => continue,
        };
        section(&mut lines, tab, columns, &rows);
    }
    lines.push(Vec::new());
    lines.extend(server::lines(&picture.server, PARAGRAPH_COLUMNS, now_ns));
    Frame { lines }.plain()
}

/// Instances are many; they come for one app, when it is named.
fn tabs(view: &View) -> Vec<Tab> {
    match view.focus {
        Some(_) => vec![Tab::Cells, Tab::Apps, Tab::Instances],
        None => vec![Tab::Cells, Tab::Apps],
    }
}

fn section(lines: &mut Vec<TextLine>, tab: Tab, columns: &[Column], rows: &[Row]) {
    lines.push(Vec::new());
    lines.push(vec![span(tab.title(), Look::Strong)]);
    if rows.is_empty() {
        lines.push(vec![span("  none", Look::Faint)]);
    } else {
        lines.extend(table(columns, rows, None, WIDE));
    }
}

pub(super) fn document(picture: &Picture, summary: &Summary, view: &View, now_ns: i64) -> Value {
    let mut cells = Vec::new();
    let mut apps = Vec::new();
    let mut instances = Vec::new();
    for tab in tabs(view) {
        let view = view.turned_to(tab);
        match Listing::of(picture, summary, &view) {
            Listing::Cells(rows) => cells = rows.iter().map(|row| cell(row)).collect(),
            Listing::Apps(rows) => apps = rows.iter().map(|row| app(row)).collect(),
            Listing::Instances(rows) => instances = rows.iter().map(|row| instance(row)).collect(),
            Listing::Events(_) | Listing::Server(_) => {}
        }
    }
    let mut document = json!({
        "at_ns": now_ns,
        "totals": summary.totals,
        "tasks": { "running": summary.running_tasks, "pending": summary.pending_tasks },
        "cells": cells,
        "apps": apps,
        "nodes": told(picture.server.nodes.as_ref()),
        "migration": told::<Standing>(picture.server.migration.as_ref()),
        "keys": told::<Standing>(picture.server.keys.as_ref()),
    });
    if view.focus.is_some() {
        document["instances"] = Value::Array(instances);
    }
    document
}

/// Null when nobody was asked, and an object with the reason when there was no answer.
fn told<T: Serialize>(answer: Option<&Result<T, String>>) -> Value {
    match answer {
        None => Value::Null,
        Some(Ok(answer)) => json!(answer),
        Some(Err(why)) => json!({ "not_known": why }),
    }
}

fn cell(row: &super::summary::CellRow) -> Value {
    let capacity = row
        .cell
        .as_ref()
        .map(|cell| json!({ "memory_mb": cell.memory_mb, "disk_mb": cell.disk_mb, "containers": cell.containers }));
    json!({
        "cell_id": &*row.id,
        "zone": row.cell.as_ref().map(|cell| &*cell.zone),
        "state": row.condition(),
        "address": row.cell.as_ref().map(|cell| &*cell.address),
        "capacity": capacity,
        "used": row.used,
    })
}

fn app(row: &super::summary::AppRow) -> Value {
    json!({ "process_guid": &*row.guid, "domain": &*row.domain, "counts": row.counts, "why": row.trouble.as_deref() })
}

fn instance(row: &super::listing::InstanceRow<'_>) -> Value {
    let Instance {
        state, cell_id, instance_guid, address, crash_count, since_ns, trouble, definition, is_leaving, ..
    } = row.instance;
    json!({
        "process_guid": &**row.guid,
        "index": row.place.index,
        "presence": row.place.presence_word(),
        "state": state.word(),
        "cell_id": &**cell_id,
        "instance_guid": &**instance_guid,
        "address": &**address,
        "crash_count": crash_count,
        "since_ns": since_ns,
        "why": &**trouble,
        "definition": definition,
        "leaving": is_leaving,
    })
}
