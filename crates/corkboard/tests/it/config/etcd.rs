//! `config check` for nodes that share a store on etcd: what is fine, and every combination that is not.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use expect_test::{Expect, expect};

use super::check;
use crate::program::{finish, program, run};
use rig::pki::Pki;

const TOP: &str = "node = \"a\"\nidentity = \"id\"\n";
const KEYS: &str = "[encryption]\nactive = \"A\"\nkeys.A = { file = \"A\" }\n";

/// A folder with certificates, a key and two files with passwords.
fn folder() -> Pki {
    let pki = Pki::new();
    for (name, text, mode) in
        [("A", "sixteen bytes or more\n", 0o600), ("password", "hunter2\n", 0o600), ("open", "hunter2\n", 0o640)]
    {
        std::fs::write(pki.path(name), text).unwrap();
        std::fs::set_permissions(pki.path(name), Permissions::from_mode(mode)).unwrap();
    }
    for (name, bytes) in [("empty", &b"\n"[..]), ("binary", b"\xff\xfe"), ("long", &[b'x'; 2000])] {
        std::fs::write(pki.path(name), bytes).unwrap();
        std::fs::set_permissions(pki.path(name), Permissions::from_mode(0o600)).unwrap();
    }
    pki
}

/// A file that differs from one that is fine in `top` and in the lines of `[store]`.
fn file(top: &str, store: &str) -> String {
    format!("{TOP}{top}[store]\nengine = \"etcd\"\n{store}{KEYS}")
}

const PLAIN: &str = "endpoints = [\"http://127.0.0.1:2379\"]\n";
const TLS: &str = "endpoints = [\"https://10.0.0.1:2379\", \"https://10.0.0.2:2379\"]\nca = \"ca.crt\"\n";

