//! `cargo xtask tidy`: the style that neither rustfmt nor clippy knows, as a test.
//!
//! Each rule is a pure function over paths and texts and lives in the file named for its subject. A rule earns its place
//! here when it can be decided without judgement; the rest is in `CONTRIBUTING.md`. There is no way to switch a rule off in
//! one place: an exception is either wrong, or the rule is, and then the rule changes for everybody.
//!
//! When you add a rule: a function that returns findings, a line in [`findings`], and a test with text it must refuse.

mod arrows;
mod decisions;
mod links;
mod mask;
mod names;
mod source;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::bless;
use crate::tree::Tree;

/// One thing that is not as it should be, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) instead: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>, instead: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into(), instead: instead.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} — {}", self.path, self.line, self.what, self.instead)
    }
}

pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let tree = Tree::read(root)?;
    let findings = findings(&tree);
    if findings.is_empty() {
        println!("tidy: {} files, nothing to say", tree.files().count());
        return Ok(ExitCode::SUCCESS);
    }
    Ok(report("tidy", &findings))
}

/// Prints findings one per line, as editors and terminals understand them, and says that the run failed.
pub(crate) fn report(who: &str, findings: &[Finding]) -> ExitCode {
    for finding in findings {
        println!("{finding}");
    }
    println!("{who}: {} {}", findings.len(), if findings.len() == 1 { "finding" } else { "findings" });
    ExitCode::FAILURE
}

/// Everything that is untidy in the tree, in path order.
fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.texts("rs") {
        found.extend(source::header(path, text));
        found.extend(source::length(path, text));
        found.extend(source::unfinished(path, text));
        found.extend(names::modules(path, text));
    }
    found.extend(names::paths(tree.files().map(|(path, _)| path)));
    for (path, text) in tree.texts("toml") {
        found.extend(arrows::manifest(path, text));
    }
    let pages: Vec<(&str, &str)> = tree.texts("md").filter(|(path, _)| decisions::is_in_the_folder(path)).collect();
    found.extend(decisions::numbers(pages.iter().map(|(path, _)| *path)));
    for (path, text) in &pages {
        found.extend(decisions::headings(path, text));
    }
    found.extend(decisions::changelog("CHANGELOG.md", tree.text("CHANGELOG.md")));
    for (path, text) in tree.texts("md") {
        found.extend(links::relative(path, text, &|target| tree.has(target)));
    }
    found.extend(bless::frozen_findings(tree));
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// One small tree in which each rule finds something, so that a rule that is written but not called fails here.
    #[test]
    fn every_rule_is_called() {
        check(
            &[
                ("crates/model/src/lib.rs", "//! Promise.\nmod utils;\nfn f() { todo!() }\n"),
                ("crates/model/src/utils.rs", "fn f() {}\n"),
                ("crates/model/src/long.rs", &format!("//! Long.\n{}", "//\n".repeat(600))),
                ("crates/model/Cargo.toml", "[dependencies]\nstore.workspace = true\n"),
                ("docs/decisions/0002-late.md", "# Late\n\nSee [nothing](nowhere.md).\n"),
                ("crates/store/frozen/a.bin", "changed"),
                ("xtask/frozen.lock", "0000000000000000 crates/store/frozen/a.bin\n"),
            ],
            &expect![[r#"
                CHANGELOG.md:1: there is no change log — create it with a section `## Unreleased`
                crates/model/Cargo.toml:2: `model` depends on `store` — arrows point one way (ARCHITECTURE.md): `model` depends on no other crate of ours; move the code to the side that may know both
                crates/model/src/lib.rs:2: a module named `utils` is a drawer — name it for what it holds, or keep the item beside its only user
                crates/model/src/lib.rs:3: `todo!(` is unfinished work — finish it, or leave the feature out and say so in CHANGELOG.md
                crates/model/src/long.rs:601: 601 lines, and 600 is the most — split it by subject; the folder listing is the table of contents
                crates/model/src/utils.rs:1: `utils` is a drawer — name it for what it holds, or keep the item beside its only user
                crates/model/src/utils.rs:1: no module header — begin with `//!` and state the promise, who may call it, and what was not done and why
                crates/store/frozen/a.bin:1: a frozen file was changed — restore it; these bytes are what an older release wrote, so a new shape is a new file beside it
                docs/decisions/0002-late.md:1: no heading `Consequences` (or `What we gave up`) — every decision has Context, Decision and Consequences
                docs/decisions/0002-late.md:1: no heading `Context` — every decision has Context, Decision and Consequences
                docs/decisions/0002-late.md:1: no heading `Decision` — every decision has Context, Decision and Consequences
                docs/decisions/0002-late.md:1: number 2 where 1 is next — number decisions without a hole; one that was withdrawn stays, marked as such
                docs/decisions/0002-late.md:3: the link `nowhere.md` leads nowhere — correct the path, or write the name as `code` if the file is only planned
            "#]],
        );
    }

    #[test]
    fn a_tidy_tree_has_no_findings() {
        check(
            &[
                ("CHANGELOG.md", "# Changes\n\n## Unreleased\n"),
                ("crates/store/src/lib.rs", "//! Promise.\n"),
                ("crates/store/Cargo.toml", "[dependencies]\nmodel.workspace = true\n"),
                (
                    "docs/decisions/0001-log.md",
                    "# Log\n## Context\n## Decision\n## What we gave up\n[x](../../CHANGELOG.md)\n",
                ),
            ],
            &expect![""],
        );
    }

    fn check(files: &[(&str, &str)], expected: &Expect) {
        let lines: Vec<String> = findings(&Tree::of(files)).iter().map(|finding| format!("{finding}\n")).collect();
        expected.assert_eq(&lines.concat());
    }
}
