//! The first stage of `cargo xtask test`: installs what the other stages call, and only what is missing.
//!
//! A contributor needs a Rust toolchain and this repository; the rest is listed here with its reason. Installing is decided
//! by a pure function and carried out afterwards, so what would happen on another machine can be tested on this one.
//! A Debian package is never installed behind anybody's back: without root, the exact command is printed and the run stops.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

/// A program that a stage calls and that cargo can build.
#[derive(Debug)]
struct CargoTool {
    /// Its package; the program has the same name and is found on the PATH.
    package: &'static str,
    why: &'static str,
}

/// When you add one: also say in `CONTRIBUTING.md` what it is for.
const CARGO_TOOLS: &[CargoTool] = &[CargoTool {
    package: "cargo-deny",
    why: "checks licences, banned crates and sources of dependencies; compiling it takes three to six minutes, once",
}];

/// Debian packages that tests need, with the reason. One that has a program of its name is not asked for where that is on the
/// PATH already, so that other systems can be used too.
const DEBIAN_PACKAGES: &[(&str, &str)] = &[
    ("python3", "an independent implementation of sealed records is compared with ours"),
    ("etcd-server", "the store on etcd, its elections and its failures are tested against real clusters"),
    ("etcd-client", "its etcdctl looks into those clusters from outside"),
    ("nats-server", "what routers are told goes through a real message bus, which is restarted under them"),
    ("iproute2", "networks are cut in namespaces of their own"),
    ("faketime", "the wall clocks of servers jump while they run"),
    ("runc", "containers of cells are run by it, or by crun where that works"),
];

/// What to do about one missing thing.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    /// Run this, after saying why.
    Run { command: Vec<String>, why: String },
    /// This needs rights we do not have: print the command and stop.
    Ask { command: Vec<String>, why: String },
}

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let missing_tools: Vec<&CargoTool> = CARGO_TOOLS.iter().filter(|tool| !is_on_path(tool.package)).collect();
    let is_there = |package: &str| is_on_path(package) || is_debian_package_installed(package);
    let missing_packages: Vec<(&str, &str)> =
        DEBIAN_PACKAGES.iter().copied().filter(|(package, _)| !is_there(package)).collect();
    let actions = plan(&missing_tools, &missing_packages, is_root());
    if actions.is_empty() {
        println!("everything the tests need is installed");
    }
    for action in actions {
        match action {
            Action::Run { command, why } => carry_out(root, &command, &why)?,
            Action::Ask { command, why } => anyhow::bail!(
                "Packages are missing ({why}) and this is not root. Nothing was changed. Run this, then try again:\n\n    {}\n",
                command.join(" ")
            ),
        }
    }
    Ok(())
}

fn plan(tools: &[&CargoTool], packages: &[(&str, &str)], is_root: bool) -> Vec<Action> {
    let words = |command: &[&str]| command.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let mut actions = Vec::new();
    if !packages.is_empty() {
        let why = packages.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("; ");
        let names: Vec<&str> = packages.iter().map(|(name, _)| *name).collect();
        let install = words(&[&["apt-get", "install", "-y"], names.as_slice()].concat());
        if is_root {
            actions.push(Action::Run { command: words(&["apt-get", "update"]), why: "newest package list".to_owned() });
            actions.push(Action::Run { command: install, why });
        } else {
            actions.push(Action::Ask { command: [words(&["sudo"]), install].concat(), why });
        }
    }
    for tool in tools {
        let command = words(&["cargo", "install", tool.package, "--locked"]);
        actions.push(Action::Run { command, why: format!("{}: {}", tool.package, tool.why) });
    }
    actions
}

fn carry_out(root: &Path, command: &[String], why: &str) -> anyhow::Result<()> {
    let shown = command.join(" ");
    println!("{why}\n$ {shown}");
    let (program, arguments) = command.split_first().context("An empty command.")?;
    let status = Command::new(program).args(arguments).current_dir(root).status();
    let status = status.with_context(|| format!("`{shown}` could not be started."))?;
    anyhow::ensure!(
        status.success(),
        "`{shown}` failed ({status}). Run it by hand to see why, or go on without it: `cargo xtask test --skip-install`."
    );
    Ok(())
}

/// Whether a program of this name is in a directory of the PATH.
pub(crate) fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

fn is_debian_package_installed(package: &str) -> bool {
    let query = Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]).output();
    query.is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").stderr(Stdio::null()).output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn nothing_missing_means_nothing_to_do() {
        check(&[], &[], false, &expect![""]);
    }

    #[test]
    fn root_installs_packages_and_others_are_asked_to() {
        let packages = [("etcd-server", "the store contract runs against it"), ("jq", "examples")];
        check(
            &[],
            &packages,
            true,
            &expect![[r#"
                run apt-get update (newest package list)
                run apt-get install -y etcd-server jq (etcd-server: the store contract runs against it; jq: examples)
            "#]],
        );
        check(
            &[],
            &packages,
            false,
            &expect![[r#"
                ask sudo apt-get install -y etcd-server jq (etcd-server: the store contract runs against it; jq: examples)
            "#]],
        );
    }

    #[test]
    fn tools_are_built_by_cargo_after_the_packages() {
        let tool = CargoTool { package: "cargo-deny", why: "checks licences" };
        check(
            &[&tool],
            &[("jq", "examples")],
            false,
            &expect![[r#"
                ask sudo apt-get install -y jq (jq: examples)
                run cargo install cargo-deny --locked (cargo-deny: checks licences)
            "#]],
        );
    }

    #[test]
    fn the_path_is_searched() {
        assert!(is_on_path("cargo"));
        assert!(!is_on_path("no-such-program-anywhere"));
    }

    fn check(tools: &[&CargoTool], packages: &[(&str, &str)], is_root: bool, expected: &Expect) {
        let show = |action: &Action| match action {
            Action::Run { command, why } => format!("run {} ({why})\n", command.join(" ")),
            Action::Ask { command, why } => format!("ask {} ({why})\n", command.join(" ")),
        };
        expected.assert_eq(&plan(tools, packages, is_root).iter().map(show).collect::<String>());
    }
}
