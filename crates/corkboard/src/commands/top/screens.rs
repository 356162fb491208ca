//! A picture, a view and a size made into a frame. No clock, no terminal, no network: the same input gives the same text.

use std::ops::Range;

use api::models::actual_lrp::Presence;

use super::frame::{Column, Frame, Look, Row, Size, TextLine, number, span, table, text};
use super::listing::{InstanceRow, Listing};
use super::picture::{Happening, Line, Picture, State};
use super::server;
use super::summary::{AppRow, CellRow, Summary};
use super::view::{Focus, Tab, View};
use crate::commands::migrate::{grouped, moment, time};

/// With fewer rows the sums are left out, so that the list has some.
const ROWS_FOR_SUMS: usize = 12;
const NANOS_PER_S: f64 = 1e9;
/// `moment` gives the date before the time.
const DATE_CHARS: usize = 11;

/// All that a screen shows.
pub(super) struct Scene<'a> {
    pub(super) picture: &'a Picture,
    pub(super) summary: &'a Summary,
    pub(super) view: &'a View,
    /// Where the server is.
    pub(super) address: &'a str,
    pub(super) now_ns: i64,
}

pub(super) const APP_COLUMNS: &[Column] = &[
    text("APP", 0),
    text("DOMAIN", 6),
    number("DESIRED", 0),
    number("RUNNING", 0),
    number("CLAIMED", 4),
    number("UNCLAIMED", 3),
    number("CRASHED", 1),
    number("NOT PLACED", 2),
    text("WHY", 5),
];
pub(super) const CELL_COLUMNS: &[Column] = &[
    text("CELL", 0),
    text("ZONE", 4),
    text("STATE", 0),
    number("INSTANCES", 1),
    number("TASKS", 5),
    number("MEMORY MB", 2),
    number("DISK MB", 3),
    number("CONTAINERS", 6),
    text("ADDRESS", 7),
];
pub(super) const INSTANCE_COLUMNS: &[Column] = &[
    text("INSTANCE", 0),
    text("STATE", 0),
    text("CELL", 1),
    number("SINCE", 2),
    number("CRASHES", 3),
    text("ADDRESS", 5),
    text("WHY", 4),
];
const EVENT_COLUMNS: &[Column] = &[text("AT", 1), text("WHAT", 2), text("ABOUT", 0), text("HOW", 0)];

/// How many rows a list has on a screen of this size.
pub(super) fn page_rows(size: Size) -> usize {
    let around = header_rows(size) + 2;
    size.rows.saturating_sub(around).max(1)
}

fn header_rows(size: Size) -> usize {
    if size.rows < ROWS_FOR_SUMS { 2 } else { 5 }
}

pub(super) fn frame(scene: &Scene<'_>) -> Frame {
    let size = scene.view.size;
    let mut lines = header(scene);
    let listing = Listing::of(scene.picture, scene.summary, scene.view);
    lines.extend(body(scene, &listing));
    lines.resize(size.rows.saturating_sub(1), Vec::new());
    lines.push(footer(scene, &listing));
    Frame { lines }.cut(size)
}

fn header(scene: &Scene<'_>) -> Vec<TextLine> {
    let mut lines = vec![status(scene)];
    if header_rows(scene.view.size) > 2 {
        lines.push(sums(scene.picture, scene.summary));
        lines.push(match &scene.picture.line {
            Line::Away { why, .. } => vec![span(format!("{} {why}", scene.address), Look::Bad)],
            _ => joined(server::short(&scene.picture.server)),
        });
        lines.push(Vec::new());
    }
    lines.push(tabs(scene.view));
    lines
}

fn status(scene: &Scene<'_>) -> TextLine {
    let name = span(format!("corkboard top  {}  ", scene.address), Look::Strong);
    let now = clock(scene.now_ns);
    match &scene.picture.line {
        Line::Connecting => vec![span("connecting  ", Look::Warning), name],
        Line::Live => vec![name, span(format!("{now} UTC"), Look::Faint)],
        Line::Away { since_ns, .. } => {
            let age = age(*since_ns, scene.now_ns);
            let since = format!("NO ANSWER since {} ({age}), trying again", clock(*since_ns));
            vec![span(since, Look::Bad), span("; below is the last that was seen", Look::Plain)]
        }
    }
}

