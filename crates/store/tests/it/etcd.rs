//! What the store on etcd promises beyond the contract: elections, lost connections, errors that say what is wrong.

use std::time::Duration;

use rig::etcd::Cluster;
use store::etcd::{Options, TlsFiles};

/// Short, so that tests need not wait long for a lease to end.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

pub(crate) fn options(cluster: &Cluster) -> Options {
    let tls = cluster.endpoints()[0].starts_with("https");
    let files = || TlsFiles { ca: cluster.ca(), identity: Some((cluster.cert(), cluster.key())) };
    Options {
        endpoints: cluster.endpoints(),
        prefix: "/corkboard".to_owned(),
        lease: LEASE,
        tls: tls.then(files),
        user: None,
        compacts: true,
    }
}
