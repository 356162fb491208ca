//! Text on a grid: lines of spans, and tables that fit a width by shortening and leaving out what matters least.
//!
//! Promise: no line is wider than asked for, whatever stands in it; what was cut ends with `…`.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What is left of a column before it is left out altogether.
const COLUMN_MIN: usize = 8;
const GAP: usize = 2;
/// Where the chosen row is marked, also without colours.
const MARK: &str = "> ";
const NO_MARK: &str = "  ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// How a span looks on a terminal. Nothing depends on it: all is said in words too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    Strong,
    Faint,
    Warning,
    Bad,
    Chosen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) look: Look,
}

pub(super) type TextLine = Vec<Span>;

/// Everything that a screen shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) lines: Vec<TextLine>,
}

pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) is_number: bool,
    /// 0 stays; of the others the highest goes first.
    pub(super) rank: u8,
}

pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) look: Look,
}

pub(super) const fn text(title: &'static str, rank: u8) -> Column {
    Column { title, is_number: false, rank }
}

pub(super) const fn number(title: &'static str, rank: u8) -> Column {
    Column { title, is_number: true, rank }
}

pub(super) fn span(text: impl Into<String>, look: Look) -> Span {
    Span { text: text.into(), look }
}

impl Frame {
    /// Exactly as many lines as there is room for, none too wide.
    pub(super) fn cut(mut self, size: Size) -> Self {
        self.lines.truncate(size.rows);
        for line in &mut self.lines {
            cut_line(line, size.columns);
        }
        self
    }

    /// Without looks.
    pub(super) fn plain(&self) -> String {
        let mut plain = String::new();
        for line in &self.lines {
            let text: String = line.iter().map(|span| span.text.as_str()).collect();
            plain.push_str(text.trim_end());
            plain.push('\n');
        }
        plain
    }
}

fn cut_line(line: &mut TextLine, columns: usize) {
    let mut left = columns;
    for span in line {
        if span.text.width() > left {
            span.text = cut(&span.text, left);
        }
        left -= span.text.width();
    }
}

/// At most `columns` wide.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut kept, mut width) = (String::new(), 1);
    if columns == 0 {
        return kept;
    }
    for c in text.chars() {
        width += c.width().unwrap_or(0);
        if width > columns {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// The header and the rows, the `chosen` one marked. The last column takes what is left.
pub(super) fn table(columns: &[Column], rows: &[Row], chosen: Option<usize>, width: usize) -> Vec<TextLine> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.title.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = (*width).max(cell.width());
        }
    }
    fit(columns, &mut widths, width.saturating_sub(MARK.len()));
    let titles = columns.iter().map(|column| column.title);
    let mut lines = vec![vec![span(format!("{NO_MARK}{}", laid_out(columns, titles, &widths)), Look::Strong)]];
    for (at, row) in rows.iter().enumerate() {
        let is_chosen = chosen == Some(at);
        let mark = if is_chosen { MARK } else { NO_MARK };
        let mut text = format!("{mark}{}", laid_out(columns, row.cells.iter().map(String::as_str), &widths));
        if is_chosen && width < usize::from(u16::MAX) {
            // The bar of the chosen row goes from edge to edge.
            text.push_str(&" ".repeat(width.saturating_sub(text.width())));
        }
        lines.push(vec![span(text, if is_chosen { Look::Chosen } else { row.look })]);
    }
    lines
}

/// Takes from the widths until they fit: first the longest text shrinks, then columns go.
fn fit(columns: &[Column], widths: &mut [usize], room: usize) {
    loop {
        let shown = widths.iter().filter(|width| **width > 0).count();
        let taken = widths.iter().sum::<usize>() + GAP * shown.saturating_sub(1);
        let Some(excess) = taken.checked_sub(room).filter(|excess| *excess > 0) else { return };
        let shrinkable = (0..columns.len()).filter(|at| !columns[*at].is_number && widths[*at] > COLUMN_MIN);
        let widest = shrinkable.max_by_key(|at| widths[*at]);
        // A table in which every word is cut helps nobody: beyond half of the room a column goes instead.
        let first_to_go = (0..columns.len()).filter(|at| columns[*at].rank > 0 && widths[*at] > 0);
        let first_to_go = first_to_go.max_by_key(|at| columns[*at].rank);
        match (widest, first_to_go) {
            (Some(at), None) => widths[at] -= excess.min(widths[at] - COLUMN_MIN),
            (Some(at), Some(_)) if widths[at] - excess.min(widths[at]) >= COLUMN_MIN.max(widths[at] / 2) => {
                widths[at] -= excess;
            }
            (_, Some(at)) => widths[at] = 0,
            (None, None) => return,
        }
    }
}

fn laid_out<'a>(columns: &[Column], cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let mut line = String::new();
    for ((column, cell), width) in columns.iter().zip(cells).zip(widths) {
        if *width == 0 {
            continue;
        }
        if !line.is_empty() {
            line.push_str(&" ".repeat(GAP));
        }
        let cell = cut(cell, *width);
        let padding = " ".repeat(width - cell.width());
        if column.is_number {
            line.push_str(&padding);
            line.push_str(&cell);
        } else {
            line.push_str(&cell);
            line.push_str(&padding);
        }
    }
    line.truncate(line.trim_end().len());
    line
}
