//! The help texts, as a file, so that a change to them shows in a diff.

use std::fmt::Write as _;

use expect_test::expect_file;

use crate::program::run;

/// Every command, in the order of the top-level help.
const COMMANDS: &[&str] = &[
    "up",
    "bbs",
    "locket",
    "auctioneer",
    "rep",
    "route-emitter",
    "router",
    "run-app",
    "stop-app",
    "demo-app",
    "config",
    "config check",
    "config example",
    "domains",
    "set-domain",
    "cells",
    "cell",
    "desired-lrps",
    "desired-lrp",
    "desired-lrp-scheduling-infos",
    "create-desired-lrp",
    "update-desired-lrp",
    "delete-desired-lrp",
    "actual-lrps",
    "actual-lrp-groups",
    "actual-lrp-groups-for-guid",
    "retire-actual-lrp",
    "tasks",
    "task",
    "create-task",
    "cancel-task",
    "delete-task",
    "lrp-events",
    "task-events",
    "logs",
    "top",
    "locks",
    "presences",
    "claim-lock",
    "claim-presence",
    "release-lock",
    "rollout",
    "rollout status",
    "rollout history",
    "rollout diff",
    "rollout pause",
    "rollout resume",
    "rollout cancel",
    "rollout undo",
    "nodes",
    "clients",
    "migrate",
    "migrate status",
    "migrate plan",
    "migrate start",
    "migrate pause",
    "migrate resume",
    "migrate abort",
    "migrate finalize",
    "migrate rollback",
    "migrate history",
    "keys",
    "keys status",
    "keys rotate",
    "keys verify",
    "keys generate",
    "quarantine",
    "quarantine list",
    "quarantine show",
    "quarantine retry",
    "quarantine export",
    "quarantine discard",
    "backup",
    "restore",
    "store",
    "store confirm",
    "dev-certs",
    "completions",
    "version",
];

#[test]
fn the_help_of_all_commands() {
    let mut all = help("");
    for command in COMMANDS {
        let text = help(command);
        // The flags that reach a server are the same everywhere; once is enough to read.
        let text = match text.split_once("\nThe server to talk to:\n") {
            Some((before, after)) => {
                let examples = after.find("Examples:").map_or("", |at| &after[at..]);
                format!("{before}\n(the server to talk to: as above)\n\n{examples}")
            }
            None => text,
        };
        writeln!(all, "──── corkboard {command}\n\n{text}").unwrap();
    }
    expect_file!["./golden/help.txt"].assert_eq(&all);
}

/// A command that is missing above would have no golden help.
#[test]
fn the_list_above_is_complete() {
    let top = help("");
    let listed = top.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names: Vec<&str> = listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    let known: Vec<&str> = COMMANDS.iter().copied().filter(|command| !command.contains(' ')).collect();
    assert_eq!(names, known);
}

fn help(command: &str) -> String {
    let mut args: Vec<&str> = command.split_whitespace().collect();
    args.push("-h");
    let outcome = run(&args);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{command}");
    outcome.stdout
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let outcome = run(&["completions", shell]);
        assert_eq!(outcome.code, 0, "{shell}");
        assert!(outcome.stdout.contains("retire-actual-lrp"), "{shell}");
    }
}

#[test]
fn the_version_is_told_in_both_ways() {
    let expected = concat!("corkboard ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run(&["version"]).stdout, expected);
    assert_eq!(run(&["--version"]).stdout, expected);
}
