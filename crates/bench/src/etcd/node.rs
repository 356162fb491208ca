//! One node on etcd: its directory, its configuration, and a server that can be started in it again and again.

use std::fs;
use std::path::{Path, PathBuf};

use rig::etcd::Cluster;

use super::{CONVERGE_INTERVAL, ENCRYPTION};
use crate::certificates::Certificates;
use crate::fleet;
use crate::server::{Ports, Server};
use crate::sizes::CELLS;

/// What all nodes of one store have in common.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    pub(super) binary: &'a Path,
    pub(super) certificates: &'a Certificates,
    pub(super) cluster: &'a Cluster,
    /// The first one is asked as long as it answers.
    pub(super) endpoints: Vec<String>,
    pub(super) prefix: String,
    pub(super) lease_s: u64,
}

impl Place<'_> {
    /// Starts a node in `home/name` and waits for nothing.
    pub(super) fn spawn(&self, home: &Path, name: &str) -> anyhow::Result<Server> {
        let dir: PathBuf = home.join(name);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("cells.jsonl"), fleet::cells_file(CELLS))?;
        ENCRYPTION.write_keys(&dir)?;
        let ports = Ports::free()?;
        Server::spawn(self.binary, &["bbs"], &dir, ports, &self.configuration(name, ports))
    }

    fn configuration(&self, name: &str, Ports { api, health }: Ports) -> String {
        let Self { certificates, cluster, endpoints, prefix, lease_s, .. } = self;
        let (cert, key) = certificates.server();
        format!(
            "node = \"{name}\"\nlisten = \"{api}\"\nhealth = \"{health}\"\nidentity = \"identity\"\n\n\
             [store]\nengine = \"etcd\"\nendpoints = {endpoints:?}\nprefix = \"{prefix}\"\nlease = \"{lease_s}s\"\n\
             ca = {:?}\ncert = {:?}\nkey = {:?}\n\n\
             [tls]\nca = {:?}\ncert = {cert:?}\nkey = {key:?}\n\n\
             [timing]\nconverge_interval = \"{CONVERGE_INTERVAL}\"\n\n\
             [cells]\nfile = \"cells.jsonl\"\n{}",
            cluster.ca(),
            cluster.cert(),
            cluster.key(),
            certificates.ca(),
            ENCRYPTION.tables(),
        )
    }
}
