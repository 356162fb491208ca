//! A terminal to run a command on: what it shows is kept, and what a test types is its input.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const COLUMNS: u16 = 80;

pub(crate) struct Terminal {
    master: File,
    child: Child,
    shown: Vec<u8>,
}

impl Terminal {
    pub(crate) fn run(command: &mut Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let side = || -> Stdio {
            let side: OwnedFd = rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
            side.into()
        };
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        // Our copies of the other side live in the command; they must go, or the output would never end.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { master: File::from(master), child, shown: Vec::new() }
    }

    /// Waits until `text` is shown, then types a line.
    pub(crate) fn answer(&mut self, text: &str, line: &str) {
        while !String::from_utf8_lossy(&self.shown).contains(text) {
            assert!(self.read(), "{text:?} never came; shown was:\n{}", String::from_utf8_lossy(&self.shown));
        }
        self.master.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// All that was shown, and the exit code.
    pub(crate) fn end(mut self) -> (String, i32) {
        while self.read() {}
        let code = self.child.wait().unwrap().code().unwrap();
        (String::from_utf8(self.shown).unwrap().replace("\r\n", "\n"), code)
    }

    /// Linux ends the output of a terminal that nobody holds any more with an error.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.master.read(&mut bytes) {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.shown.extend_from_slice(&bytes[..count]);
                true
            }
        }
    }
}
