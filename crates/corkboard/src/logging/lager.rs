//! Log lines in the shape of lager, the library that Diego's components log with, so that whatever reads their logs reads
//! ours.
//!
//! Promise: one JSON object a line and nothing else, in one write. It has lager's members, in either of its two forms: with
//! the time in seconds and a number for the level, or with a date and a word. The message is a dotted name, made from our
//! sentence or taken from a table ([`super::names`]); the sentence itself is `data.text`, and the fields are the other
//! members of `data`.
//!
//! lager has no warnings. Ours are its errors: what Diego's components would log for the same cause.

use std::fmt;
use std::io::Write as _;

use bbs::clock::{Clock as _, SystemClock};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::names;

/// The beginning of the names of all our crates. What others say below `info` may hold what they transport.
const OURS: &str = "corkboard";
/// The field with the message of a line, where the sentence does not say it.
const MESSAGE_FIELD: &str = "lager";
/// What follows a text that was cut, as in lager.
const CUT: &str = "-(truncated)";
const NS_PER_S: i64 = 1_000_000_000;
const S_PER_DAY: i64 = 86_400;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug,
    Info,
    Error,
    Fatal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeFormat {
    UnixEpoch,
    Rfc3339,
}

/// What Diego's file says about the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The component; every message begins with it.
    pub(crate) source: String,
    /// What is less is not logged.
    pub(crate) level: Level,
    pub(crate) time: TimeFormat,
    /// Longer texts in `data` are cut; 0 leaves them.
    pub(crate) text_bytes_max: usize,
}

/// A layer that writes to `out`.
pub(super) fn lines<S, W>(shape: Shape, out: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (ours, of_others) = match shape.level {
        Level::Debug => (LevelFilter::DEBUG, LevelFilter::INFO),
        Level::Info => (LevelFilter::INFO, LevelFilter::INFO),
        Level::Error => (LevelFilter::WARN, LevelFilter::WARN),
        Level::Fatal => (LevelFilter::ERROR, LevelFilter::ERROR),
    };
    Lager { shape, out }.with_filter(Targets::new().with_default(of_others).with_target(OURS, ours))
}

struct Lager<W> {
    shape: Shape,
    out: W,
}

impl<S, W> Layer<S> for Lager<W>
where
    S: Subscriber,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let metadata = event.metadata();
        let name = names::name(metadata.target(), &said.sentence, said.message.as_deref());
        let level = name.level.unwrap_or(match *metadata.level() {
            tracing::Level::ERROR | tracing::Level::WARN => Level::Error,
            tracing::Level::INFO => Level::Info,
            _ => Level::Debug,
        });
        if level < self.shape.level {
            return;
        }
        let line = self.shape.line(SystemClock.now_ns(), level, &name.message, said);
        // Whoever closed it does not want to read it.
        let _ = self.out.make_writer().write_all(line.as_bytes());
    }
}

/// What an event has to say.
#[derive(Default)]
struct Said {
    sentence: String,
    message: Option<String>,
    data: Map<String, Value>,
}

impl Said {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.sentence = text,
            (MESSAGE_FIELD, Value::String(text)) => self.message = Some(text),
            // Where a line comes from that was written with another library.
            (name, _) if name.starts_with("log.") => {}
            (name, value) => _ = self.data.insert(name.to_owned(), value),
        }
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}

/// The members in the order in which lager writes them.
#[derive(serde::Serialize)]
struct InSeconds<'a> {
    timestamp: String,
    source: &'a str,
    message: String,
    log_level: u8,
    data: Map<String, Value>,
}

#[derive(serde::Serialize)]
struct WithDate<'a> {
    timestamp: String,
    level: &'static str,
    source: &'a str,
    message: String,
    data: Map<String, Value>,
}

