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
    check(
        "auctioneer",
        AUCTIONEER,
        0,
        &expect![[r#"
        auctioneer.toml: no problems
          program     auctioneer
          node        brain-1
          API         127.0.0.1:9016 (https, client certificates required)
          health      127.0.0.1:9017 (plain http)
          bbs         https://10.0.0.1:8889, https://10.0.0.2:8889
          lock        a:8891, b:8891, as brain-1
          cells       https only
    "#]],
    );
    check(
        "alone",
        "node = \"dev\"\n[bbs]\nurls = [\"http://localhost:8889\"]\n",
        0,
        &expect![[r#"
        alone.toml: no problems
          program     auctioneer
          node        dev
          API         127.0.0.1:9016 (plain http)
          health      127.0.0.1:9017 (plain http)
          bbs         http://localhost:8889
          lock        none; it must be the only auctioneer
          cells       plain http, too
    "#]],
    );
    let cell = "cell_id = \"cell-1\"\nlisten = \"0.0.0.0:1801\"\nrep_url = \"https://10.0.0.7:1801\"\n\
        [tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"server.key\"\n[bbs]\nurls = [\"https://10.0.0.1:8889\"]\n\
        [locket]\naddress = \"a:8891\"\n[capacity]\nmemory_mb = 1024\ndisk_mb = 2048\n[executor]\nstacks = [\"s1\", \"s2\"]\n";
    check(
        "cell",
        cell,
        0,
        &expect![[r#"
        cell.toml: no problems
          program     cell
          cell        cell-1
          API         0.0.0.0:1801 (https, client certificates required)
          admin       127.0.0.1:1800 (https, client certificates required)
          dir         cell-1
          bbs         https://10.0.0.1:8889
          locket      a:8891
          capacity    1024 MB of memory, 2048 MB of disk, 250 containers
          containers  plain processes, for s1, s2
    "#]],
    );
    let emitter = "node = \"e\"\ncell_id = \"cell-1\"\n[tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"server.key\"\n\
        [bbs]\nurls = [\"https://10.0.0.1:8889\"]\n[nats]\nurls = [\"tls://10.0.0.1:4224\", \"tls://10.0.0.2:4224\"]\n";
    check(
        "route-emitter",
        emitter,
        0,
        &expect![[r#"
        route-emitter.toml: no problems
          program     route emitter
          node        e
          health      127.0.0.1:17011 (plain http)
          bbs         https://10.0.0.1:8889
          lock        none; it speaks for its own cell
          speaks for  cell cell-1
          nats        2 servers (TLS)
    "#]],
    );
    let router = "listen_tls = \"0.0.0.0:8443\"\n[tls]\ncert = \"server.crt\"\nkey = \"server.key\"\n\
        [nats]\nurls = [\"nats://127.0.0.1:4222\"]\n[backends]\nbalance = \"least-connection\"\n";
    check(
        "router",
        router,
        0,
        &expect![[r#"
        router.toml: no problems
          program     router
          http        0.0.0.0:8080
          https       0.0.0.0:8443
          health      127.0.0.1:8082 (plain http)
          nats        1 server (plain text)
          backends    plain http
    "#]],
    );
}

#[test]
fn everything_that_is_wrong_with_an_auctioneer() {
    let text = "node = 5\nlisten = \"0.0.0.0:9016\"\nhealth = \"0.0.0.0:9016\"\nport = 1\n[bbs]\n\
        urls = [\"https://a:1\", \"http://b:1\", \"https://u:p@c:1\", \"ftp://d\"]\n[locket]\naddress = \"locket\"\nttl = 1\n\
        [cells]\nrequire_tls = true\nworkers = 0\n[placement]\nstarting_container_weight = -1\n\
        bin_pack_first_fit_weight = \"much\"\nstarting_container_count_max = -1\n[timing]\ncell_state_timeout = \"0s\"\n";
    check(
        "auctioneer",
        text,
        3,
        &expect![[r#"
        auctioneer.toml:1: node: is an integer; expected text in quotes
        auctioneer.toml:2: listen: 0.0.0.0:9016 is not a loopback address, and plain HTTP is served only on loopback; add a table [tls] with ca, cert and key, or listen on 127.0.0.1 or [::1]
        auctioneer.toml:3: health: 0.0.0.0:9016 is also the address of `listen`; expected another port
        auctioneer.toml:4: port: is not a key; expected one of node, listen, health, tls, bbs, locket, cells, placement, timing
        auctioneer.toml:6: bbs.urls: holds "http://b:1", which is plain HTTP to another machine; expected https://
        auctioneer.toml:6: bbs.urls: holds a user name or a password, which would show up in logs; expected URLs such as "https://10.0.0.1:8889"
        auctioneer.toml:6: bbs.urls: holds "ftp://d", which is not the address of a server; expected URLs such as "https://10.0.0.1:8889"
        auctioneer.toml:6: bbs.urls: begins with https://, which needs a table [tls] with ca, cert and key
        auctioneer.toml:8: locket.address: is not a host and a port; expected for instance "locket.example.org:8891", without https://, or several with commas between them
        auctioneer.toml:9: locket.ttl: is not a key; expected one of address, ca, cert, key
        auctioneer.toml:11: cells.require_tls: is true, which needs a table [tls] with ca, cert and key
        auctioneer.toml:12: cells.workers: 0 is out of range; expected a whole number, 1 or more
        auctioneer.toml:14: placement.starting_container_weight: -1 is no weight; expected a number, 0 or more, such as 0.25
        auctioneer.toml:15: placement.bin_pack_first_fit_weight: is a string; expected a number, 0 or more, such as 0.25
        auctioneer.toml:16: placement.starting_container_count_max: -1 is negative; expected a whole number, or 0 for no limit
        auctioneer.toml:18: timing.cell_state_timeout: "0s" is zero; expected more
        auctioneer.toml: locket.ca: is missing, and cert and key too, and there is no table [tls]; Locket wants to see a certificate
        17 problems; nothing was started
    "#]],
    );
    refused("auctioneer", "auctioneer", text);
}

#[test]
fn everything_that_is_wrong_with_a_cell() {
    let text = "cell_id = \"a/b\"\nindex = -1\nlisten = \"0.0.0.0:1801\"\nadmin = \"0.0.0.0:1801\"\n\
        [bbs]\nurls = []\n[capacity]\nmemory_mb = 0\nmemory = 1\n\
        [executor]\nkind = \"process\"\nruntime = \"runc\"\nhost_ports = \"9-1\"\naddress = \"here\"\ngrace = 10\n\
        [placement]\ntags = \"gpu\"\n[timing]\npresence = \"20s\"\npresence_ttl = \"1500ms\"\n";
    check(
        "cell",
        text,
        3,
        &expect![[r#"
        cell.toml:1: cell_id: "a/b" cannot be the name of a folder; expected something like "cell-1"
        cell.toml:2: index: -1 is negative; expected a whole number, 0 or more
        cell.toml:3: listen: 0.0.0.0:1801 is not a loopback address, and plain HTTP is served only on loopback; add a table [tls] with ca, cert and key, or listen on 127.0.0.1 or [::1]
        cell.toml:4: admin: 0.0.0.0:1801 is not a loopback address, and plain HTTP is served only on loopback; add a table [tls] with ca, cert and key, or listen on 127.0.0.1 or [::1]
        cell.toml:4: admin: 0.0.0.0:1801 is also the address of `listen`; expected another port
        cell.toml:6: bbs.urls: is empty; expected a list of texts in quotes, such as ["a", "b"]
        cell.toml:8: capacity.memory_mb: is 0; expected more, or leave the key out
        cell.toml:9: capacity.memory: is not a key; expected one of memory_mb, disk_mb, containers
        cell.toml:12: executor.runtime: is for kind = "oci"; leave it out, or change the kind
        cell.toml:13: executor.host_ports: "9-1" is no range of ports; expected the first and the last port, such as "61001-65534"
        cell.toml:14: executor.address: "here" is not an IP address; expected one at which others reach the containers
        cell.toml:15: executor.grace: is an integer; expected a duration in quotes, such as "500ms", "30s", "5m" or "2h"
        cell.toml:17: placement.tags: is a string; expected a list of texts in quotes, such as ["a", "b"]
        cell.toml:20: timing.presence_ttl: 1500ms is not a number of whole seconds, in which Locket counts
        cell.toml: rep_url: is missing, and `listen` is 0.0.0.0:1801, which is every address of this machine; expected the one at which others reach it, such as "https://10.0.0.7:1801"
        cell.toml: locket.address: is missing; in Locket a cell says that it is there, and without it nobody gives it work
        16 problems; nothing was started
    "#]],
    );
    refused("cell", "cell", text);
    refused("cell", "rep", text);
    let text = "cell_id = \"c\"\nrep_url = \"http://10.0.0.1:1801\"\n[tls]\nca = \"ca.crt\"\ncert = \"server.crt\"\nkey = \"client.key\"\n\
        [bbs]\nurls = [\"https://10.0.0.1:8889\"]\n[locket]\naddress = \"a:8891\"\nca = \"none.crt\"\n\
        [executor]\nkind = \"oci\"\nstacks = [\"s\"]\nrootfs = { s = \"nowhere\" }\n[timing]\npresence = \"15s\"\n";
    check(
        "oci",
        text,
        3,
        &expect![[r#"
        oci.toml:2: rep_url: begins with http://, but this cell serves TLS; expected https://
        oci.toml:6: tls.key: the key in client.key does not belong to the certificate in server.crt
        oci.toml:14: executor.stacks: is for kind = "process"; leave it out, or change the kind
        oci.toml:15: executor.rootfs: the root file system s is not there: nowhere is not a folder
        oci.toml: locket.cert: is missing; ca, cert and key belong together
        oci.toml: locket.key: is missing; ca, cert and key belong together
        oci.toml: timing.presence_ttl: 15s is not longer than `presence`, 15s, so that this cell would count as gone again and again; expected more
        7 problems; nothing was started
    "#]],
    );
}

#[test]
fn everything_that_is_wrong_with_a_route_emitter() {
    let text = "cell_id = \"c\"\n[bbs]\nurls = [\"http://127.0.0.1:8889\"]\n[locket]\naddress = \"a:8891\"\n\
        [nats]\nurls = [\"nats://10.0.0.1:4222\", \"http://127.0.0.1\", \"nats://u:p@127.0.0.1\"]\nuser = \"u\"\n\
        [routes]\ninternal_routes = 1\n[timing]\nsync = \"1s\"\n";
    check(
        "route-emitter",
        text,
        3,
        &expect![[r#"
        route-emitter.toml:7: nats.urls: holds "http://127.0.0.1", which is not the address of a server; expected URLs such as "nats://127.0.0.1:4222"; user and password_file have keys of their own
        route-emitter.toml:7: nats.urls: holds a user name or a password, which would show up in logs; expected URLs such as "nats://127.0.0.1:4222"; user and password_file have keys of their own
        route-emitter.toml:7: nats.urls: "nats://10.0.0.1:4222" is plain text to another machine; expected tls://
        route-emitter.toml:10: routes.internal_routes: is an integer; expected true or false
        route-emitter.toml:12: timing.sync: is not a key; expected one of sync_interval, register_interval
        route-emitter.toml: locket: is for an emitter that speaks for the whole cluster, and this one speaks for the cell of `cell_id` alone; leave one of them out
        route-emitter.toml: locket.ca: is missing, and cert and key too, and there is no table [tls]; Locket wants to see a certificate
        route-emitter.toml: nats.password_file: is missing; user and password_file belong together
        8 problems; nothing was started
    "#]],
    );
    refused("route-emitter", "route-emitter", text);
}

#[test]
fn everything_that_is_wrong_with_a_router() {
    let text = "listen = \"127.0.0.1:8080\"\nhealth = \"127.0.0.1:8080\"\n[tls]\ncert = \"server.crt\"\n\
        [nats]\nurls = [\"tls://10.0.0.1:4224\"]\nuser = \"u\"\npassword_file = \"none\"\n\
        [backends]\nbalance = \"random\"\nca = \"ca.crt\"\n[timing]\nprune_threshold = \"1s\"\n";
    check(
        "router",
        text,
        3,
        &expect![[r#"
        router.toml:2: health: 127.0.0.1:8080 is also the address of `listen`; expected another port
        router.toml:6: nats.urls: begins with tls://, which needs ca, cert and key in the table [nats]
        router.toml:8: nats.password_file: cannot read none: No such file or directory (os error 2)
        router.toml:10: backends.balance: "random" is not known; expected "round-robin" or "least-connection"
        router.toml:13: timing.prune_threshold: 1s is not longer than `register_interval`, 20s, so that routes would be forgotten between two registrations; expected more
        router.toml: listen_tls: is missing; the table [tls] is for the port that it names, such as "0.0.0.0:8443"
        router.toml: tls.key: is missing; cert and key belong together
        router.toml: backends.cert: is missing; ca, cert and key belong together
        router.toml: backends.key: is missing; ca, cert and key belong together
        9 problems; nothing was started
    "#]],
    );
    refused("router", "router", text);
    check(
        "router",
        "listen_tls = \"0.0.0.0:8443\"\n",
        3,
        &expect![[r#"
        router.toml: tls: is missing; `listen_tls` needs a table [tls] with cert and key
        router.toml: nats.urls: is missing; expected the servers of the message bus, such as ["tls://10.0.0.1:4224"]
        2 problems; nothing was started
    "#]],
    );
}

/// Files of one program under the name of another, and files that are nobody's.
#[test]
fn the_program_can_be_named() {
    let pki = Pki::new();
    std::fs::write(pki.path("a.toml"), AUCTIONEER).unwrap();
    let ask = |args: &[&str]| finish(program(args).current_dir(pki.dir.path()));
    assert_eq!(ask(&["config", "check", "a.toml", "--program", "auctioneer"]).code, 0);
    let outcome = ask(&["config", "check", "a.toml", "--program", "rep"]);
    expect![[r#"
        a.toml:1: node: is not a key; expected one of cell_id, index, zone, listen, admin, rep_url, dir, tls, bbs, locket, capacity, executor, placement, timing
        a.toml: cell_id: is missing; expected a name that no other cell has, such as "cell-1"
        2 problems; nothing was started
    "#]].assert_eq(&outcome.stderr);
    let outcome = ask(&["config", "check", "a.toml", "--store", "board"]);
    expect![[r#"
        corkboard: --store is for the state server, and a.toml is for the auctioneer
    "#]]
    .assert_eq(&outcome.stderr);
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
