//! The log of a real process, line by line, as a reader of Diego's logs understands it.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::site::{SECRETS, Site};
use crate::program::utf8;

/// One line of the log, if it is what lager writes, in either of its forms.
pub(super) fn lager(line: &str) -> Value {
    for secret in SECRETS {
        assert!(!line.contains(secret), "{line}");
    }
    let text = line.strip_suffix('\n').unwrap_or_else(|| panic!("half a line: {line}"));
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {line}"));
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    let timestamp = value["timestamp"].as_str().unwrap();
    if value.get("log_level").is_some() {
        assert_eq!(keys, ["data", "log_level", "message", "source", "timestamp"], "{line}");
        assert!((0..=3).contains(&value["log_level"].as_u64().unwrap()), "{line}");
        let (seconds, nanoseconds) = timestamp.split_once('.').unwrap();
        assert!(seconds.parse::<u64>().unwrap() > 1_700_000_000, "{line}");
        assert!(nanoseconds.len() == 9 && nanoseconds.parse::<u32>().is_ok(), "{line}");
    } else {
        assert_eq!(keys, ["data", "level", "message", "source", "timestamp"], "{line}");
        assert!(["debug", "info", "error", "fatal"].contains(&value["level"].as_str().unwrap()), "{line}");
        let form: String = timestamp.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(form, "0000-00-00T00:00:00.000000000Z", "{line}");
    }
    let (source, message) = (value["source"].as_str().unwrap(), value["message"].as_str().unwrap());
    let name = message.strip_prefix(&format!("{source}.")).unwrap_or_else(|| panic!("{line}"));
    let is_dotted = name.split('.').all(|part| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    });
    assert!(is_dotted, "{line}");
    assert!(value["data"]["text"].is_string(), "{line}");
    value
}

/// Starts and stops a server, and gives every line of its log.
fn a_life(changes: &Value) -> Vec<Value> {
    let site = Site::new(changes);
    let mut bbs = site.start(&["-config", utf8(&site.file())]);
    let mut lines = bbs.lines_until("bbs.started");
    bbs.signal(Signal::TERM);
    lines.extend(bbs.rest());
    assert_eq!(bbs.end(), (Some(0), String::new()));
    lines
}

fn messages(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["message"].as_str().unwrap()).collect()
}

#[test]
fn every_line_is_lagers_with_the_time_in_seconds() {
    let lines = a_life(&json!({ "log_level": "debug", "unheard_of": 1 }));
    assert!(lines.iter().all(|line| line.get("log_level").is_some()));
    let heard = messages(&lines);
    assert_eq!((heard[0], heard[heard.len() - 1]), ("bbs.starting", "bbs.exited"));
    for name in ["bbs.locket-lock.started", "bbs.locket-lock.acquired-lock", "bbs.locket-lock.released-lock"] {
        assert!(heard.contains(&name), "{name} is not among {heard:?}");
    }
    let find =
        |name: &str| &lines[heard.iter().position(|heard| *heard == name).unwrap_or_else(|| panic!("{heard:?}"))];
    let database = &find("bbs.server.the-sql-database-is-not-touched")["data"];
    assert_eq!(database["asked_for"], "postgres");
    assert!(database["used"].as_str().unwrap().starts_with("embedded, "), "{database}");
    let ignored = &find("bbs.server.some-keys-of-the-configuration-mean-nothing-here")["data"]["keys"];
    assert!(ignored.as_str().unwrap().contains("metrics are pulled: report_interval"), "{ignored}");
    let unknown = &find("bbs.server.some-keys-of-the-configuration-are-unknown")["data"]["keys"];
    assert_eq!(unknown, "unheard_of");
}

#[test]
fn every_line_is_lagers_with_dates() {
    let lines = a_life(&json!({ "time_format": "rfc3339" }));
    assert!(lines.iter().all(|line| line.get("level").is_some()));
    assert!(messages(&lines).contains(&"bbs.started"));
}

#[test]
fn the_name_of_the_session_is_the_source() {
    let site = Site::new(&json!({ "session_name": "board" }));
    let mut bbs = site.start(&["-config", utf8(&site.file())]);
    let lines = bbs.lines_until("board.started");
    assert!(lines.iter().all(|line| line["source"] == "board"));
}
