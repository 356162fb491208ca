//! The server under test: a child process with a configuration of its own, ended with this process at the latest.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use api::Route;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

use crate::certificates::Certificates;
use crate::connection::Target;
use crate::fleet;
use crate::process::Process;
use crate::stopwatch::Stopwatch;

/// A server that takes longer to begin is broken.
const START_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(90);
/// So fine is the time of a start measured.
const ASK_EVERY: Duration = Duration::from_millis(10);
const PASS_MAX: Duration = Duration::from_secs(120);
const DURATION_METRIC: &str = "corkboard_convergence_lrp_duration_seconds";
const RUNS_METRIC: &str = "corkboard_convergence_lrp_runs_total";

/// How a server is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// SIGTERM, and it may finish what it does.
    Stop,
    /// SIGKILL, as when the power fails.
    Kill,
}

pub(super) struct Server {
    child: Child,
    api: SocketAddr,
    health: SocketAddr,
    log: PathBuf,
}

impl Server {
    /// Starts the server on what `dir` holds, and says how long it took until it answered a ping.
    pub(super) async fn start(
        binary: &Path,
        dir: &Path,
        certificates: &Certificates,
        cells: u64,
        converge_interval: &str,
    ) -> anyhow::Result<(Server, f64)> {
        let (api, health) = (free_address()?, free_address()?);
        fs::write(dir.join("cells.jsonl"), fleet::cells_file(cells))?;
        let config = dir.join("board.toml");
        fs::write(&config, configuration(api, health, certificates, converge_interval))?;
        let log = dir.join("server.log");
        let tls = api::client::tls::client_config(&certificates.client())?;
        let watch = Stopwatch::start();
        let child = Command::new(binary)
            .args(["bbs", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?)
            .spawn()
            .with_context(|| format!("{} could not be started", binary.display()))?;
        let mut server = Server { child, api, health, log };
        let target = Target::resolve(&server.url()?, Some(tls)).await?;
        loop {
            if is_serving(&target).await {
                return Ok((server, watch.seconds()));
            }
            if let Some(status) = server.child.try_wait()? {
                anyhow::bail!(
                    "The server ended with {status} before it served. Its last words:\n{}",
                    server.last_words()
                );
            }
            if watch.elapsed() > START_MAX {
                anyhow::bail!(
                    "The server does not serve after {START_MAX:?}. Its last words:\n{}",
                    server.last_words()
                );
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    pub(super) fn url(&self) -> anyhow::Result<Url> {
        Ok(Url::parse(&format!("https://localhost:{}", self.api.port()))?)
    }

    pub(super) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Ends the server and says how long that took. A stop that is no clean exit is an error.
    pub(super) async fn end(&mut self, how: Ending) -> anyhow::Result<f64> {
        let watch = Stopwatch::start();
        let pid = rustix::process::Pid::from_child(&self.child);
        let signal = match how {
            Ending::Stop => rustix::process::Signal::TERM,
            Ending::Kill => rustix::process::Signal::KILL,
        };
        rustix::process::kill_process(pid, signal)?;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if watch.elapsed() > STOP_MAX {
                anyhow::bail!(
                    "The server still runs {STOP_MAX:?} after it was told to stop. Its last words:\n{}",
                    self.last_words()
                );
            }
            tokio::time::sleep(ASK_EVERY).await;
        };
        if how == Ending::Stop && !status.success() {
            anyhow::bail!(
                "The server ended with {status} when it was told to stop. Its last words:\n{}",
                self.last_words()
            );
        }
        Ok(watch.seconds())
    }

    /// Waits for some passes of convergence and returns the longest.
    pub(super) async fn longest_pass(&self, passes: u32) -> anyhow::Result<f64> {
        let mut longest = 0.0f64;
        let mut seen = self.metric(RUNS_METRIC).await?;
        for _ in 0..passes {
            let watch = Stopwatch::start();
            loop {
                let now = self.metric(RUNS_METRIC).await?;
                if now > seen {
                    seen = now;
                    break;
                }
                anyhow::ensure!(watch.elapsed() < PASS_MAX, "No convergence pass has ended in {PASS_MAX:?}.");
                tokio::time::sleep(10 * ASK_EVERY).await;
            }
            longest = longest.max(self.metric(DURATION_METRIC).await?);
        }
        Ok(longest)
    }

    async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let mut stream = TcpStream::connect(self.health).await?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.health);
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        sample(&answer, name).with_context(|| format!("the metrics of the server lack {name}"))
    }

    /// The end of its log, for a person who has to find out.
    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail when it has already ended, which is the usual case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn is_serving(target: &Target) -> bool {
    match target.connect().await {
        Ok(mut connection) => connection.call(Route::Ping, Bytes::new()).await.is_ok(),
        Err(_) => false,
    }
}

/// The system picks a port; the listener is closed again, and nobody else takes it so soon.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Relative paths are relative to the file, so the configuration names no directory of this machine.
fn configuration(api: SocketAddr, health: SocketAddr, certificates: &Certificates, converge_interval: &str) -> String {
    let (cert, key) = certificates.server();
    format!(
        "node = \"bench\"\nlisten = \"{api}\"\nhealth = \"{health}\"\n\n\
         [store]\nengine = \"embedded\"\ndir = \"store\"\n\n\
         [tls]\nca = {:?}\ncert = {cert:?}\nkey = {key:?}\n\n\
         [timing]\nconverge_interval = \"{converge_interval}\"\n\n\
         [cells]\nfile = \"cells.jsonl\"\n",
        certificates.ca()
    )
}

/// The value of a metric without labels, in Prometheus' text.
fn sample(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# HELP a_b x\n# TYPE a_b gauge\na_b_total 4\na_b 0.25\na_bc 7\n";
        assert_eq!(sample(text, "a_b"), Some(0.25));
        assert_eq!(sample(text, "a_b_total"), Some(4.0));
        assert_eq!(sample(text, "a"), None);
    }
}
