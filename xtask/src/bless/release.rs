//! What was released: a folder for each release with its `.proto` files and its table of routes, as they were.
//!
//! The folders stand in `crates/api/proto/frozen/`, so that the rule about frozen files guards them like every other file
//! that a release wrote: they never change. They go when the support of that release ends, together with their lines in
//! the lock. `cargo xtask bless --release 0.2` makes one, and is the only thing that does.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::{PROTO_FOLDER, frozen, proto, routes, rules};
use crate::tidy::{Finding, report};
use crate::tree::Tree;

const FOLDER: &str = "crates/api/proto/frozen/";
const ROUTES_FILE: &str = "routes.txt";

/// The first two numbers of a version: what is compatible has the same, whatever was repaired since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number {
    major: u64,
    minor: u64,
}

impl Number {
    fn parse(text: &str) -> Option<Number> {
        let (major, minor) = text.split_once('.')?;
        let number = Number { major: major.parse().ok()?, minor: minor.parse().ok()? };
        // One way to write it, because it names a folder.
        (number.to_string() == text).then_some(number)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The files of one release, by their paths in the tree.
#[derive(Debug, Default)]
pub(crate) struct Release<'a> {
    pub(crate) protos: Vec<(&'a str, &'a str)>,
    routes: Option<(&'a str, &'a str)>,
}

/// All releases that are kept, the oldest first.
pub(crate) fn kept(tree: &Tree) -> Result<BTreeMap<Number, Release<'_>>, Finding> {
    let mut releases: BTreeMap<Number, Release<'_>> = BTreeMap::new();
    for (path, text) in tree.texts("proto").chain(tree.texts("txt")) {
        let Some((folder, file)) = path.strip_prefix(FOLDER).and_then(|rest| rest.split_once('/')) else { continue };
        let Some(number) = Number::parse(folder) else {
            let instead =
                "name it by the two numbers of the release, as in `0.1`; `cargo xtask bless --release` does it";
            return Err(Finding::new(path, 1, format!("the folder `{folder}` is no release"), instead));
        };
        let release = releases.entry(number).or_default();
        if file == ROUTES_FILE {
            release.routes = Some((path, text));
        } else {
            release.protos.push((path, text));
        }
    }
    Ok(releases)
}

/// Every way in which today's files break a release. What breaks several of them is said once, with their numbers.
pub(crate) fn findings(tree: &Tree) -> Result<Vec<Finding>, Finding> {
    let current = proto::parse(&super::proto_files(tree))?;
    let mut broken: BTreeMap<(String, usize, String), (Vec<String>, String)> = BTreeMap::new();
    for (number, release) in kept(tree)? {
        let mut found = rules::broken(&proto::parse(&release.protos)?, &current);
        if let Some(released) = release.routes {
            let today = tree.text(routes::TABLE).unwrap_or_default();
            found.extend(routes::broken(released, (routes::TABLE, today))?);
        }
        for Finding { path, line, what, instead } in found {
            // A place in the folder of one release would make one finding into several.
            let inside = path.strip_prefix(&format!("{FOLDER}{number}/")).map(|file| format!("{FOLDER}*/{file}"));
            let (numbers, advice) = broken.entry((inside.unwrap_or(path), line, what)).or_default();
            numbers.push(number.to_string());
            // The newest release knows best which numbers are free.
            *advice = instead;
        }
    }
    let told = |((path, line, what), (numbers, instead)): ((String, usize, String), (Vec<String>, String))| {
        let what = format!("{what} (released in {})", numbers.join(", "));
        Finding::new(&path.replace('*', &numbers[0]), line, what, instead)
    };
    Ok(broken.into_iter().map(told).collect())
}

