//! `nodes`: what is asked, what is printed, and how it ends; and the same with real nodes on a real etcd.

use std::path::Path;

use expect_test::expect;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::operator::{Operator, check};
use crate::program::{Background, Outcome, finish, program, run, utf8};

const NODES: &str = "GET /corkboard/v1/nodes";

/// The moments lie in the future, so that the time since then is nothing.
fn node(name: &str, is_master: bool, phase: &str, members: &str) -> String {
    format!(
        r#"{{"is_master":{is_master},"node":"{name}","instance":"i","release":"0.1.0","data_version":1794700800,"data_version_name":"lrp_definitions","health":"127.0.0.1:8890","phase":"{phase}","since_ns":9000000000000000000,"started_ns":0{members}}}"#
    )
}

#[test]
fn in_words_and_in_json() {
    let list = format!(
        r#"{{"master":"a","nodes":[{},{},{}],"warnings":["something is odd"],"news":1}}"#,
        node("a", true, "serving", r#","url":"https://a.example.org:8889","is_warm":false"#),
        node("b", false, "waiting", r#","is_warm":true,"mood":"calm""#),
        node("c", false, "waiting", r#","is_warm":false,"cannot_take_over":"key B is missing here. Add it""#),
    );
    let script = [(NODES, 200, list.as_str())];
    check(
        &script,
        &["nodes"],
        &expect![[r#"
        ROLE     NODE  RELEASE  DATA VERSION                  PHASE    SINCE  WARM  URL
        master   a     0.1.0    lrp_definitions (1794700800)  serving  0 s          https://a.example.org:8889
        standby  b     0.1.0    lrp_definitions (1794700800)  waiting  0 s    yes
        standby  c     0.1.0    lrp_definitions (1794700800)  waiting  0 s    no

        c cannot take over: key B is missing here. Add it
        warning: something is odd
        = 0
        < GET /corkboard/v1/nodes
    "#]],
    );
    check(
        &script,
        &["nodes", "--json"],
        &expect![[r#"
        {"master":"a","nodes":[{"is_master":true,"node":"a","instance":"i","release":"0.1.0","data_version":1794700800,"data_version_name":"lrp_definitions","health":"127.0.0.1:8890","phase":"serving","since_ns":9000000000000000000,"started_ns":0,"url":"https://a.example.org:8889","is_warm":false},{"is_master":false,"node":"b","instance":"i","release":"0.1.0","data_version":1794700800,"data_version_name":"lrp_definitions","health":"127.0.0.1:8890","phase":"waiting","since_ns":9000000000000000000,"started_ns":0,"is_warm":true,"mood":"calm"},{"is_master":false,"node":"c","instance":"i","release":"0.1.0","data_version":1794700800,"data_version_name":"lrp_definitions","health":"127.0.0.1:8890","phase":"waiting","since_ns":9000000000000000000,"started_ns":0,"is_warm":false,"cannot_take_over":"key B is missing here. Add it"}],"warnings":["something is odd"],"news":1}
        = 0
        < GET /corkboard/v1/nodes
    "#]],
    );
}

#[test]
fn without_a_master_the_exit_code_says_so() {
    let waits = format!(r#"{{"master":null,"nodes":[{}]}}"#, node("b", false, "waiting", ""));
    check(
        &[(NODES, 200, &waits)],
        &["nodes"],
        &expect![[r#"
            ROLE     NODE  RELEASE  DATA VERSION                  PHASE    SINCE  WARM  URL
            standby  b     0.1.0    lrp_definitions (1794700800)  waiting  0 s    no

            no node is master at the moment; one that waits takes over when the last lease has ended. If none does, its log says why
            = 10
            < GET /corkboard/v1/nodes
        "#]],
    );
    check(
        &[(NODES, 200, r#"{"master":null,"nodes":[]}"#)],
        &["nodes"],
        &expect![[r#"
        no nodes: none that runs was heard of
        no node is master; start one: corkboard bbs --config FILE
        = 12
        < GET /corkboard/v1/nodes
    "#]],
    );
    let refused = r#"{"code":"not-master","message":"the store is not open yet","next":null}"#;
    check(
        &[(NODES, 503, refused)],
        &["nodes"],
        &expect![[r#"
        corkboard: the store is not open yet
        = 5
        < GET /corkboard/v1/nodes
    "#]],
    );
}

#[test]
fn any_node_is_asked_by_its_health_port() {
    let list = format!(r#"{{"master":"a","nodes":[{}]}}"#, node("a", true, "serving", ""));
    let operator = Operator::new(&[("GET /nodes", 200, &list)]);
    let by_flag = run(&["nodes", "--json", "--healthURL", &operator.url]);
    assert_eq!((by_flag.code, by_flag.stdout.trim_end()), (0, list.as_str()), "{by_flag:?}");
    let by_variable = finish(program(&["nodes", "--json"]).env("CORKBOARD_HEALTH_URL", &operator.url));
    assert_eq!(by_variable.stdout, by_flag.stdout, "{by_variable:?}");
}

/// The configuration of a node that shares a store with others, and an address of its own that nobody has chosen.
fn configure(dir: &Path, etcd: &str, name: &str) -> String {
    let key = dir.join("A");
    if !key.exists() {
        assert_eq!(run(&["keys", "generate", "--out", utf8(&key)]).code, 0);
    }
    let file = dir.join(format!("{name}.toml"));
    let text = format!(
        "node = \"{name}\"\nidentity = \"{name}.identity\"\nlisten = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\n\
         [store]\nengine = \"etcd\"\nendpoints = [\"{etcd}\"]\nlease = \"2s\"\n\
         [encryption]\nactive = \"A\"\nkeys.A = {{ file = \"A\" }}\n"
    );
    std::fs::write(&file, text).unwrap();
    utf8(&file).to_owned()
}

fn start(file: &str) -> Background {
    Background::start(&mut program(&["bbs", "--config", file]))
}

/// Waits until it is master, and gives the URL of its API.
fn url(node: &mut Background) -> String {
    let line = node.lines_until(|line| line.starts_with("The API listens on ")).pop().unwrap();
    format!("http://{}", line.split_whitespace().nth(4).unwrap().trim_end_matches(','))
}

/// Asks the store until the answer is this one. Each answer is a process that comes and goes.
fn until(file: &str, is_it: impl Fn(&Outcome) -> bool) -> Outcome {
    let mut last = None;
    for _ in 0..2_000 {
        let outcome = run(&["nodes", "--json", "--config", file]);
        if is_it(&outcome) {
            return outcome;
        }
        last = Some(outcome);
    }
    panic!("it never came; the last was {last:?}");
}

/// Who is there, the master with a star.
fn names(outcome: &Outcome) -> Vec<String> {
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    let nodes = document["nodes"].as_array().cloned().unwrap_or_default();
    let star = |node: &serde_json::Value| if node["is_master"] == true { "*" } else { "" };
    nodes.iter().map(|node| format!("{}{}", node["node"].as_str().unwrap(), star(node))).collect()
}

#[test]
fn two_real_nodes_that_hand_over() {
    let dir = TempDir::new().unwrap();
    let etcd = rig::etcd::Cluster::start(rig::etcd::Options::default());
    let [file_a, file_b] = ["a", "b"].map(|name| configure(dir.path(), &etcd.endpoint(0), name));
    let mut a = start(&file_a);
    let url_a = url(&mut a);
    let mut b = start(&file_b);
    let both = until(&file_a, |outcome| names(outcome).len() == 2);
    assert_eq!((both.code, names(&both)), (0, vec!["a*".to_owned(), "b".to_owned()]));
    let document: serde_json::Value = serde_json::from_str(&both.stdout).unwrap();
    let health_b = format!("http://{}", document["nodes"][1]["health"].as_str().unwrap());
    for (flag, place) in [("--bbsURL", &url_a), ("--healthURL", &health_b), ("--config", &file_b)] {
        let outcome = run(&["nodes", "--json", flag, place]);
        assert_eq!(names(&outcome), names(&both), "{flag}: {outcome:?}");
    }
    let table = run(&["nodes", "--config", &file_b]).stdout;
    let roles: Vec<String> =
        table.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(roles, ["ROLE NODE", "master a", "standby b"], "{table}");

    a.signal(Signal::TERM);
    assert_eq!(a.wait().code(), Some(0));
    url(&mut b);
    let alone = until(&file_a, |outcome| names(outcome) == ["b*"]);
    assert_eq!(alone.code, 0, "{alone:?}");
}
