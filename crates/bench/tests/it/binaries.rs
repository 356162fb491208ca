//! The server under test, built like the benchmarks themselves.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The server, built with some features into a place of its own. What it is made of is shared with every other build.
pub(crate) fn server(place: &str, features: &[&str]) -> PathBuf {
    let ours = Path::new(env!("CARGO_BIN_EXE_corkboard-bench"));
    let (target, profile) = (ours.ancestors().nth(2).unwrap(), ours.parent().unwrap().file_name().unwrap());
    let place = target.join(place);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "corkboard", "--target-dir"]).arg(&place);
    cargo.arg("--config").arg(format!("build.build-dir={:?}", target.to_str().unwrap()));
    cargo.args(features.iter().flat_map(|feature| ["--features", feature]));
    if profile == "release" {
        cargo.arg("--release");
    }
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    place.join(profile).join("corkboard")
}
