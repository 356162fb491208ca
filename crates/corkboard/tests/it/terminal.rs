//! A terminal to run a command on: what it shows is kept, and what a test types is its input.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

const COLUMNS: u16 = 80;
/// A program that shows nothing for so long never will.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const CHUNKS_QUEUED_MAX: usize = 64;

pub(crate) struct Terminal {
    master: File,
    child: Child,
    output: Receiver<Vec<u8>>,
    shown: Vec<u8>,
    /// How much of it was waited for already.
    met: usize,
}

impl Terminal {
    pub(crate) fn run(command: &mut Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, size(24, COLUMNS)).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let side = || -> Stdio {
            let side: OwnedFd = rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
            side.into()
        };
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        // Our copies of the other side live in the command; they must go, or the output would never end.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let master = File::from(master);
        let output = chunks(master.try_clone().unwrap());
        Self { master, child, output, shown: Vec::new(), met: 0 }
    }

    /// Waits until `text` is shown, then types a line.
    pub(crate) fn answer(&mut self, text: &str, line: &str) {
        while !String::from_utf8_lossy(&self.shown).contains(text) {
            assert!(self.read(), "{text:?} never came; shown was:\n{}", String::from_utf8_lossy(&self.shown));
        }
        self.master.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits until `text` is shown after whatever was waited for before.
    pub(crate) fn meet(&mut self, text: &str) {
        loop {
            let rest = &self.shown[self.met..];
            if let Some(at) = rest.windows(text.len()).position(|window| window == text.as_bytes()) {
                self.met += at + text.len();
                return;
            }
            assert!(self.read(), "{text:?} never came; shown was:\n{}", String::from_utf8_lossy(&self.shown));
        }
    }

    /// Types something, with no end of line after it.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// As a window does that is dragged.
    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        tcsetwinsize(&self.master, size(rows, columns)).unwrap();
        // The kernel tells only processes that the terminal controls.
        self.signal(Signal::WINCH);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// How the terminal treats what is typed and written.
    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(&self.master).unwrap()
    }

    /// Reads to the end and gives the exit code and the terminal, which can still be asked for its modes.
    pub(crate) fn ended(&mut self) -> i32 {
        while self.read() {}
        self.child.wait().unwrap().code().unwrap()
    }

    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// All that was shown, and the exit code.
    pub(crate) fn end(mut self) -> (String, i32) {
        while self.read() {}
        let code = self.child.wait().unwrap().code().unwrap();
        (String::from_utf8(self.shown).unwrap().replace("\r\n", "\n"), code)
    }

    fn read(&mut self) -> bool {
        match self.output.recv_timeout(SILENCE_MAX) {
            Ok(bytes) => {
                self.shown.extend_from_slice(&bytes);
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                panic!("nothing came for {SILENCE_MAX:?}; shown was:\n{}", self.shown())
            }
        }
    }
}

/// Read beside the test, so that it can stop waiting.
fn chunks(mut master: File) -> Receiver<Vec<u8>> {
    let (to, chunks) = sync_channel(CHUNKS_QUEUED_MAX);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        // Linux ends the output of a terminal that nobody holds any more with an error.
        while let Ok(count @ 1..) = master.read(&mut bytes) {
            if to.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    chunks
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
