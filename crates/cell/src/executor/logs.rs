//! What containers write: who said it, how much of it is passed on, and where the last of it is found.
//!
//! Every line goes to whoever listens ([`Stream`] sends it; a slow listener misses some) and to a file of its container that is
//! kept when the container is gone, because that is when it is asked for. Lines are at most [`LINE_BYTES_MAX`] long; longer ones
//! come in pieces. A container that writes faster than it may is silenced for a second, and is told so once.

mod kept;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;

pub use kept::recent;
pub(crate) use kept::{Archive, Kept, logs_folder};

use super::clock::wall_ns;
use super::{ContainerGuid, LogConfig, LogLine, Nanos, Owner};

/// The longest line, as in Diego: what fits into one message of its log system.
pub const LINE_BYTES_MAX: usize = 61_440;

/// The source of lines in a container that names none.
const SOURCE_DEFAULT: &str = "LOG";

/// How long a container that wrote too fast is not heard.
const SILENCE_MS: u64 = 1_000;

/// The output of a container.
pub(crate) struct Stream {
    container: ContainerGuid,
    owner: Arc<Owner>,
    heard: Mutex<Heard>,
    listeners: broadcast::Sender<LogLine>,
}

struct Heard {
    config: Arc<LogConfig>,
    limit: Limit,
    kept: Kept,
    /// Of the last line, also of a cell that was here before.
    last_ns: Nanos,
}

impl Stream {
    pub(crate) fn new(owner: Owner, config: LogConfig, listeners: broadcast::Sender<LogLine>, kept: Kept) -> Arc<Self> {
        let (limit, last_ns) = (Limit::new(config.bytes_per_s_max), kept.last_ns());
        let heard = Mutex::new(Heard { config: Arc::new(config), limit, kept, last_ns });
        Arc::new(Self { container: owner.container(), owner: Arc::new(owner), heard, listeners })
    }

    pub(crate) fn set_tags(&self, tags: std::collections::BTreeMap<String, String>) {
        let mut heard = locked(&self.heard);
        let mut config = (*heard.config).clone();
        config.tags = tags;
        heard.config = Arc::new(config);
    }

    fn line(&self, source: &Arc<str>, is_error: bool, text: &str) {
        for piece in text.split('\n').flat_map(pieces) {
            let mut heard = locked(&self.heard);
            match heard.limit.admit(piece.len(), Instant::now()) {
                Admission::Pass => self.send(&mut heard, source, is_error, piece),
                Admission::Drop => {}
                Admission::Silence => {
                    let told =
                        format!("app instance exceeded log rate limit ({} bytes/sec)", heard.config.bytes_per_s_max);
                    self.send(&mut heard, source, false, &told);
                }
            }
        }
    }

    fn send(&self, heard: &mut Heard, source: &Arc<str>, is_error: bool, text: &str) {
        // A clock that is set back must not make a line look like one that was told already.
        heard.last_ns = wall_ns().max(heard.last_ns.saturating_add(1));
        let line = LogLine {
            container: self.container.clone(),
            owner: self.owner.clone(),
            log: heard.config.clone(),
            source: source.clone(),
            is_error,
            at_ns: heard.last_ns,
            text: text.to_owned(),
        };
        heard.kept.write(&line);
        // Nobody listening is no fault.
        let _ = self.listeners.send(line);
    }
}

/// Where an action writes to, under a name.
#[derive(Clone)]
pub(crate) struct Output {
    sink: Sink,
    source: Arc<str>,
}

#[derive(Clone)]
enum Sink {
    Stream(Arc<Stream>),
    Buffer(Arc<Mutex<String>>),
    Silence,
}

/// The most that a check may write to explain itself.
const BUFFER_BYTES_MAX: usize = 4_096;

impl Output {
    pub(crate) fn new(stream: Arc<Stream>) -> Self {
        let source = locked(&stream.heard).config.source.clone();
        let source = if source.is_empty() { SOURCE_DEFAULT.into() } else { named(&source) };
        Self { sink: Sink::Stream(stream), source }
    }

    pub(crate) fn buffer() -> Self {
        Self { sink: Sink::Buffer(Arc::default()), source: SOURCE_DEFAULT.into() }
    }

