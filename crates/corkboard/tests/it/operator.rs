//! A server that knows only what a test tells it: questions and their answers, each used once, the last one for ever.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use expect_test::Expect;

use crate::program::{Outcome, finish, program};

/// A question such as `GET /corkboard/v1/migration`, the status of the answer, and its body.
pub(crate) type Line<'a> = (&'a str, u16, &'a str);

/// In place of a status: the server ends without an answer, and nobody listens any more.
pub(crate) const GONE: u16 = 0;

pub(crate) struct Operator {
    pub(crate) url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

/// A question, and the answers that are left for it.
type Answers = (String, VecDeque<(u16, Vec<u8>)>);

impl Operator {
    pub(crate) fn new(lines: &[Line<'_>]) -> Self {
        let mut script: Vec<Answers> = Vec::new();
        for (question, status, body) in lines {
            let answer = (*status, body.as_bytes().to_vec());
            match script.iter_mut().find(|(known, _)| known == question) {
                Some((_, answers)) => answers.push_back(answer),
                None => script.push(((*question).to_owned(), VecDeque::from([answer]))),
            }
        }
        let (script, heard) = (Arc::new(Mutex::new(script)), Arc::new(Mutex::new(Vec::new())));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let said = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if !serve(&stream.unwrap(), &script, &said) {
                    return;
                }
            }
        });
        Self { url, heard }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program(args);
        command.env("BBS_URL", &self.url);
        command
    }

    pub(crate) fn call(&self, args: &[&str]) -> Outcome {
        finish(&mut self.command(args))
    }

    /// Everything that was asked so far, with the bodies.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// Answers one question and closes the connection. False when the script ends the server.
fn serve(stream: &TcpStream, script: &Mutex<Vec<Answers>>, heard: &Mutex<Vec<String>>) -> bool {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 {
            return true;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let length = head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    let question = head[0].strip_suffix(" HTTP/1.1").unwrap().to_owned();
    heard.lock().unwrap().push(format!("{question} {}", String::from_utf8(body).unwrap()).trim_end().to_owned());

    let mut script = script.lock().unwrap();
    let (status, body) = match script.iter_mut().find(|(known, _)| *known == question) {
        Some((_, answers)) if answers.len() > 1 => answers.pop_front().unwrap(),
        Some((_, answers)) => answers[0].clone(),
        None => (404, format!("nothing is scripted for {question}").into_bytes()),
    };
    if status == GONE {
        return false;
    }
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let mut stream = stream;
    stream.write_all(&[head.into_bytes(), body].concat()).unwrap();
    true
}

/// One command against one script: its output, its exit code, and what the server heard.
pub(crate) fn check(script: &[Line<'_>], args: &[&str], expected: &Expect) {
    let operator = Operator::new(script);
    let outcome = operator.call(args);
    let mut text = format!("{}{}= {}\n", outcome.stdout, outcome.stderr, outcome.code);
    for question in operator.heard() {
        text.push_str(&format!("< {question}\n"));
    }
    expected.assert_eq(&text.replace(&operator.url, "URL"));
}
