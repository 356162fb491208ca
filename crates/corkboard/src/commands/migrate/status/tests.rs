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
        &expect![[r#"
            Migration to lrp_definitions (1794700800): sweeping

              [sweep] > verify > ready > finalize > clean up

              Records are copied; requests are answered as usual.

              version   split_desired_lrp (1442529338) -> lrp_definitions (1794700800)
              mode      online, finalization manual
              progress  120,000 of 500,000 records (24 %), 21,000/s
              time      about 18 s left, 6 s so far
              go back   yes: start the former release

            Next: corkboard migrate status --watch
        "#]],
    );
    check(
        r#""state":"sweeping","explanation":"Records are copied.","next":null,"mode":"online","finalization":"auto",
            "done":120000,"total":500000,"rate_per_s":0.0,"eta_s":null,"elapsed_s":200,"last_progress_s":95"#,
        10,
        &expect![[r#"
            Migration to lrp_definitions (1794700800): sweeping

              [sweep] > verify > ready > finalize > clean up

              Records are copied.

              version   split_desired_lrp (1442529338) -> lrp_definitions (1794700800)
              mode      online, finalization auto
              progress  120,000 of 500,000 records (24 %)
              time      3 min 20 s so far, nothing moved for 1 min 35 s
        "#]],
    );
}

#[test]
fn ready_waits_for_the_operator_only_if_it_is_to_decide() {
    check(
        r#""state":"ready","explanation":"Everything is there in both forms.","next":"corkboard migrate finalize",
            "mode":"online","finalization":"manual","done":500000,"total":500000,"can_go_back":true,
            "how_to_go_back":"start the former release""#,
        11,
        &expect![[r#"
            Migration to lrp_definitions (1794700800): ready

              sweep > verify > [ready] > finalize > clean up

              Everything is there in both forms.

              version   split_desired_lrp (1442529338) -> lrp_definitions (1794700800)
              mode      online, finalization manual
              progress  500,000 of 500,000 records (100 %)
              go back   yes: start the former release

            Next: corkboard migrate finalize
        "#]],
    );
    check(
        r#""state":"ready","explanation":"","finalization":"auto""#,
        10,
        &expect![[r#"
        Migration to lrp_definitions (1794700800): ready

          sweep > verify > [ready] > finalize > clean up

          version   split_desired_lrp (1442529338) -> lrp_definitions (1794700800)
    "#]],
    );
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
        &expect![[r#"
            Migration to lrp_definitions (1794700800): BLOCKED

              sweep > verify > ready > finalize > clean up   (BLOCKED)

              The older data stays.

              version   split_desired_lrp (1442529338) -> lrp_definitions (1794700800)
              go back   no: corkboard migrate rollback --to 1442529338
                        the point of no return is passed: the older data is being removed, or is gone
              leftover  records of split_desired_lrp (1442529338), 7 (not known to this release) are still there

              blocked by: 2 records are quarantined
                corkboard quarantine list

              blocked by: the moon is full

            Next: corkboard quarantine list
        "#]],
    );
}

#[test]
fn no_migration() {
    let json = r#"{"state":"none","explanation":"The data is of this release.","next":null,
        "current":{"number":1794700800,"name":"lrp_definitions"},"target":null,
        "newest":{"number":1794700800,"name":"lrp_definitions"}}"#;
    let now: Migration = Document::of(&Bytes::from(json)).unwrap().read().unwrap();
    expect![[r#"
        No migration is under way.

          The data is of this release.

          version   lrp_definitions (1794700800)
    "#]]
    .assert_eq(&screen(&now));
    assert_eq!(exit_code(&now), 0);
}

/// As a server says it that was told to wait: the target is what the data is, until the migration has begun.
#[test]
fn a_migration_that_is_held_says_where_it_would_lead() {
    let json = r#"{"state":"held","explanation":"It waits.","next":"corkboard migrate start","done":0,"total":0,
        "current":{"number":1,"name":"initial_json"},"target":{"number":1,"name":"initial_json"},
        "newest":{"number":1794700800,"name":"lrp_definitions"}}"#;
    let now: Migration = Document::of(&Bytes::from(json)).unwrap().read().unwrap();
    expect![[r#"
        Migration to lrp_definitions (1794700800): held

          [held] > sweep > verify > ready > finalize > clean up

          It waits.

          version   initial_json (1)
          newest    lrp_definitions (1794700800) is what this release can write

        Next: corkboard migrate start
    "#]]
    .assert_eq(&screen(&now));
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
    expect![[r#"
        none         0   sweep > verify > ready > finalize > clean up
        held         11  [held] > sweep > verify > ready > finalize > clean up
        sweeping     10  [sweep] > verify > ready > finalize > clean up
        paused       11  [sweep: paused] > verify > ready > finalize > clean up
        verifying    10  sweep > [verify] > ready > finalize > clean up
        ready        11  sweep > verify > [ready] > finalize > clean up
        finalizing   10  sweep > verify > ready > [finalize] > clean up
        cleaning     10  sweep > verify > ready > finalize > [clean up]
        blocked      12  sweep > verify > ready > finalize > clean up   (BLOCKED)
        rolling_back 10  [roll back] > stopped
        rolled_back  0   roll back > [stopped]
        failed       12  sweep > verify > ready > finalize > clean up   (FAILED)
        pondering    10  sweep > verify > ready > finalize > clean up"#]]
    .assert_eq(&lines.join("\n"));
}
