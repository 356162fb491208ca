//! A state server that serves Locket itself, on the embedded store: the commands against it, and what a restart costs.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use api::client::TlsFiles;
use api::locket::{Client, Holder, Kind, LockSession, LocketError, Options, Resource, Terms, Waiting};
use expect_test::{Expect, expect};
use rig::pki::Pki;
use rustix::process::Signal;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::node::free_address;
use super::world::{PATIENCE, until};
use crate::mask::masked;
use crate::program::{Background, Outcome, finish, program, utf8};

/// What a server ends with that cannot have its port.
const EXIT_OTHER: i32 = 5;

/// A server, and the folder with its file and everybody's certificates.
pub(crate) struct Board {
    pub(crate) process: Background,
    pub(crate) pki: Pki,
    pub(crate) locket: SocketAddr,
    api: SocketAddr,
}

impl Board {
    pub(crate) fn start() -> Self {
        let (pki, locket, api) = (Pki::new(), free_address(), free_address());
        let text = format!(
            "listen = \"{api}\"\nhealth = \"127.0.0.1:0\"\n[store]\ndir = \"board\"\n{}[serve_locket]\nlisten = \"{locket}\"\n",
            Pki::SERVER_TABLE
        );
        std::fs::write(pki.path("board.toml"), text).unwrap();
        let process = Self::process(&pki);
        let mut board = Self { process, pki, locket, api };
        board.wait();
        board
    }

    fn process(pki: &Pki) -> Background {
        Background::start(&mut program(&["bbs", "--config", utf8(&pki.path("board.toml"))]))
    }

    fn wait(&mut self) {
        let said = self.process.lines_until(|line| line.starts_with("Locket listens on ")).join("\n");
        assert_eq!(said.split_once('\n').unwrap().1, format!("Locket listens on {}.", self.locket));
    }

    pub(crate) fn restart(&mut self) {
        self.process = Self::process(&self.pki);
        self.wait();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = program(args);
        command.args(["--locketAPILocation", &self.locket.to_string()]).args(self.pki.client_flags());
        command
    }

    fn call(&self, args: &[&str]) -> Outcome {
        finish(&mut self.command(args))
    }

    fn cells(&self) -> String {
        let url = format!("https://{}", self.api);
        finish(program(&["cells", "--bbsURL", &url]).args(self.pki.client_flags())).stdout
    }

    fn client(&self) -> Client {
        client(&self.pki, &self.locket.to_string())
    }
}

pub(crate) fn client(pki: &Pki, address: &str) -> Client {
    let path = |name: &str| pki.path(name);
    let tls = TlsFiles { ca: path("ca.crt"), cert: path("client.crt"), key: path("client.key"), skip_verify: false };
    Client::new(&Options { address: address.to_owned(), tls, keepalive: None }).unwrap()
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(crate) fn resource(key: &str, owner: &str, kind: Kind) -> Resource {
    Resource { key: key.into(), owner: owner.into(), value: String::new(), kind }
}

/// Counts what it is told about its lock.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    pub(crate) renewed: AtomicUsize,
    pub(crate) is_lost: AtomicBool,
}

impl Holder for Listener {
    fn uptime_ns(&self) -> u64 {
        store::standing::uptime_ns()
    }

    fn fresh_id(&self) -> Arc<str> {
        "id".into()
    }

    fn waits(&self, _: &Waiting) {}

    fn renewed(&self, _: u64) {
        self.renewed.fetch_add(1, Ordering::SeqCst);
    }

    fn lost(&self, _: &str) {
        self.is_lost.store(true, Ordering::SeqCst);
    }
}

fn transcript(board: &Board, story: &[&[&str]], expected: &Expect) {
    let mut text = String::new();
    for args in story {
        let outcome = board.call(args);
        writeln!(text, "$ {}\n{}{}→ {}", args.join(" "), outcome.stdout, outcome.stderr, outcome.code).unwrap();
    }
    expected.assert_eq(&masked(&text).replace(&board.locket.to_string(), "LOCKET"));
}

