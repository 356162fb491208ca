//! All programs of a cluster, and the app that runs on it.
//!
//! The state server knows one address of an auctioneer, as in a cluster where a name stands for all of them: a line of ours
//! leads from there to whichever auctioneer accepts connections.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::client::{Client, ClientConfig, TlsFiles};
use api::locket::{self, Kind, Resource};
use api::models::{ActualLrPsRequest, ActualLrp};
use rig::nats;
use rig::pki::Pki;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::daemon::Daemon;
use crate::program::{finish, program};

/// Longer than anything that a test waits for, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const HOST: &str = "app.example.org";
const TLS: &str = Pki::SERVER_TABLE;
/// How long somebody else keeps a lock that was taken away.
const LOCK_TTL: Duration = Duration::from_secs(5);
const PORTS_PER_CELL: u32 = 50;

pub(crate) struct World {
    pub(crate) auctioneers: Vec<Daemon>,
    pub(crate) cells: Vec<Daemon>,
    pub(crate) emitter: Daemon,
    pub(crate) router: Daemon,
    _board: Daemon,
    pub(crate) client: Client,
    pub(crate) locket: locket::Client,
    pub(crate) router_address: String,
    flags: Vec<String>,
    line: Arc<Line>,
    nats: nats::Server,
    pki: Pki,
}

impl World {
    /// With so many cells, each in a zone of its own, and one auctioneer. Apps are plain processes.
    pub(crate) async fn start(cells: usize) -> Self {
        let user = if rustix::process::geteuid().is_root() { "user = \"root\"\n" } else { "" };
        Self::start_in(Pki::new(), cells, user).await
    }

    /// In a folder that is there, with these lines about what containers are.
    pub(crate) async fn start_in(pki: Pki, cells: usize, executor: &str) -> Self {
        let dir = pki.dir.path().to_owned();
        let nats = nats::Server::start(nats::Options { tls: true, user: Some(("routes".into(), "secret".into())) });
        write_private(&dir.join("password"), "secret\n");
        let line = Line::open().await;
        let mut board = Daemon::new(&dir, "board", "bbs", &board(&line.address));
        board.start();
        let api = board.address_after("The API listens on ");
        let locket = board.address_after("Locket listens on ");
        let shared = format!("{TLS}[bbs]\nurls = [\"https://{api}\"]\n[locket]\naddress = \"{locket}\"\n");
        let bus = bus(&nats);
        let emitter = format!("node = \"emitter\"\nhealth = \"127.0.0.1:0\"\n{shared}{bus}");
        let router =
            format!("listen = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\n{bus}[timing]\ndrain_wait = \"100ms\"\n");
        let tls = TlsFiles {
            ca: pki.path("ca.crt"),
            cert: pki.path("client.crt"),
            key: pki.path("client.key"),
            skip_verify: false,
        };
        let options = locket::Options { address: locket, tls: tls.clone(), keepalive: None };
        let locket = locket::Client::new(&options).unwrap();
        let url = format!("https://{api}");
        let client = Client::new(ClientConfig { tls: Some(tls), ..ClientConfig::new(&url) }).unwrap();
        let flags = [vec!["--bbsURL".to_owned(), url], pki.client_flags()].concat();
        let auctioneer = |name: &str| {
            let config = format!("node = \"{name}\"\nlisten = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\n{shared}");
            Daemon::new(&dir, name, "auctioneer", &config)
        };
        let mut world = Self {
            auctioneers: ["brain-1", "brain-2"].map(auctioneer).into(),
            cells: (0..cells)
                .map(|at| Daemon::new(&dir, &cell_name(at), "cell", &cell(at, &shared, executor)))
                .collect(),
            emitter: Daemon::new(&dir, "emitter", "route-emitter", &emitter),
            router: Daemon::new(&dir, "router", "router", &router),
            _board: board,
            client,
            locket,
            router_address: String::new(),
            flags,
            line,
            nats,
            pki,
        };
        world.start_all();
        // What is asked for before anybody is known to do it is asked for again much later.
        world.until("all cells are known", async || world.client.cells().await.unwrap().len() == cells).await;
        world
    }

    fn start_all(&mut self) {
        self.start_auctioneer(0);
        for at in 0..self.cells.len() {
            self.start_cell(at);
        }
        self.router.start();
        self.router_address = self.router.address_after("The router listens on ");
        self.emitter.start();
        self.emitter.address_after("The route emitter answers health on ");
    }

    /// Returns when it is the active one.
    pub(crate) fn start_auctioneer(&mut self, at: usize) {
        self.auctioneers[at].start();
        self.follow_auctioneer(at);
    }

    pub(crate) fn follow_auctioneer(&mut self, at: usize) {
        let address = self.auctioneers[at].address_after("The auctioneer listens on ");
        *self.line.target.lock().unwrap() = address;
    }

    pub(crate) fn start_cell(&mut self, at: usize) {
        self.cells[at].start();
        self.cells[at].address_after(" listens on ");
    }

    /// A command of the operator.
    pub(crate) fn call(&self, args: &[&str]) -> String {
        let mut command = program(args);
        let outcome = finish(command.args(&self.flags));
        assert_eq!(outcome.code, 0, "{args:?}: {outcome:?}");
        outcome.stdout
    }

    /// Desires the app and waits until all its instances answer.
    pub(crate) async fn run_app(&self, instances: usize) {
        self.call(&["set-domain", "ring"]);
        self.call(&["create-desired-lrp", &app(instances)]);
        self.until("the app answers", async || self.seen(40).len() == instances).await;
    }

