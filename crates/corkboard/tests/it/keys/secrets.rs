//! No byte of a key ever leaves the process, and no byte of a record reaches the disk in plain.
//!
//! A server with keys of every origin is led through everything that could make it talkative, at the most talkative level of
//! its log. Then all that it and the commands said, and all that lies on its disk, is searched for the keys in every form in
//! which somebody might print them. That the search finds what is there is checked first.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use store::seal::{Place, envelope};
use store::{Store, Version};

use super::site::{Server, Site};
use crate::program::{Outcome, finish, program, utf8};

const IN_FILE: &str = "kept-in-a-file-0f5a8c9e";
const IN_ENV: &str = "kept-in-the-environment-77d1";
const INLINE: &str = "kept-in-the-configuration-b3";
const VARIABLE: &str = "TEST_KEY_E";
const PASSWORD: &str = "correct-horse-battery-staple";

/// What must not be found, with a name for the message.
struct Forms(Vec<(String, Vec<u8>)>);

impl Forms {
    fn of_keys() -> Self {
        let mut forms = Vec::new();
        for key in [IN_FILE, IN_ENV, INLINE] {
            for (what, bytes) in [("the key", key.as_bytes().to_vec()), ("the derived key of", derived(key).to_vec())] {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let list = format!("{bytes:?}").trim_matches(['[', ']']).to_owned();
                let texts = [
                    ("in hex", hex.clone()),
                    ("in upper hex", hex.to_uppercase()),
                    ("in base64", BASE64_STANDARD_NO_PAD.encode(&bytes)),
                    ("as a list", list),
                ];
                forms.extend(texts.map(|(form, text)| (format!("{what} {key} {form}"), text.into_bytes())));
                forms.push((format!("{what} {key} as it is"), bytes));
            }
        }
        Self(forms)
    }

    fn found_in(&self, bytes: &[u8]) -> Vec<&str> {
        self.0.iter().filter(|(_, form)| contains(bytes, form)).map(|(name, _)| name.as_str()).collect()
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

struct Bytes32;

impl KeyType for Bytes32 {
    fn len(&self) -> usize {
        32
    }
}

/// As `docs/formats/storage.md` says it, independently of the code that does it.
fn derived(key: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    let root = Salt::new(HKDF_SHA256, b"corkboard encryption at rest").extract(key.as_bytes());
    root.expand(&[b"record AES-256-GCM"], Bytes32).and_then(|okm| okm.fill(&mut bytes)).unwrap();
    bytes
}

/// Everything that was said, with a name for the message.
#[derive(Default)]
struct Heard(Vec<(String, Vec<u8>)>);

impl Heard {
    fn keep(&mut self, what: &str, Outcome { stdout, stderr, code }: Outcome) -> i32 {
        self.0.push((what.to_owned(), format!("{stdout}{stderr}").into_bytes()));
        code
    }

    fn call(&mut self, server: &Server, args: &[&str]) -> i32 {
        self.keep(&args.join(" "), server.call(args))
    }

    /// All that a server tells anybody who asks.
    fn look_around(&mut self, server: &Server) {
        for path in ["/status", "/metrics"] {
            self.0.push((path.to_owned(), server.get(true, path).into_bytes()));
        }
        for path in ["/corkboard/v1/keys", "/corkboard/v1/status", "/corkboard/v1/history", "/corkboard/v1/quarantine"]
        {
            self.0.push((path.to_owned(), server.get(false, path).into_bytes()));
        }
        for args in
            [&["keys", "status"][..], &["keys", "status", "--json"], &["keys", "verify"], &["migrate", "history"]]
        {
            assert_eq!(self.call(server, args), 0, "{args:?}");
        }
    }

    /// Every file below a folder.
    fn read(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.read(&path);
            } else {
                self.0.push((utf8(&path).to_owned(), std::fs::read(&path).unwrap()));
            }
        }
    }
}

fn tables(active: &str, more: &str) -> String {
    format!(
        "[encryption]\nactive = \"{active}\"\n[encryption.keys]\nE = {{ env = \"{VARIABLE}\" }}\nF = {{ file = \"keys/F\" }}\n\
         I = \"{INLINE}\"\n{more}"
    )
}

/// What an operator may get wrong while a server runs, with the exit code of `keys rotate`.
fn mistakes() -> Vec<(String, i32)> {
    let keys = |lines: &str| format!("[encryption]\nactive = \"I\"\n[encryption.keys]\n{lines}");
    vec![
        (tables("I", &format!("X = \"{IN_FILE}\n")), 4),
        (tables("I", &format!("X = \"{IN_FILE}\"\n")), 4),
        (tables("I", &format!("X = [\"{IN_FILE}\"]\n")), 4),
        (tables("I", &format!("X = {{ key = \"{IN_FILE}\" }}\n")), 4),
        (tables("I", "X = { file = \"keys/shared\" }\n"), 4),
        (tables("I", "X = { env = \"NO_SUCH_VARIABLE\" }\n"), 4),
        (format!("[encryption]\nactive = \"I\"\nkeys = \"{INLINE}\"\n"), 4),
        (tables("X", ""), 4),
        (keys(&format!("I = \"{IN_FILE}-changed\"\n")), 8),
        (keys("F = { file = \"keys/F\" }\n").replace("\"I\"", "\"F\""), 8),
    ]
}