#[test]
fn files_that_are_fine() {
    let folder = folder();
    check(
        &folder,
        &file("", PLAIN),
        0,
        &expect![[r#"
        board.toml: no problems
          node        a
          API         127.0.0.1:8889 (plain http)
          health      127.0.0.1:8890 (plain http)
          store       etcd at http://127.0.0.1:2379, below /corkboard
          identity    id
          migration   online, starts by itself, ends by itself
          encryption  key A seals, A can be opened; rotation online
          auctioneer  none; instances wait until a cell claims them
          converge    every 30s
          tasks       offered again after 30s, failed after 30m or more than 3 rejections, deleted 2m after completion
          lease       a master that is not heard of is replaced after 10s; the master compacts etcd
          standby     while it waits, it refuses connections to the API
    "#]],
    );
    let store = format!(
        "{TLS}cert = \"client.crt\"\nkey = \"client.key\"\nprefix = \"/apps/cork\"\nlease = \"1m\"\ncompact = false\n\
         user = \"ada\"\npassword_file = \"password\"\n"
    );
    check(
        &folder,
        &file("standby = \"redirect\"\nadvertise = \"http://127.0.0.1:8889\"\n", &store),
        0,
        &expect![[r#"
        board.toml: no problems
          node        a
          API         127.0.0.1:8889 (plain http)
          health      127.0.0.1:8890 (plain http)
          store       etcd at https://10.0.0.1:2379,https://10.0.0.2:2379, below /apps/cork
          identity    id
          migration   online, starts by itself, ends by itself
          encryption  key A seals, A can be opened; rotation online
          auctioneer  none; instances wait until a cell claims them
          converge    every 30s
          tasks       offered again after 30s, failed after 30m or more than 3 rejections, deleted 2m after completion
          lease       a master that is not heard of is replaced after 1m; somebody else compacts etcd
          standby     while it waits, it sends clients to the master
    "#]],
    );
}

#[test]
fn endpoints() {
    let folder = folder();
    let case = |store: &str, expected: Expect| check(&folder, &file("", store), 3, &expected);
    case(
        "",
        expect![[r#"
        board.toml: store.endpoints: is missing; expected the members of the cluster, such as ["https://10.0.0.1:2379"]
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = []\n",
        expect![[r#"
        board.toml:5: store.endpoints: is empty; expected a list of texts in quotes, such as ["a", "b"]
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = \"http://127.0.0.1:2379\"\n",
        expect![[r#"
        board.toml:5: store.endpoints: is a string; expected a list of texts in quotes, such as ["a", "b"]
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [2379]\n",
        expect![[r#"
        board.toml:5: store.endpoints: is an integer; expected text in quotes
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [\"127.0.0.1:2379\"]\n",
        expect![[r#"
        board.toml:5: store.endpoints: holds what is not a URL (relative URL without a base); expected URLs such as "https://10.0.0.1:2379"
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [\"localhost:2379\"]\n",
        expect![[r#"
        board.toml:5: store.endpoints: holds "localhost:2379", which is not the address of a member; expected URLs such as "https://10.0.0.1:2379"
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [\"http://10.0.0.1:2379\"]\n",
        expect![[r#"
        board.toml:5: store.endpoints: holds "http://10.0.0.1:2379", which is plain text to another machine; expected https://
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [\"http://127.0.0.1:2379/v3\"]\n",
        expect![[r#"
        board.toml:5: store.endpoints: holds "http://127.0.0.1:2379/v3", which is not the address of a member; expected URLs such as "https://10.0.0.1:2379"
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [\"http://127.0.0.1:2379/#a\"]\n",
        expect![[r#"
        board.toml:5: store.endpoints: holds "http://127.0.0.1:2379/#a", which is not the address of a member; expected URLs such as "https://10.0.0.1:2379"
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [\"http://ada:hunter2@127.0.0.1:2379\"]\n",
        expect![[r#"
        board.toml:5: store.endpoints: holds a user name or a password; they have keys of their own, user and password_file
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [\"http://127.0.0.1:2379\", \"http://127.0.0.1:2379/\"]\n",
        expect![[r#"
        board.toml:5: store.endpoints: names http://127.0.0.1:2379/ twice
        1 problem; nothing was started
    "#]],
    );
    let many: Vec<String> = (1..=17).map(|port| format!("\"http://127.0.0.1:{port}\"")).collect();
    case(
        &format!("endpoints = [{}]\n", many.join(", ")),
        expect![[r#"
        board.toml:5: store.endpoints: lists 17; expected at most 16
        1 problem; nothing was started
    "#]],
    );
}

#[test]
fn certificates() {
    let folder = folder();
    let case = |store: &str, expected: Expect| check(&folder, &file("", store), 3, &expected);
    case(
        "endpoints = [\"https://10.0.0.1:2379\"]\n",
        expect![[r#"
        board.toml: store.ca: is missing; https endpoints need the authority that signed their certificates
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [\"https://10.0.0.1:2379\"]\ncert = \"client.crt\"\nkey = \"client.key\"\n",
        expect![[r#"
        board.toml: store.ca: is missing; https endpoints need the authority that signed their certificates
        1 problem; nothing was started
    "#]],
    );
    case(
        &format!("{TLS}cert = \"client.crt\"\n"),
        expect![[r#"
        board.toml: store.key: is missing; cert and key belong together
        1 problem; nothing was started
    "#]],
    );
    case(
        &format!("{TLS}key = \"client.key\"\n"),
        expect![[r#"
        board.toml: store.cert: is missing; cert and key belong together
        1 problem; nothing was started
    "#]],
    );
    case(
        &format!("{TLS}cert = \"client.crt\"\nkey = \"server.key\"\n"),
        expect![[r#"
        board.toml:8: store.key: the key in server.key does not belong to the certificate in client.crt
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [\"https://10.0.0.1:2379\"]\nca = \"nowhere.crt\"\n",
        expect![[r#"
        board.toml:6: store.ca: cannot read nowhere.crt: No such file or directory (os error 2)
        1 problem; nothing was started
    "#]],
    );
    case(
        "endpoints = [\"https://10.0.0.1:2379\"]\nca = \"A\"\n",
        expect![[r#"
            board.toml:6: store.ca: A holds no certificate; expected a PEM section BEGIN CERTIFICATE
            1 problem; nothing was started
        "#]],
    );
    case(
        "endpoints = [\"https://10.0.0.1:2379\"]\nca = \"\"\n",
        expect![[r#"
        board.toml:6: store.ca: is empty; leave the key out, or give it a value
        1 problem; nothing was started
    "#]],
    );
    case(
        &format!("{PLAIN}ca = \"ca.crt\"\n"),
        expect![[r#"
        board.toml:6: store.ca: is for https endpoints, and there are none; leave ca, cert and key out, or use https://
        1 problem; nothing was started
    "#]],
    );
    case(
        &format!("{PLAIN}cert = \"client.crt\"\nkey = \"client.key\"\n"),
        expect![[r#"
        board.toml:6: store.cert: is for https endpoints, and there are none; leave ca, cert and key out, or use https://
        1 problem; nothing was started
    "#]],
    );
}

#[test]
fn users() {
    let folder = folder();
    let case = |store: &str, expected: Expect| check(&folder, &file("", &format!("{PLAIN}{store}")), 3, &expected);
    case(
        "user = \"ada\"\n",
        expect![[r#"
        board.toml: store.password_file: is missing; user and password_file belong together
        1 problem; nothing was started
    "#]],
    );
    case(
        "password_file = \"password\"\n",
        expect![[r#"
        board.toml: store.user: is missing; user and password_file belong together
        1 problem; nothing was started
    "#]],
    );
    case(
        "user = \"\"\npassword_file = \"password\"\n",
        expect![[r#"
        board.toml:6: store.user: is empty; leave the key out, or give it a value
        1 problem; nothing was started
    "#]],
    );
    case(
        "user = \"ada\"\npassword = \"hunter2\"\n",
        expect![[r#"
        board.toml:7: store.password: is not a key; expected one of engine, dir, endpoints, prefix, lease, user, password_file, compact, ca, cert, key
        board.toml: store.password_file: is missing; user and password_file belong together
        2 problems; nothing was started
    "#]],
    );
    case(
        "user = \"ada\"\npassword_file = \"open\"\n",
        expect![[r#"
        board.toml:7: store.password_file: others may use open (its permissions are 640), and whoever reads a password can log in with it; give it to its owner alone with `chmod 600 open`
        1 problem; nothing was started
    "#]],
    );
    case(
        "user = \"ada\"\npassword_file = \"nowhere\"\n",
        expect![[r#"
        board.toml:7: store.password_file: cannot read nowhere: No such file or directory (os error 2)
        1 problem; nothing was started
    "#]],
    );
    case(
        "user = \"ada\"\npassword_file = \"empty\"\n",
        expect![[r#"
        board.toml:7: store.password_file: empty is empty; expected a password
        1 problem; nothing was started
    "#]],
    );
    case(
        "user = \"ada\"\npassword_file = \"binary\"\n",
        expect![[r#"
        board.toml:7: store.password_file: binary is not text; expected a password
        1 problem; nothing was started
    "#]],
    );
    case(
        "user = \"ada\"\npassword_file = \"long\"\n",
        expect![[r#"
        board.toml:7: store.password_file: long is longer than 1024 bytes; expected a password and nothing else
        1 problem; nothing was started
    "#]],
    );
    case(
        "user = \"ada\"\npassword_file = \".\"\n",
        expect![[r#"
        board.toml:7: store.password_file: . is not a file
        1 problem; nothing was started
    "#]],
    );
}

#[test]
fn the_rest_of_the_table() {
    let folder = folder();
    let case = |store: &str, expected: Expect| check(&folder, &file("", &format!("{PLAIN}{store}")), 3, &expected);
    case(
        "dir = \"board\"\n",
        expect![[r#"
        board.toml:6: store.dir: is for engine = "embedded"; leave it out, or change the engine
        1 problem; nothing was started
    "#]],
    );
    case(
        "prefix = \"corkboard\"\n",
        expect![[r#"
        board.toml:6: store.prefix: "corkboard" cannot be a prefix; expected a slash and a name, such as "/corkboard", of at most 64 letters
        1 problem; nothing was started
    "#]],
    );
    case(
        "prefix = \"/corkboard/\"\n",
        expect![[r#"
        board.toml:6: store.prefix: "/corkboard/" cannot be a prefix; expected a slash and a name, such as "/corkboard", of at most 64 letters
        1 problem; nothing was started
    "#]],
    );
    case(
        "prefix = \"/\"\n",
        expect![[r#"
        board.toml:6: store.prefix: "/" cannot be a prefix; expected a slash and a name, such as "/corkboard", of at most 64 letters
        1 problem; nothing was started
    "#]],
    );
    case(
        "prefix = \"/cork board\"\n",
        expect![[r#"
        board.toml:6: store.prefix: "/cork board" cannot be a prefix; expected a slash and a name, such as "/corkboard", of at most 64 letters
        1 problem; nothing was started
    "#]],
    );
    case(
        &format!("prefix = \"/{}\"\n", "x".repeat(64)),
        expect![[r#"
        board.toml:6: store.prefix: "/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" cannot be a prefix; expected a slash and a name, such as "/corkboard", of at most 64 letters
        1 problem; nothing was started
    "#]],
    );
    case(
        "lease = \"1s\"\n",
        expect![[r#"
        board.toml:6: store.lease: 1s is not a lease that etcd keeps; expected whole seconds, from 2s to 300s
        1 problem; nothing was started
    "#]],
    );
    case(
        "lease = \"2500ms\"\n",
        expect![[r#"
        board.toml:6: store.lease: 2.5s is not a lease that etcd keeps; expected whole seconds, from 2s to 300s
        1 problem; nothing was started
    "#]],
    );
    case(
        "lease = \"6m\"\n",
        expect![[r#"
        board.toml:6: store.lease: 360s is not a lease that etcd keeps; expected whole seconds, from 2s to 300s
        1 problem; nothing was started
    "#]],
    );
    case(
        "lease = 10\n",
        expect![[r#"
        board.toml:6: store.lease: is an integer; expected a duration in quotes, such as "500ms", "30s", "5m" or "2h"
        1 problem; nothing was started
    "#]],
    );
    case(
        "compact = \"no\"\n",
        expect![[r#"
        board.toml:6: store.compact: is a string; expected true or false
        1 problem; nothing was started
    "#]],
    );
    case(
        "timeout = \"5s\"\n",
        expect![[r#"
        board.toml:6: store.timeout: is not a key; expected one of engine, dir, endpoints, prefix, lease, user, password_file, compact, ca, cert, key
        1 problem; nothing was started
    "#]],
    );
}

#[test]
fn what_nodes_need_beside_the_table() {
    let folder = folder();
    let store = format!("[store]\nengine = \"etcd\"\n{PLAIN}");
    let case = |text: &str, expected: Expect| check(&folder, text, 3, &expected);
    case(
        &format!("identity = \"id\"\n{store}{KEYS}"),
        expect![[r#"
        board.toml: node: is missing; every node that uses the same etcd needs a name of its own
        1 problem; nothing was started
    "#]],
    );
    case(
        &format!("node = \"a\"\n{store}{KEYS}"),
        expect![[r#"
        board.toml: identity: is missing; expected a file on a disk of this machine that is there after a restart
        1 problem; nothing was started
    "#]],
    );
    case(
        &format!("{TOP}{store}"),
        expect![[r#"
        board.toml: encryption: is missing; records in etcd lie on other machines, so they have to be sealed. `corkboard keys generate` makes a key
        1 problem; nothing was started
    "#]],
    );
    case(
        &file("standby = \"redirect\"\n", PLAIN),
        expect![[r#"
        board.toml: advertise: is missing; with standby = "redirect" others send clients here once this node is master
        1 problem; nothing was started
    "#]],
    );
    case(
        &file("standby = \"open\"\n", PLAIN),
        expect![[r#"
        board.toml:3: standby: "open" is not known; expected "closed" or "redirect"
        1 problem; nothing was started
    "#]],
    );
    case(
        &file("standby = \"redirect\"\nadvertise = \"https://board.example.org\"\n", PLAIN),
        expect![[r#"
        board.toml:4: advertise: "https://board.example.org" begins with https://, but this node has no table [tls]; add one, or use http://
        1 problem; nothing was started
    "#]],
    );
}

/// Keys of the other engine are not ignored: whoever wrote them believes that they do something.
#[test]
fn an_embedded_store_takes_nothing_of_this() {
    let folder = folder();
    let case = |top: &str, store: &str, expected: Expect| {
        check(&folder, &format!("{top}[store]\ndir = \"board\"\n{store}"), 3, &expected);
    };
    case(
        "standby = \"redirect\"\n",
        "",
        expect![[r#"
        board.toml:1: standby: is for nodes that wait for each other, and on an embedded store there is only one
        1 problem; nothing was started
    "#]],
    );
    case(
        "",
        &format!("{TLS}cert = \"client.crt\"\nkey = \"client.key\"\n"),
        expect![[r#"
        board.toml:3: store.endpoints: is for engine = "etcd"; leave it out, or change the engine
        board.toml:4: store.ca: is for engine = "etcd"; leave it out, or change the engine
        board.toml:5: store.cert: is for engine = "etcd"; leave it out, or change the engine
        board.toml:6: store.key: is for engine = "etcd"; leave it out, or change the engine
        4 problems; nothing was started
    "#]],
    );
    case(
        "",
        "prefix = \"/cork\"\nlease = \"10s\"\nuser = \"ada\"\npassword_file = \"password\"\ncompact = true\n",
        expect![[r#"
            board.toml:3: store.prefix: is for engine = "etcd"; leave it out, or change the engine
            board.toml:4: store.lease: is for engine = "etcd"; leave it out, or change the engine
            board.toml:5: store.user: is for engine = "etcd"; leave it out, or change the engine
            board.toml:6: store.password_file: is for engine = "etcd"; leave it out, or change the engine
            board.toml:7: store.compact: is for engine = "etcd"; leave it out, or change the engine
            5 problems; nothing was started
        "#]],
    );
    case(
        "",
        "engine = \"postgres\"\n",
        expect![[r#"
        board.toml:3: store.engine: "postgres" is not known; expected "embedded" or "etcd"
        1 problem; nothing was started
    "#]],
    );
}

/// The commented lines of the example are a store on etcd, but for the names of files.
#[test]
fn the_example_becomes_a_node_on_etcd() {
    let folder = folder();
    let mut text = run(&["config", "example"]).stdout;
    for (from, to) in [
        ("engine = \"embedded\"", "engine = \"etcd\""),
        ("dir = \"board\"\n", ""),
        ("# identity = \"board.identity\"", "identity = \"board.identity\""),
        ("# endpoints", "endpoints"),
        ("# prefix", "prefix"),
        ("# lease", "lease"),
        ("# compact", "compact"),
        ("# ca = \"tls/etcd-ca.crt\"", "ca = \"ca.crt\""),
        ("# cert = \"tls/etcd-client.crt\"", "cert = \"client.crt\""),
        ("# key = \"tls/etcd-client.key\"", "key = \"client.key\""),
        ("# user", "user"),
        ("# password_file = \"etcd-password\"", "password_file = \"password\""),
        ("# [encryption", "[encryption"),
        ("# active", "active"),
        ("# A = { file = \"keys/A\" }", "A = { file = \"A\" }"),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    std::fs::write(folder.path("board.toml"), text).unwrap();
    let outcome = finish(program(&["config", "check", "board.toml"]).current_dir(folder.dir.path()));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("etcd at https://10.0.0.1:2379,"), "{}", outcome.stdout);
}
