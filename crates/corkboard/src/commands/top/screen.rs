//! The terminal: taken over, drawn on, and always given back.
//!
//! Promise: however the program ends short of SIGKILL (the operator leaves, a signal, an error, a defect), the terminal is as
//! it was: cooked, with its cursor, on its own page. Only lines that changed are written, in one write for a frame.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use futures_util::StreamExt as _;

use super::frame::{Frame, Look, Size, TextLine};
use super::view::Key;

/// For a terminal that does not say how large it is.
const SIZE_USUAL: Size = Size { columns: 80, rows: 24 };

/// The other page, no cursor, lines that end at the edge instead of going on in the next row.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Whether there is something to give back.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

pub(super) struct Screen {
    keys: EventStream,
    shown: Vec<TextLine>,
    size: Size,
    has_colours: bool,
}

/// What happens at a terminal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    Key(Key),
    Resized,
    /// The terminal is gone.
    End,
}

impl Screen {
    pub(super) fn take(has_colours: bool) -> io::Result<Self> {
        let before = std::panic::take_hook();
        // A defect is told on the terminal as it was, or nobody could read it.
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        enable_raw_mode()?;
        IS_TAKEN.store(true, Ordering::SeqCst);
        let screen = Self { keys: EventStream::new(), shown: Vec::new(), size: size(), has_colours };
        let mut out = io::stdout();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        Ok(screen)
    }

    pub(super) async fn input(&mut self) -> Input {
        loop {
            match self.keys.next().await {
                None | Some(Err(_)) => return Input::End,
                Some(Ok(Event::Resize(..))) => return Input::Resized,
                Some(Ok(Event::Key(event))) => {
                    if let Some(key) = key(event) {
                        return Input::Key(key);
                    }
                }
                Some(Ok(_)) => {}
            }
        }
    }

    pub(super) fn draw(&mut self, frame: Frame, size: Size) -> io::Result<()> {
        if size != self.size {
            (self.size, self.shown) = (size, Vec::new());
        }
        let text = changes(&self.shown, &frame.lines, self.has_colours);
        self.shown = frame.lines;
        let mut out = io::stdout();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Once, whoever comes first. What cannot be written any more has no reader.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = out.write_all(LEAVE.as_bytes());
        let _ = out.flush();
        let _ = disable_raw_mode();
    }
}

/// Of the terminal that shows the output, which need not be the one that controls the process.
pub(super) fn size() -> Size {
    let Ok(size) = rustix::termios::tcgetwinsize(io::stdout()) else { return SIZE_USUAL };
    match (usize::from(size.ws_col), usize::from(size.ws_row)) {
        (0, _) | (_, 0) => SIZE_USUAL,
        (columns, rows) => Size { columns, rows },
    }
}

/// The bytes that turn one frame into the other.
fn changes(before: &[TextLine], after: &[TextLine], has_colours: bool) -> String {
    let mut text = String::new();
    let rows = before.len().max(after.len());
    for row in 0..rows {
        let line = after.get(row);
        if before.get(row) == line {
            continue;
        }
        // Cleared before and not after: a line may end in the last column.
        let _ = write!(text, "\x1b[{};1H\x1b[2K", row + 1);
        for span in line.into_iter().flatten() {
            let _ = write!(text, "{}{}\x1b[0m", code(span.look, has_colours), span.text);
        }
    }
    text
}

fn code(look: Look, has_colours: bool) -> &'static str {
    match (look, has_colours) {
        (Look::Plain, _) | (Look::Warning | Look::Bad, false) => "",
        (Look::Strong, _) => "\x1b[1m",
        (Look::Faint, _) => "\x1b[2m",
        (Look::Chosen, _) => "\x1b[7m",
        (Look::Warning, true) => "\x1b[33m",
        (Look::Bad, true) => "\x1b[31m",
    }
}

fn key(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    if event.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(event.code, KeyCode::Char('c' | 'd')).then_some(Key::Quit);
    }
    if event.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    Some(match event.code {
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab | KeyCode::Right => Key::NextTab,
        KeyCode::BackTab | KeyCode::Left => Key::PreviousTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        _ => return None,
    })
}