#[tokio::test]
async fn no_key_and_no_record_in_plain_is_ever_seen() {
    let site = Site::new();
    for (name, bytes, mode) in [("F", IN_FILE, 0o600), ("shared", IN_FILE, 0o644)] {
        let path = site.path(&format!("keys/{name}"));
        std::fs::write(&path, format!("{bytes}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut heard = Heard::default();
    let talkative = |site: &Site| {
        let mut command = site.server();
        command.env(VARIABLE, IN_ENV).env("CORKBOARD_LOG", "trace");
        site.run(command)
    };
    let check = |site: &Site| {
        let file = site.path("board.toml");
        finish(program(&["config", "check", utf8(&file)]).env(VARIABLE, IN_ENV))
    };

    site.configure(&tables("F", ""));
    assert_eq!(heard.keep("config check", check(&site)), 0);
    let server = talkative(&site);
    let env = format!(r#""env":[{{"name":"DB_PASSWORD","value":"{PASSWORD}"}}],"#);
    let lrp = crate::program::LRP.replacen('{', &format!("{{{env}"), 1);
    let task = crate::program::TASK.replacen('{', &format!("{{{env}"), 1);
    assert_eq!(heard.call(&server, &["create-desired-lrp", &lrp]), 0);
    assert_eq!(heard.call(&server, &["create-task", &task]), 0);
    heard.look_around(&server);
    for active in ["E", "I"] {
        site.configure(&tables(active, ""));
        assert_eq!(heard.call(&server, &["keys", "rotate", "--watch"]), 0);
        heard.look_around(&server);
    }
    for (tables, code) in mistakes() {
        site.configure(&tables);
        assert_eq!(heard.call(&server, &["keys", "rotate", "--watch"]), code, "{tables}");
        heard.keep("config check", check(&site));
    }
    heard.look_around(&server);
    let shown = server.done(&["desired-lrp", "hello"]);
    assert!(shown.contains(PASSWORD), "the server itself knows it: {shown}");
    server.stop();

    // Servers that do not start, and commands without one.
    for (tables, _) in mistakes() {
        site.configure(&tables);
        let refused = finish(site.server().env(VARIABLE, IN_ENV).env("CORKBOARD_LOG", "trace"));
        assert_ne!(heard.keep("bbs", refused), 0, "{tables}");
        heard.keep("keys verify --config", site.alone(&["keys", "verify"]));
    }
    derived_as_the_server_does(&site).await;

    heard.read(site.dir.path());
    let (ours, said): (Vec<_>, Vec<_>) =
        heard.0.into_iter().partition(|(name, _)| name.ends_with("/board.toml") || name.contains("/keys/"));
    let forms = Forms::of_keys();
    let in_configuration: Vec<_> = ours.iter().flat_map(|(_, bytes)| forms.found_in(bytes)).collect();
    assert!(in_configuration.contains(&format!("the key {IN_FILE} as it is").as_str()), "{in_configuration:?}");
    for (name, bytes) in &said {
        let found = forms.found_in(bytes);
        assert!(found.is_empty(), "{name} shows {found:?}");
        // Whoever creates something may say it again; nobody else does.
        let is_theirs = name.starts_with("create-");
        assert!(is_theirs || !contains(bytes, PASSWORD.as_bytes()), "{name} shows a record");
    }
    let log = said.iter().find(|(name, _)| name.ends_with("/log")).unwrap();
    assert!(contains(&log.1, b"TRACE") || contains(&log.1, b"DEBUG"), "the log is talkative");
    assert!(!contains(&log.1, b"panicked"), "a bad configuration is no reason to panic");
    assert!(
        said.iter().any(|(name, bytes)| name.contains("/board/") && contains(bytes, b"0007I:")),
        "records are here"
    );
}

/// The derived key that is searched for is the one that sealed: it opens a record.
async fn derived_as_the_server_does(site: &Site) {
    let store = site.store();
    let page = store.scan(Version::LATEST.root(), None, 1).await.unwrap();
    let (id, value) = &page.records[0];
    let sealed = envelope::parse(value).unwrap();
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &derived(INLINE)).unwrap());
    let aad = Aad::from(envelope::associated_data(Place::of(id).unwrap(), sealed.sealed_ns));
    let mut plain = sealed.sealed.to_vec();
    assert!(key.open_in_place(Nonce::assume_unique_for_key(sealed.nonce), aad, &mut plain).is_ok());
}
