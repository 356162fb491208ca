//! Two servers of Locket on one etcd, a process of its own and a state server: either may die, and no key ever has two owners.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::locket::{Kind, LockSession, LocketError, Terms};
use cell::presence::{LocketPresence, Presence as _};
use rig::etcd::{Cluster, Options};
use rig::pki::Pki;
use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::beside::{Listener, client, resource, runtime};
use super::node::free_address;
use super::world::PATIENCE;
use crate::program::{Background, program, utf8};

struct Site {
    // Before the cluster, so that nobody is left without a store.
    servers: Vec<Server>,
    pki: Arc<Pki>,
    _etcd: Cluster,
}

struct Server {
    process: Background,
    address: String,
}

impl Site {
    fn new() -> Self {
        let (etcd, pki) = (Cluster::start(Options::default()), Arc::new(Pki::new()));
        std::fs::write(pki.path("A"), "sixteen bytes or more\n").unwrap();
        std::fs::set_permissions(pki.path("A"), Permissions::from_mode(0o600)).unwrap();
        let (api, health, addresses) = (free_address(), free_address(), [free_address(), free_address()]);
        let text = format!(
            "node = \"a\"\nidentity = \"id\"\nlisten = \"{api}\"\nhealth = \"{health}\"\n[store]\nengine = \"etcd\"\n\
             endpoints = [\"{}\"]\n{}[encryption]\nactive = \"A\"\nkeys.A = {{ file = \"A\" }}\n\
             [serve_locket]\nlisten = \"{}\"\n",
            etcd.endpoint(0),
            Pki::SERVER_TABLE,
            addresses[1],
        );
        std::fs::write(pki.path("board.toml"), text).unwrap();
        let servers = addresses.iter().enumerate();
        let servers = servers.map(|(at, address)| Server::start(&pki, at, address.to_string())).collect();
        Self { servers, pki, _etcd: etcd }
    }

    /// The two addresses, this one first.
    fn addresses(&self, first: usize) -> String {
        [first, 1 - first].map(|at| self.servers[at].address.as_str()).join(",")
    }

    fn kill(&mut self, at: usize) {
        self.servers[at].process.signal(Signal::KILL);
        self.servers[at].process.wait();
    }

    fn restart(&mut self, at: usize) {
        self.servers[at] = Server::start(&self.pki, at, self.servers[at].address.clone());
    }
}

impl Server {
    /// The first serves Locket alone, the second is a state server, which serves it whether it is master or not.
    fn start(pki: &Pki, at: usize, address: String) -> Self {
        let file = pki.path("board.toml");
        let mut process = Background::start(&mut match at {
            0 => program(&["locket", "--config", utf8(&file), "--listen", &address]),
            _ => program(&["bbs", "--config", utf8(&file)]),
        });
        process.lines_until(|line| line.starts_with("Locket listens on "));
        Self { process, address }
    }
}

#[test]
fn a_lock_and_a_presence_outlive_either_server() {
    const TTL: Duration = Duration::from_secs(4);
    const EVERY: Duration = Duration::from_millis(300);
    let mut site = Site::new();
    let runtime = runtime();
    let _inside = runtime.enter();
    let (pki, addresses) = (site.pki.clone(), site.addresses(0));
    let listener = Arc::new(Listener::default());
    let (_stop, stopped) = watch::channel(false);
    let session = runtime.block_on(async {
        let terms = Terms { ttl: TTL, interval: EVERY, ..Terms::new("auctioneer", "anna") };
        LockSession::acquire(client(&pki, &addresses), terms, listener.clone(), stopped).await.unwrap().unwrap()
    });
    // The cell repeats itself as cells do; every announcement must succeed, or it would not be known to be there.
    let presence = LocketPresence::new(client(&pki, &addresses), "cell-1", "rep");
    runtime.block_on(presence.announce("{}", TTL)).unwrap();
    let cell = runtime.spawn(async move {
        loop {
            presence.announce("{}", TTL).await.unwrap();
            sleep(EVERY).await;
        }
    });
    // A rival for both asks each server alone, all the time.
    let rivals: Vec<_> = site
        .servers
        .iter()
        .map(|server| {
            let client = client(&pki, &server.address);
            runtime.spawn(async move {
                loop {
                    for (key, kind) in [("auctioneer", Kind::Lock), ("cell-1", Kind::Presence)] {
                        let outcome =
                            client.lock(&resource(key, "bert", kind), TTL, "id", Duration::from_secs(1)).await;
                        assert!(outcome.is_err(), "{key} has a second owner");
                    }
                    sleep(EVERY / 3).await;
                }
            })
        })
        .collect();
    for at in [0, 1, 0] {
        site.kill(at);
        let renewed = listener.renewed.load(Ordering::SeqCst);
        // Longer than what was held when the server died could last.
        runtime.block_on(sleep(TTL * 2));
        assert!(!listener.is_lost.load(Ordering::SeqCst), "the lock is lost");
        assert!(listener.renewed.load(Ordering::SeqCst) > renewed + 5, "the lock is renewed all the time");
        assert!(!cell.is_finished(), "every announcement succeeds");
        assert!(rivals.iter().all(|rival| !rival.is_finished()), "nobody else gets anything");
        site.restart(at);
    }
    rivals.iter().chain([&cell]).for_each(tokio::task::JoinHandle::abort);
    runtime.block_on(session.release());
}

/// A hundred want the same lock, half of them through either server first. Whoever has it looks whether anybody else thinks so too.
#[test]
fn a_hundred_claimers_are_owners_one_after_another() {
    const CLAIMERS: usize = 100;
    const TTL: Duration = Duration::from_secs(30);
    /// Some never give it back, and it ends by itself.
    const BRIEF: Duration = Duration::from_secs(1);
    let site = Site::new();
    let runtime = runtime();
    let _inside = runtime.enter();
    let (owners, tenures) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let claimers: Vec<_> = (0..CLAIMERS)
        .map(|number| {
            let mine = client(&site.pki, &site.addresses(number % 2));
            let other = client(&site.pki, &site.servers[1 - number % 2].address);
            let (owners, tenures) = (owners.clone(), tenures.clone());
            let wanted = resource("one", &format!("claimer-{number}"), Kind::Lock);
            let forgets = number % 25 == 0;
            let ttl = if forgets { BRIEF } else { TTL };
            runtime.spawn(async move {
                loop {
                    let sent = Instant::now();
                    match mine.lock(&wanted, ttl, "id", PATIENCE).await {
                        Ok(()) => {}
                        Err(LocketError::Collision { .. }) => {
                            sleep(Duration::from_millis(20)).await;
                            continue;
                        }
                        Err(error) => panic!("{error}"),
                    }
                    assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0, "somebody else is owner too");
                    if forgets {
                        // Until its time is nearly over, counted from before it was asked for.
                        sleep((BRIEF * 8 / 10).saturating_sub(sent.elapsed())).await;
                    } else {
                        let held = other.fetch("one", PATIENCE).await.unwrap();
                        assert_eq!(held.owner, wanted.owner, "the other server knows another owner");
                    }
                    assert_eq!(owners.fetch_sub(1, Ordering::SeqCst), 1);
                    tenures.fetch_add(1, Ordering::SeqCst);
                    if !forgets {
                        mine.release(&wanted, PATIENCE).await.unwrap();
                    }
                    return;
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for claimer in claimers {
            claimer.await.unwrap();
        }
    });
    assert_eq!(tenures.load(Ordering::SeqCst), CLAIMERS);
}
