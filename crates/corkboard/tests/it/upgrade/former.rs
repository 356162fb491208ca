//! The second binary: the same sources, with the data version before the latest as its newest.
//!
//! It is built when the first test asks for it, beside the binary under test and out of the same intermediate files, so that
//! the libraries are not compiled again. Cargo itself keeps two processes from building at once, and finds it fresh the
//! next time; what it leaves in place under its own name is the other binary, which is why this one goes to a folder of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the former release is.
pub(crate) fn former() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build)
}

/// The one that is tested.
pub(crate) fn newest() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_corkboard"))
}

fn build() -> PathBuf {
    let profile_dir = newest().parent().unwrap();
    let target = profile_dir.parent().unwrap();
    let profile = match profile_dir.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let folder = target.join("former");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The whole workspace, and examples, of which there are none: cargo then chooses the features of libraries as it does for
    // all tests together, and finds them compiled.
    cargo.args(["build", "--workspace", "--bin", "corkboard", "--examples", "--offline", "--quiet"]);
    cargo.args(["--features", "corkboard/former-data-version", "--profile", profile, "--target-dir"]).arg(&folder);
    if std::env::var_os("CARGO_BUILD_BUILD_DIR").is_none() {
        cargo.env("CARGO_BUILD_BUILD_DIR", target);
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.join(profile_dir.file_name().unwrap()).join("corkboard")
}
