//! Apps that move and crash, tasks that end, and programs that are away.

use std::collections::{BTreeMap, BTreeSet};

use api::cell::logs::LogLine;
use rustix::process::Signal;
use serde::Deserialize;

use super::site::{Site, eventually};
use crate::program::Background;

const COUNTING: &str = "i=0; while true; do i=$((i+1)); echo line $i; sleep 0.1; done";

#[derive(Debug, Deserialize)]
struct Document {
    cell_id: String,
    #[serde(flatten)]
    line: LogLine,
}

fn next(followed: &mut Background) -> Document {
    let line = followed.line().expect("it goes on");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Lines of one instance after the other, each counted up from 1: nothing is missing, and nothing comes twice.
#[derive(Default)]
struct Checker {
    last: BTreeMap<String, u64>,
    cells: BTreeSet<String>,
}

impl Checker {
    fn take(&mut self, told: &Document) {
        let number: u64 = told.line.text.strip_prefix("line ").unwrap().parse().unwrap();
        let last = self.last.entry(told.line.instance_guid.clone()).or_default();
        assert_eq!(number, *last + 1, "{told:?}");
        *last = number;
        self.cells.insert(told.cell_id.clone());
    }
}

#[test]
fn an_app_is_followed_to_another_cell_and_while_the_state_server_is_away() {
    let site = Site::start(2, "info");
    site.app("app", COUNTING, "");
    let mut followed = site.follow(&["logs", "app", "-f", "--json", "-n", "1000"]);
    let mut checker = Checker::default();
    let first = next(&mut followed);
    checker.take(&first);
    assert_eq!((first.line.process_guid.as_str(), first.line.source.as_str()), ("app", "APP"));
    for _ in 0..10 {
        checker.take(&next(&mut followed));
    }
    let at: usize = first.cell_id.strip_prefix("cell-").unwrap().parse().unwrap();
    site.cells[at].signal(Signal::TERM);
    while checker.cells.len() < 2 {
        checker.take(&next(&mut followed));
    }

    // Cells that are known go on without the state server; a second reader says what is wrong.
    site.board.signal(Signal::KILL);
    for _ in 0..30 {
        checker.take(&next(&mut followed));
    }
    assert_eq!(checker.last.len(), 2, "{:?}", checker.last);
    let refused = site.run(&["logs", "app"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(refused.stderr.contains("Is the server running?"), "{refused:?}");
}

#[test]
fn what_an_instance_wrote_before_it_crashed_is_kept_and_a_task_is_followed_to_its_end() {
    let mut site = Site::start(1, "info");
    site.app("falls", "echo about to fall; printf '\\033[2Jwiped\\n' >&2; exit 3", "");
    let text = site.logs_with(&["logs", "falls", "-n", "1000"], "wiped");
    // The two come through pipes of their own, in any order.
    assert!(text.lines().any(|line| line.ends_with("Z [APP/0] OUT about to fall")), "{text}");
    assert!(text.contains(" [APP/0] ERR \u{1b}[2Jwiped\n"), "{text}");
    let last = site.call(&["logs", "falls", "-n", "1", "-i", "0"]);
    assert_eq!(last.lines().count(), 1, "{last}");
    assert_eq!(site.call(&["logs", "falls", "-i", "7"]), "");

    site.task("once", "for i in 1 2 3; do echo part $i; sleep 0.3; done");
    let mut followed = site.follow(&["logs", "--task", "once", "--follow"]);
    let mut lines = Vec::new();
    while let Some(line) = followed.line() {
        lines.push(line);
    }
    assert_eq!(followed.wait().code(), Some(0));
    let parts: Vec<&str> = lines.iter().filter_map(|line| line.split_once("[TASK/0] OUT ")).map(|it| it.1).collect();
    assert_eq!(parts, ["part 1", "part 2", "part 3", "Exit status 0"], "{lines:?}");

    let unknown = site.run(&["logs", "nobody"]);
    assert_eq!(
        (unknown.code, unknown.stderr.as_str()),
        (
            5,
            "corkboard: there is no app nobody, and no cell keeps lines of one; `corkboard desired-lrps` and `corkboard tasks` list \
             what is there\n"
        )
    );

    // A cell that is killed and started again: apps wrote on meanwhile, and what was told is not told again.
    site.app("app", COUNTING, "");
    let mut followed = site.follow(&["logs", "app", "-f", "--json", "-n", "1000"]);
    let mut checker = Checker::default();
    for _ in 0..5 {
        checker.take(&next(&mut followed));
    }
    site.restart_cell(0);
    for _ in 0..20 {
        checker.take(&next(&mut followed));
    }
    assert_eq!(checker.last.len(), 1);
    eventually("the app ends", || {
        let _ = site.run(&["delete-desired-lrp", "app"]);
        let left = site.call(&["actual-lrps", "-p", "app"]);
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    let kept = site.call(&["logs", "app", "-n", "2"]);
    assert_eq!(kept.lines().count(), 2, "lines outlive the app: {kept}");
}
