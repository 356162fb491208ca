//! `config check` for the files of the programs: from a file to the exact words about it.

use expect_test::{Expect, expect};
use rig::pki::Pki;

use crate::program::{finish, program, run};

/// Checks `text` as `NAME.toml` in a folder that holds certificates, from within that folder.
fn check(name: &str, text: &str, expected_code: i32, expected: &Expect) {
    let pki = Pki::new();
    let file = format!("{name}.toml");
    std::fs::write(pki.path(&file), text).unwrap();
    let outcome = finish(program(&["config", "check", &file]).current_dir(pki.dir.path()));
    expected.assert_eq(&format!("{}{}", outcome.stdout, outcome.stderr));
    assert_eq!(outcome.code, expected_code);
}

/// Starting a program says the same as checking its file, and opens nothing.
fn refused(name: &str, command: &str, text: &str) {
    let pki = Pki::new();
    let file = format!("{name}.toml");
    std::fs::write(pki.path(&file), text).unwrap();
    let ask = |args: &[&str]| finish(program(args).current_dir(pki.dir.path()));
    let (checked, started) = (ask(&["config", "check", &file]), ask(&[command, "--config", &file]));
    assert_eq!((started.code, started.stderr), (3, checked.stderr));
    assert_eq!(started.stdout, "");
}

const AUCTIONEER: &str = "node = \"brain-1\"\n[tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"server.key\"\n\
    [bbs]\nurls = [\"https://10.0.0.1:8889\", \"https://10.0.0.2:8889\"]\n[locket]\naddress = \"a:8891, b:8891\"\n";

#[test]
fn files_that_are_fine() {
    check("auctioneer", AUCTIONEER, 0, &expect![[""]]);
    check("alone", "node = \"dev\"\n[bbs]\nurls = [\"http://localhost:8889\"]\n", 0, &expect![[""]]);
    let cell = "cell_id = \"cell-1\"\nlisten = \"0.0.0.0:1801\"\nrep_url = \"https://10.0.0.7:1801\"\n\
        [tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"server.key\"\n[bbs]\nurls = [\"https://10.0.0.1:8889\"]\n\
        [locket]\naddress = \"a:8891\"\n[capacity]\nmemory_mb = 1024\ndisk_mb = 2048\n[executor]\nstacks = [\"s1\", \"s2\"]\n";
    check("cell", cell, 0, &expect![[""]]);
    let emitter = "node = \"e\"\ncell_id = \"cell-1\"\n[tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"server.key\"\n\
        [bbs]\nurls = [\"https://10.0.0.1:8889\"]\n[nats]\nurls = [\"tls://10.0.0.1:4224\", \"tls://10.0.0.2:4224\"]\n";
    check("route-emitter", emitter, 0, &expect![[""]]);
    let router = "listen_tls = \"0.0.0.0:8443\"\n[tls]\ncert = \"server.crt\"\nkey = \"server.key\"\n\
        [nats]\nurls = [\"nats://127.0.0.1:4222\"]\n[backends]\nbalance = \"least-connection\"\n";
    check("router", router, 0, &expect![[""]]);
}

#[test]
fn everything_that_is_wrong_with_an_auctioneer() {
    let text = "node = 5\nlisten = \"0.0.0.0:9016\"\nhealth = \"0.0.0.0:9016\"\nport = 1\n[bbs]\n\
        urls = [\"https://a:1\", \"http://b:1\", \"https://u:p@c:1\", \"ftp://d\"]\n[locket]\naddress = \"locket\"\nttl = 1\n\
        [cells]\nrequire_tls = true\nworkers = 0\n[placement]\nstarting_container_weight = -1\n\
        bin_pack_first_fit_weight = \"much\"\nstarting_container_count_max = -1\n[timing]\ncell_state_timeout = \"0s\"\n";
    check("auctioneer", text, 3, &expect![[""]]);
    refused("auctioneer", "auctioneer", text);
}

