//! Nodes on a real etcd, small: that everything is measured and counted, and that a master that goes away is followed by another.

use std::process::Command;

use serde_json::Value;

use crate::binaries::server;

/// A quarter more instances.
const LRPS: u64 = 160;
const BEFORE: &str = "# Benchmarks\n\n## One\n\nkept\n\n## On etcd\n\nold\n\n## Two\n\nkept too\n";

#[test]
fn writes_reads_starts_and_masters_that_go_away_are_measured() {
    let present = server("present", &[]);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("benchmarks.md");
    std::fs::write(&out, BEFORE).unwrap();
    let lrps = LRPS.to_string();
    let small = [
        ["--lrps", &lrps],
        ["--writes-lrps", &lrps],
        ["--rounds", "1"],
        ["--floor-ms", "50"],
        ["--reads", "20"],
        ["--planned", "1"],
        ["--unplanned", "0"],
        ["--unplanned-short", "1"],
    ];
    let ran = Command::new(env!("CARGO_BIN_EXE_corkboard-bench"))
        .arg("etcd")
        .args(small.concat())
        .args(["--out".as_ref(), out.as_os_str(), "--binary".as_ref(), present.as_os_str()])
        .arg("--dir")
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let raw = std::fs::read(dir.path().join("etcd.json")).unwrap();
    let raw: Value = serde_json::from_slice(&raw).unwrap();
    check_writes(&raw["writes"]);
    let full = &raw["full"];
    assert_eq!(full["instances"], LRPS * 5 / 4);
    assert!(full["records"].as_u64().unwrap() >= LRPS * 9 / 4, "{full}");
    for start in full["starts"].as_array().unwrap() {
        assert_eq!((&start["one_cell"]["count"], &start["one_lrp"]["count"]), (&20.into(), &20.into()), "{start}");
    }
    let kinds: Vec<_> = raw["failovers"].as_array().unwrap().iter().map(|f| (&f["planned"], &f["lease_s"])).collect();
    assert_eq!(kinds, [(&true.into(), &10.into()), (&false.into(), &3.into())]);
    for failover in raw["failovers"].as_array().unwrap() {
        let round = &failover["rounds"][0];
        assert!(round["first_write_s"].as_f64().unwrap() > 0.0, "{failover}");
        assert!(round["longest_gap_s"].as_f64().unwrap() > 0.0, "{failover}");
    }
    assert_eq!(raw["memory"]["standbys_bytes"].as_array().unwrap().len(), 2, "{raw}");

    let report = std::fs::read_to_string(out).unwrap();
    assert!(report.starts_with("# Benchmarks\n\n## One\n\nkept\n\n## On etcd\n\nWritten by"), "{report}");
    assert!(report.ends_with("\n\n## Two\n\nkept too\n") && !report.contains("\nold\n"), "{report}");
    assert!(report.contains("| killed (SIGKILL)"), "{report}");
    assert!(!report.contains(dir.path().to_str().unwrap()), "no path of this machine in a report");
}

/// Every claim and every start is a record in etcd, one client's in a transaction of its own, those of many together.
fn check_writes(writes: &Value) {
    let members: Vec<_> = writes.as_array().unwrap().iter().map(|writes| &writes["members"]).collect();
    assert_eq!(members, [3, 1]);
    for writes in writes.as_array().unwrap() {
        let round = &writes["rounds"][0];
        let trials = round["trials"].as_array().unwrap();
        assert_eq!(trials.iter().map(|trial| &trial["clients"]).collect::<Vec<_>>(), [1, 16, 64]);
        for trial in trials {
            let (records, calls) = (trial["records"].as_u64().unwrap(), trial["calls"]["calls"].as_u64().unwrap());
            assert!(records >= calls, "{trial}");
        }
        let per_transaction =
            |trial: &Value| trial["records"].as_f64().unwrap() / trial["transactions"].as_f64().unwrap();
        assert!(per_transaction(&trials[2]) > 2.0 * per_transaction(&trials[0]), "{round}");
        assert!(round["floor"].as_array().unwrap().iter().all(|direct| direct["records_per_s"].as_f64() > Some(0.0)));
    }
}
