//! The programs beside this one, and what each of them and this one cost.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use serde::Serialize;

use super::ScaleArgs;
use crate::certificates::Certificates;
use crate::process::{Process, busy_seconds};
use crate::server::{Ports, Server};
use crate::stopwatch::Stopwatch;

/// All of them. They end with this value.
pub(super) struct Programs {
    pub(super) server: Server,
    auctioneer: Running,
    locket: Running,
    pub(super) locket_address: String,
}

struct Running(Child);

/// In cores, on average over some time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Spent {
    pub seconds: f64,
    pub server: f64,
    pub auctioneer: f64,
    pub locket: f64,
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
    pub locket: u64,
    pub cells: u64,
    pub cells_peak: u64,
}

/// Counts from some moment on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    watch: Stopwatch,
    used_s: [f64; 4],
    busy_s: f64,
}

impl Programs {
    pub(super) async fn start(args: &ScaleArgs, home: &Path, certificates: &Certificates) -> anyhow::Result<Self> {
        let ports = Ports::free()?;
        let (auctioneer_port, locket_port) = (Ports::free()?.api, Ports::free()?.api);
        let locket = start_locket(home, certificates, locket_port)?;
        let locket_address = format!("localhost:{}", locket_port.port());
        let binary = args.binary.canonicalize()?;
        let configuration = configuration(args, certificates, ports, auctioneer_port, &locket_address);
        let mut server = Server::spawn(&binary, &["bbs"], home, ports, &configuration)?;
        server.until_serving(certificates).await?;
        let auctioneer = start_auctioneer(home, certificates, auctioneer_port, server.url()?.as_str())?;
        Ok(Self { server, auctioneer, locket, locket_address })
    }

    fn processes(&self) -> [Process; 4] {
        [
            self.server.process(),
            Process(self.auctioneer.0.id()),
            Process(self.locket.0.id()),
            Process(std::process::id()),
        ]
    }

    pub(super) fn meter(&self) -> anyhow::Result<Meter> {
        Ok(Meter { watch: Stopwatch::start(), used_s: self.used_s()?, busy_s: busy_seconds()? })
    }

    fn used_s(&self) -> anyhow::Result<[f64; 4]> {
        let mut used_s = [0.0; 4];
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
        Ok(Spent {
            seconds,
            server: cores(0),
            auctioneer: cores(1),
            locket: cores(2),
            cells: cores(3),
            others: others / seconds,
        })
    }

    pub(super) fn memory(&self) -> anyhow::Result<Memory> {
        let [server, auctioneer, locket, cells] = self.processes();
        Ok(Memory {
            server: server.memory_bytes()?,
            server_peak: server.memory_peak_bytes()?,
            auctioneer: auctioneer.memory_bytes()?,
            auctioneer_peak: auctioneer.memory_peak_bytes()?,
            locket: locket.memory_bytes()?,
            cells: cells.memory_bytes()?,
            cells_peak: cells.memory_peak_bytes()?,
        })
    }
}

/// Relative paths are relative to the file, so the configuration names no directory of this machine.
fn configuration(
    args: &ScaleArgs,
    certificates: &Certificates,
    Ports { api, health }: Ports,
    auctioneer: SocketAddr,
    locket: &str,
) -> String {
    let (cert, key) = certificates.server();
    let client = certificates.client();
    let ca = certificates.ca();
    let identity = format!("ca = {ca:?}\ncert = {:?}\nkey = {:?}\n", client.cert, client.key);
    format!(
        "node = \"bench\"\nlisten = \"{api}\"\nhealth = \"{health}\"\n\n\
         [store]\nengine = \"embedded\"\ndir = \"store\"\n\n\
         [tls]\nca = {ca:?}\ncert = {cert:?}\nkey = {key:?}\n\n\
         [timing]\nconverge_interval = \"{}s\"\n\n\
         [auctioneer]\nurl = \"https://localhost:{}\"\nrequire_tls = true\n{identity}\n\
         [cells]\nrequire_tls = true\n{identity}\n\
         [locket]\naddress = \"{locket}\"\n{identity}",
        args.interval_s,
        auctioneer.port(),
    )
}

fn start_locket(home: &Path, certificates: &Certificates, listen: SocketAddr) -> anyhow::Result<Running> {
    let (cert, key) = certificates.server();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["scale-locket", "--listen", &listen.to_string()]);
    command.arg("--ca").arg(certificates.ca()).arg("--cert").arg(cert).arg("--key").arg(key);
    Running::start(command, &home.join("locket.log"))
}

fn start_auctioneer(
    home: &Path,
    certificates: &Certificates,
    listen: SocketAddr,
    bbs: &str,
) -> anyhow::Result<Running> {
    let ((cert, key), client) = (certificates.server(), certificates.client());
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["scale-auctioneer", "--listen", &listen.to_string(), "--bbs", bbs]);
    command.arg("--ca").arg(certificates.ca()).arg("--server").arg(cert).arg(key);
    command.arg("--client").arg(client.cert).arg(client.key);
    Running::start(command, &home.join("auctioneer.log"))
}

impl Running {
    fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log)?);
        Ok(Self(command.spawn().context("a part of this program could not be started")?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
