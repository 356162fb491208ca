//! The server under test: a child process with a configuration of its own, ended with this process at the latest.
//!
//! Who may call it: the benchmarks of the whole server. Everything they know of it comes over its ports and from the kernel.

use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use api::Route;
use api::client::{Client, ClientConfig, Question};
use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

use crate::certificates::Certificates;
use crate::connection::Target;
use crate::fleet;
use crate::noise::Noise;
use crate::process::Process;
use crate::stopwatch::Stopwatch;

/// A server that takes longer to begin is broken.
const START_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(90);
/// For one answer to an operator.
const ASK_MAX: Duration = Duration::from_secs(60);
/// For one answer of the health port.
const HEALTH_MAX: Duration = Duration::from_secs(10);
/// So fine is the time of a start measured.
const ASK_EVERY: Duration = Duration::from_millis(10);
const PASS_MAX: Duration = Duration::from_secs(120);
const DURATION_METRIC: &str = "corkboard_convergence_lrp_duration_seconds";
const KEY_LETTERS: usize = 43;
const RUNS_METRIC: &str = "corkboard_convergence_lrp_runs_total";

/// How a server is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// SIGTERM, and it may finish what it does.
    Stop,
    /// SIGKILL, as when the power fails.
    Kill,
}

/// What a server is started with.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    pub binary: &'a Path,
    /// Holds the store, the configuration and the log.
    pub dir: &'a Path,
    pub certificates: &'a Certificates,
    pub cells: u64,
    pub converge_interval: &'a str,
    /// What clients notice of a migration; `None` leaves it to the server.
    pub migration_mode: Option<&'a str>,
    /// `None`: records are stored as they are.
    pub encryption: Option<Encryption<'a>>,
}

/// With which keys records are sealed. A key is made from its name, so that every copy of a store finds the same one.
#[derive(Clone, Copy, Debug)]
pub struct Encryption<'a> {
    pub active: &'a str,
    pub keys: &'a [&'a str],
    /// What clients notice while records are brought under the active key.
    pub mode: &'a str,
}

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) api: SocketAddr,
    pub(crate) health: SocketAddr,
}

#[derive(Debug)]
pub struct Server {
    child: Child,
    ports: Ports,
    log: PathBuf,
    started: Stopwatch,
}

impl Launch<'_> {
    /// Starts the server on what `dir` holds, and says how long it took until it answered a ping.
    pub async fn start(&self) -> anyhow::Result<(Server, f64)> {
        let mut server = self.spawn()?;
        let took_s = server.until_serving(self.certificates).await?;
        Ok((server, took_s))
    }

    /// Starts the server and waits for nothing.
    pub fn spawn(&self) -> anyhow::Result<Server> {
        self.spawn_command(&["bbs"])
    }

    /// Starts another command of the same binary with the same configuration. It is no server, and ends by itself.
    pub fn spawn_command(&self, command: &[&str]) -> anyhow::Result<Server> {
        let ports = Ports::free()?;
        fs::write(self.dir.join("cells.jsonl"), fleet::cells_file(self.cells))?;
        if let Some(encryption) = &self.encryption {
            encryption.write_keys(self.dir)?;
        }
        Server::spawn(self.binary, command, self.dir, ports, &self.configuration(ports))
    }

    /// Relative paths are relative to the file, so the configuration names no directory of this machine.
    fn configuration(&self, Ports { api, health }: Ports) -> String {
        let (cert, key) = self.certificates.server();
        let migration = self.migration_mode.map(|mode| format!("\n[migration]\nmode = \"{mode}\"\n"));
        format!(
            "node = \"bench\"\nlisten = \"{api}\"\nhealth = \"{health}\"\n\n\
             [store]\nengine = \"embedded\"\ndir = \"store\"\n\n\
             [tls]\nca = {:?}\ncert = {cert:?}\nkey = {key:?}\n\n\
             [timing]\nconverge_interval = \"{}\"\n\n\
             [cells]\nfile = \"cells.jsonl\"\n{}{}",
            self.certificates.ca(),
            self.converge_interval,
            migration.unwrap_or_default(),
            self.encryption.map(|encryption| encryption.tables()).unwrap_or_default(),
        )
    }
}

impl Encryption<'_> {
    pub(crate) fn tables(&self) -> String {
        let Self { active, mode, keys } = self;
        let keys: String = keys.iter().map(|name| format!("{name} = {{ file = \"{name}.key\" }}\n")).collect();
        format!("\n[encryption]\nactive = \"{active}\"\nmode = \"{mode}\"\n\n[encryption.keys]\n{keys}")
    }

    /// Nobody but their owner may read them, or the server refuses them.
    pub(crate) fn write_keys(&self, dir: &Path) -> anyhow::Result<()> {
        for name in self.keys {
            let seed = name.bytes().fold(0, |seed, byte| seed * 256 + u64::from(byte));
            let mut file = File::options();
            let file = file.write(true).create(true).truncate(true).mode(0o600);
            let path = dir.join(format!("{name}.key"));
            file.open(path)?.write_all(Noise::new(seed).text(KEY_LETTERS).as_bytes())?;
        }
        Ok(())
    }
}

