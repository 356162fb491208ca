//! The configuration files of every program, as an operator would write them: TLS everywhere, two or three of each.
//!
//! Timing is shorter than by default where the default would only make the suite wait: how long a cell counts as present after
//! its last word, how often convergence looks. What is proven does not depend on it, and [`PRESENCE_TTL`] is what the loss of a
//! cell is measured against.

use std::net::SocketAddr;
use std::time::Duration;

/// After which a cell that says nothing counts as gone.
pub(crate) const PRESENCE_TTL: Duration = Duration::from_secs(6);
/// How long a master that etcd does not hear of stays master.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// Files of one identity, or of one authority and somebody's pair.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) ca: String,
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Identity {
    fn lines(&self) -> String {
        let Self { ca, cert, key } = self;
        format!("ca = {ca:?}\ncert = {cert:?}\nkey = {key:?}\n")
    }
}

/// What all files have in common.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    pub(crate) ours: Identity,
    pub(crate) etcd: Identity,
    pub(crate) etcd_endpoints: Vec<String>,
    pub(crate) nats: Identity,
    pub(crate) nats_url: String,
    pub(crate) boards: Vec<String>,
    pub(crate) lockets: Vec<SocketAddr>,
    /// Where the auctioneer is found that holds the lock.
    pub(crate) auctioneer: SocketAddr,
}

/// What of a state server's configuration changes while the suite goes on.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    /// Named by one letter each.
    pub(crate) keys: &'static str,
    pub(crate) active_key: char,
}

impl Ground {
    fn common(&self) -> String {
        let (tls, boards, lockets) = (self.ours.lines(), &self.boards, self.lockets());
        format!("[tls]\n{tls}[bbs]\nurls = {boards:?}\n[locket]\naddress = {lockets:?}\n")
    }

    /// Several of them, as clients are told.
    pub(crate) fn lockets(&self) -> String {
        self.lockets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    fn nats(&self) -> String {
        format!("[nats]\nurls = [{:?}]\n{}", self.nats_url, self.nats.lines())
    }

    pub(crate) fn board(&self, name: &str, api: SocketAddr, health: SocketAddr, board: &Board) -> String {
        let Board { keys, active_key } = board;
        let keys: String = keys.chars().map(|key| format!("keys.{key} = {{ file = \"key.{key}\" }}\n")).collect();
        let (ours, etcd, endpoints) = (self.ours.lines(), self.etcd.lines(), &self.etcd_endpoints);
        let (auctioneer, lease_s) = (self.auctioneer, LEASE.as_secs());
        format!(
            "node = {name:?}\nlisten = \"{api}\"\nhealth = \"{health}\"\nadvertise = \"https://{api}\"\n\
             identity = \"{name}.identity\"\n\
             [store]\nengine = \"etcd\"\nlease = \"{lease_s}s\"\nendpoints = {endpoints:?}\n{etcd}\
             [tls]\n{ours}\
             [timing]\nconverge_interval = \"5s\"\nkick_task = \"5s\"\n\
             [auctioneer]\nurl = \"https://{auctioneer}\"\nrequire_tls = true\n{ours}\
             [cells]\nrequire_tls = true\n{ours}\
             [migration]\nstart = \"manual\"\nfinalization = \"manual\"\n\
             [encryption]\nactive = \"{active_key}\"\n{keys}"
        )
    }

    pub(crate) fn auctioneer(&self, name: &str, listen: SocketAddr, health: SocketAddr) -> String {
        let common = self.common();
        format!("node = {name:?}\nlisten = \"{listen}\"\nhealth = \"{health}\"\n{common}[cells]\nrequire_tls = true\n")
    }

    /// `index` counts from 0; each cell has a thousand ports of the host.
    pub(crate) fn cell(&self, name: &str, index: u16, listen: SocketAddr, admin: SocketAddr) -> String {
        let (address, ttl_s, common) = (listen.ip(), PRESENCE_TTL.as_secs(), self.common());
        let (first, last, zone) = (20_000 + index * 1_000, 20_999 + index * 1_000, index + 1);
        format!(
            "cell_id = {name:?}\nindex = {index}\nzone = \"z{zone}\"\nlisten = \"{listen}\"\nadmin = \"{admin}\"\n\
             dir = {name:?}\n{common}\
             [capacity]\nmemory_mb = 4096\ndisk_mb = 4096\ncontainers = 64\n\
             [executor]\nkind = \"process\"\naddress = \"{address}\"\nhost_ports = \"{first}-{last}\"\n\
             stacks = [\"cflinuxfs4\"]\ngrace = \"10s\"\n\
             [timing]\npolling = \"5s\"\nevacuation = \"90s\"\npresence = \"2s\"\npresence_ttl = \"{ttl_s}s\"\n"
        )
    }

    pub(crate) fn emitter(&self, name: &str, health: SocketAddr) -> String {
        let (common, nats) = (self.common(), self.nats());
        format!(
            "node = {name:?}\nhealth = \"{health}\"\n{common}{nats}\
             [timing]\nsync_interval = \"10s\"\nregister_interval = \"5s\"\n"
        )
    }

    pub(crate) fn router(&self, listen: SocketAddr, health: SocketAddr) -> String {
        format!("listen = \"{listen}\"\nhealth = \"{health}\"\n{}", self.nats())
    }
}
