//! How lines are shown: `<time> [<source>/<index>] OUT|ERR <text>`, with colours on a terminal, or one JSON object a line.
//!
//! On a terminal nothing that an app wrote can do anything but be read; into a file or a pipe it goes as it was written.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use api::cell::logs::LogLine;
use serde::Serialize;

use super::harmless::harmless;
use crate::console::JsonFlag;
use crate::logging::lager::date;

/// Green, yellow, blue, magenta, cyan: an instance keeps its colour. Red is for errors.
const COLOURS: [u8; 5] = [32, 33, 34, 35, 36];
const RED: u8 = 31;
/// Of a date with nine digits behind the point, up to milliseconds.
const MILLISECONDS_CHARS: usize = 23;

pub(crate) struct Show {
    out: Box<dyn Write>,
    is_json: bool,
    is_terminal: bool,
    has_colours: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    cell_id: &'a str,
    #[serde(flatten)]
    line: &'a LogLine,
}

impl Show {
    pub(crate) fn of_process(json: JsonFlag, no_colours: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self {
            out: Box::new(io::BufWriter::new(io::stdout())),
            is_json: json.is_set(),
            is_terminal,
            has_colours: is_terminal && !no_colours,
        }
    }

    /// Not necessarily at once; see [`Show::flush`].
    pub(super) fn line(&mut self, cell: &str, line: &LogLine) -> io::Result<()> {
        let text = if self.is_json { self.document(cell, line) } else { self.text(line) };
        writeln!(self.out, "{text}")
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A remark beside the lines. If nobody can read it, the lines still matter.
    pub(super) fn note(&mut self, text: &str) {
        let _ = self.out.flush();
        let _ = writeln!(io::stderr(), "corkboard: {}", harmless(text));
    }

    fn document(&self, cell: &str, line: &LogLine) -> String {
        let json = api::json::to_string(&Document { cell_id: cell, line });
        if !self.is_terminal {
            return json;
        }
        // JSON escapes some control characters and leaves others as they are.
        json.chars().fold(String::with_capacity(json.len()), |mut text, c| {
            match c {
                c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                    let _ = write!(text, "\\u{:04x}", u32::from(c));
                }
                c => text.push(c),
            }
            text
        })
    }

    fn text(&self, line: &LogLine) -> String {
        let when = date(line.at_ns);
        let when = when.get(..MILLISECONDS_CHARS).unwrap_or(&when);
        let kind = if line.error { "ERR" } else { "OUT" };
        let (source, text) = match self.is_terminal {
            true => (harmless(&line.source), harmless(&line.text)),
            false => (line.source.as_str().into(), line.text.as_str().into()),
        };
        let index = usize::try_from(line.index).unwrap_or_default();
        let prefix = self.coloured(COLOURS[index % COLOURS.len()], &format!("[{source}/{}]", line.index));
        let kind = if line.error { self.coloured(RED, kind) } else { kind.to_owned() };
        format!("{when}Z {prefix} {kind} {text}")
    }

    fn coloured(&self, colour: u8, text: &str) -> String {
        if self.has_colours { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn shown(is_json: bool, is_terminal: bool) -> String {
        let show = Show { out: Box::new(io::sink()), is_json, is_terminal, has_colours: is_terminal };
        let line = LogLine {
            at_ns: 1_700_000_000_123_456_789,
            process_guid: "hello".into(),
            instance_guid: "i-1".into(),
            index: 2,
            source: "APP".into(),
            error: true,
            text: "\u{1b}[2Jgone\u{9b}".into(),
            ..LogLine::default()
        };
        let text = if is_json { show.document("cell-1", &line) } else { show.text(&line) };
        text.escape_debug().to_string()
    }

    #[test]
    fn terminals_get_colours_and_nothing_of_the_apps_escapes() {
        expect![[r#"2023-11-14T22:13:20.123Z \u{1b}[34m[APP/2]\u{1b}[0m \u{1b}[31mERR\u{1b}[0m ␛[2Jgone�"#]]
            .assert_eq(&shown(false, true));
        expect![[r#"2023-11-14T22:13:20.123Z [APP/2] ERR \u{1b}[2Jgone\u{9b}"#]].assert_eq(&shown(false, false));
    }

    #[test]
    fn json_is_whole_and_harmless_too() {
        expect![[r#"{\"cell_id\":\"cell-1\",\"at_ns\":1700000000123456789,\"process_guid\":\"hello\",\"instance_guid\":\"i-1\",\"index\":2,\"source\":\"APP\",\"error\":true,\"text\":\"\\u001b[2Jgone\\u009b\"}"#]]
            .assert_eq(&shown(true, true));
        assert!(shown(true, false).contains(r"gone\u{9b}"));
    }
}