/// What the whole cluster adds up to.
pub(super) fn sums(picture: &Picture, summary: &Summary) -> TextLine {
    let counts = &summary.totals;
    let mut spans = vec![span(format!("cells {}", grouped(picture.cells.len() as u64)), Look::Plain)];
    match summary.absent_cells() {
        0 => {}
        absent => spans.push(span(format!("{absent} absent"), Look::Bad)),
    }
    spans.push(span(format!("apps {}", grouped(summary.apps.len() as u64)), Look::Plain));
    let running = format!("running {} of {}", grouped(counts.running.into()), grouped(counts.desired.into()));
    spans.push(span(running, if counts.missing() > 0 { Look::Warning } else { Look::Plain }));
    let others = [
        ("claimed", counts.claimed, Look::Plain),
        ("unclaimed", counts.unclaimed, Look::Warning),
        ("crashed", counts.crashed, Look::Bad),
        ("not placed", counts.placement_errors, Look::Bad),
        ("tasks running", summary.running_tasks, Look::Plain),
        ("tasks pending", summary.pending_tasks, Look::Plain),
    ];
    spans.extend(
        others
            .iter()
            .filter(|(_, count, _)| *count > 0)
            .map(|(name, count, look)| span(format!("{name} {}", grouped((*count).into())), *look)),
    );
    if picture.left_out > 0 {
        let text = format!("{} records more than fit are not counted", grouped(picture.left_out as u64));
        spans.push(span(text, Look::Bad));
    }
    joined(spans)
}

/// With room between them.
fn joined(spans: Vec<super::frame::Span>) -> TextLine {
    let mut line = Vec::new();
    for one in spans {
        if !line.is_empty() {
            line.push(span(" · ", Look::Faint));
        }
        line.push(one);
    }
    line
}

fn tabs(view: &View) -> TextLine {
    let mut line = Vec::new();
    for tab in Tab::ALL {
        let is_open = tab == view.tab;
        let text = if is_open { format!("[{}]", tab.title()) } else { format!(" {} ", tab.title()) };
        line.push(span(text, if is_open { Look::Chosen } else { Look::Plain }));
    }
    if view.tab == Tab::Instances {
        line.push(span(
            match &view.focus {
                Some(Focus::App(guid)) => format!("  of app {guid}"),
                Some(Focus::Cell(id)) => format!("  on cell {id}"),
                None => "  of all apps".to_owned(),
            },
            Look::Strong,
        ));
    }
    line
}

fn footer(scene: &Scene<'_>, listing: &Listing<'_>) -> TextLine {
    let view = scene.view;
    if view.is_typing {
        return vec![
            span(format!("/{}_", view.filter), Look::Strong),
            span("  Enter keeps it, Esc drops it", Look::Faint),
        ];
    }
    let mut line = Vec::new();
    if !matches!(listing, Listing::Server(_)) {
        let at = (listing.find(view.chosen()) + 1).min(listing.len());
        line.push(span(format!("{} of {}  ", grouped(at as u64), grouped(listing.len() as u64)), Look::Plain));
    }
    if !view.filter.is_empty() {
        line.push(span(format!("filter {:?} (Esc drops it)  ", view.filter), Look::Warning));
    }
    let keys = match view.tab {
        Tab::Apps if view.by_name => "q quit  Tab view  ↑↓ choose  Enter instances  / filter  s trouble first",
        Tab::Apps => "q quit  Tab view  ↑↓ choose  Enter instances  / filter  s by name",
        Tab::Cells => "q quit  Tab view  ↑↓ choose  Enter instances  / filter",
        Tab::Instances => "q quit  Tab view  ↑↓ choose  Esc back  / filter",
        Tab::Events => "q quit  Tab view  ↑↓ scroll  / filter",
        Tab::Server => "q quit  Tab view  ↑↓ scroll",
    };
    line.push(span(keys, Look::Faint));
    line
}

fn body(scene: &Scene<'_>, listing: &Listing<'_>) -> Vec<TextLine> {
    let (view, now_ns, width) = (scene.view, scene.now_ns, scene.view.size.columns);
    let page = page_rows(view.size);
    let at = listing.find(view.chosen());
    if let Listing::Server(_) = listing {
        let lines = server::lines(&scene.picture.server, width, now_ns);
        return lines.into_iter().skip(at.min(listing.len().saturating_sub(page))).take(page + 1).collect();
    }
    if listing.len() == 0 {
        return vec![Vec::new(), vec![span(format!("  {}", nothing(scene)), Look::Faint)]];
    }
    let shown = window(listing.len(), at, page);
    let chosen = Some(at - shown.start).filter(|_| view.tab != Tab::Events);
    let (columns, rows) = match listing {
        Listing::Apps(rows) => (APP_COLUMNS, rows[shown].iter().map(|row| app(row)).collect::<Vec<_>>()),
        Listing::Cells(rows) => (CELL_COLUMNS, rows[shown].iter().map(|row| cell(row)).collect()),
        Listing::Instances(rows) => (INSTANCE_COLUMNS, rows[shown].iter().map(|row| instance(row, now_ns)).collect()),
        Listing::Events(rows) => (EVENT_COLUMNS, rows[shown].iter().map(|row| event(row)).collect()),
        Listing::Server(_) => return Vec::new(),
    };
    table(columns, &rows, chosen, width)
}

