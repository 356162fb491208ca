//! Who used the processors while something was measured: etcd, the server, this program, and others that spoilt it.

use rig::etcd::Cluster;
use serde::Serialize;

use crate::process::Process;
use crate::quiet::Quiet;
use crate::stopwatch::Stopwatch;

/// In cores.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Spent {
    /// All members together.
    pub etcd: f64,
    pub server: f64,
    pub client: f64,
    pub taken_by_others: f64,
}

pub(super) struct Meter {
    quiet: Quiet,
    watch: Stopwatch,
    server: Option<Process>,
    etcd_s: f64,
    server_s: f64,
    client_s: f64,
}

impl Meter {
    pub(super) fn start(cluster: &Cluster, server: Option<Process>) -> anyhow::Result<Self> {
        Ok(Self {
            quiet: Quiet::start()?,
            watch: Stopwatch::start(),
            server,
            etcd_s: of_members(cluster)?,
            server_s: server.map_or(Ok(0.0), Process::cpu_seconds)?,
            client_s: ourselves()?,
        })
    }

    pub(super) fn stop(self, cluster: &Cluster) -> anyhow::Result<Spent> {
        let etcd_s = of_members(cluster)? - self.etcd_s;
        let server_s = self.server.map_or(Ok(0.0), Process::cpu_seconds)? - self.server_s;
        let seconds = self.watch.seconds().max(1e-9);
        Ok(Spent {
            etcd: etcd_s / seconds,
            server: server_s / seconds,
            client: (ourselves()? - self.client_s) / seconds,
            taken_by_others: self.quiet.taken_by_others(etcd_s + server_s)?,
        })
    }
}

fn of_members(cluster: &Cluster) -> anyhow::Result<f64> {
    let members = (0..cluster.endpoints().len()).filter_map(|member| cluster.pid(member));
    members.map(|pid| Process(pid).cpu_seconds()).sum()
}

fn ourselves() -> anyhow::Result<f64> {
    Process(std::process::id()).cpu_seconds()
}
