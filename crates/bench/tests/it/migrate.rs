//! An upgrade of real servers and back, small: that everything is measured, and that clients get no 503.

use std::process::Command;

use serde_json::Value;

use crate::binaries::server;

const RECORDS: u64 = 2_000;
const BEFORE: &str = "# Benchmarks\n\n## One\n\nkept\n\n## Migrations\n\nold\n\n## Two\n\nkept too\n";

#[test]
fn an_upgrade_and_the_way_back_are_measured_and_clients_get_no_503() {
    let (present, former) = (server("present", &[]), server("former", &["former-data-version"]));
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("benchmarks.md");
    std::fs::write(&out, BEFORE).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_corkboard-bench"))
        .args(["migrate", "--sizes", &RECORDS.to_string(), "--seconds", "1", "--out"])
        .arg(&out)
        .args(["--binary".as_ref(), present.as_os_str(), "--former".as_ref(), former.as_os_str()])
        .arg("--dir")
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let raw = std::fs::read(dir.path().join("migrate.json")).unwrap();
    let raw: Value = serde_json::from_slice(&raw).unwrap();
    let sized = &raw["sizes"][0];
    for mode in ["offline", "read_only", "online"] {
        let run = &sized[mode];
        assert!(run["course"]["records"].as_u64().unwrap() >= RECORDS, "{mode}: {run}");
        assert!(run["first"]["write_s"].as_f64().unwrap() > 0.0, "{mode}: {run}");
        assert!(run["written_bytes"].as_u64().unwrap() > RECORDS * 1_000, "{mode}: {run}");
    }
    assert_eq!(sized["plain"]["course"]["records"], 0, "there is nothing left to migrate: {}", sized["plain"]);
    for window in ["before", "during", "after"] {
        let seen = &sized["clients"][window];
        assert_eq!((&seen["unavailable"], &seen["failures"]), (&0.into(), &0.into()), "{window}: {seen}");
        assert!(seen["writes"]["count"].as_u64().unwrap() > 0, "{window}: {seen}");
    }

    let report = std::fs::read_to_string(out).unwrap();
    assert!(report.starts_with("# Benchmarks\n\n## One\n\nkept\n\n## Migrations\n\nWritten by"), "{report}");
    assert!(report.ends_with("\n\n## Two\n\nkept too\n") && !report.contains("\nold\n"), "{report}");
    assert!(report.contains("| online, 503 after the first success"), "{report}");
    assert!(!report.contains(dir.path().to_str().unwrap()), "no path of this machine in a report");
}
