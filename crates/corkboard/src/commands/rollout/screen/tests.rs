//! Every phase as people see it, and as a log has it.

use api::models::RolloutTerms;
use expect_test::{Expect, expect};

use super::*;

const SECOND: i64 = 1_000_000_000;
const NOW: i64 = 1_794_700_800 * SECOND;

fn named(number: u32, identifier: &str) -> Named {
    Named { number, identifier: identifier.into() }
}

fn row(index: i32, definition: u32, state: &str, role: Role) -> Row {
    Row {
        index,
        definition: named(definition, if definition == 2 { "v2" } else { "" }),
        state: state.into(),
        cell_id: if state == "UNCLAIMED" { String::new() } else { format!("cell-{}", index % 2) },
        instance_guid: String::new(),
        since: NOW - 75 * SECOND,
        role,
        crash_count: 0,
        problem: String::new(),
    }
}

fn sight(phase: Phase) -> Sight {
    let mut unplaced = row(1, 2, "UNCLAIMED", Role::Successor);
    unplaced.problem = "insufficient resources: \u{1b}[2Jmemory".into();
    Sight {
        process_guid: "hello".into(),
        phase,
        reverts: false,
        why: String::new(),
        from: Some(named(1, "")),
        to: named(2, "v2"),
        started_at: NOW - 90 * SECOND,
        phase_since: NOW - 30 * SECOND,
        done: 1,
        total: 3,
        rate_per_s: None,
        eta_s: None,
        terms: Some(RolloutTerms { canary_pause_ms: Some(-1), canaries: Some(1), ..RolloutTerms::default() }),
        instances: vec![
            row(0, 2, "RUNNING", Role::Ordinary),
            unplaced,
            row(1, 1, "RUNNING", Role::Leaving),
            row(2, 1, "RUNNING", Role::Ordinary),
        ],
        next: Some("`corkboard rollout status hello --watch` follows it".into()),
    }
}

fn check(now: &Sight, rows_max: usize, expected: &Expect) {
    expected.assert_eq(&screen(now, NOW, rows_max));
}

