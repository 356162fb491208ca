//! No drawers: a file, folder, crate or module is named for what it holds.
//!
//! A drawer has no promise to state, so everything ends up in it and everything depends on it.

use super::Finding;
use super::mask::code_only;

/// Names that say nothing, also as the last word of a longer name (`string_utils`, `corkboard-common`).
const DRAWERS: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "manager"];

/// Names that say nothing when they stand alone: they sort code by its shape and not by its subject.
const DRAWERS_ALONE: &[&str] = &["shared", "params", "views"];

const INSTEAD: &str = "name it for what it holds, or keep the item beside its only user";

/// Drawers among the paths of code. A folder is reported once, at the first file in it.
pub(crate) fn paths<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    let mut folders_seen: Vec<String> = Vec::new();
    for path in paths.filter(|path| path.starts_with("crates/") || path.starts_with("xtask/")) {
        let parts: Vec<&str> = path.split('/').collect();
        for (depth, part) in parts.iter().enumerate() {
            let is_file = depth + 1 == parts.len();
            let name = if is_file { part.strip_suffix(".rs").unwrap_or_default() } else { part };
            let here = parts[..=depth].join("/");
            if is_drawer(name) && !folders_seen.contains(&here) {
                found.push(Finding::new(path, 1, format!("`{name}` is a drawer"), INSTEAD));
                folders_seen.push(here);
            }
        }
    }
    found
}

/// Drawers among the modules declared in a file, inline ones included.
pub(crate) fn modules(path: &str, text: &str) -> Vec<Finding> {
    let code = code_only(text);
    let declared = |line: &str| -> Option<String> {
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        words.by_ref().find(|word| *word == "mod")?;
        words.next().filter(|name| is_drawer(name)).map(str::to_owned)
    };
    let drawers = code.lines().enumerate().filter_map(|(number, line)| Some((number + 1, declared(line)?)));
    drawers
        .map(|(line, name)| Finding::new(path, line, format!("a module named `{name}` is a drawer"), INSTEAD))
        .collect()
}

fn is_drawer(name: &str) -> bool {
    let last_word = name.rsplit(['_', '-']).next().unwrap_or(name);
    DRAWERS.contains(&last_word) || DRAWERS_ALONE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawers_are_found_as_files_folders_and_crates() {
        let found = |path: &str| !paths([path].into_iter()).is_empty();
        for path in [
            "crates/bbs/src/utils.rs",
            "crates/bbs/src/utils/mod.rs",
            "crates/common/Cargo.toml",
            "crates/bbs/tests/it/common.rs",
            "crates/bbs/tests/it/test_helpers.rs",
            "crates/api/src/task/params.rs",
            "crates/string-util/src/lib.rs",
        ] {
            assert!(found(path), "{path}");
        }
        for path in [
            "crates/bbs/src/commonality.rs",
            "crates/bbs/src/shared_device.rs",
            "crates/api/proto/common.proto",
            "docs/misc/a.rs",
            "crates/bbs/src/lib.rs",
        ] {
            assert!(!found(path), "{path}");
        }
    }

    #[test]
    fn a_folder_is_reported_once() {
        let listed = ["crates/bbs/src/util/a.rs", "crates/bbs/src/util/b.rs"];
        assert_eq!(paths(listed.into_iter()).len(), 1);
    }

    #[test]
    fn modules_are_found_where_they_are_declared() {
        let text = "mod tests {}\npub(crate) mod helpers;\n// mod utils;\nmod misc {\n}\nlet modutils = 1;\n";
        let lines: Vec<usize> = modules("a.rs", text).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 4]);
    }
}
