//! What containers wrote, as a cell tells it: the question, and the lines of the answer.
//!
//! Ours; Diego's cells do not know the path. The answer is one JSON object a line. The first is [`LogMessage::Hello`]. Then
//! come the lines that the cell keeps, oldest first, and for whoever follows the lines that are written from then on, in the
//! order of each container. A line is known by its container and its time: no two of a container have the same, and a later
//! one has a later time. So who comes back says from when on, and leaves out what it knows.

use serde::{Deserialize, Serialize};
use url::form_urlencoded;

/// GET of [`LogMessage`]s at the network port, with a [`LogQuery`].
pub const LOGS_PATH: &str = "/corkboard/v1/logs";
/// How often a cell says something to who follows, even if there is nothing.
pub const BEAT_INTERVAL_S: u64 = 10;

/// Whose lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogsOf {
    /// Of all instances of an app, those that ended too, or of one index.
    Process {
        guid: String,
        index: Option<i32>,
    },
    Task {
        guid: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    pub of: LogsOf,
    /// At most so many lines that were written before, of each container.
    pub lines: Option<usize>,
    /// Only lines after this time of the cell's clock, in nanoseconds since the Unix epoch.
    pub since_ns: Option<i64>,
    /// Go on with what is written from now on.
    pub follow: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("expected process_guid or task_guid, and one of them only")]
    Whose,
    #[error("{name} is not a number")]
    Number { name: &'static str },
}

impl LogQuery {
    /// As it stands behind the question mark.
    pub fn to_text(&self) -> String {
        let mut text = form_urlencoded::Serializer::new(String::new());
        match &self.of {
            LogsOf::Process { guid, index } => {
                text.append_pair("process_guid", guid);
                if let Some(index) = index {
                    text.append_pair("index", &index.to_string());
                }
            }
            LogsOf::Task { guid } => {
                text.append_pair("task_guid", guid);
            }
        }
        if let Some(lines) = self.lines {
            text.append_pair("lines", &lines.to_string());
        }
        if let Some(since) = self.since_ns {
            text.append_pair("since_ns", &since.to_string());
        }
        if self.follow {
            text.append_pair("follow", "true");
        }
        text.finish()
    }

    /// Keys that are not known are for later releases, and have nothing to say here.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let pairs: Vec<_> = form_urlencoded::parse(text.as_bytes()).collect();
        let value = |name: &str| {
            let found = pairs.iter().find(|(key, value)| key == name && !value.is_empty());
            found.map(|(_, value)| value.as_ref())
        };
        let index = number(value("index"), "index")?;
        let of = match (value("process_guid"), value("task_guid")) {
            (Some(guid), None) => LogsOf::Process { guid: guid.to_owned(), index },
            (None, Some(guid)) => LogsOf::Task { guid: guid.to_owned() },
            _ => return Err(QueryError::Whose),
        };
        let (lines, since_ns) = (number(value("lines"), "lines")?, number(value("since_ns"), "since_ns")?);
        Ok(Self { of, lines, since_ns, follow: value("follow") == Some("true") })
    }
}

fn number<T: std::str::FromStr>(text: Option<&str>, name: &'static str) -> Result<Option<T>, QueryError> {
    text.map(|text| text.parse().map_err(|_| QueryError::Number { name })).transpose()
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LogMessage {
    /// Who answers, and its time before it looked: whoever comes back later asks from there on.
    Hello {
        cell_id: String,
        now_ns: i64,
    },
    Line(LogLine),
    /// The reader was too slow, or there was too much: so many lines are missing here.
    Lost {
        lines: u64,
    },
    /// Nothing was written for a while.
    Beat,
    /// What a later release says, and this one does not understand.
    #[serde(other)]
    Unknown,
}

/// What something in a container wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogLine {
    pub at_ns: i64,
    /// Of the instance of an app; empty for a task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub process_guid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_guid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_guid: String,
    pub index: i32,
    /// Which part of the app it was, such as `APP` or `HEALTH`.
    pub source: String,
    /// It was written to standard error.
    pub error: bool,
    pub text: String,
}

impl LogLine {
    /// What no two containers share.
    pub fn container(&self) -> &str {
        if self.task_guid.is_empty() { &self.instance_guid } else { &self.task_guid }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_question_is_read_as_it_was_written() {
        let app = LogsOf::Process { guid: "my app&=1".into(), index: Some(2) };
        let all = LogQuery { of: app, lines: Some(10), since_ns: Some(-5), follow: true };
        expect!["process_guid=my+app%26%3D1&index=2&lines=10&since_ns=-5&follow=true"].assert_eq(&all.to_text());
        assert_eq!(LogQuery::parse(&all.to_text()), Ok(all));
        let task = LogQuery { of: LogsOf::Task { guid: "t".into() }, lines: None, since_ns: None, follow: false };
        assert_eq!(LogQuery::parse(&task.to_text()), Ok(task));
    }

    #[test]
    fn what_is_wrong_with_a_question_is_named() {
        let refusal = |text: &str| LogQuery::parse(text).unwrap_err().to_string();
        expect!["expected process_guid or task_guid, and one of them only"].assert_eq(&refusal(""));
        assert_eq!(refusal("process_guid=a&task_guid=b"), refusal(""));
        assert_eq!(refusal("process_guid="), refusal(""));
        expect!["lines is not a number"].assert_eq(&refusal("process_guid=a&lines=-1"));
    }

    #[test]
    fn messages_are_flat_and_unknown_ones_are_harmless() {
        let line = LogLine {
            at_ns: 7,
            task_guid: "t".into(),
            source: "APP".into(),
            text: "é\u{1b}".into(),
            ..Default::default()
        };
        expect![[
            r#"{"type":"line","at_ns":7,"task_guid":"t","index":0,"source":"APP","error":false,"text":"é\u001b"}"#
        ]]
        .assert_eq(&serde_json::to_string(&LogMessage::Line(line.clone())).unwrap());
        let read = |text: &str| serde_json::from_str::<LogMessage>(text).unwrap();
        assert_eq!(read(&serde_json::to_string(&LogMessage::Line(line.clone())).unwrap()), LogMessage::Line(line));
        assert_eq!(read(r#"{"type":"lost","lines":3}"#), LogMessage::Lost { lines: 3 });
        assert_eq!(read(r#"{"type":"from later","what":3}"#), LogMessage::Unknown);
    }
}