/// The rows on the screen, the chosen one among them, in the middle where possible.
fn window(len: usize, at: usize, page: usize) -> Range<usize> {
    let start = at.saturating_sub(page / 2).min(len.saturating_sub(page));
    start..(start + page).min(len)
}

fn nothing(scene: &Scene<'_>) -> &'static str {
    match (scene.view.tab, &scene.picture.line) {
        (_, Line::Connecting) => "nothing is known yet",
        _ if !scene.view.filter.is_empty() => "nothing matches the filter",
        (Tab::Apps, _) => "no apps: nothing is desired. `corkboard create-desired-lrp @lrp.json` makes one",
        (Tab::Cells, _) => "no cells: nothing can run",
        (Tab::Events, _) => "no events since this began",
        _ => "no instances",
    }
}

pub(super) fn app(row: &AppRow) -> Row {
    let counts = &row.counts;
    let look = match () {
        () if counts.is_bad() => Look::Bad,
        () if counts.missing() > 0 => Look::Warning,
        () => Look::Plain,
    };
    let cells = vec![
        row.guid.to_string(),
        row.domain.to_string(),
        counts.desired.to_string(),
        counts.running.to_string(),
        or_blank(counts.claimed),
        or_blank(counts.unclaimed),
        or_blank(counts.crashed),
        or_blank(counts.placement_errors),
        row.trouble.as_deref().unwrap_or_default().to_owned(),
    ];
    Row { cells, look }
}

pub(super) fn cell(row: &CellRow) -> Row {
    let used = &row.used;
    let part = |used: i64, all: i32| if row.cell.is_some() { format!("{used}/{all}") } else { used.to_string() };
    let (zone, memory, disk, containers, address) = row
        .cell
        .as_ref()
        .map_or(("", 0, 0, 0, ""), |cell| (&*cell.zone, cell.memory_mb, cell.disk_mb, cell.containers, &*cell.address));
    let condition = row.condition();
    let look = match condition {
        "there" => Look::Plain,
        "absent" => Look::Bad,
        _ => Look::Warning,
    };
    let cells = vec![
        row.id.to_string(),
        zone.to_owned(),
        condition.to_owned(),
        used.instances.to_string(),
        used.tasks.to_string(),
        part(used.memory_mb, memory),
        part(used.disk_mb, disk),
        part(used.containers().into(), containers),
        address.to_owned(),
    ];
    Row { cells, look }
}

pub(super) fn instance(row: &InstanceRow<'_>, now_ns: i64) -> Row {
    let InstanceRow { guid, place, instance, is_one_of_two } = row;
    let definition = if *is_one_of_two { format!(" #{}", instance.definition) } else { String::new() };
    let role = match () {
        () if instance.is_leaving => ", leaving",
        () if place.is(Presence::Evacuating) => ", evacuating",
        () if place.is(Presence::Suspect) => ", suspect",
        () => "",
    };
    let look = match instance.state {
        State::Running if role.is_empty() => Look::Plain,
        State::Crashed => Look::Bad,
        _ if instance.is_placement_error => Look::Bad,
        _ => Look::Warning,
    };
    let cells = vec![
        format!("{guid}/{}", place.index),
        format!("{}{definition}{role}", instance.state.word()),
        instance.cell_id.to_string(),
        age(instance.since_ns, now_ns),
        or_blank(u32::try_from(instance.crash_count).unwrap_or(0)),
        instance.address.to_string(),
        instance.trouble.to_string(),
    ];
    Row { cells, look }
}

fn event(row: &Happening) -> Row {
    let cells = vec![clock(row.at_ns), row.kind.to_owned(), row.what.clone(), row.detail.clone()];
    Row { cells, look: if row.is_bad { Look::Bad } else { Look::Plain } }
}

/// A zero among many rows is noise.
fn or_blank(count: u32) -> String {
    if count == 0 { String::new() } else { count.to_string() }
}

fn age(since_ns: i64, now_ns: i64) -> String {
    time(now_ns.saturating_sub(since_ns).max(0) as f64 / NANOS_PER_S)
}

/// The time of the day.
fn clock(at_ns: i64) -> String {
    moment(at_ns).split_off(DATE_CHARS)
}
