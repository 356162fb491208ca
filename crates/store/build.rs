//! Compiles the part of etcd's interface that the store uses, without a `protoc` binary.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/etcd.proto"], ["proto"])?;
    // Values are handed on as they came in, without a copy; passwords and tokens have no business in a log.
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".")
        .skip_debug([".etcdserverpb.AuthenticateRequest", ".etcdserverpb.AuthenticateResponse"])
        .compile_fds(descriptors)?;
    Ok(())
}
