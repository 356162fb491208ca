//! The screen of every kind of state, and its exit code.

use bytes::Bytes;
use expect_test::{Expect, expect};

use super::super::Document;
use super::*;

const VERSIONS: &str = r#""current":{"number":1442529338,"name":"split_desired_lrp"},
    "target":{"number":1794700800,"name":"lrp_definitions"},"newest":{"number":1794700800,"name":"lrp_definitions"}"#;

fn check(members: &str, code: u8, expected: &Expect) {
    let json = format!("{{{members},{VERSIONS}}}");
    let now: Migration = Document::of(&Bytes::from(json)).unwrap().read().unwrap();
    expected.assert_eq(&screen(&now));
    assert_eq!(exit_code(&now), code);
}

#[test]
fn a_sweep() {
    check(
        r#""state":"sweeping","explanation":"Records are copied; requests are answered as usual.",
            "next":"corkboard migrate status --watch","mode":"online","finalization":"manual","done":120000,"total":500000,
            "rate_per_s":21000.0,"eta_s":18,"elapsed_s":6,"last_progress_s":0,"point_of_no_return_passed":false,
            "can_go_back":true,"how_to_go_back":"start the former release","blockers":[],"leftover_roots":[]"#,
        10,
        &expect![[r#""#]],
    );
    check(
        r#""state":"sweeping","explanation":"Records are copied.","next":null,"mode":"online","finalization":"auto",
            "done":120000,"total":500000,"rate_per_s":0.0,"eta_s":null,"elapsed_s":200,"last_progress_s":95"#,
        10,
        &expect![[r#""#]],
    );
}

#[test]
fn ready_waits_for_the_operator_only_if_it_is_to_decide() {
    check(
        r#""state":"ready","explanation":"Everything is there in both forms.","next":"corkboard migrate finalize",
            "mode":"online","finalization":"manual","done":500000,"total":500000,"can_go_back":true,
            "how_to_go_back":"start the former release""#,
        11,
        &expect![[r#""#]],
    );
    check(r#""state":"ready","explanation":"","finalization":"auto""#, 10, &expect![[r#""#]]);
}

#[test]
fn blocked_names_what_clears_it() {
    check(
        r#""state":"blocked","explanation":"The older data stays.","next":"corkboard quarantine list","can_go_back":false,
            "how_to_go_back":"corkboard migrate rollback --to 1442529338","point_of_no_return_passed":true,
            "blockers":[{"what":"2 records are quarantined","command":"corkboard quarantine list"},
                        {"what":"the moon is full","command":null}],
            "leftover_roots":[{"number":1442529338,"name":"split_desired_lrp"},{"number":7,"name":null}]"#,
        12,
        &expect![[r#""#]],
    );
}

#[test]
fn no_migration() {
    let json = r#"{"state":"none","explanation":"The data is of this release.","next":null,
        "current":{"number":1794700800,"name":"lrp_definitions"},"target":null,
        "newest":{"number":1794700800,"name":"lrp_definitions"}}"#;
    let now: Migration = Document::of(&Bytes::from(json)).unwrap().read().unwrap();
    expect![[r#""#]].assert_eq(&screen(&now));
    assert_eq!(exit_code(&now), 0);
}

#[test]
fn every_state_has_its_place_and_its_code() {
    let states = [
        "none",
        "held",
        "sweeping",
        "paused",
        "verifying",
        "ready",
        "finalizing",
        "cleaning",
        "blocked",
        "rolling_back",
        "rolled_back",
        "failed",
        "pondering",
    ];
    let lines = states.map(|state| {
        let json = format!(r#"{{"state":"{state}"}}"#);
        let now: Migration = Document::of(&Bytes::from(json)).unwrap().read().unwrap();
        format!("{state:<13}{:<3} {}", exit_code(&now), rail(now.state))
    });
    expect![[r#""#]].assert_eq(&lines.join("\n"));
}
