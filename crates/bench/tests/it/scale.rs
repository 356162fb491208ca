//! A whole cluster, small: that every instance is placed and placed anew, that nothing changes while nothing happens, and that
//! everything is measured.

use std::process::Command;

use serde_json::Value;

use crate::binaries::server;

const CELLS: u64 = 20;
const LRPS: u64 = 25;
const INSTANCES: u64 = 20;
const PROBES: u64 = 10;
const BEFORE: &str = "# Benchmarks\n\n## One\n\nkept\n\n## A thousand cells\n\nold\n\n## Two\n\nkept too\n";

#[test]
fn instances_are_placed_stay_and_survive_their_cells() {
    let present = server("present", &[]);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("benchmarks.md");
    std::fs::write(&out, BEFORE).unwrap();
    let (cells, lrps, instances, probes) =
        (CELLS.to_string(), LRPS.to_string(), INSTANCES.to_string(), PROBES.to_string());
    let small = [
        ["--cells", &cells],
        ["--lrps", &lrps],
        ["--instances", &instances],
        ["--probes", &probes],
        ["--passes", "2"],
        ["--interval-s", "2"],
        ["--presence-s", "3"],
    ];
    let ran = Command::new(env!("CARGO_BIN_EXE_corkboard-bench"))
        .arg("scale")
        .args(small.concat())
        .args(["--out".as_ref(), out.as_os_str(), "--binary".as_ref(), present.as_os_str()])
        .arg("--dir")
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let raw = std::fs::read(dir.path().join("scale.json")).unwrap();
    let raw: Value = serde_json::from_slice(&raw).unwrap();
    assert_eq!((&raw["cells"], &raw["instances"]), (&CELLS.into(), &(LRPS * INSTANCES).into()));
    assert_eq!(raw["ready"]["listeners"], CELLS + 1);
    // Each was claimed and started, and both changes were heard twice.
    let (placed, steady, killed) = (&raw["placed"], &raw["steady"], &raw["killed"]);
    for heard in ["one_cell", "all"] {
        assert_eq!(placed["delays"][heard]["count"], 2 * LRPS * INSTANCES, "{placed}");
        assert_eq!(steady["probes"][heard]["count"], PROBES, "{steady}");
    }
    assert_eq!((&steady["changes"], steady["passes_s"].as_array().unwrap().len()), (&0.into(), 2), "{steady}");
    assert_eq!(killed["cells"], CELLS / 10);
    // Cells get about the same number each.
    let moved = killed["instances"].as_u64().unwrap();
    assert!((LRPS * INSTANCES / 20..LRPS * INSTANCES / 5).contains(&moved), "{killed}");
    assert!(killed["delays"]["all"]["count"].as_u64().unwrap() >= 2 * moved, "{killed}");
    for phase in [placed, steady, killed] {
        assert!(
            phase["memory"]["server"].as_u64() > Some(0) && phase["spent"]["server"].as_f64() > Some(0.0),
            "{phase}"
        );
        assert_eq!(phase["interruptions"], 0, "{phase}");
    }

    let report = std::fs::read_to_string(out).unwrap();
    assert!(report.starts_with("# Benchmarks\n\n## One\n\nkept\n\n## A thousand cells\n\nWritten by"), "{report}");
    assert!(report.ends_with("\n\n## Two\n\nkept too\n") && !report.contains("\nold\n"), "{report}");
    assert!(!report.contains(dir.path().to_str().unwrap()), "no path of this machine in a report");
}

#[test]
fn more_cells_than_there_are_files_for_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let ran = Command::new("sh")
        .args(["-c", "ulimit -n 1000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_corkboard-bench")])
        .args(["scale", "--cells", "500", "--binary", env!("CARGO_BIN_EXE_corkboard-bench"), "--dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(!ran.status.success());
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(text.contains("a process may have 1000 here. Nothing was measured"), "{text}");
    assert!(text.contains("or take fewer cells: --cells 35"), "{text}");
}