    /// Where each instance runs, by index.
    pub(crate) async fn running(&self) -> BTreeMap<i32, (String, String)> {
        let filter = ActualLrPsRequest { process_guid: "app".into(), ..ActualLrPsRequest::default() };
        let rows = self.client.actual_lrps(filter).await.unwrap();
        let place = |row: ActualLrp| {
            let (key, instance) = (row.actual_lrp_key.unwrap(), row.actual_lrp_instance_key.unwrap_or_default());
            (key.index, (instance.cell_id, instance.instance_guid))
        };
        rows.into_iter().filter(|row| row.state == "RUNNING").map(place).collect()
    }

    /// Which instances answer so many requests, with the cells where they are.
    pub(crate) fn seen(&self, requests: usize) -> BTreeMap<String, String> {
        let answers = (0..requests).filter_map(|_| get(&self.router_address).ok());
        answers
            .filter(|(status, _)| *status == 200)
            .map(|(_, body)| (word(&body, "guid"), word(&body, "cell")))
            .collect()
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so().await {
            assert!(Instant::now() < until, "waited for: {what}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Gives a lock to somebody else, as a Locket that has forgotten would.
    pub(crate) async fn take_lock_away(&self, key: &str) {
        let held = self.locket.fetch(key, PATIENCE).await.unwrap();
        self.locket.release(&held, PATIENCE).await.unwrap();
        let other = Resource { owner: "somebody".into(), kind: Kind::Lock, ..held };
        self.locket.lock(&other, LOCK_TTL, "test", PATIENCE).await.unwrap();
    }

    pub(crate) fn dir(&self) -> &Path {
        self.pki.dir.path()
    }

    pub(crate) fn bus(&self) -> &nats::Server {
        &self.nats
    }
}

/// Apps outlive their cells, and are not to outlive the test.
impl Drop for World {
    fn drop(&mut self) {
        self.cells.clear();
        let dir = self.dir().to_str().unwrap();
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = process.file_name().to_string_lossy().parse::<i32>() else { continue };
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let folder = std::fs::read_link(process.path().join("cwd")).unwrap_or_default();
            if folder.starts_with(dir) || String::from_utf8_lossy(&command).contains(&format!("shim\0{dir}")) {
                let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
            }
        }
    }
}

fn board(auctioneer: &str) -> String {
    let files = "ca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"server.key\"\n";
    format!(
        "node = \"board\"\nlisten = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\n[store]\ndir = \"board\"\n{TLS}\
         [serve_locket]\nlisten = \"127.0.0.1:0\"\n[timing]\nconverge_interval = \"1s\"\n\
         [auctioneer]\nurl = \"https://{auctioneer}\"\n{files}[cells]\nrequire_tls = true\n{files}"
    )
}

fn bus(nats: &nats::Server) -> String {
    let path = |name: &str| nats.pki().path(name).display().to_string();
    format!(
        "[nats]\nurls = [\"tls://{}\"]\nuser = \"routes\"\npassword_file = \"password\"\nca = {:?}\ncert = {:?}\nkey = {:?}\n",
        nats.address(),
        path("ca.crt"),
        path("client.crt"),
        path("client.key"),
    )
}

pub(crate) fn cell_name(at: usize) -> String {
    format!("cell-{at}")
}

fn cell(at: usize, shared: &str, executor: &str) -> String {
    // Tests run beside each other, so that each has ports of its own.
    let first = 10_000 + (std::process::id() % 100) * 2 * PORTS_PER_CELL + u32::try_from(at).unwrap() * PORTS_PER_CELL;
    format!(
        "cell_id = \"{}\"\nzone = \"z{at}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n{shared}\
         [capacity]\nmemory_mb = 1024\ndisk_mb = 1024\n[executor]\nhost_ports = \"{first}-{}\"\ngrace = \"5s\"\n{executor}\
         [timing]\npolling = \"1s\"\npresence = \"1s\"\npresence_ttl = \"5s\"\nevacuation = \"20s\"\n",
        cell_name(at),
        first + PORTS_PER_CELL - 1,
    )
}

fn app(instances: usize) -> String {
    let binary = env!("CARGO_BIN_EXE_corkboard");
    format!(
        r#"{{"process_guid":"app","domain":"ring","rootfs":"preloaded:cflinuxfs4","instances":{instances},"memory_mb":64,
        "disk_mb":64,"ports":[8080],"log_guid":"app","start_timeout_ms":30000,
        "action":{{"run":{{"path":"{binary}","args":["demo-app","--linger","2s"],"user":"root"}}}},
        "monitor":{{"run":{{"path":"/bin/true","user":"root"}}}},
        "check_definition":{{"checks":[{{"http_check":{{"port":8080,"path":"/healthz"}}}}],"log_source":"HEALTH"}},
        "routes":{{"cf-router":[{{"hostnames":["{HOST}"],"port":8080}}]}},"metric_tags":{{"source_id":{{"static":"app"}}}}}}"#
    )
}

/// One request for the app: the status and the body.
pub(crate) fn get(router: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(router)?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    write!(stream, "GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let cut = || std::io::Error::other(format!("not an answer: {text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut)?;
    Ok((status, body.to_owned()))
}

fn word(body: &str, name: &str) -> String {
    let line = body.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_default().to_owned()
}

fn write_private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

/// From one address to whoever is the target at the time.
struct Line {
    address: String,
    target: Mutex<String>,
}

impl Line {
    async fn open() -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let line = Arc::new(Self { address, target: Mutex::default() });
        let ours = line.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let target = ours.target.lock().unwrap().clone();
                tokio::spawn(async move {
                    if let Ok(mut far) = tokio::net::TcpStream::connect(target).await {
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        line
    }
}
