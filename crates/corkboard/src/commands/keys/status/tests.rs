//! The screen of every kind of state, and its exit code.

use bytes::Bytes;
use expect_test::{Expect, expect};

use super::*;
use crate::commands::migrate::Document;

/// An hour and a minute after the midnight that begins 2026-11-15.
const NOW_NS: i64 = (1_794_700_800 + 3_660) * 1_000_000_000;

fn read(json: &str) -> Keys {
    Document::of(&Bytes::from(json.to_owned())).unwrap().read().unwrap()
}

fn check(json: &str, code: u8, expected: &Expect) {
    let now = read(json);
    expected.assert_eq(&screen(&now, NOW_NS));
    assert_eq!(exit_code(now.state), code);
}

/// As a server writes it.
fn key(name: &str, active: bool, records: u64, writes: u64, verdict: &str) -> String {
    let oldest = if records > 0 { "1794700800000000000" } else { "null" };
    format!(
        r#"{{"name":"{name}","active":{active},"configured":true,"needed":true,"records":{records},"writes":{writes},
            "writes_max":4294967296,"oldest_record_ns":{oldest},"since_ns":1794700800000000000,"safe_to_remove":false,
            "verdict":"{verdict}","blocked_by":[]}}"#
    )
}

#[test]
fn settled_says_which_key_can_go() {
    let a = key("A", false, 0, 4_000_000, "A: 0 records, safe to remove");
    let b = key("B", true, 12_000, 12_034, "B: 12000 records, active");
    check(
        &format!(
            r#"{{"state":"settled","explanation":"all records are under key B","next":null,"active":"B","marker":"B",
                "mode":"online","done":12000,"total":12000,"rate_per_s":null,"eta_s":null,"elapsed_s":null,"records":12000,
                "plain_records":0,"keys":[{a},{b}],"blocked":[],"warnings":[],"verification":null}}"#
        ),
        0,
        &expect![[r#"
            Encryption at rest: settled

              all records are under key B

              records   12,000
              marker    the store says that all records are under key B

              KEY  ROLE   RECORDS  WRITES (OF WHAT IS SAFE)  OLDEST RECORD (UTC)
              A    opens  0        4,000,000 (< 1 %)
              B    seals  12,000   12,034 (< 1 %)            2026-11-15 00:00:00 (1 h 1 min ago)

              A: 0 records, safe to remove
              B: 12000 records, active
        "#]],
    );
}

#[test]
fn rotating_shows_how_far_it_is() {
    let a = key("A", false, 380_000, 500_000, "A: 380000 records still need it");
    let b = key("B", true, 120_000, 120_001, "B: 120000 records, active");
    check(
        &format!(
            r#"{{"state":"rotating","explanation":"records are being brought under key B","active":"B","marker":null,
                "next":"corkboard keys status --watch","mode":"online","done":120000,"total":500000,"rate_per_s":21000.4,
                "eta_s":18,"elapsed_s":6,"records":500007,"plain_records":7,"keys":[{a},{b}],"blocked":[],"warnings":[]}}"#
        ),
        10,
        &expect![[r#"
            Encryption at rest: rotating

              records are being brought under key B

              records   500,007, 7 of them not encrypted
              marker    the store does not say that all records are under one key
              mode      online
              progress  120,000 of 500,000 records (24 %), 21,000/s
              time      about 18 s left, 6 s so far

              KEY  ROLE   RECORDS  WRITES (OF WHAT IS SAFE)  OLDEST RECORD (UTC)
              A    opens  380,000  500,000 (< 1 %)           2026-11-15 00:00:00 (1 h 1 min ago)
              B    seals  120,000  120,001 (< 1 %)           2026-11-15 00:00:00 (1 h 1 min ago)

              A: 380000 records still need it
              B: 120000 records, active

            Next: corkboard keys status --watch
        "#]],
    );
}

#[test]
fn verifying_calls_no_key_free() {
    let a = key("A", false, 0, 500_000, "A: 0 records, being verified: keep it until that has ended");
    check(
        &format!(
            r#"{{"state":"verifying","explanation":"all records are under key B; every one is being opened to prove it",
                "next":"corkboard keys status --watch","active":"B","marker":null,"mode":"offline","done":1,"total":4,
                "records":4,"keys":[{a}]}}"#
        ),
        10,
        &expect![[r#"
            Encryption at rest: verifying

              all records are under key B; every one is being opened to prove it

              records   4
              marker    the store does not say that all records are under one key
              mode      offline
              progress  1 of 4 records (25 %)

              KEY  ROLE   RECORDS  WRITES (OF WHAT IS SAFE)  OLDEST RECORD (UTC)
              A    opens  0        500,000 (< 1 %)

              A: 0 records, being verified: keep it until that has ended

            Next: corkboard keys status --watch
        "#]],
    );
}