#[test]
fn an_update_on_its_way() {
    let mut now = sight(Phase::Rolling);
    check(
        &now,
        usize::MAX,
        &expect![[r#"
        hello goes from definition 1 to 2 (v2): rolling for 30 s

          progress  [==========                    ] 1 of 3
          began     2026-11-14 23:58:30 UTC, 1 min 30 s ago
          terms     1 at a time, 1 first, then until somebody resumes it, each healthy for 10s, within 5m each and 1h in all, taken back if it fails

        INDEX  DEFINITION  STATE      CELL    AGE         NOTE
        0      2 (v2)      RUNNING    cell-0  1 min 15 s
        1      2 (v2)      UNCLAIMED          1 min 15 s  successor: insufficient resources: ␛[2Jmemory
        1      1           RUNNING    cell-1  1 min 15 s  leaving
        2      1           RUNNING    cell-0  1 min 15 s

        Next: `corkboard rollout status hello --watch` follows it
    "#]],
    );
    now.pace(NOW - 90 * SECOND, 0, NOW);
    // Where there is no room, what is dull is left out.
    check(
        &now,
        2,
        &expect![[r#"
        hello goes from definition 1 to 2 (v2): rolling for 30 s

          progress  [==========                    ] 1 of 3, 0.7 a minute, about 3 min 0 s left
          began     2026-11-14 23:58:30 UTC, 1 min 30 s ago
          terms     1 at a time, 1 first, then until somebody resumes it, each healthy for 10s, within 5m each and 1h in all, taken back if it fails

        INDEX  DEFINITION  STATE      CELL    AGE         NOTE
        1      2 (v2)      UNCLAIMED          1 min 15 s  successor: insufficient resources: ␛[2Jmemory
        1      1           RUNNING    cell-1  1 min 15 s  leaving
        and 2 more about which there is nothing to tell

        Next: `corkboard rollout status hello --watch` follows it
    "#]],
    );
}

#[test]
fn the_title_and_the_line_of_every_phase() {
    let mut text = String::new();
    for phase in [Phase::None, Phase::Rolling, Phase::Canary, Phase::Paused, Phase::Halted, Phase::Done, Phase::Unknown]
    {
        for reverts in [false, true] {
            let mut now = sight(phase);
            (now.reverts, now.why) = (reverts, if reverts { "instance 1 crashed".into() } else { String::new() });
            if phase == Phase::None {
                now.from = None;
            }
            let (title, line, code) = (title(&now, NOW), line(&now), now.exit_code());
            let _ = writeln!(text, "{phase:?}, reverts {reverts}: exit code {code}\n  {title}\n  {line}");
        }
    }
    let mut timed = sight(Phase::Canary);
    timed.terms = Some(RolloutTerms { canary_pause_ms: Some(90_000), ..RolloutTerms::default() });
    let _ = writeln!(text, "exit code {}\n  {}", timed.exit_code(), title(&timed, NOW));
    expect![[r#"
        None, reverts false: exit code 0
          hello has definition 2 (v2); no update is under way, and none is remembered.
          hello: no update
        None, reverts true: exit code 0
          hello has definition 2 (v2); no update is under way, and none is remembered.
          hello: no update
        Rolling, reverts false: exit code 10
          hello goes from definition 1 to 2 (v2): rolling for 30 s
          hello: going to definition 2 (v2), 1 of 3; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Rolling, reverts true: exit code 10
          hello goes back from definition 1 to 2 (v2): rolling for 30 s
          hello: going back to definition 2 (v2), 1 of 3, because: instance 1 crashed; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Canary, reverts false: exit code 11
          hello goes from definition 1 to 2 (v2): its canaries run for 30 s, and it waits for somebody
          hello: canaries have definition 2 (v2), 1 of 3; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Canary, reverts true: exit code 11
          hello goes back from definition 1 to 2 (v2): its canaries run for 30 s, and it waits for somebody
          hello: canaries have definition 2 (v2), 1 of 3; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Paused, reverts false: exit code 11
          hello goes from definition 1 to 2 (v2): paused for 30 s
          hello: paused on the way to definition 2 (v2), 1 of 3; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Paused, reverts true: exit code 11
          hello goes back from definition 1 to 2 (v2): paused for 30 s
          hello: paused on the way back to definition 2 (v2), 1 of 3; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Halted, reverts false: exit code 12
          hello goes from definition 1 to 2 (v2): FAILED, and halted for 30 s; what runs, runs on
          hello: halted on the way to definition 2 (v2), 1 of 3; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Halted, reverts true: exit code 12
          hello goes back from definition 1 to 2 (v2): FAILED, and halted for 30 s; what runs, runs on
          hello: halted on the way back to definition 2 (v2), 1 of 3, because: instance 1 crashed; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Done, reverts false: exit code 0
          hello has definition 2 (v2): the update from 1 is complete.
          hello: done, all have definition 2 (v2); instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Done, reverts true: exit code 13
          hello has definition 2 (v2) again: the update to 1 was taken back.
          hello: done, all have definition 2 (v2) again, because: instance 1 crashed; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Unknown, reverts false: exit code 10
          hello goes from definition 1 to 2 (v2): for 30 s in a phase that this command does not know
          hello: going to definition 2 (v2), 1 of 3; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        Unknown, reverts true: exit code 10
          hello goes back from definition 1 to 2 (v2): for 30 s in a phase that this command does not know
          hello: going back to definition 2 (v2), 1 of 3, because: instance 1 crashed; instance 1 is UNCLAIMED (insufficient resources: ␛[2Jmemory)
        exit code 10
          hello goes from definition 1 to 2 (v2): its canaries run for 30 s, and it goes on after 1 min 30 s
    "#]].assert_eq(&text);
}
