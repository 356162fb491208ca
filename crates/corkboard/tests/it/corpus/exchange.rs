//! One request and its answer as a block of text, and a file of them.
//!
//! ```text
//! # Why this stands here.
//! POST /v1/domains/upsert UpsertDomainRequest
//! @ X-Vcap-Request-Id: trace-1
//!     domain: "demo"
//! = UpsertDomainResponse
//! 200 application/x-protobuf
//! ```
//! The first line names the method, the path and the message of the body: `-` where there is none, `hex` where it is no
//! message. `@` is a header. `=` names the message of the answer, or `events`, or `text`. A script ends there; in a recording
//! follow the status with the headers that count, and the body. Every request also has `Host`, `Content-Length`,
//! `Content-Type: application/x-protobuf` and `Connection: close`.

use std::fmt::Write as _;

const INDENT: &str = "    ";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) comment: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<String>,
    /// The name of its message.
    pub(super) request: String,
    pub(super) body: String,
    /// The name of its message, or `events`, or `text`.
    pub(super) response: String,
    /// Empty in a script.
    pub(super) answer: String,
}

/// The blocks of a file; they are parted by empty lines.
pub(super) fn parse(text: &str) -> Vec<Exchange> {
    text.split("\n\n").filter(|block| !block.trim().is_empty()).map(parse_block).collect()
}

pub(super) fn print(exchanges: &[Exchange]) -> String {
    exchanges.iter().map(print_block).collect::<Vec<_>>().join("\n")
}

fn parse_block(block: &str) -> Exchange {
    let (mut comment, mut headers, mut body, mut answer) = (String::new(), Vec::new(), String::new(), String::new());
    let mut lines = block.trim_matches('\n').lines().peekable();
    while let Some(line) = lines.next_if(|line| line.starts_with('#')) {
        writeln!(comment, "{line}").unwrap();
    }
    let first = lines.next().unwrap_or_else(|| panic!("no request in:\n{block}"));
    let [method, path, request] = first.split(' ').collect::<Vec<_>>()[..] else { panic!("no request: {first}") };
    while let Some(line) = lines.next_if(|line| line.starts_with("@ ")) {
        headers.push(line[2..].to_owned());
    }
    while let Some(line) = lines.next_if(|line| line.starts_with(INDENT)) {
        writeln!(body, "{}", &line[INDENT.len()..]).unwrap();
    }
    let equals = lines.next().and_then(|line| line.strip_prefix("= "));
    let response = equals.unwrap_or_else(|| panic!("nothing says what comes back in:\n{block}")).to_owned();
    lines.for_each(|line| writeln!(answer, "{line}").unwrap());
    let [method, path, request] = [method, path, request].map(str::to_owned);
    Exchange { comment, method, path, headers, request, body, response, answer }
}

fn print_block(exchange: &Exchange) -> String {
    let Exchange { comment, method, path, headers, request, body, response, answer } = exchange;
    let headers: String = headers.iter().map(|header| format!("@ {header}\n")).collect();
    let body: String = body.lines().map(|line| format!("{INDENT}{line}\n")).collect();
    format!("{comment}{method} {path} {request}\n{headers}{body}= {response}\n{answer}")
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let text = "# Why.\nPOST /a A\n@ X-B: c\n    a {\n        b: 1\n    }\n= B\n200 d\nb: 2\n\nGET /e -\n= events\n";
    let exchanges = parse(text);
    assert_eq!(print(&exchanges), text);
    assert_eq!((exchanges[0].headers[0].as_str(), exchanges[0].body.as_str()), ("X-B: c", "a {\n    b: 1\n}\n"));
    assert_eq!((exchanges[0].answer.as_str(), exchanges[1].answer.as_str()), ("200 d\nb: 2\n", ""));
}