impl Shape {
    fn line(&self, now_ns: i64, level: Level, name: &str, said: Said) -> String {
        let Said { sentence, mut data, .. } = said;
        data.insert("text".to_owned(), sentence.into());
        for value in data.values_mut() {
            if let Value::String(text) = value {
                cut(text, self.text_bytes_max);
            }
        }
        let source = self.source.as_str();
        let message = format!("{source}.{name}");
        let written = match self.time {
            TimeFormat::UnixEpoch => {
                let timestamp = format!("{}.{:09}", now_ns.div_euclid(NS_PER_S), now_ns.rem_euclid(NS_PER_S));
                serde_json::to_string(&InSeconds { timestamp, source, message, log_level: level as u8, data })
            }
            TimeFormat::Rfc3339 => {
                let level = match level {
                    Level::Debug => "debug",
                    Level::Info => "info",
                    Level::Error => "error",
                    Level::Fatal => "fatal",
                };
                serde_json::to_string(&WithDate { timestamp: date(now_ns), level, source, message, data })
            }
        };
        written.expect("text, numbers and flags can be written as JSON") + "\n"
    }
}

fn cut(text: &mut String, bytes_max: usize) {
    if bytes_max == 0 || text.len() <= bytes_max || text.len() < CUT.len() {
        return;
    }
    text.truncate(text.floor_char_boundary(bytes_max.saturating_sub(CUT.len())));
    text.push_str(CUT);
}

/// RFC 3339 in UTC, always with nine digits behind the point.
pub(crate) fn date(now_ns: i64) -> String {
    let (s, ns) = (now_ns.div_euclid(NS_PER_S), now_ns.rem_euclid(NS_PER_S));
    let (days, second) = (s.div_euclid(S_PER_DAY), s.rem_euclid(S_PER_DAY));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ns:09}Z")
}

