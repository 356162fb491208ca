//! Running the program: commands to their end, servers in the background.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program with an empty environment, so that no test depends on who runs it.
pub(crate) fn program(args: &[&str]) -> Command {
    program_at(Path::new(env!("CARGO_BIN_EXE_corkboard")), args)
}

/// The same for another build of it.
pub(crate) fn program_at(binary: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(args).env_clear().env("CORKBOARD_LOG", "warn").stdin(Stdio::null());
    command
}

pub(crate) fn run(args: &[&str]) -> Outcome {
    finish(&mut program(args))
}

pub(crate) fn finish(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    Outcome {
        code: output.status.code().expect("the program exits by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Something that runs until it is told to stop. Dropping it kills it.
pub(crate) struct Background {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Background {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The next line without its end; `None` when the output is over.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let bytes = self.out.read_line(&mut line).unwrap();
        (bytes > 0).then(|| line.trim_end().to_owned())
    }

    /// All lines up to the first that `is_last`.
    pub(crate) fn lines_until(&mut self, is_last: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.line() {
            lines.push(line);
            if is_last(&lines[lines.len() - 1]) {
                return lines;
            }
        }
        panic!("the output ended after {lines:#?}, and on stderr: {}", self.stderr());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Reads the log up to a line that contains `text`.
    pub(crate) fn wait_for_log(&mut self, text: &str) {
        let stderr = self.child.stderr.as_mut().unwrap();
        let found = BufReader::new(stderr).lines().map(Result::unwrap).any(|line| line.contains(text));
        assert!(found, "the log ended without {text:?}");
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        let _ = self.child.kill();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).unwrap();
        }
        text
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended already, and a test that panics must not panic again here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server from a configuration file, and how commands reach it.
pub(crate) struct Server {
    pub(crate) process: Background,
    pub(crate) flags: Vec<String>,
    pub(crate) dir: TempDir,
}

impl Server {
    /// `tls` is a table for the file; `flags` what a client needs beside the URL.
    pub(crate) fn start(dir: TempDir, scheme: &str, tls: &str, flags: &[String]) -> Self {
        std::fs::write(dir.path().join("cells.jsonl"), format!("{CELL}\n")).unwrap();
        let file = dir.path().join("board.toml");
        let text = format!(
            "listen = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\n[store]\ndir = \"board\"\n[cells]\nfile = \"cells.jsonl\"\n{tls}"
        );
        std::fs::write(&file, text).unwrap();
        Self::start_as_configured(dir, scheme, flags)
    }

    /// From the file `board.toml` that is there.
    pub(crate) fn start_as_configured(dir: TempDir, scheme: &str, flags: &[String]) -> Self {
        let file = dir.path().join("board.toml");
        let mut process = Background::start(&mut program(&["bbs", "--config", utf8(&file)]));
        let line = process.lines_until(|line| line.starts_with("The API listens on ")).pop().unwrap();
        let address = line.split_whitespace().nth(4).unwrap().trim_end_matches(',');
        let mut all = vec!["--bbsURL".to_owned(), format!("{scheme}://{address}")];
        all.extend_from_slice(flags);
        Self { process, flags: all, dir }
    }

    pub(crate) fn plain() -> Self {
        Self::start(TempDir::new().unwrap(), "http", "", &[])
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program(args);
        command.args(&self.flags);
        command
    }

    pub(crate) fn call(&self, args: &[&str]) -> Outcome {
        finish(&mut self.command(args))
    }
}

pub(crate) const CELL: &str = r#"{"cell_id":"cell-1","rep_address":"http://127.0.0.1:1","zone":"z1","capacity":{"memory_mb":1024,"disk_mb":2048,"containers":10},"rootfs_provider_list":[{"name":"preloaded","properties":["cflinuxfs4"]}],"rep_url":"","annotations":{}}"#;

pub(crate) const LRP: &str = r#"{"process_guid":"hello","domain":"demo","rootfs":"preloaded:cflinuxfs4","instances":2,"memory_mb":64,"action":{"run":{"path":"/bin/sh","user":"vcap"}},"routes":{"cf-router":[{"hostnames":["a.example"],"port":8080}]},"metric_tags":{"source_id":{"static":"hello"}}}"#;

pub(crate) const TASK: &str = r#"{"task_guid":"once","domain":"demo","rootfs":"preloaded:cflinuxfs4","action":{"run":{"path":"/bin/true","user":"vcap"}}}"#;

pub(crate) fn utf8(path: &Path) -> &str {
    path.to_str().unwrap()
}
