//! `cargo xtask upgrade`: both releases are built, and the upgrade suite is run on them.
//!
//! The former release is the same source with the data version before the latest as its newest. What the suite tells goes to
//! the terminal; the table of all steps and, after a failure, the logs of all processes are in `target/upgrade`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::Context;
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// Only what the tests do: once forward, with a migration and some deaths
    #[arg(long)]
    short: bool,
    /// No upgrade: the app under load gets other definitions, good ones and bad ones, and is disturbed meanwhile
    #[arg(long, conflicts_with = "short")]
    updates: bool,
    /// Optimised binaries
    #[arg(long)]
    release: bool,
}

impl UpgradeArgs {
    fn form(&self) -> &'static str {
        match (self.short, self.updates) {
            (true, _) => "short",
            (_, true) => "updates",
            _ => "full",
        }
    }
}

pub(crate) fn run(root: &Path, args: &UpgradeArgs) -> anyhow::Result<ExitCode> {
    let target = target(root);
    for arguments in builds(args.release, &target) {
        if !cargo(root, &arguments)?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    let profile = if args.release { "release" } else { "debug" };
    let binary = |folder: &Path| folder.join(profile).join("corkboard").display().to_string();
    let mut arguments = words(&["run", "--quiet", "--package", "corkboard-suite", "--", "--present"]);
    let former = if args.updates { target.clone() } else { target.join("former") };
    arguments.extend([binary(&target), "--former".to_owned(), binary(&former)]);
    arguments.extend(["--folder".to_owned(), target.join("upgrade").display().to_string()]);
    arguments.extend(words(&["--form", args.form()]));
    Ok(if cargo(root, &arguments)?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// The present release, and the former one: its own place for the binary, and the same one for everything else, so that only the
/// last crate is compiled again.
fn builds(release: bool, target: &Path) -> [Vec<String>; 2] {
    let mut present = words(&["build", "--package", "corkboard"]);
    present.extend(release.then(|| "--release".to_owned()));
    let mut former = present.clone();
    former.extend(words(&["--features", "former-data-version", "--target-dir"]));
    former.push(target.join("former").display().to_string());
    former.extend(["--config".to_owned(), format!("build.build-dir={:?}", target.display().to_string())]);
    [present, former]
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}

fn cargo(root: &Path, arguments: &[String]) -> anyhow::Result<ExitStatus> {
    Command::new("cargo").args(arguments).current_dir(root).status().context("cargo could not be started.")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn both_releases_are_built_out_of_the_same_intermediate_files() {
        let [present, former] = builds(true, Path::new("/repository/target"));
        expect!["build --package corkboard --release"].assert_eq(&present.join(" "));
        expect![[r#"build --package corkboard --release --features former-data-version --target-dir /repository/target/former --config build.build-dir="/repository/target""#]].assert_eq(&former.join(" "));
    }
}
