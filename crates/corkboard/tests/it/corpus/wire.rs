//! HTTP/1.1 by hand: what is sent is what stands in the corpus, and no library repairs it on the way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::exchange::Exchange;

/// Nothing here takes long, but the machine may be busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Headers of answers that clients look at.
const HEADERS: &[&str] = &["allow", "x-vcap-request-id"];

/// An answer whose head is read and whose body is not.
pub(super) struct Answer {
    /// Status, content type, and other headers that count, on a line each.
    pub(super) head: String,
    pub(super) is_protobuf: bool,
    reader: BufReader<TcpStream>,
    length: Option<usize>,
    is_chunked: bool,
}

pub(super) fn send(address: SocketAddr, exchange: &Exchange, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    let Exchange { method, path, headers, .. } = exchange;
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/x-protobuf\r\n\
         Content-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    Answer::read_head(BufReader::new(stream))
}

impl Answer {
    fn read_head(mut reader: BufReader<TcpStream>) -> Self {
        let first = line(&mut reader);
        let status = first.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {first}")).to_owned();
        let (mut content_type, mut length, mut is_chunked) = ("-".to_owned(), None, false);
        let mut others: Vec<String> = Vec::new();
        loop {
            let header = line(&mut reader);
            let Some((name, value)) = header.split_once(": ") else { break };
            match name.to_lowercase().as_str() {
                "content-type" => content_type = value.to_owned(),
                "content-length" => length = Some(value.parse().unwrap()),
                "transfer-encoding" => is_chunked = value == "chunked",
                name if HEADERS.contains(&name) => others.push(format!("@ {name}: {value}\n")),
                _ => {}
            }
        }
        others.sort();
        let head = format!("{status} {content_type}\n{}", others.concat());
        Self { head, is_protobuf: content_type == "application/x-protobuf", reader, length, is_chunked }
    }

    /// The whole body; of a stream, when the server has ended it in order.
    pub(super) fn body(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        if self.is_chunked {
            while self.chunk(&mut body) {}
        } else {
            body.resize(self.length.unwrap_or(0), 0);
            self.reader.read_exact(&mut body).unwrap();
        }
        body
    }

    fn chunk(&mut self, body: &mut Vec<u8>) -> bool {
        let size = line(&mut self.reader);
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("torn: a chunk of size {size:?}"));
        let start = body.len();
        body.resize(start + size, 0);
        self.reader.read_exact(&mut body[start..]).unwrap();
        assert_eq!(line(&mut self.reader), "", "a chunk ends with its line");
        size > 0
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line.trim_end_matches(['\r', '\n']).to_owned()
}
