//! What the store on etcd promises beyond the contract: elections, lost connections, errors that say what is wrong.

mod claims;
mod election;
mod errors;
mod exactly_once;
mod following;
mod space;
mod users;

use std::sync::Arc;
use std::time::Duration;

use rig::etcd::Cluster;
use rig::proxy::Proxy;
use store::etcd::{Etcd, Options, TlsFiles};
use store::{Mastership, Step, Store, StoreError};

/// Short, so that tests need not wait long for a lease to end.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// For tests in which the mastership has to outlast what is done to the cluster.
const LONG_LEASE: Duration = Duration::from_secs(60);
/// What takes longer than this does not come at all.
const PATIENCE: Duration = Duration::from_secs(40);

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

fn three() -> Cluster {
    Cluster::start(rig::etcd::Options { members: 3, ..Default::default() })
}

fn one() -> Cluster {
    Cluster::start(rig::etcd::Options::default())
}

async fn open(options: Options) -> Arc<Etcd> {
    Arc::new(Etcd::open(options).await.unwrap())
}

/// Lines of one node to all members, which can be cut together.
struct Lines(Vec<Proxy>);

impl Lines {
    fn to(cluster: &Cluster) -> Lines {
        Lines((0..cluster.endpoints().len()).map(|member| Proxy::to(cluster.address(member))).collect())
    }

    fn options(&self, cluster: &Cluster) -> Options {
        Options { endpoints: self.0.iter().map(|line| line.url("http")).collect(), ..options(cluster) }
    }

    fn cut(&self) {
        self.0.iter().for_each(Proxy::cut);
    }

    fn refuse(&self) {
        self.0.iter().for_each(Proxy::refuse);
    }

    fn heal(&self) {
        self.0.iter().for_each(Proxy::heal);
    }
}

/// Ends a test that would wait for ever.
async fn soon<T>(what: &str, done: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, done).await {
        Ok(done) => done,
        Err(_) => panic!("not within {PATIENCE:?}: {what}"),
    }
}

/// One record with its own key and a value.
fn put(key: &str, value: impl Into<bytes::Bytes>) -> [Step; 1] {
    let mut step = Step::default();
    step.put(key, value);
    [step]
}

async fn write(store: &Etcd, held: &Mastership, key: &str, value: &str) -> Result<u64, StoreError> {
    store.commit(held, &put(key, value.to_owned())).await
}

async fn all_records(store: &Etcd) -> Vec<(String, bytes::Bytes)> {
    let (mut records, mut after) = (Vec::new(), None);
    loop {
        let page = store.scan("", after.as_deref(), 10_000).await.unwrap();
        records.extend(page.records);
        after = page.next;
        if after.is_none() {
            return records;
        }
    }
}