#[test]
fn everything_that_is_wrong_with_a_cell() {
    let text = "cell_id = \"a/b\"\nindex = -1\nlisten = \"0.0.0.0:1801\"\nadmin = \"0.0.0.0:1801\"\n\
        [bbs]\nurls = []\n[capacity]\nmemory_mb = 0\nmemory = 1\n\
        [executor]\nkind = \"process\"\nruntime = \"runc\"\nhost_ports = \"9-1\"\naddress = \"here\"\ngrace = 10\n\
        [placement]\ntags = \"gpu\"\n[timing]\npresence = \"20s\"\npresence_ttl = \"1500ms\"\n";
    check("cell", text, 3, &expect![[""]]);
    refused("cell", "cell", text);
    refused("cell", "rep", text);
    let text = "cell_id = \"c\"\nrep_url = \"http://10.0.0.1:1801\"\n[tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"client.key\"\n\
        [bbs]\nurls = [\"https://10.0.0.1:8889\"]\n[locket]\naddress = \"a:8891\"\nca = \"none.crt\"\n\
        [executor]\nkind = \"oci\"\nstacks = [\"s\"]\nrootfs = { s = \"nowhere\" }\n";
    check("oci", text, 3, &expect![[""]]);
}

#[test]
fn everything_that_is_wrong_with_a_route_emitter() {
    let text = "cell_id = \"c\"\n[bbs]\nurls = [\"http://127.0.0.1:8889\"]\n[locket]\naddress = \"a:8891\"\n\
        [nats]\nurls = [\"nats://10.0.0.1:4222\", \"http://127.0.0.1\", \"nats://u:p@127.0.0.1\"]\nuser = \"u\"\n\
        [routes]\ninternal_routes = 1\n[timing]\nsync = \"1s\"\n";
    check("route-emitter", text, 3, &expect![[""]]);
    refused("route-emitter", "route-emitter", text);
}

#[test]
fn everything_that_is_wrong_with_a_router() {
    let text = "listen = \"127.0.0.1:8080\"\nhealth = \"127.0.0.1:8080\"\n[tls]\ncert = \"server.crt\"\n\
        [nats]\nurls = [\"tls://10.0.0.1:4224\"]\nuser = \"u\"\npassword_file = \"none\"\n\
        [backends]\nbalance = \"random\"\nca = \"ca.crt\"\n[timing]\nprune_threshold = \"1s\"\n";
    check("router", text, 3, &expect![[""]]);
    refused("router", "router", text);
    check("router", "listen_tls = \"0.0.0.0:8443\"\n", 3, &expect![[""]]);
}

/// Files of one program under the name of another, and files that are nobody's.
#[test]
fn the_program_can_be_named() {
    let pki = Pki::new();
    std::fs::write(pki.path("a.toml"), AUCTIONEER).unwrap();
    let ask = |args: &[&str]| finish(program(args).current_dir(pki.dir.path()));
    assert_eq!(ask(&["config", "check", "a.toml", "--program", "auctioneer"]).code, 0);
    let outcome = ask(&["config", "check", "a.toml", "--program", "rep"]);
    expect![[""]].assert_eq(&outcome.stderr);
    let outcome = ask(&["config", "check", "a.toml", "--store", "board"]);
    expect![[""]].assert_eq(&outcome.stderr);
}

/// The examples of programs that need no certificate can be used as they are.
#[test]
fn examples_can_be_used() {
    let pki = Pki::new();
    for name in ["auctioneer", "route-emitter", "router"] {
        let example = run(&["config", "example", "--program", name]).stdout;
        std::fs::write(pki.path("example.toml"), example).unwrap();
        let outcome = finish(program(&["config", "check", "example.toml"]).current_dir(pki.dir.path()));
        assert_eq!(outcome.code, 0, "{outcome:?}");
    }
    let example = run(&["config", "example", "--program", "cell"]).stdout;
    std::fs::write(pki.path("example.toml"), example.replace("tls/cell", "server").replace("tls/", "")).unwrap();
    let outcome = finish(program(&["config", "check", "example.toml"]).current_dir(pki.dir.path()));
    assert_eq!(outcome.code, 0, "{outcome:?}");
}
