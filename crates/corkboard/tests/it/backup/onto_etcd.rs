//! From a directory to etcd and back, with real servers on both.

use rig::etcd::{Cluster, Options};
use tempfile::TempDir;

use super::{configured, contents, done, fails, stop};
use crate::program::{LRP, Server, TASK, run, utf8};

#[test]
fn a_cluster_moves_to_etcd_and_back_and_can_be_copied_beside_its_master() {
    let keys = TempDir::new().unwrap();
    let key = keys.path().join("A");
    done(run(&["keys", "generate", "--out", utf8(&key)]));
    let encryption = format!("[encryption]\nactive = \"A\"\n[encryption.keys]\nA = {{ file = \"{}\" }}\n", utf8(&key));
    let mut server = Server::start(TempDir::new().unwrap(), "http", &encryption, &[]);
    for args in [["create-desired-lrp", LRP], ["create-task", TASK]] {
        done(server.call(&args));
    }
    let listed = |server: &Server| ["desired-lrps", "actual-lrps", "tasks"].map(|list| done(server.call(&[list])));
    let before = listed(&server);
    let file = keys.path().join("directory.bak");
    done(server.call(&["backup", utf8(&file)]));
    stop(&mut server);

    let cluster = Cluster::start(Options::default());
    let endpoint = &cluster.endpoints()[0];
    let site = TempDir::new().unwrap();
    let config = site.path().join("board.toml");
    let text = format!(
        "node = \"one\"\nlisten = \"127.0.0.1:0\"\nhealth = \"127.0.0.1:0\"\nadvertise = \"http://127.0.0.1:1\"\n\
         identity = \"identity\"\n[store]\nengine = \"etcd\"\nendpoints = [\"{endpoint}\"]\nlease = \"2s\"\n{encryption}"
    );
    std::fs::write(&config, text).unwrap();
    done(run(&["restore", utf8(&file), "--config", utf8(&config)]));
    let mut server = Server::start_as_configured(site, "http", &[]);
    assert_eq!(listed(&server), before);
    fails(&run(&["restore", utf8(&file), "--config", utf8(&config)]), 5, "one is master");

    let beside = keys.path().join("beside.bak");
    done(run(&["backup", utf8(&beside), "--config", utf8(&config)]));
    let through = keys.path().join("through.bak");
    done(server.call(&["backup", utf8(&through)]));
    assert_eq!(contents(&beside).versions, contents(&through).versions);
    assert_eq!(contents(&beside).header.cluster_id, contents(&file).header.cluster_id, "it is still the same cluster");
    stop(&mut server);

    let back = TempDir::new().unwrap();
    done(run(&["restore", utf8(&through), "--config", &configured(back.path(), &encryption)]));
    assert_eq!(listed(&Server::start(back, "http", &encryption, &[])), before);
}
