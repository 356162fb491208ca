//! Compiles our `.proto` files without a `protoc` binary, and writes beside each message what prost does not know:
//! its JSON shape, its layout on the wire and which sub-messages must always be sent.
//!
//! The source of all of it is the comment behind each field (`// json: key?`), so a field cannot be added without
//! saying how it looks in JSON: the build fails otherwise. The grammar is in `schema.rs`. Locket's service is compiled beside
//! them.

mod emit;
mod schema;

use std::path::{Path, PathBuf};

#[expect(clippy::print_stdout, reason = "this is how a build script talks to cargo")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto_dir = Path::new("proto");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(proto_dir)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    files.sort();
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=build");

    let descriptors = protox::compile(&files, [proto_dir])?;
    let messages = schema::read(&descriptors)?;

    let mut config = prost_build::Config::new();
    // Sorted maps make the bytes of a message a function of its value; golden tests and stored records rely on it.
    config.btree_map(["."]);
    let with_secrets = messages.iter().filter(|message| message.has_secret());
    config.skip_debug(with_secrets.map(|message| format!(".models.{}", message.proto)));
    config.compile_fds(descriptors)?;

    let out_dir = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out_dir.join("shapes.rs"), emit::shapes(&messages))?;
    locket(&proto_dir.join("locket/frozen"), &out_dir.join("locket"))
}

/// Locket's messages are of a package of the same name and have no JSON shapes, so they get a module of their own.
fn locket(proto_dir: &Path, out_dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(out_dir)?;
    let descriptors = protox::compile(["locket.proto"], [proto_dir])?;
    Ok(tonic_prost_build::configure().out_dir(out_dir).compile_fds(descriptors)?)
}
