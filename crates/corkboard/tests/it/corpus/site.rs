//! One life of a server: an empty store, one cell that is always there, and no convergence meanwhile.

use std::net::SocketAddr;
use std::path::Path;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::program::{Background, program_at, utf8};

/// Convergence would act on what a script has left half done; these tests are over long before.
const CONFIG: &str = "listen = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\n[store]\ndir = \"board\"\n\
                      [cells]\nfile = \"cells.jsonl\"\n[timing]\nconverge_interval = \"1h\"\n";

/// With everything that a cell can say of itself. Nobody listens where it is said to be.
const CELL: &str = r#"{"cell_id":"cell-1","rep_address":"http://127.0.0.1:1","zone":"z1","capacity":{"memory_mb":1024,"disk_mb":2048,"containers":10},"rootfs_provider_list":[{"name":"preloaded","properties":["cflinuxfs4"]},{"name":"docker"}],"placement_tags":["isolated"],"optional_placement_tags":["fast"],"rep_url":"https://cell-1.example.org:1801","annotations":{"rack":"7"}}"#;

pub(super) struct Site {
    process: Background,
    pub(super) address: SocketAddr,
    _dir: TempDir,
}

impl Site {
    pub(super) fn start(binary: &Path) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("cells.jsonl"), format!("{CELL}\n")).unwrap();
        let file = dir.path().join("board.toml");
        std::fs::write(&file, CONFIG).unwrap();
        let mut process = Background::start(&mut program_at(binary, &["bbs", "--config", utf8(&file)]));
        let line = process.lines_until(|line| line.starts_with("The API listens on ")).pop().unwrap();
        let address = line.split_whitespace().nth(4).unwrap().trim_end_matches(',').parse().unwrap();
        Self { process, address, _dir: dir }
    }

    /// In order, which ends the streams of events after what they still have to say.
    pub(super) fn stop(&mut self) {
        self.process.signal(Signal::TERM);
        assert!(self.process.wait().success(), "the server did not stop in order");
    }
}
