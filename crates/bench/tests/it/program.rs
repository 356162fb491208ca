//! The binary: what it says when it is used wrongly, and the experiment that needs a process to kill.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corkboard-bench")).args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn certificates_belong_together() {
    let output = bench(&["load", "--target", "https://127.0.0.1:1", "--ca", "x", "populate"]);
    assert!(!output.status.success());
    assert_eq!(stderr(&output).trim(), "--ca, --cert and --key belong together. Nothing was done.");
}

#[test]
fn a_dead_server_is_a_failed_phase_and_not_a_hang() {
    let output = bench(&["load", "--target", "http://127.0.0.1:1", "--lrps", "4", "--clients", "2", "populate"]);
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("The phase populate FAILED"), "{text}");
    assert!(text.contains("no connection to 127.0.0.1:1"), "{text}");
}

#[test]
fn a_missing_server_binary_is_named_with_the_way_to_get_it() {
    let output = bench(&["board", "--binary", "does/not/exist"]);
    assert!(!output.status.success());
    let text = stderr(&output);
    assert!(text.contains("There is no server at does/not/exist") && text.contains("cargo build --release"), "{text}");
}

#[test]
fn the_engines_are_compared_and_only_damage_that_is_told_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let (home, out) = (dir.path().to_str().unwrap(), dir.path().join("engines.md"));
    let small = ["--rounds", "1", "--round-ms", "5", "--lrps", "200", "--damage-records", "60"];
    let mut arguments = vec!["engines", "--dir", home, "--out", out.to_str().unwrap()];
    arguments.extend(small);
    let output = bench(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = std::fs::read_to_string(out).unwrap();
    let damage = report.split("fresh copy").nth(1).unwrap();
    let cells = |engine: &str| -> Vec<String> {
        let line = damage.lines().find(|line| line.contains(engine)).unwrap();
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let (ours, floor) = (cells("corkboard's log"), cells("append + fdatasync"));
    assert_eq!(ours[2], ours[3], "our log refuses every one of the flips: {ours:?}");
    assert_ne!(floor[6], "0", "a file without checksums loses silently: {floor:?}");
    assert!(!report.contains(home), "no path of this machine in a report");
}
