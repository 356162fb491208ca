//! Dependencies between our crates point one way: `model` <- `store` <- `bbs` and `model` <- `api` <- `bbs` and the programs.
//!
//! The map is a list of what each crate may know, so a new arrow is a line in a diff that somebody reads. Dependencies of
//! tests and build scripts count too: a test that reaches against the arrows is a test of something else. The one exception
//! is what is made for tests, [`STANDS`]: some crates may have it there, and no shipped crate may have it anywhere else.

use super::Finding;

/// What each crate of ours may depend on. When you add a crate: a line here and a line on the map in `ARCHITECTURE.md`.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("api", &["model"]),
    ("store", &["model"]),
    ("bbs", &["model", "api", "store"]),
    // The programs around the state server talk to it over the wire only, so each can be replaced by Diego's.
    ("locket", &["model", "api"]),
    ("auctioneer", &["model", "api"]),
    ("cell", &["model", "api"]),
    ("route-emitter", &["model", "api"]),
    ("router", &["model", "api"]),
    ("corkboard", SHIPPED_LIBRARIES),
    // Never shipped, so nothing depends on them.
    ("sim", SHIPPED_LIBRARIES),
    ("bench", LIBRARIES_AND_RIG),
    // What tests and benchmarks stand on: see also `STANDS`.
    ("rig", &[]),
    // Works on binaries, and knows of the rest what a client knows.
    ("suite", &["api", "rig"]),
    ("xtask", &[]),
];

const SHIPPED_LIBRARIES: &[&str] =
    &["model", "api", "store", "bbs", "locket", "auctioneer", "cell", "route-emitter", "router"];

const LIBRARIES_AND_RIG: &[&str] =
    &["model", "api", "store", "bbs", "locket", "auctioneer", "cell", "route-emitter", "router", "rig"];

/// What tests stand on, with the shipped crates whose tests, and nothing but their tests, may have it.
const STANDS: &[(&str, &[&str])] = &[
    ("rig", &["store", "bbs", "locket", "auctioneer", "cell", "route-emitter", "router", "corkboard"]),
    ("suite", &["corkboard"]),
];

const TEST_TABLE: &str = "dev-dependencies";
const DEPENDENCY_TABLES: &[&str] = &["dependencies", TEST_TABLE, "build-dependencies"];

/// Checks the manifest of one of our crates; other files are none of its business.
pub(crate) fn manifest(path: &str, text: &str) -> Vec<Finding> {
    let Some(name) = crate_of(path) else { return Vec::new() };
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, 1, format!("not a manifest: {}", error.message()), "correct it")],
    };
    let Some(allowed) = allowed(name) else {
        let instead = "add it to ARROWS in xtask/src/tidy/arrows.rs and to the map in ARCHITECTURE.md";
        return vec![Finding::new(path, 1, format!("the crate `{name}` is not on the map"), instead)];
    };
    let mut found = Vec::new();
    for (table, key, value) in dependencies(&manifest) {
        let dependency = our_name(key, value);
        if !is_ours(dependency) || allowed.contains(&dependency) {
            continue;
        }
        if STANDS.iter().any(|(stand, users)| *stand == dependency && users.contains(&name)) {
            if table != TEST_TABLE {
                let what = format!("`{name}` depends on `{dependency}` outside its tests");
                let instead = format!("`{dependency}` is never shipped: move the line to [{TEST_TABLE}]");
                found.push(Finding::new(path, line_of(text, key), what, instead));
            }
            continue;
        }
        let may = match allowed {
            [] => "no other crate of ours".to_owned(),
            names => names.join(", "),
        };
        let instead = format!(
            "arrows point one way (ARCHITECTURE.md): `{name}` depends on {may}; move the code to the side that may know both"
        );
        found.push(Finding::new(path, line_of(text, key), format!("`{name}` depends on `{dependency}`"), instead));
    }
    found
}

/// `crates/model/Cargo.toml` is `model`; the workspace's own manifest is nobody's.
fn crate_of(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    let name = folder.strip_prefix("crates/").unwrap_or(folder);
    (!name.contains('/') && (name != folder || name == "xtask")).then_some(name)
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    ARROWS.iter().find(|(known, _)| *known == name).map(|(_, allowed)| *allowed)
}

fn is_ours(name: &str) -> bool {
    allowed(name).is_some()
}

/// All dependencies of a manifest with the kind of table they stand in, those of a target or a build script included.
fn dependencies(manifest: &toml::Table) -> Vec<(&'static str, &str, &toml::Value)> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(|targets| targets.values()).filter_map(toml::Value::as_table);
    std::iter::once(manifest)
        .chain(targets)
        .flat_map(|tables| DEPENDENCY_TABLES.iter().filter_map(|name| Some((*name, tables.get(*name)?.as_table()?))))
        .flat_map(|(name, table)| table.iter().map(move |(key, value)| (name, key.as_str(), value)))
        .collect()
}

/// Our packages are called `corkboard-model` and imported as `model`; both spellings mean the same crate.
fn our_name<'a>(key: &'a str, value: &'a toml::Value) -> &'a str {
    let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
    package.strip_prefix("corkboard-").unwrap_or(package)
}

