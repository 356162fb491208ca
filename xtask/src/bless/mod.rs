//! `cargo xtask bless`: what was published stays as it was published.
//!
//! Two things leave this repository and live on in other places: the messages on the wire, and the bytes in somebody's
//! store. Messages are recorded in `crates/api/proto/blessed.lock` by name, tag and type; files in folders named `frozen/`
//! are recorded in `xtask/frozen.lock` by checksum. Adding is free. Whatever is recorded may not be removed, renumbered,
//! retyped or given to something else.
//!
//! `bless` itself refuses to record such a change, or it would be the way around the check. What a new major release no
//! longer supports is taken out of the lock by hand, in the change that raises the floor, where a reviewer sees the line go.

mod frozen;
mod lock;
mod proto;
mod rules;
mod schema;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::tidy::{Finding, report};
use crate::tree::Tree;
use schema::Schema;

const PROTO_FOLDER: &str = "crates/api/proto/";
const PROTO_LOCK: &str = "crates/api/proto/blessed.lock";

/// Compares with the record and writes nothing.
pub(crate) fn check(root: &Path) -> anyhow::Result<ExitCode> {
    let tree = Tree::read(root)?;
    let findings = findings(&tree);
    if !findings.is_empty() {
        return Ok(report("bless", &findings));
    }
    let (messages, files) = additions(&tree);
    println!("bless: nothing published was changed");
    if messages + files > 0 {
        println!(
            "bless: {messages} additions to messages and {files} new frozen files are not recorded yet and may still change; \
             `cargo xtask bless` records them"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Records what is there now, unless that would hide a change to what was recorded before.
pub(crate) fn write(root: &Path) -> anyhow::Result<ExitCode> {
    let tree = Tree::read(root)?;
    let findings: Vec<Finding> = findings(&tree).into_iter().filter(|finding| !is_only_unrecorded(finding)).collect();
    if !findings.is_empty() {
        let code = report("bless", &findings);
        println!("bless: nothing was written");
        return Ok(code);
    }
    let (messages, files) = additions(&tree);
    let schema = proto::parse(&proto_files(&tree)).map_err(|finding| anyhow::anyhow!("{finding}"))?;
    for (path, text) in [(PROTO_LOCK, lock::print(&schema)), (frozen::LOCK, frozen::print(&tree))] {
        std::fs::write(root.join(path), text).with_context(|| format!("Writing {path}"))?;
    }
    println!("bless: recorded {messages} additions to messages and {files} new frozen files");
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with files in `frozen/` folders; also part of `cargo xtask tidy`.
pub(crate) fn frozen_findings(tree: &Tree) -> Vec<Finding> {
    frozen::findings(tree)
}

fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = match read(tree) {
        Ok((blessed, current)) => rules::broken(&blessed, &current),
        Err(finding) => vec![finding],
    };
    found.extend(frozen::findings(tree));
    found
}

/// A lock that does not exist yet fails the check and is the very thing that writing repairs.
fn is_only_unrecorded(finding: &Finding) -> bool {
    finding.what == lock::ABSENT
}

/// The recorded messages and the present ones.
fn read(tree: &Tree) -> Result<(Schema, Schema), Finding> {
    let files = proto_files(tree);
    let current = proto::parse(&files)?;
    let blessed = match tree.text(PROTO_LOCK) {
        Some(text) => lock::parse(PROTO_LOCK, text)?,
        None if files.is_empty() => Schema::default(),
        None => return Err(lock::absent(PROTO_LOCK)),
    };
    Ok((blessed, current))
}

fn additions(tree: &Tree) -> (usize, usize) {
    let recorded = tree.text(PROTO_LOCK).and_then(|text| lock::parse(PROTO_LOCK, text).ok()).unwrap_or_default();
    let current = proto::parse(&proto_files(tree)).unwrap_or_default();
    (rules::additions(&recorded, &current), frozen::additions(tree))
}

fn proto_files(tree: &Tree) -> Vec<(&str, &str)> {
    let is_ours = |path: &str| path.strip_prefix(PROTO_FOLDER).is_some_and(|name| !name.contains('/'));
    tree.texts("proto").filter(|(path, _)| is_ours(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: &str = "syntax = \"proto3\";\npackage models;\nmessage PingResponse {\n  bool available = 1;\n}\n";

    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in ["xtask", PROTO_FOLDER] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn blessing_makes_the_check_pass_and_breaking_makes_both_fail() {
        let root = written(&[("crates/api/proto/ping.proto", PING), ("crates/store/frozen/a.bin", "old bytes")]);
        assert_eq!(check(root.path()).unwrap(), ExitCode::FAILURE, "no record yet");
        assert_eq!(write(root.path()).unwrap(), ExitCode::SUCCESS);
        assert_eq!(check(root.path()).unwrap(), ExitCode::SUCCESS);

        let lock = std::fs::read_to_string(root.path().join(PROTO_LOCK)).unwrap();
        let retyped = PING.replace("bool", "int32");
        std::fs::write(root.path().join("crates/api/proto/ping.proto"), retyped).unwrap();
        assert_eq!(check(root.path()).unwrap(), ExitCode::FAILURE);
        assert_eq!(write(root.path()).unwrap(), ExitCode::FAILURE);
        assert_eq!(std::fs::read_to_string(root.path().join(PROTO_LOCK)).unwrap(), lock, "a refusal writes nothing");
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
