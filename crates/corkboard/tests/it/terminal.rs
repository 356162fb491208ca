//! A terminal to run a command on: what it shows is kept, and what a test types is its input.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use tokio::time::Instant;

const COLUMNS: u16 = 80;
const ROWS: u16 = 24;
/// What is not shown for so long never will be, whatever else is.
const PATIENCE: Duration = Duration::from_secs(60);
const CHUNKS_QUEUED_MAX: usize = 64;

pub(crate) struct Terminal {
    master: File,
    child: Child,
    output: Receiver<Vec<u8>>,
    shown: Vec<u8>,
    /// How much of it was waited for already.
    met: usize,
    screen: vt100::Parser,
}

impl Terminal {
    pub(crate) fn run(command: &mut Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, size(ROWS, COLUMNS)).unwrap();
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
        let screen = vt100::Parser::new(there(ROWS), there(COLUMNS), 0);
        Self { master, child, output, shown: Vec::new(), met: 0, screen }
    }

    /// Waits until `text` is shown, then types a line.
    pub(crate) fn answer(&mut self, text: &str, line: &str) {
        self.wait(text, |terminal| terminal.shown().contains(text).then_some(()));
        self.master.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits until `text` is shown after whatever was waited for before.
    pub(crate) fn meet(&mut self, text: &str) {
        self.met = self.wait(text, |terminal| {
            let rest = &terminal.shown[terminal.met..];
            let at = rest.windows(text.len()).position(|window| window == text.as_bytes())?;
            Some(terminal.met + at + text.len())
        });
    }

    /// Waits until `text` stands on the screen, whenever and in which order its lines were drawn.
    pub(crate) fn see(&mut self, text: &str) {
        self.wait(text, |terminal| terminal.screen.screen().contents().contains(text).then_some(()));
    }

    /// Types something, with no end of line after it.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// As a window does that is dragged.
    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        tcsetwinsize(&self.master, size(rows, columns)).unwrap();
        self.screen.screen_mut().set_size(there(rows), there(columns));
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

    /// Reads until something is found. A program that goes on drawing does not make the wait longer.
    fn wait<T>(&mut self, text: &str, found: impl Fn(&Self) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            let in_time = Instant::now() < until;
            if !in_time || !self.read() {
                let _ = self.child.kill();
                panic!("{text:?} never came; on the screen is:\n{}", self.screen.screen().contents());
            }
        }
    }

    fn read(&mut self) -> bool {
        match self.output.recv_timeout(PATIENCE) {
            Ok(bytes) => {
                self.screen.process(&bytes);
                self.shown.extend_from_slice(&bytes);
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                panic!("nothing came for {PATIENCE:?}; on the screen is:\n{}", self.screen.screen().contents())
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

fn there(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
