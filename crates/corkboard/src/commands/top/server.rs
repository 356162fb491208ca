//! The tab about the servers themselves: their nodes, the migration, the keys; and the same in one line for the header.

use bbs::nodes::NodeList;

use super::frame::{Look, Row, Span, TextLine, number, span, table, text};
use super::picture::{Server, Standing};
use crate::commands::migrate::{grouped, percent, time};
use crate::commands::nodes;

/// The states in which there is nothing to do and nothing to see.
const AT_REST: &[&str] = &["none", "off", "settled", "rolled_back"];
const IN_TROUBLE: &[&str] = &["blocked", "failed"];

/// For the header: who is master, and what goes on.
pub(super) fn short(server: &Server) -> Vec<Span> {
    let mut spans = Vec::new();
    match &server.nodes {
        Some(Ok(list)) => spans.push(master(list)),
        Some(Err(_)) => spans.push(span("nodes: not known", Look::Faint)),
        None => {}
    }
    for (name, standing) in [("migration", &server.migration), ("keys", &server.keys)] {
        let Some(Ok(standing)) = standing else { continue };
        spans.push(span(format!("{name}: {}", standing.in_short()), standing.look()));
    }
    spans
}

fn master(list: &NodeList) -> Span {
    let serving = list.nodes.iter().find(|node| node.is_master).map(|node| node.card.node.clone());
    let others = list.nodes.iter().filter(|node| !node.is_master).count();
    match list.master.clone().or(serving) {
        Some(name) if others > 0 => span(format!("master {name}, {others} waiting"), Look::Plain),
        Some(name) => span(format!("master {name}"), Look::Plain),
        None => span("no master", Look::Bad),
    }
}

/// The whole tab, no line wider than `columns`.
pub(super) fn lines(server: &Server, columns: usize, now_ns: i64) -> Vec<TextLine> {
    let mut lines = Vec::new();
    heading(&mut lines, "Nodes");
    match &server.nodes {
        Some(Ok(list)) => node_lines(&mut lines, list, columns, now_ns),
        Some(Err(why)) => paragraph(&mut lines, why, columns, Look::Faint),
        None => paragraph(&mut lines, "not heard of yet", columns, Look::Faint),
    }
    for (name, standing) in [("Migration", &server.migration), ("Keys", &server.keys)] {
        lines.push(Vec::new());
        heading(&mut lines, name);
        match standing {
            Some(Ok(standing)) => standing_lines(&mut lines, standing, columns),
            Some(Err(why)) => paragraph(&mut lines, why, columns, Look::Faint),
            None => paragraph(&mut lines, "not heard of yet", columns, Look::Faint),
        }
    }
    lines
}

fn node_lines(lines: &mut Vec<TextLine>, list: &NodeList, columns: usize, now_ns: i64) {
    const COLUMNS: &[super::frame::Column] = &[
        text("ROLE", 0),
        text("NODE", 0),
        text("RELEASE", 2),
        text("DATA VERSION", 4),
        text("PHASE", 1),
        number("SINCE", 3),
        text("WARM", 5),
        text("URL", 6),
    ];
    if !list.nodes.is_empty() {
        let rows: Vec<Row> =
            list.nodes.iter().map(|node| Row { cells: nodes::row(node, now_ns).into(), look: Look::Plain }).collect();
        lines.extend(table(COLUMNS, &rows, None, columns));
    }
    for note in nodes::notes(list) {
        paragraph(lines, &note, columns, Look::Warning);
    }
}

fn standing_lines(lines: &mut Vec<TextLine>, standing: &Standing, columns: usize) {
    paragraph(lines, &standing.in_short(), columns, standing.look());
    if !standing.explanation.is_empty() {
        paragraph(lines, &standing.explanation, columns, Look::Plain);
    }
    if let Some(next) = &standing.next {
        paragraph(lines, &format!("Next: {next}"), columns, Look::Strong);
    }
}

impl Standing {
    /// The state, and how far it is while it moves.
    pub(super) fn in_short(&self) -> String {
        let state = self.state.replace('_', " ");
        match (self.done, self.total) {
            (Some(done), Some(total)) if !self.is_at_rest() && total > 0 => {
                let left = self.eta_s.filter(|_| done < total).map(|s| format!(", {} left", time(s)));
                let count = format!("{} of {}", grouped(done), grouped(total));
                format!("{state} {} % ({count}{})", percent(done, total), left.unwrap_or_default())
            }
            _ => state,
        }
    }

    fn is_at_rest(&self) -> bool {
        AT_REST.contains(&self.state.as_str())
    }

    fn look(&self) -> Look {
        match self.state.as_str() {
            state if IN_TROUBLE.contains(&state) => Look::Bad,
            _ if self.is_at_rest() => Look::Plain,
            _ => Look::Warning,
        }
    }
}

fn heading(lines: &mut Vec<TextLine>, title: &str) {
    lines.push(vec![span(title, Look::Strong)]);
}

/// A sentence of the server in as many lines as it takes, two columns in.
fn paragraph(lines: &mut Vec<TextLine>, sentence: &str, columns: usize, look: Look) {
    let room = columns.saturating_sub(2).max(1);
    for line in wrapped(&super::picture::printable(sentence), room) {
        lines.push(vec![span(format!("  {line}"), look)]);
    }
}

/// Words on lines; a word that is longer than a line is cut when the line is drawn.
pub(super) fn wrapped(sentence: &str, room: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthStr as _;
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
