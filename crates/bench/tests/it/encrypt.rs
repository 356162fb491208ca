//! Encryption of real servers, small: that everything is measured, that everything ends under the one key, and that clients
//! get no 503.

use std::process::Command;

use serde_json::Value;

use crate::binaries::server;

const RECORDS: u64 = 2_000;
const BEFORE: &str = "# Benchmarks\n\n## One\n\nkept\n\n## Encryption\n\nold\n\n## Two\n\nkept too\n";

#[test]
fn writes_with_a_key_and_every_way_to_another_one_are_measured_and_clients_get_no_503() {
    let present = server("present", &[]);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("benchmarks.md");
    std::fs::write(&out, BEFORE).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_corkboard-bench"))
        .args(["encrypt", "--sizes", &RECORDS.to_string(), "--seconds", "1", "--pairs", "2", "--lrps", "200", "--out"])
        .arg(&out)
        .args(["--binary".as_ref(), present.as_os_str(), "--dir".as_ref(), dir.path().as_os_str()])
        .output()
        .unwrap();
    let progress = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{progress}");
    assert!(progress.contains("pair 2 of 2: sealed") && progress.contains("settled"), "{progress}");

    let raw = std::fs::read(dir.path().join("encrypt.json")).unwrap();
    let raw: Value = serde_json::from_slice(&raw).unwrap();
    let order: Vec<bool> =
        raw["writes"]["trials"].as_array().unwrap().iter().map(|trial| trial["sealed"].as_bool().unwrap()).collect();
    assert_eq!(order, [false, true, true, false], "both kinds take turns, and turns change");
    assert!(raw["writes"]["trials"].as_array().unwrap().iter().all(|trial| trial["crowd"]["calls"] == 250), "{raw}");
    for rotation in [&raw["sizes"][0]["offline"], &raw["sizes"][0]["online"], &raw["first_time"]["rotation"]] {
        assert!(rotation["done"]["records"].as_u64().unwrap() >= RECORDS, "{rotation}");
        assert!(rotation["done"]["seconds"].as_f64().unwrap() > 0.0, "{rotation}");
        assert!(rotation["run"]["first"]["write_s"].as_f64().unwrap() > 0.0, "{rotation}");
        assert!(rotation["run"]["written_bytes"].as_u64().unwrap() > RECORDS * 1_000, "{rotation}");
    }
    let plain = &raw["sizes"][0]["plain"];
    assert!(plain["written_bytes"].as_u64().unwrap() < RECORDS * 100, "there is nothing left to rotate: {plain}");
    for window in ["before", "during", "after"] {
        let seen = &raw["sizes"][0]["clients"][window];
        assert_eq!((&seen["unavailable"], &seen["failures"]), (&0.into(), &0.into()), "{window}: {seen}");
        assert!(seen["writes"]["count"].as_u64().unwrap() > 0, "{window}: {seen}");
    }

    let report = std::fs::read_to_string(out).unwrap();
    assert!(report.starts_with("# Benchmarks\n\n## One\n\nkept\n\n## Encryption\n\nWritten by"), "{report}");
    assert!(report.ends_with("\n\n## Two\n\nkept too\n") && !report.contains("\nold\n"), "{report}");
    assert!(report.contains("| first encryption, offline, the rotation alone"), "{report}");
    assert!(!report.contains(dir.path().to_str().unwrap()), "no path of this machine in a report");
}