#[test]
fn blocked_names_the_records_and_the_commands() {
    let a = key("A", false, 1, 10, "A: 1 record, still needed by /v1/task/it's")
        .replace("\"configured\":true", "\"configured\":false");
    let others: String = (0..11).map(|n| format!(r#",{{"id":"/v1/task/{n}","key":null,"why":"w{n}"}}"#)).collect();
    let json = |more: &str| {
        format!(
            r#"{{"state":"blocked","explanation":"records cannot be opened","next":"corkboard quarantine list","active":"B",
            "marker":null,"mode":"online","done":4,"total":4,"records":4,"keys":[{a}],"warnings":["3 records are not encrypted"],
            "blocked":[{{"id":"/v1/task/it's","key":"A","why":"the record is sealed with key A and is cut off"}}{more}]}}"#
        )
    };
    check(
        &json(""),
        12,
        &expect![[r#"
        Encryption at rest: BLOCKED

          records cannot be opened

          records   4
          marker    the store does not say that all records are under one key

          KEY  ROLE      RECORDS  WRITES (OF WHAT IS SAFE)  OLDEST RECORD (UTC)
          A    not here  1        10 (< 1 %)                2026-11-15 00:00:00 (1 h 1 min ago)

          A: 1 record, still needed by /v1/task/it's

          blocked by: /v1/task/it's
            the record is sealed with key A and is cut off
            corkboard quarantine show '/v1/task/it'\''s'
            corkboard quarantine discard '/v1/task/it'\''s'

          warning: 3 records are not encrypted

        Next: corkboard quarantine list
    "#]],
    );
    let many = screen(&read(&json(&others)), NOW_NS);
    assert_eq!(many.matches("blocked by: ").count(), BLOCKED_SHOWN_MAX);
    assert!(many.contains("\n  and 2 more; --json names them\n"), "{many}");
}

#[test]
fn off_says_how_to_begin() {
    let off = serde_json::to_string(&bbs::keys::KeysStatus::off()).unwrap();
    check(
        &off,
        0,
        &expect![[r#"
        Encryption at rest: off

          no encryption is configured: records are stored as they are, and whoever reads the disk reads them

          warning: records are not encrypted at rest

        Next: corkboard keys generate
    "#]],
    );
}

#[test]
fn a_key_that_sealed_too_often_is_a_warning() {
    let a = key("A", true, 12, 1_200_000_000, "A: 12 records, active");
    check(
        &format!(
            r#"{{"state":"settled","explanation":"all records are under key A","active":"A","marker":"A","records":12,
                "keys":[{a}],"warnings":["key A has sealed 1200000000 records, 28 % of what is safe with random nonces"]}}"#
        ),
        0,
        &expect![[r#"
            Encryption at rest: settled

              all records are under key A

              records   12
              marker    the store says that all records are under key A

              KEY  ROLE   RECORDS  WRITES (OF WHAT IS SAFE)  OLDEST RECORD (UTC)
              A    seals  12       1,200,000,000 (27 %)      2026-11-15 00:00:00 (1 h 1 min ago)

              A: 12 records, active

              warning: key A has sealed 1200000000 records, 28 % of what is safe with random nonces
        "#]],
    );
}

#[test]
fn every_state_has_its_word_and_its_code() {
    let states = ["off", "settled", "rotating", "unfinished", "verifying", "checking", "blocked", "pondering"];
    let lines = states.map(|state| {
        let now = read(&format!(r#"{{"state":"{state}","keys":null,"blocked":null,"warnings":null}}"#)).state;
        format!("{state:<11}{:<3} {}", exit_code(now), now.word())
    });
    expect![[r#"
        off        0   off
        settled    0   settled
        rotating   10  rotating
        unfinished 11  unfinished
        verifying  10  verifying
        checking   10  checking
        blocked    12  BLOCKED
        pondering  10  in a state that this command does not know"#]]
    .assert_eq(&lines.join("\n"));
}
