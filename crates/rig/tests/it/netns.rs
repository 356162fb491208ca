//! Two sides reach each other and nobody else, not while the cable is out, and leave nothing behind.
//!
//! Where namespaces cannot be made, the test makes sure that the reason is told, and that nothing was left of the attempt.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rig::netns::{Netns, Side};

use crate::{eventually, is_alive};

const ECHO: &str = "
import socket, sys
listener = socket.create_server((sys.argv[1], 7000))
print('listens', flush=True)
while True:
    stream, _ = listener.accept()
    while data := stream.recv(4096):
        stream.sendall(data)
";

/// Says a word, waits to be told to go on, says another and gives its answer a short time, then waits again and a long time.
const CALLER: &str = "
import socket, sys
stream = socket.create_connection((sys.argv[1], 7000), timeout=10)
def say(word, wait):
    stream.settimeout(wait)
    stream.sendall(word)
    try:
        print('heard' if stream.recv(100) == word else 'wrong', flush=True)
    except socket.timeout:
        print('silence', flush=True)
say(b'first', 10)
sys.stdin.readline()
say(b'second', 0.3)
sys.stdin.readline()
stream.settimeout(20)
print('heard' if stream.recv(100) == b'second' else 'wrong', flush=True)
";

/// One at a time: a test counts the namespaces of its process.
static ALONE: Mutex<()> = Mutex::new(());

struct Script {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Script {
    fn start(mut command: Command, script: &str, argument: &str) -> Self {
        let command = command.args(["-c", script, argument]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    fn says(&mut self) -> String {
        self.lines.next().expect("the script goes on").unwrap()
    }

    fn go_on(&mut self) {
        std::io::Write::write_all(self.process.stdin.as_mut().unwrap(), b"\n").unwrap();
    }
}

fn namespaces_of_this_process() -> Vec<String> {
    let ours = format!("corkboard-rig-{}-", std::process::id());
    let listed = Command::new("ip").args(["netns", "list"]).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&listed).lines().filter(|line| line.starts_with(&ours)).map(str::to_owned).collect()
}

#[test]
fn two_sides_are_joined_by_a_cable_that_can_be_pulled() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let pair = match Netns::pair() {
        Ok(pair) => pair,
        Err(impossible) => {
            assert!(impossible.to_string().starts_with("no network namespaces here: "));
            assert!(namespaces_of_this_process().is_empty());
            println!("{impossible}");
            return;
        }
    };
    assert_eq!(namespaces_of_this_process().len(), 2);
    let right = pair.address(Side::Right).to_string();
    let mut echo = Script::start(pair.command(Side::Right, "python3"), ECHO, &right);
    assert_eq!(echo.says(), "listens");

    let mut caller = Script::start(pair.command(Side::Left, "python3"), CALLER, &right);
    assert_eq!(caller.says(), "heard");
    pair.cut();
    caller.go_on();
    assert_eq!(caller.says(), "silence");
    pair.heal();
    caller.go_on();
    assert_eq!(caller.says(), "heard", "the connection outlived the cut");
    assert!(caller.process.wait().unwrap().success());

    let reach = |side: Side| {
        let mut command = pair.command(side, "ip");
        command.args(["-o", "link"]).output().unwrap().stdout.iter().filter(|byte| **byte == b'\n').count()
    };
    assert_eq!((reach(Side::Left), reach(Side::Right)), (2, 2), "loopback and the cable, nothing else");

    let pid = echo.process.id();
    assert!(is_alive(pid));
    drop(pair);
    eventually("what ran on a side is killed", || !is_alive(pid));
    echo.process.wait().unwrap();
    assert!(namespaces_of_this_process().is_empty());
}

/// A process that is gone has a number that nobody has; its namespace belongs to nobody.
#[test]
fn what_a_killed_test_left_behind_is_removed_by_the_next() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut gone = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    gone.wait().unwrap();
    let name = format!("corkboard-rig-{}-0-left", gone.id());
    let made = Command::new("ip").args(["netns", "add", &name]).output().is_ok_and(|output| output.status.success());
    let pair = Netns::pair();
    assert_eq!(pair.is_ok(), made, "{pair:?}");
    let listed = Command::new("ip").args(["netns", "list"]).output().map(|output| output.stdout).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&listed).contains(&name));
}