    /// The same under another name, or under the same where that is empty.
    pub(crate) fn of(&self, source: &str) -> Self {
        let source = if source.is_empty() { self.source.clone() } else { named(source) };
        Self { sink: self.sink.clone(), source }
    }

    pub(crate) fn silent(&self) -> Self {
        Self { sink: Sink::Silence, source: self.source.clone() }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn line(&self, is_error: bool, text: &str) {
        match &self.sink {
            Sink::Stream(stream) => stream.line(&self.source, is_error, text),
            Sink::Buffer(buffer) => {
                let mut buffer = locked(buffer);
                if buffer.len() + text.len() < BUFFER_BYTES_MAX {
                    buffer.push_str(text);
                    buffer.push('\n');
                }
            }
            Sink::Silence => {}
        }
    }

    pub(crate) fn take_buffer(&self) -> String {
        match &self.sink {
            Sink::Buffer(buffer) => std::mem::take(&mut *locked(buffer)),
            Sink::Stream(_) | Sink::Silence => String::new(),
        }
    }
}

/// A source comes from a definition, and stands in a line: whatever would break that is left out.
fn named(source: &str) -> Arc<str> {
    source.chars().filter(|c| !c.is_control() && !matches!(c, '[' | ']')).collect::<String>().into()
}

/// Whether a line may pass.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    Pass,
    Drop,
    /// It may not, and this is the first.
    Silence,
}

/// A bucket that holds what may be written in one second.
#[derive(Debug)]
struct Limit {
    bytes_per_s_max: i64,
    left_bytes: f64,
    filled: Option<Instant>,
    silent_until: Option<Instant>,
}

impl Limit {
    fn new(bytes_per_s_max: i64) -> Self {
        Self { bytes_per_s_max, left_bytes: bytes_per_s_max as f64, filled: None, silent_until: None }
    }

    fn admit(&mut self, bytes: usize, now: Instant) -> Admission {
        match self.bytes_per_s_max {
            ..0 => return Admission::Pass,
            0 => return Admission::Drop,
            1.. => {}
        }
        if self.silent_until.is_some_and(|until| now < until) {
            return Admission::Drop;
        }
        let rate = self.bytes_per_s_max as f64;
        let passed = self.filled.map_or(Duration::ZERO, |filled| now - filled);
        self.left_bytes = (self.left_bytes + rate * passed.as_secs_f64()).min(rate);
        self.filled = Some(now);
        if bytes as f64 <= self.left_bytes {
            self.left_bytes -= bytes as f64;
            return Admission::Pass;
        }
        self.silent_until = Some(now + Duration::from_millis(SILENCE_MS));
        Admission::Silence
    }
}

/// A line in pieces of at most [`LINE_BYTES_MAX`], never cut within a character.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(LINE_BYTES_MAX);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A lock whose holder panicked is used all the same: every change under these locks is complete or harmless.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_writes_too_fast_is_silenced_for_a_second_and_told_once() {
        let mut limit = Limit::new(100);
        let after = |ms: u64, bytes: usize| (Instant::now() + Duration::from_millis(ms), bytes);
        let table = [
            (after(0, 60), Admission::Pass),
            (after(0, 40), Admission::Pass),
            (after(100, 10), Admission::Pass),
            (after(100, 1), Admission::Silence),
            (after(500, 1), Admission::Drop),
            (after(1_099, 1), Admission::Drop),
            (after(1_100, 100), Admission::Pass),
            (after(1_600, 51), Admission::Silence),
        ];
        for ((at, bytes), expected) in table {
            assert_eq!(limit.admit(bytes, at), expected, "{bytes} bytes");
        }
        assert_eq!(Limit::new(0).admit(1, Instant::now()), Admission::Drop);
        assert_eq!(Limit::new(-1).admit(usize::MAX, Instant::now()), Admission::Pass);
    }

    #[test]
    fn long_lines_come_in_pieces() {
        let text = "ä".repeat(LINE_BYTES_MAX);
        let pieces: Vec<&str> = pieces(&text).collect();
        assert_eq!(pieces.concat(), text);
        assert!(pieces.iter().all(|piece| piece.len() <= LINE_BYTES_MAX));
        assert_eq!(pieces.len(), 2);
    }
}
