//! `dev-certs`: what it makes is good for real connections, and what is there is not lost.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use expect_test::expect;
use tempfile::TempDir;

use crate::program::{Outcome, Server, finish, program, run, utf8};

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn must(args: &[&str]) -> String {
    let Outcome { code, stdout, stderr } = run(args);
    assert_eq!(code, 0, "{args:?}: {stderr}");
    stdout
}

fn flags(ca: &Path, dir: &Path, name: &str) -> Vec<String> {
    [
        ("--caCertFile", ca.join("ca.crt")),
        ("--clientCertFile", dir.join(format!("{name}.crt"))),
        ("--clientKeyFile", dir.join(format!("{name}.key"))),
    ]
    .into_iter()
    .flat_map(|(flag, file)| [flag.to_owned(), file.display().to_string()])
    .collect()
}

#[test]
fn programs_trust_each_other_also_on_a_machine_that_came_later() {
    let dir = TempDir::new().unwrap();
    let (certs, later) = (dir.path().join("certs"), dir.path().join("machine-2"));
    let text = must(&["dev-certs", "--out", utf8(&certs), "--host", "10.0.0.5", "--host", "board.example.org"]);
    let masked: String = text
        .replace(utf8(&dir.path().canonicalize().unwrap()), "DIR")
        .replace(utf8(dir.path()), "DIR")
        .lines()
        .map(|line| match line.split_once("valid until ") {
            Some((before, after)) => format!("{before}valid until …{}\n", &after["2027-01-01 00:00:00".len()..]),
            None => format!("{line}\n"),
        })
        .collect();
    expect![[r#"
        A new authority is in DIR/certs/ca.crt. Its key, DIR/certs/ca.key, makes more certificates: give it to no program.
        Certificates, valid until … UTC for localhost, 127.0.0.1, ::1, 10.0.0.5, board.example.org:

          bbs.crt, bbs.key                      the state server     board.toml: [tls], [auctioneer], [cells], [locket]
          locket.crt, locket.key                locks and presences  board.toml of corkboard locket: [tls]
          auctioneer.crt, auctioneer.key        placement            auctioneer.toml: [tls]
          cell.crt, cell.key                    a cell               cell.toml: [tls]
          route-emitter.crt, route-emitter.key  routes               route-emitter.toml: [tls]
          router.crt, router.key                the HTTP router      router.toml: [tls], [backends]
          etcd.crt, etcd.key                    the store            etcd --cert-file, --key-file; board.toml: [store]
          nats.crt, nats.key                    the message bus      nats-server --tlscert, --tlskey
          operator.crt, operator.key            commands             CLIENT_CERT_FILE, CLIENT_KEY_FILE, CA_CERT_FILE

        In a configuration file, for bbs:

          [tls]
          ca = "DIR/certs/ca.crt"
          cert = "DIR/certs/bbs.crt"
          key = "DIR/certs/bbs.key"

        For commands:

          export CA_CERT_FILE=DIR/certs/ca.crt CLIENT_CERT_FILE=DIR/certs/operator.crt CLIENT_KEY_FILE=DIR/certs/operator.key

        One more machine: corkboard dev-certs --out OTHER --ca DIR/certs --host ITS-ADDRESS --for cell-2
    "#]].assert_eq(&masked);
    for name in names(&certs) {
        let expected = if name.ends_with(".key") { 0o600 } else { 0o644 };
        assert_eq!(mode(&certs.join(&name)), expected, "{name}");
    }

    must(&["dev-certs", "--out", utf8(&later), "--ca", utf8(&certs), "--host", "10.0.0.6", "--for", "operator-2"]);
    assert_eq!(names(&later), ["ca.crt", "operator-2.crt", "operator-2.key"]);

    let stranger = dir.path().join("stranger");
    must(&["dev-certs", "--out", utf8(&stranger), "--for", "operator"]);

    let home = TempDir::new().unwrap();
    let file = |name: &str| certs.join(name).display().to_string();
    let table =
        format!("[tls]\nca = {:?}\ncert = {:?}\nkey = {:?}\n", file("ca.crt"), file("bbs.crt"), file("bbs.key"));
    let server = Server::start(home, "https", &table, &[]);
    let ask = |flags: &[String]| finish(program(&["domains"]).args(&server.flags).args(flags));
    for flags in [flags(&certs, &certs, "operator"), flags(&later, &later, "operator-2"), flags(&later, &certs, "cell")]
    {
        let Outcome { code, stderr, .. } = ask(&flags);
        assert_eq!(code, 0, "{stderr}");
    }
    // Neither side trusts another authority.
    assert_eq!(ask(&flags(&stranger, &certs, "operator")).code, 5);
    assert_eq!(ask(&flags(&certs, &stranger, "operator")).code, 5);
}

#[test]
fn nothing_that_exists_is_replaced_unless_it_is_meant() {
    let dir = TempDir::new().unwrap();
    let out = utf8(dir.path());
    must(&["dev-certs", "--out", out, "--for", "cell"]);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let before = (read("ca.crt"), read("cell.key"));

    let Outcome { code, stderr, .. } = run(&["dev-certs", "--out", out, "--for", "cell", "--for", "bbs"]);
    assert_eq!(code, 3);
    expect![[r#"
        corkboard: there already, and perhaps in use: DIR/ca.crt, DIR/ca.key, DIR/cell.crt, DIR/cell.key. Nothing was written. To add certificates of an authority that is there, use --ca DIR and --for; to replace what is there, --force
    "#]].assert_eq(&stderr.replace(out, "DIR"));
    assert_eq!(names(dir.path()), ["ca.crt", "ca.key", "cell.crt", "cell.key"]);
    assert_eq!((read("ca.crt"), read("cell.key")), before);

    must(&["dev-certs", "--out", out, "--ca", out, "--for", "bbs", "--days", "3000"]);
    assert_eq!(read("ca.crt"), before.0);
    must(&["dev-certs", "--out", out, "--ca", out, "--for", "cell", "--force"]);
    assert_eq!(read("ca.crt"), before.0);
    assert_ne!(read("cell.key"), before.1);
    must(&["dev-certs", "--out", out, "--for", "cell", "--force"]);
    assert_ne!(read("ca.crt"), before.0);
    assert_eq!(mode(&dir.path().join("cell.key")), 0o600);
}

#[test]
fn an_authority_that_does_not_fit_is_refused() {
    let (one, other, out) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    for dir in [&one, &other] {
        must(&["dev-certs", "--out", utf8(dir.path()), "--for", "cell"]);
    }
    let add = |days: &str| {
        let Outcome { code, stderr, .. } =
            run(&["dev-certs", "--out", utf8(out.path()), "--ca", utf8(one.path()), "--for", "bbs", "--days", days]);
        assert_eq!(names(out.path()), [""; 0]);
        format!("{code} {}", stderr.replace(utf8(one.path()), "DIR"))
    };
    expect![[r#"
        5 corkboard: the authority in DIR cannot be used: it ends before the new certificates would; choose fewer --days, or make a new authority. Nothing was written
    "#]].assert_eq(&add("36500"));
    std::fs::copy(other.path().join("ca.key"), one.path().join("ca.key")).unwrap();
    expect![[r#"
        5 corkboard: the authority in DIR cannot be used: what it signs is not accepted under its own certificate (invalid peer certificate: UnknownIssuer); it must be one that dev-certs made, with ca.crt and ca.key of the same time. Nothing was written
    "#]].assert_eq(&add("365"));
    std::fs::write(one.path().join("ca.key"), "no key").unwrap();
    expect![[r#"
        5 corkboard: the authority in DIR cannot be used: its key is not one in PEM. Nothing was written
    "#]]
    .assert_eq(&add("365"));
    std::fs::remove_file(one.path().join("ca.key")).unwrap();
    expect![[r#"
        3 corkboard: cannot read DIR/ca.key: No such file or directory (os error 2). --ca wants a folder that dev-certs made
    "#]].assert_eq(&add("365"));
}

#[test]
fn wrong_words_are_named() {
    let check = |args: &[&str], expected: &str| {
        let Outcome { code, stderr, .. } = run(&[&["dev-certs", "--out", "/nowhere/at/all"], args].concat());
        assert_eq!(code, 3, "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    };
    check(&["--for", "cells"], "expected one of bbs, locket, auctioneer");
    check(&["--host", "https://a:1"], "without scheme and port");
    check(&["--days", "0"], "0 is not in 1..=36500");
}
