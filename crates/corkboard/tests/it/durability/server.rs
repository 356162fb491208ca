//! A real server on a directory that outlives it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use api::client::{Client, ClientConfig};

use crate::program::program;

/// Nothing in these tests takes long, but the machine may be busy.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Dropping it kills it, as the tests do on purpose.
pub(super) struct Server {
    child: Child,
    pub(super) client: Client,
}

impl Server {
    /// Starts on records that are there, or on none. What the server logs goes to a file beside them.
    pub(super) fn start(dir: &Path) -> Self {
        let args = ["up", "--board-only", "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--dir"];
        let mut command = program(&args);
        command.arg(dir);
        Self::run(command, &log_beside(dir))
    }

    /// Waits until the command, which ends in `corkboard up`, says where it listens.
    pub(super) fn run(mut command: Command, log: &Path) -> Self {
        let errors = File::options().create(true).append(true).open(log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let Some(url) = lines.find_map(|line| line.trim().strip_prefix("API ").map(|url| url.trim().to_owned())) else {
            let status = child.wait().unwrap();
            panic!("the server did not start ({status}):\n{}", std::fs::read_to_string(log).unwrap());
        };
        // The rest of the greeting is short and stays in the pipe.
        let config = ClientConfig::once(url, Some(CALL_TIMEOUT));
        Self { child, client: Client::new(config).unwrap() }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: nothing is flushed, nothing is said.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already, and a test that panics must not panic again here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn log_beside(dir: &Path) -> PathBuf {
    dir.with_extension("log")
}
