//! The programs beside this one, and what each of them and this one cost.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use super::ScaleArgs;
use crate::certificates::Certificates;
use crate::process::{Process, busy_seconds};
use crate::server::{Ports, Server};
use crate::stopwatch::Stopwatch;

/// State server, auctioneer, and this one.
const PROGRAMS: usize = 3;
const OPEN_MAX: Duration = Duration::from_secs(60);
const OPEN_LOOK_EVERY: Duration = Duration::from_millis(50);

/// All of them. They end with this value.
pub(super) struct Programs {
    pub(super) server: Server,
    auctioneer: Running,
    pub(super) locket_address: String,
}

struct Running(Child);

/// In cores, on average over some time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Spent {
    pub seconds: f64,
    /// With Locket in it.
    pub server: f64,
    pub auctioneer: f64,
    /// This process: all cells, and everybody who listens.
    pub cells: f64,
    /// Whoever else used this machine.
    pub others: f64,
}

/// Resident, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Memory {
    pub server: u64,
    pub server_peak: u64,
    pub auctioneer: u64,
    pub auctioneer_peak: u64,
    pub cells: u64,
}

/// Counts from some moment on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    watch: Stopwatch,
    used_s: [f64; PROGRAMS],
    busy_s: f64,
}

impl Programs {
    pub(super) async fn start(args: &ScaleArgs, home: &Path, certificates: &Certificates) -> anyhow::Result<Self> {
        let (ports, others) = (Ports::free()?, Ports::free()?);
        let (auctioneer_port, locket_port) = (others.api, others.health);
        let binary = args.binary.canonicalize()?;
        let board = board(args, certificates, ports, auctioneer_port, locket_port);
        let mut server = Server::spawn(&binary, &["bbs"], home, ports, &board)?;
        server.until_serving(certificates).await?;
        let locket_address = format!("localhost:{}", locket_port.port());
        let auctioneer = auctioneer(certificates, auctioneer_port, server.url()?.as_str(), &locket_address)?;
        let auctioneer = Running::start(&binary, "auctioneer", home, &auctioneer)?;
        until_open(auctioneer_port).await?;
        Ok(Self { server, auctioneer, locket_address })
    }

    fn processes(&self) -> [Process; PROGRAMS] {
        [self.server.process(), Process(self.auctioneer.0.id()), Process(std::process::id())]
    }

    pub(super) fn meter(&self) -> anyhow::Result<Meter> {
        Ok(Meter { watch: Stopwatch::start(), used_s: self.used_s()?, busy_s: busy_seconds()? })
    }

    fn used_s(&self) -> anyhow::Result<[f64; PROGRAMS]> {
        let mut used_s = [0.0; PROGRAMS];
        for (used_s, process) in used_s.iter_mut().zip(self.processes()) {
            *used_s = process.cpu_seconds().context("a program has ended before its time")?;
        }
        Ok(used_s)
    }

    pub(super) fn spent(&self, since: &Meter) -> anyhow::Result<Spent> {
        let seconds = since.watch.seconds().max(1e-9);
        let now_s = self.used_s()?;
        let used: Vec<f64> = now_s.iter().zip(since.used_s).map(|(now, then)| now - then).collect();
        let others = (busy_seconds()? - since.busy_s - used.iter().sum::<f64>()).max(0.0);
        let cores = |at: usize| used[at] / seconds;
        Ok(Spent { seconds, server: cores(0), auctioneer: cores(1), cells: cores(2), others: others / seconds })
    }

    pub(super) fn memory(&self) -> anyhow::Result<Memory> {
        let [server, auctioneer, cells] = self.processes();
        Ok(Memory {
            server: server.memory_bytes()?,
            server_peak: server.memory_peak_bytes()?,
            auctioneer: auctioneer.memory_bytes()?,
            auctioneer_peak: auctioneer.memory_peak_bytes()?,
            cells: cells.memory_bytes()?,
        })
    }
}

/// The configuration of the state server.
fn board(
    args: &ScaleArgs,
    certificates: &Certificates,
    Ports { api, health }: Ports,
    auctioneer: SocketAddr,
    locket: SocketAddr,
) -> String {
    let (server, client) = identities(certificates);
    format!(
        "node = \"bench\"\nlisten = \"{api}\"\nhealth = \"{health}\"\n\n\
         [store]\nengine = \"embedded\"\ndir = \"store\"\n\n\
         [tls]\n{server}\n\
         [timing]\nconverge_interval = \"{}s\"\n\n\
         [auctioneer]\nurl = \"https://localhost:{}\"\nrequire_tls = true\n{client}\n\
         [cells]\nrequire_tls = true\n{client}\n\
         [serve_locket]\nlisten = \"{locket}\"\n",
        args.interval_s,
        auctioneer.port(),
    )
}

fn auctioneer(certificates: &Certificates, listen: SocketAddr, bbs: &str, locket: &str) -> anyhow::Result<String> {
    let (server, client) = identities(certificates);
    let health = Ports::free()?.health;
    Ok(format!(
        "node = \"bench\"\nlisten = \"{listen}\"\nhealth = \"{health}\"\n\n\
         [tls]\n{server}\n\
         [bbs]\nurls = [\"{bbs}\"]\n{client}\n\
         [locket]\naddress = \"{locket}\"\n{client}\n\
         [cells]\nrequire_tls = true\n{client}"
    ))
}

/// What a program shows to those who call it, and what it shows to those whom it calls.
fn identities(certificates: &Certificates) -> (String, String) {
    let ((cert, key), client) = (certificates.server(), certificates.client());
    let identity = |cert: &Path, key: &Path| format!("ca = {:?}\ncert = {cert:?}\nkey = {key:?}\n", certificates.ca());
    (identity(&cert, &key), identity(&client.cert, &client.key))
}

/// The port of an auctioneer opens when it has its lock, for which it may have to wait.
async fn until_open(port: SocketAddr) -> anyhow::Result<()> {
    let watch = Stopwatch::start();
    while tokio::net::TcpStream::connect(port).await.is_err() {
        anyhow::ensure!(watch.elapsed() < OPEN_MAX, "The auctioneer is not the active one after {OPEN_MAX:?}.");
        tokio::time::sleep(OPEN_LOOK_EVERY).await;
    }
    Ok(())
}

impl Running {
    fn start(binary: &Path, program: &str, home: &Path, configuration: &str) -> anyhow::Result<Self> {
        let config = home.join(format!("{program}.toml"));
        fs::write(&config, configuration)?;
        let log = File::create(home.join(format!("{program}.log")))?;
        let mut command = Command::new(binary);
        command.arg(program).arg("--config").arg(config);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self(command.spawn().with_context(|| format!("the {program} could not be started"))?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