impl Ports {
    pub(crate) fn free() -> anyhow::Result<Self> {
        Ok(Self { api: free_address()?, health: free_address()? })
    }
}

impl Server {
    /// Starts a command with a configuration, which is written into `dir` and names these ports. Waits for nothing.
    pub(crate) fn spawn(
        binary: &Path,
        command: &[&str],
        dir: &Path,
        ports: Ports,
        configuration: &str,
    ) -> anyhow::Result<Server> {
        let config = dir.join("board.toml");
        fs::write(&config, configuration)?;
        let log = dir.join("server.log");
        let (out, err) = (File::create(&log)?, File::options().append(true).open(&log)?);
        let started = Stopwatch::start();
        let child = Command::new(binary)
            .args(command)
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .with_context(|| format!("{} could not be started", binary.display()))?;
        Ok(Server { child, ports, log, started })
    }

    /// Waits until the server answers a ping, and says how long that took since the start of its process.
    pub async fn until_serving(&mut self, certificates: &Certificates) -> anyhow::Result<f64> {
        let target = self.target(certificates).await?;
        while !is_serving(&target).await {
            self.must_run()?;
            if self.started.elapsed() > START_MAX {
                anyhow::bail!("The server does not serve after {START_MAX:?}. Its last words:\n{}", self.last_words());
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(self.started.seconds())
    }

    /// Since the process was started.
    pub fn started(&self) -> Stopwatch {
        self.started
    }

    pub async fn target(&self, certificates: &Certificates) -> anyhow::Result<Target> {
        Target::resolve(&self.url()?, Some(api::client::tls::client_config(&certificates.client())?)).await
    }

    /// An error with its last words when the process is gone.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            anyhow::bail!("The server ended with {status} too early. Its last words:\n{}", self.last_words());
        }
        Ok(())
    }

    /// Waits until the process ends by itself, which it must do well.
    pub async fn ended(&mut self, longest: Duration) -> anyhow::Result<()> {
        let watch = Stopwatch::start();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => anyhow::bail!("The server ended with {status}. Its last words:\n{}", self.last_words()),
                None if watch.elapsed() > longest => {
                    anyhow::bail!("The server still runs after {longest:?}. Its last words:\n{}", self.last_words())
                }
                None => tokio::time::sleep(ASK_EVERY).await,
            }
        }
    }

    pub fn url(&self) -> anyhow::Result<Url> {
        Ok(Url::parse(&format!("https://localhost:{}", self.ports.api.port()))?)
    }

    /// What the server answers to an operator.
    pub async fn ask(&self, certificates: &Certificates, question: &Question) -> anyhow::Result<Value> {
        let client = Client::new(ClientConfig {
            tls: Some(certificates.client()),
            ..ClientConfig::once(self.url()?, Some(ASK_MAX))
        })?;
        Ok(serde_json::from_slice(&client.ask(question).await?)?)
    }

    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Ends the server and says how long that took. A stop that is no clean exit is an error.
    pub async fn end(&mut self, how: Ending) -> anyhow::Result<f64> {
        let watch = Stopwatch::start();
        let pid = rustix::process::Pid::from_child(&self.child);
        let signal = match how {
            Ending::Stop => rustix::process::Signal::TERM,
            Ending::Kill => rustix::process::Signal::KILL,
        };
        rustix::process::kill_process(pid, signal)?;
        if how == Ending::Stop {
            self.ended(STOP_MAX).await?;
        } else {
            self.child.wait()?;
        }
        Ok(watch.seconds())
    }

    /// Waits for some passes of convergence and returns the longest.
    pub async fn longest_pass(&self, passes: u32) -> anyhow::Result<f64> {
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
        let answer = self.health("/metrics").await?;
        sample(&answer, name).with_context(|| format!("the metrics of the server lack {name}"))
    }

    /// The status document. Fails as long as the health port is not open.
    pub async fn status(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.health("/status").await?)?)
    }

    async fn health(&self, path: &str) -> anyhow::Result<String> {
        let asking = async {
            let mut stream = TcpStream::connect(self.ports.health).await?;
            let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.ports.health);
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let answer = tokio::time::timeout(HEALTH_MAX, asking).await??;
        let (_, body) = answer.split_once("\r\n\r\n").context("the health port answered half a head")?;
        Ok(body.to_owned())
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

pub(crate) async fn is_serving(target: &Target) -> bool {
    match target.connect().await {
        Ok(mut connection) => connection.call(Route::Ping, Bytes::new()).await.is_ok(),
        Err(_) => false,
    }
}

/// The system picks a port; the listener is closed again, and nobody else takes it so soon.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
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
