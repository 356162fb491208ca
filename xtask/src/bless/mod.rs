//! `cargo xtask bless`: what was published stays as it was published.
//!
//! Two things leave this repository and live on in other places: the messages on the wire, and the bytes in somebody's
//! store. The `.proto` files and the table of routes of each release are kept in `crates/api/proto/frozen/`, and today's are
//! compared with all of them; files in folders named `frozen/` are recorded in `xtask/frozen.lock` by checksum. Adding is
//! free, and what was added since the newest release may still change. Whatever was released may not be removed,
//! renumbered, retyped, renamed or given to something else.
//!
//! `bless` itself refuses to record such a change, or it would be the way around the check. What is no longer supported goes
//! by hand, in the change that raises the floor, where a reviewer sees a folder and its lines in the lock go.

mod effect;
mod frozen;
mod proto;
mod release;
mod routes;
mod rules;
mod schema;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::tidy::{Finding, report};
use crate::tree::Tree;
pub(crate) use release::freeze;

const PROTO_FOLDER: &str = "crates/api/proto/";

/// Compares with the releases and the record, and writes nothing.
pub(crate) fn check(root: &Path) -> anyhow::Result<ExitCode> {
    let tree = Tree::read(root)?;
    let findings = findings(&tree);
    if !findings.is_empty() {
        return Ok(report("bless", &findings));
    }
    println!("bless: nothing published was changed");
    println!("bless: {}", since_the_newest_release(&tree).map_err(|finding| anyhow::anyhow!("{finding}"))?);
    let files = frozen::additions(&tree);
    if files > 0 {
        println!("bless: {files} frozen files are not recorded yet; `cargo xtask bless` records them");
    }
    Ok(ExitCode::SUCCESS)
}

/// Records the frozen files that are new, unless something that was published before has changed.
pub(crate) fn write(root: &Path) -> anyhow::Result<ExitCode> {
    let tree = Tree::read(root)?;
    let findings: Vec<Finding> = findings(&tree).into_iter().filter(|finding| finding.what != frozen::ABSENT).collect();
    if !findings.is_empty() {
        let code = report("bless", &findings);
        println!("bless: nothing was written");
        return Ok(code);
    }
    let files = frozen::additions(&tree);
    std::fs::write(root.join(frozen::LOCK), frozen::print(&tree))
        .with_context(|| format!("Writing {}", frozen::LOCK))?;
    println!("bless: recorded {files} new frozen files");
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with files in `frozen/` folders; also part of `cargo xtask tidy`.
pub(crate) fn frozen_findings(tree: &Tree) -> Vec<Finding> {
    frozen::findings(tree)
}

fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = release::findings(tree).unwrap_or_else(|finding| vec![finding]);
    found.extend(frozen::findings(tree));
    found
}

fn since_the_newest_release(tree: &Tree) -> Result<String, Finding> {
    let current = proto::parse(&proto_files(tree))?;
    let releases = release::kept(tree)?;
    let Some((number, newest)) = releases.last_key_value() else { return Ok("nothing was released yet".to_owned()) };
    let additions = rules::additions(&proto::parse(&newest.protos)?, &current);
    Ok(match additions {
        0 => format!("the messages are those of release {number}"),
        _ => format!(
            "{additions} additions to messages since release {number}; until the next one they may still change"
        ),
    })
}