fn line_of(text: &str, key: &str) -> usize {
    let starts_with_key = |line: &str| {
        let rest = line.trim_start().trim_start_matches('"').strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with([' ', '.', '=', '"']))
    };
    text.lines().position(starts_with_key).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, text: &str) -> Vec<String> {
        manifest(&format!("crates/{name}/Cargo.toml"), text).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn arrows_of_the_map_are_allowed() {
        assert!(refused("store", "[dependencies]\nmodel.workspace = true\nbytes = \"1\"\n").is_empty());
        assert!(
            refused("bbs", "[dependencies]\nmodel.workspace = true\napi.workspace = true\nstore.workspace = true")
                .is_empty()
        );
        assert!(refused("corkboard", "[dependencies]\nbbs.workspace = true\n").is_empty());
        assert!(refused("bench", "[dependencies]\nbbs.workspace = true\n").is_empty());
    }

    #[test]
    fn arrows_against_the_map_are_refused() {
        for (name, dependency) in [
            ("model", "store"),
            ("model", "api"),
            ("store", "api"),
            ("api", "store"),
            ("api", "bbs"),
            ("store", "bbs"),
            ("cell", "store"),
            ("cell", "auctioneer"),
            ("cell", "bbs"),
            ("bbs", "corkboard"),
            ("corkboard", "bench"),
            ("corkboard", "sim"),
            ("bench", "xtask"),
        ] {
            let text = format!("[dependencies]\n{dependency}.workspace = true\n");
            assert_eq!(refused(name, &text), [format!("`{name}` depends on `{dependency}`")]);
        }
    }

    #[test]
    fn a_dependency_hides_neither_in_another_table_nor_behind_another_name() {
        for text in [
            "[dev-dependencies]\nbbs.workspace = true\n",
            "[build-dependencies]\nbbs.workspace = true\n",
            "[target.'cfg(unix)'.dependencies]\nbbs.workspace = true\n",
            "[dependencies]\ncorkboard-bbs = { path = \"../bbs\" }\n",
            "[dependencies]\nserver = { package = \"corkboard-bbs\", path = \"../bbs\" }\n",
            "[dependencies.bbs]\nworkspace = true\n",
        ] {
            assert_eq!(refused("store", text), ["`store` depends on `bbs`"], "{text}");
        }
    }

    #[test]
    fn tests_may_stand_on_the_rig_and_what_is_shipped_may_not() {
        let tables = [
            ("dev-dependencies", true),
            ("target.'cfg(unix)'.dev-dependencies", true),
            ("dependencies", false),
            ("build-dependencies", false),
            ("target.'cfg(unix)'.dependencies", false),
        ];
        let users = STANDS.iter().flat_map(|(stand, users)| users.iter().map(move |user| (stand, user)));
        for (stand, name) in users {
            let renamed = format!("it = {{ package = \"corkboard-{stand}\", path = \"../{stand}\" }}");
            for (table, in_tests) in tables {
                for line in [format!("{stand}.workspace = true"), renamed.clone()] {
                    let refused = refused(name, &format!("[{table}]\n{line}\n"));
                    let expected = (!in_tests).then(|| format!("`{name}` depends on `{stand}` outside its tests"));
                    assert_eq!(refused, Vec::from_iter(expected), "[{table}] {line}");
                }
            }
        }
        assert_eq!(refused("bbs", "[dev-dependencies]\nsuite.workspace = true\n"), ["`bbs` depends on `suite`"]);
        let twice = "[dependencies]\nrig.workspace = true\n[dev-dependencies]\nrig.workspace = true\n";
        assert_eq!(refused("store", twice).len(), 1);
        for table in ["dependencies", "dev-dependencies"] {
            let text = format!("[{table}]\nrig.workspace = true\n");
            assert!(refused("bench", &text).is_empty());
            for name in ["model", "api", "sim", "xtask"] {
                assert_eq!(refused(name, &text), [format!("`{name}` depends on `rig`")], "[{table}]");
            }
        }
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_and_a_broken_manifest_are_findings() {
        assert_eq!(refused("novelty", "[dependencies]\n"), ["the crate `novelty` is not on the map"]);
        assert_eq!(refused("model", "[dependencies\n").len(), 1);
        assert!(manifest("Cargo.toml", "[workspace.dependencies]\nbbs = \"1\"\n").is_empty());
        assert_eq!(manifest("xtask/Cargo.toml", "[dependencies]\nmodel.workspace = true\n")[0].line, 2);
    }

    /// The list itself must not close a circle, or the rule would allow what cargo refuses.
    #[test]
    fn the_map_has_no_circle() {
        fn depth(name: &str, seen: &mut Vec<String>) {
            assert!(!seen.iter().any(|above| above == name), "circle: {seen:?} -> {name}");
            seen.push(name.to_owned());
            for next in allowed(name).unwrap() {
                depth(next, seen);
            }
            seen.pop();
        }
        for (name, _) in ARROWS {
            depth(name, &mut Vec::new());
        }
    }
}
