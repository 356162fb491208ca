//! `cargo xtask test`: every check, stage after stage, stopping at the first failure.
//!
//! This is the whole of what is run on a submitted change, so there is no other list to keep in step. The run ends with
//! one table of stages and seconds and, after a failure, with the command that repeats just that stage.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::{bless, install, tidy};

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Install nothing, for a machine without network; a stage whose program is missing fails
    #[arg(long)]
    skip_install: bool,
    /// Run this stage only
    #[arg(long, value_name = "STAGE")]
    pub(crate) only: Option<Stage>,
    /// Run only the tests whose name contains this; the other stages are not affected
    pub(crate) filter: Option<String>,
}

/// When you add one: its place is where failing is cheapest, and its work goes into [`Stage::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// Install what the other stages call
    Install,
    /// rustfmt, without changing anything
    Fmt,
    /// clippy on all targets, warnings are errors
    Clippy,
    /// Our own style rules
    Tidy,
    /// Licences, bans and sources of dependencies
    Deny,
    /// Unit and integration tests
    Tests,
    /// Examples in the documentation
    Doc,
    /// Published messages and frozen files are unchanged
    Bless,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
}

pub(crate) fn run(root: &Path, args: &TestArgs) -> anyhow::Result<ExitCode> {
    let mut table: Vec<(Stage, Duration, Outcome)> = Vec::new();
    for stage in chosen(args) {
        println!("\n== {stage}", stage = stage.name());
        let (took, outcome) = timed(|| stage.run(root, args.filter.as_deref()));
        let outcome = outcome.unwrap_or_else(|error| {
            eprintln!("{error:#}");
            Outcome::Failed
        });
        println!("== {} {:.1} s", stage.name(), took.as_secs_f64());
        let failed = outcome == Outcome::Failed;
        table.push((stage, took, outcome));
        if failed {
            break;
        }
    }
    print!("\n{}", summary(&table, args.filter.as_deref()));
    let failed = table.iter().any(|(_, _, outcome)| *outcome == Outcome::Failed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[expect(clippy::disallowed_methods, reason = "The stages' times are for the reader and decide nothing.")]
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// The stages of this run, in order.
fn chosen(args: &TestArgs) -> Vec<Stage> {
    let wanted = |stage: &&Stage| match args.only {
        Some(only) => **stage == only,
        None => !(args.skip_install && **stage == Stage::Install),
    };
    Stage::value_variants().iter().filter(wanted).copied().collect()
}

impl Stage {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn run(self, root: &Path, filter: Option<&str>) -> anyhow::Result<Outcome> {
        let code = match self {
            Stage::Install => return install::run(root).map(|()| Outcome::Passed),
            Stage::Tidy => tidy::run(root)?,
            Stage::Bless => bless::check(root)?,
            Stage::Fmt | Stage::Clippy | Stage::Deny | Stage::Tests | Stage::Doc => {
                return cargo(root, &self.cargo_arguments(filter, install::is_on_path("cargo-nextest")));
            }
        };
        Ok(if code == ExitCode::SUCCESS { Outcome::Passed } else { Outcome::Failed })
    }

    /// The cargo command of a stage; empty for the stages that are functions of this program.
    fn cargo_arguments(self, filter: Option<&str>, has_nextest: bool) -> Vec<String> {
        let fixed: &[&str] = match self {
            Stage::Install | Stage::Tidy | Stage::Bless => &[],
            Stage::Fmt => &["fmt", "--all", "--check"],
            Stage::Clippy => &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
            Stage::Deny => &["deny", "check", "bans", "licenses", "sources"],
            // Every test in a process of its own, and the slow ones side by side.
            Stage::Tests if has_nextest => &["nextest", "run", "--workspace"],
            Stage::Tests => &["test", "--workspace", "--all-targets"],
            Stage::Doc => &["test", "--workspace", "--doc"],
        };
        let filter = filter.filter(|_| matches!(self, Stage::Tests | Stage::Doc));
        fixed.iter().copied().chain(filter).map(str::to_owned).collect()
    }
}

fn cargo(root: &Path, arguments: &[String]) -> anyhow::Result<Outcome> {
    println!("$ cargo {}", arguments.join(" "));
    let status = Command::new("cargo").args(arguments).current_dir(root).status();
    let status = status.context("cargo could not be started.")?;
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed })
}

/// The table at the end and, after a failure, what to type next.
fn summary(table: &[(Stage, Duration, Outcome)], filter: Option<&str>) -> String {
    let mut text = String::from("stage      seconds\n");
    let mut total = Duration::ZERO;
    for (stage, took, outcome) in table {
        total += *took;
        let mark = if *outcome == Outcome::Failed { "  FAILED" } else { "" };
        text += &format!("{:<9} {:>8.1}{mark}\n", stage.name(), took.as_secs_f64());
    }
    text += &format!("{:<9} {:>8.1}\n", "total", total.as_secs_f64());
    if let Some((stage, _, _)) = table.iter().find(|(_, _, outcome)| *outcome == Outcome::Failed) {
        let filter = filter.map(|filter| format!(" {filter}")).unwrap_or_default();
        let name = stage.name();
        text +=
            &format!("\nThe stage `{name}` failed. To repeat just it:\n\n    cargo xtask test --only {name}{filter}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn args(skip_install: bool, only: Option<Stage>) -> TestArgs {
        TestArgs { skip_install, only, filter: None }
    }

    #[test]
    fn stages_run_in_order_and_installing_can_be_left_out() {
        let all = chosen(&args(false, None));
        assert_eq!(all, Stage::value_variants());
        assert_eq!(chosen(&args(true, None)), all[1..]);
        assert_eq!(chosen(&args(false, Some(Stage::Deny))), [Stage::Deny]);
    }

    #[test]
    fn the_commands_are_these() {
        let listing = |has_nextest| {
            let line = |stage: &Stage| {
                format!("{:?}: {}\n", stage, stage.cargo_arguments(Some("claim"), has_nextest).join(" "))
            };
            Stage::value_variants().iter().map(line).collect::<String>()
        };
        expect![[r#"
            Install: 
            Fmt: fmt --all --check
            Clippy: clippy --workspace --all-targets -- -D warnings
            Tidy: 
            Deny: deny check bans licenses sources
            Tests: nextest run --workspace claim
            Doc: test --workspace --doc claim
            Bless: 
        "#]]
        .assert_eq(&listing(true));
        assert!(listing(false).contains("Tests: test --workspace --all-targets claim\n"));
    }

    #[test]
    fn the_summary_says_how_to_repeat_what_failed() {
        let table = [
            (Stage::Fmt, Duration::from_millis(1_250), Outcome::Passed),
            (Stage::Tests, Duration::from_secs(90), Outcome::Failed),
        ];
        expect![[r#"
            stage      seconds
            fmt            1.2
            tests         90.0  FAILED
            total         91.2

            The stage `tests` failed. To repeat just it:

                cargo xtask test --only tests claim
        "#]]
        .assert_eq(&summary(&table, Some("claim")));
    }
}