#[test]
fn the_commands_about_locket() {
    let board = Board::start();
    let cell =
        r#"{"cell_id":"cell-1","rep_address":"http://10.0.0.1:1800","zone":"z1","rep_url":"https://10.0.0.1:1801"}"#;
    let story: &[&[&str]] = &[
        &["locks"],
        &["locks", "--table"],
        &["claim-lock", "-k", "deploy", "-o", "anna", "-t", "600"],
        &["claim-lock", "--key", "deploy", "--owner", "anna", "--value", "<b> & co", "--ttl", "600"],
        &["claim-lock", "-k", "deploy", "-o", "bert", "-t", "600"],
        &["claim-presence", "-k", "cell-1", "-o", "rep", "-t", "600", "-v", cell],
        &["claim-presence", "-k", "cell-2", "-o", "rep", "-t", "600", "-v", "no cell"],
        &["locks"],
        &["locks", "--table"],
        &["presences"],
        &["presences", "--table"],
        &["release-lock", "-k", "deploy", "-o", "bert"],
        &["release-lock", "-k", "deploy", "-o", "anna"],
        &["release-lock", "-k", "deploy", "-o", "anna"],
        &["release-lock", "-k", "cell-2", "-o", "rep"],
        &["claim-lock", "-o", "anna", "-t", "600"],
        &["claim-lock", "-k", "deploy", "-t", "600"],
        &["claim-lock", "-k", "deploy", "-o", "anna"],
        &["claim-lock", "-k", "deploy", "-o", "anna", "-t", "-1"],
        &["claim-lock", "-k", "deploy", "-o", "anna", "-t", "soon"],
        &["release-lock", "-k", "deploy"],
        &["locks", "all"],
    ];
    transcript(
        &board,
        story,
        &expect![[r#"
        $ locks
        → 0
        $ locks --table
        no locks
        → 0
        $ claim-lock -k deploy -o anna -t 600
        → 0
        $ claim-lock --key deploy --owner anna --value <b> & co --ttl 600
        → 0
        $ claim-lock -k deploy -o bert -t 600
        corkboard: asking for the lock deploy: it belongs to "anna" (lock-collision). Nothing was changed
        → 4
        $ claim-presence -k cell-1 -o rep -t 600 -v {"cell_id":"cell-1","rep_address":"http://10.0.0.1:1800","zone":"z1","rep_url":"https://10.0.0.1:1801"}
        → 0
        $ claim-presence -k cell-2 -o rep -t 600 -v no cell
        → 0
        $ locks
        {"key":"deploy","owner":"anna","value":"\u003cb\u003e \u0026 co","type":"lock","type_code":1}
        → 0
        $ locks --table
        KEY     OWNER  VALUE
        deploy  anna   <b> & co
        → 0
        $ presences
        {"key":"cell-1","owner":"rep","value":"{\"cell_id\":\"cell-1\",\"rep_address\":\"http://10.0.0.1:1800\",\"zone\":\"z1\",\"rep_url\":\"https://10.0.0.1:1801\"}","type":"presence","type_code":2}
        {"key":"cell-2","owner":"rep","value":"no cell","type":"presence","type_code":2}
        → 0
        $ presences --table
        KEY     OWNER  ZONE  ADDRESS
        cell-1  rep    z1    https://10.0.0.1:1801
        cell-2  rep
        → 0
        $ release-lock -k deploy -o bert
        corkboard: giving back the lock deploy: it belongs to "anna" (lock-collision). Nothing was changed
        → 4
        $ release-lock -k deploy -o anna
        → 0
        $ release-lock -k deploy -o anna
        → 0
        $ release-lock -k cell-2 -o rep
        → 0
        $ claim-lock -o anna -t 600
        corkboard: key cannot be empty (--key)
        → 3
        $ claim-lock -k deploy -t 600
        corkboard: owner cannot be empty (--owner)
        → 3
        $ claim-lock -k deploy -o anna
        corkboard: ttl should be an integer greater than zero (--ttl, in seconds)
        → 3
        $ claim-lock -k deploy -o anna -t -1
        corkboard: ttl should be an integer greater than zero (--ttl, in seconds)
        → 3
        $ claim-lock -k deploy -o anna -t soon
        error: invalid value 'soon' for '--ttl <SECONDS>': invalid digit found in string

        For more information, try '--help'.
        → 3
        $ release-lock -k deploy
        corkboard: owner cannot be empty (--owner)
        → 3
        $ locks all
        error: unexpected argument 'all' found

        Usage: corkboard locks [OPTIONS]

        For more information, try '--help'.
        → 3
    "#]],
    );
    until("the presence is a cell of the state server", || board.cells().contains("\"cell-1\""));
}

#[test]
fn which_locket_and_as_whom() {
    let board = Board::start();
    let flags = board.pki.client_flags();
    let locket = board.locket.to_string();
    let said = |command: &mut Command| {
        let outcome = finish(command);
        let dir = utf8(board.pki.dir.path());
        format!("{}{}→ {}\n", outcome.stdout, outcome.stderr, outcome.code)
            .replace(&locket, "LOCKET")
            .replace(dir, "DIR")
    };
    let gone = free_address().to_string();
    let text = [
        said(program(&["locks"]).args(&flags)),
        said(program(&["locks"]).args(&flags).env("LOCKET_API_LOCATION", &locket)),
        said(program(&["locks", "--locketAPILocation", &format!("{gone},{locket}")]).args(&flags)),
        said(program(&["locks", "--locketAPILocation", &gone]).args(&flags)).replace(&gone, "GONE"),
        said(program(&["locks", "--locketAPILocation", "https://locket:8891"]).args(&flags)),
        said(&mut program(&["locks", "--locketAPILocation", &locket])),
        said(program(&["locks", "--locketAPILocation", &locket, "--skipCertVerify"]).args(&flags[2..])),
        said(program(&["locks", "--locketAPILocation", &locket]).args(&flags[2..])),
    ];
    expect![[r#"
        corkboard: no Locket is named; expected HOST:PORT with --locketAPILocation or LOCKET_API_LOCATION
        → 3
        → 0
        → 0
        corkboard: listing the locks: Locket at GONE does not answer: Connection refused (os error 111)
        Is Locket running there, and do both sides trust each other's certificates? The address is from --locketAPILocation or LOCKET_API_LOCATION.
        → 4
        corkboard: "https://locket:8891" is not the address of a Locket; expected HOST:PORT, such as locket.service.cf.internal:8891
        → 3
        corkboard: --clientCertFile and --clientKeyFile (or CLIENT_CERT_FILE and CLIENT_KEY_FILE) must both be given for https:// and for Locket
        → 3
        → 0
        corkboard: --caCertFile (or CA_CERT_FILE) must name the authority of the server, unless --skipCertVerify is set
        → 3
    "#]].assert_eq(&text.concat());
}

/// As it is with Diego's: whoever holds a lock keeps it, and nobody else gets it before its time is over.
#[test]
fn a_lock_outlives_its_keeper() {
    const TTL: Duration = Duration::from_secs(5);
    let mut board = Board::start();
    let runtime = runtime();
    let _inside = runtime.enter();
    let client = board.client();
    let listener = Arc::new(Listener::default());
    let (_stop, stopped) = watch::channel(false);
    let session = runtime.block_on(async {
        let terms = Terms { interval: Duration::from_millis(200), ..Terms::new("auctioneer", "anna") };
        LockSession::acquire(client.clone(), terms, listener.clone(), stopped).await.unwrap().unwrap()
    });
    let claim =
        |key: &str, owner: &str| runtime.block_on(client.lock(&resource(key, owner, Kind::Lock), TTL, "id", PATIENCE));
    let is_taken = |key: &str, owner: &str| matches!(claim(key, owner), Err(LocketError::Collision { .. }));
    // Its owner is never heard of again.
    claim("orphan", "anna").unwrap();
    claim("given back", "anna").unwrap();
    runtime.block_on(client.release(&resource("given back", "anna", Kind::Lock), PATIENCE)).unwrap();

    board.process.signal(Signal::KILL);
    board.process.wait();
    board.restart();
    assert!(is_taken("auctioneer", "bert") && is_taken("orphan", "bert"));
    claim("given back", "bert").unwrap();
    let renewed = listener.renewed.load(Ordering::SeqCst);
    until("the holder renews its lock", || listener.renewed.load(Ordering::SeqCst) > renewed + 2);
    assert!(is_taken("auctioneer", "bert"));
    let took = until("what nobody asks for is free", || claim("orphan", "bert").is_ok());
    assert!(took > TTL / 2, "{took:?}");
    assert!(is_taken("auctioneer", "bert") && !listener.is_lost.load(Ordering::SeqCst));
    runtime.block_on(session.release());
    claim("auctioneer", "bert").unwrap();

    // In order, too.
    board.process.signal(Signal::TERM);
    assert_eq!(board.process.wait().code(), Some(0));
    assert!(TcpStream::connect(board.locket).is_err());
    board.restart();
    assert!(is_taken("auctioneer", "anna"));
    claim("auctioneer", "bert").unwrap();
}

#[test]
fn a_server_that_cannot_serve_locket_ends_and_says_so() {
    let mut board = Board::start();
    board.process.signal(Signal::TERM);
    board.process.wait();
    let _taken = TcpListener::bind(board.locket).unwrap();
    let mut process = Board::process(&board.pki);
    assert_eq!(process.wait().code(), Some(EXIT_OTHER));
    process.wait_for_log(&format!("cannot listen on {} for the Locket port", board.locket));
}