/// Today's files, without those of releases.
fn proto_files(tree: &Tree) -> Vec<(&str, &str)> {
    let is_todays = |path: &str| path.strip_prefix(PROTO_FOLDER).is_some_and(|name| !name.contains('/'));
    tree.texts("proto").filter(|(path, _)| is_todays(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: &str =
        "syntax = \"proto3\";\npackage models;\nmessage PingResponse {\n  bool available = 1; // json: available\n}\n";
    const MANIFEST: &str = "[workspace.package]\nversion = \"0.1.0\"\n";
    const ROUTES: &str = "Ping POST /v1/ping\n";

    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in ["xtask", PROTO_FOLDER] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for (path, text) in files {
            write_file(root.path(), path, text);
        }
        root
    }

    fn write_file(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn repository() -> tempfile::TempDir {
        written(&[("crates/api/proto/ping.proto", PING), (routes::TABLE, ROUTES), ("Cargo.toml", MANIFEST)])
    }

    #[test]
    fn what_is_not_released_may_change_and_what_is_may_not() {
        let root = repository();
        let root = root.path();
        write_file(root, "crates/api/proto/ping.proto", &PING.replace("bool", "int32"));
        assert_eq!(check(root).unwrap(), ExitCode::SUCCESS, "nobody has it yet");
        write_file(root, "crates/api/proto/ping.proto", PING);
        assert_eq!(freeze(root, "0.1").unwrap(), ExitCode::SUCCESS);
        assert_eq!(check(root).unwrap(), ExitCode::SUCCESS);
        let frozen = std::fs::read_to_string(root.join("crates/api/proto/frozen/0.1/ping.proto")).unwrap();
        assert_eq!(frozen, PING);

        write_file(root, "crates/api/proto/new.proto", &PING.replace("Ping", "Pong"));
        assert_eq!(check(root).unwrap(), ExitCode::SUCCESS, "adding is free");
        for (path, broken) in [
            ("crates/api/proto/ping.proto", PING.replace("bool", "int32")),
            (routes::TABLE, String::new()),
            ("crates/api/proto/frozen/0.1/ping.proto", PING.replace("bool", "int32")),
            ("crates/api/proto/frozen/0.1/routes.txt", String::new()),
        ] {
            let before = std::fs::read_to_string(root.join(path)).unwrap();
            let lock = std::fs::read_to_string(root.join(frozen::LOCK)).unwrap();
            write_file(root, path, &broken);
            assert_eq!(check(root).unwrap(), ExitCode::FAILURE, "{path}");
            assert_eq!(write(root).unwrap(), ExitCode::FAILURE, "{path}");
            assert_eq!(std::fs::read_to_string(root.join(frozen::LOCK)).unwrap(), lock, "a refusal writes nothing");
            write_file(root, path, &before);
            assert_eq!(check(root).unwrap(), ExitCode::SUCCESS, "{path}");
        }
    }

    #[test]
    fn a_release_is_frozen_once_under_its_own_number_and_only_if_it_breaks_none() {
        let root = repository();
        let root = root.path();
        for number in ["0.2", "1", "0.1.0", "x"] {
            assert!(freeze(root, number).is_err(), "{number}");
        }
        assert!(!root.join("crates/api/proto/frozen").exists(), "a refusal writes nothing");
        assert_eq!(freeze(root, "0.1").unwrap(), ExitCode::SUCCESS);
        let again = freeze(root, "0.1").unwrap_err().to_string();
        assert!(again.contains("exists"), "{again}");

        write_file(root, "Cargo.toml", &MANIFEST.replace("0.1.0", "0.2.3"));
        write_file(root, "crates/api/proto/ping.proto", &PING.replace("bool", "int32"));
        assert_eq!(freeze(root, "0.2").unwrap(), ExitCode::FAILURE);
        assert!(!root.join("crates/api/proto/frozen/0.2").exists(), "a refusal writes nothing");
        write_file(root, "crates/api/proto/ping.proto", PING);
        assert_eq!(freeze(root, "0.2").unwrap(), ExitCode::SUCCESS);
        assert_eq!(check(root).unwrap(), ExitCode::SUCCESS);
    }

    #[test]
    fn changed_frozen_bytes_fail_the_check() {
        let root = written(&[("crates/store/frozen/a.bin", "old bytes")]);
        assert_eq!(write(root.path()).unwrap(), ExitCode::SUCCESS);
        std::fs::write(root.path().join("crates/store/frozen/b.bin"), "more").unwrap();
        assert_eq!(check(root.path()).unwrap(), ExitCode::SUCCESS, "adding is free");
        std::fs::write(root.path().join("crates/store/frozen/a.bin"), "new bytes").unwrap();
        assert_eq!(check(root.path()).unwrap(), ExitCode::FAILURE);
        assert_eq!(write(root.path()).unwrap(), ExitCode::FAILURE);
    }

    #[test]
    fn only_the_published_folder_is_read() {
        let tree = Tree::of(&[("crates/api/proto/a.proto", ""), ("crates/api/proto/old/b.proto", ""), ("c.proto", "")]);
        assert_eq!(proto_files(&tree), [("crates/api/proto/a.proto", "")]);
    }
}