/// The date of a day since 1970. Years begin in March here, so that the leap day is the last of a year.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_TO_1970: i64 = 719_468;
    const DAYS_PER_400_YEARS: i64 = 146_097;
    let day = days + DAYS_TO_1970;
    let (era, of_era) = (day.div_euclid(DAYS_PER_400_YEARS), day.rem_euclid(DAYS_PER_400_YEARS));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) = if month_from_march < 10 { (month_from_march + 3, 0) } else { (month_from_march - 9, 1) };
    (era * 400 + year_of_era + next_year, month, day)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use expect_test::expect;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn shape(level: Level, time: TimeFormat) -> Shape {
        Shape { source: "bbs".to_owned(), level, time, text_bytes_max: 0 }
    }

    /// What is written while `work` runs, with the times masked.
    fn logged(shape: Shape, work: impl FnOnce()) -> String {
        let kept = Kept::default();
        let out = kept.clone();
        let subscriber = tracing_subscriber::registry().with(lines(shape, move || out.clone()));
        tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        text.lines()
            .map(|line| {
                let (before, rest) = line.split_once("\"timestamp\":\"").unwrap();
                let (time, after) = rest.split_once('"').unwrap();
                let mask: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
                format!("{before}\"timestamp\":\"{mask}\"{after}\n")
            })
            .collect()
    }

    fn say_everything() {
        tracing::trace!("never heard");
        tracing::debug!(target: "corkboard_bbs::http::listener", peer = %"10.0.0.1:2", "a TLS handshake failed");
        tracing::debug!(target: "h2::client", "headers of others");
        tracing::info!(target: "corkboard_bbs::server", store = "embedded", took = ?std::time::Duration::from_millis(3), "the store is open");
        tracing::warn!(target: "corkboard_store::etcd::lease", error = %io::Error::other("gone \"away\"\n"), "cannot become master at the moment; trying again");
        tracing::error!(target: "corkboard_bbs", lager = "locket-lock.lost-lock", whole = 3, share = 0.5, not = f64::NAN, is = true, "lost");
    }

    #[test]
    fn both_forms() {
        let text = logged(shape(Level::Debug, TimeFormat::UnixEpoch), say_everything);
        expect![[r#"
            {"timestamp":"0000000000.000000000","source":"bbs","message":"bbs.http.a-tls-handshake-failed","log_level":0,"data":{"peer":"10.0.0.1:2","text":"a TLS handshake failed"}}
            {"timestamp":"0000000000.000000000","source":"bbs","message":"bbs.server.the-store-is-open","log_level":1,"data":{"store":"embedded","text":"the store is open","took":"3ms"}}
            {"timestamp":"0000000000.000000000","source":"bbs","message":"bbs.etcd.cannot-become-master-at-the-moment","log_level":2,"data":{"error":"gone \"away\"\n","text":"cannot become master at the moment; trying again"}}
            {"timestamp":"0000000000.000000000","source":"bbs","message":"bbs.locket-lock.lost-lock","log_level":2,"data":{"is":true,"not":null,"share":0.5,"text":"lost","whole":3}}
        "#]].assert_eq(&text);
        let text = logged(shape(Level::Debug, TimeFormat::Rfc3339), say_everything);
        expect![[r#"
            {"timestamp":"0000-00-00T00:00:00.000000000Z","level":"debug","source":"bbs","message":"bbs.http.a-tls-handshake-failed","data":{"peer":"10.0.0.1:2","text":"a TLS handshake failed"}}
            {"timestamp":"0000-00-00T00:00:00.000000000Z","level":"info","source":"bbs","message":"bbs.server.the-store-is-open","data":{"store":"embedded","text":"the store is open","took":"3ms"}}
            {"timestamp":"0000-00-00T00:00:00.000000000Z","level":"error","source":"bbs","message":"bbs.etcd.cannot-become-master-at-the-moment","data":{"error":"gone \"away\"\n","text":"cannot become master at the moment; trying again"}}
            {"timestamp":"0000-00-00T00:00:00.000000000Z","level":"error","source":"bbs","message":"bbs.locket-lock.lost-lock","data":{"is":true,"not":null,"share":0.5,"text":"lost","whole":3}}
        "#]].assert_eq(&text);
    }

    #[test]
    fn the_level_filters() {
        let count = |level| logged(shape(level, TimeFormat::UnixEpoch), say_everything).lines().count();
        let counts = [Level::Debug, Level::Info, Level::Error, Level::Fatal].map(count);
        assert_eq!(counts, [4, 3, 2, 0]);
        let fatal = || tracing::error!("the configuration cannot be used");
        assert!(logged(shape(Level::Fatal, TimeFormat::UnixEpoch), fatal).contains("\"log_level\":3"));
    }

    #[test]
    fn long_texts_are_cut_as_lager_cuts_them() {
        for (text, bytes_max, expected) in [
            ("aaaaaaaaaaaaaaaaaaaaaaaaa", 20, "aaaaaaaa-(truncated)"),
            ("foobar", 20, "foobar"),
            ("foobar", 5, "foobar"),
            ("aaaaaaaaaaaaaaa", 0, "aaaaaaaaaaaaaaa"),
            ("aaaaaaaaaaaaaaa", 3, "-(truncated)"),
            ("ääääääääääääääää", 15, "ä-(truncated)"),
        ] {
            let mut cut_text = text.to_owned();
            cut(&mut cut_text, bytes_max);
            assert_eq!(cut_text, expected, "{text} to {bytes_max}");
        }
    }

    #[test]
    fn dates() {
        for (s, expected) in [
            (0, "1970-01-01T00:00:00.000000007Z"),
            (951_782_399, "2000-02-28T23:59:59.000000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000000007Z"),
            (1_700_000_000, "2023-11-14T22:13:20.000000007Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000000007Z"),
            (4_102_444_800, "2100-01-01T00:00:00.000000007Z"),
            (-1, "1969-12-31T23:59:59.000000007Z"),
        ] {
            assert_eq!(date(s * NS_PER_S + 7), expected);
        }
    }
}