/// Freezes today's files under this number.
pub(crate) fn freeze(root: &Path, number: &str) -> anyhow::Result<ExitCode> {
    let Some(number) = Number::parse(number) else { bail!("`{number}` is no release; give two numbers, as in 0.1") };
    let tree = Tree::read(root)?;
    let version = version(&tree)?;
    if !version.starts_with(&format!("{number}.")) {
        bail!("Cargo.toml says {version}, so this is not release {number}. Set the version first; nothing was written");
    }
    let folder = format!("{FOLDER}{number}");
    if tree.has(&folder) {
        bail!(
            "{folder} exists. What was released does not change; give this release another number. Nothing was written"
        );
    }
    let found = super::findings(&tree);
    if !found.is_empty() {
        let code = report("bless", &found);
        println!("bless: nothing was written");
        return Ok(code);
    }
    let protos = super::proto_files(&tree);
    let table = tree.text(routes::TABLE).map(|text| (ROUTES_FILE, text));
    let named = protos.iter().map(|(path, text)| (path.strip_prefix(PROTO_FOLDER).unwrap_or(path), *text));
    std::fs::create_dir_all(root.join(&folder)).with_context(|| format!("Making {folder}"))?;
    for (name, text) in named.chain(table) {
        std::fs::write(root.join(&folder).join(name), text).with_context(|| format!("Writing {folder}/{name}"))?;
    }
    let lock = frozen::print(&Tree::read(root)?);
    std::fs::write(root.join(frozen::LOCK), lock).with_context(|| format!("Writing {}", frozen::LOCK))?;
    println!("bless: {} files are frozen in {folder}", protos.len() + usize::from(table.is_some()));
    Ok(ExitCode::SUCCESS)
}

fn version(tree: &Tree) -> anyhow::Result<String> {
    let text = tree.text("Cargo.toml").context("There is no Cargo.toml.")?;
    let manifest: toml::Table = text.parse().context("Reading Cargo.toml")?;
    let version = manifest.get("workspace").and_then(|workspace| workspace.get("package")?.get("version")?.as_str());
    version.map(str::to_owned).context("Cargo.toml has no workspace.package.version.")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const PING: &str = "syntax = \"proto3\";\npackage models;\nmessage Ping {\n  bool ok = 1; // json: ok\n}\n";

    #[test]
    fn today_is_compared_with_every_release() {
        let older = ("crates/api/proto/frozen/0.1/ping.proto", PING);
        let newer_text = PING.replace("}", "  bool new = 2; // json: new\n}");
        let newer = ("crates/api/proto/frozen/0.10/ping.proto", newer_text.as_str());
        fn now(text: &str) -> (&str, &str) {
            ("crates/api/proto/ping.proto", text)
        }
        check(&[older, newer, now(&newer_text)], &expect![""]);
        // A field of the newer release alone, one of both, and a message of both.
        check(
            &[older, newer, now(PING)],
            &expect![[r#"
                crates/api/proto/ping.proto:3: removed: field `models.Ping.new` (2) is gone; the number is free for somebody to use, and old bytes would be read as that (released in 0.10) — put it back, or replace it by `reserved 2; // removed `new`: why`
            "#]],
        );
        check(
            &[older, newer, now(&newer_text.replace("bool ok", "string ok"))],
            &expect![[r#"
                crates/api/proto/ping.proto:4: retyped: field `models.Ping.ok` (1) was `bool` and is `string`; bytes: another form: the field is refused or lost; JSON: a value of another kind (released in 0.1, 0.10) — keep 1 as `bool` and add the new form under a new name with the number 3
            "#]],
        );
        check(
            &[older, newer, ("crates/api/proto/other.proto", "syntax = \"proto3\";\npackage models;\n")],
            &expect![[r#"
                crates/api/proto/frozen/0.1/ping.proto:3: removed: the message `models.Ping` is gone; clients of that release still send or expect it (released in 0.1, 0.10) — put it back as it stands there
            "#]],
        );
    }

    #[test]
    fn a_table_of_routes_is_part_of_a_release() {
        let released = ("crates/api/proto/frozen/0.1/routes.txt", "Ping POST /v1/ping\n");
        check(&[released, (routes::TABLE, "Ping POST /v1/ping deprecated\n")], &expect![""]);
        check(
            &[released],
            &expect![[r#"
            crates/api/proto/frozen/0.1/routes.txt:1: removed: `/v1/ping` is not served any more; clients of that release get 404 (released in 0.1) — put the row back in crates/api/src/routes.rs, marked as Deprecated, and let the old handler answer it
        "#]],
        );
    }

    #[test]
    fn a_folder_that_is_no_release_is_refused() {
        for folder in ["1", "0.1.0", "0.01", "v0.1", "next"] {
            let path = format!("{FOLDER}{folder}/a.proto");
            assert_eq!(kept(&Tree::of(&[(path.as_str(), "")])).unwrap_err().path, path, "{folder}");
        }
    }

    fn check(files: &[(&str, &str)], expected: &Expect) {
        let found = findings(&Tree::of(files)).unwrap();
        expected.assert_eq(&found.iter().map(|finding| format!("{finding}\n")).collect::<String>());
    }
}
