//! Histories that are known to be good or bad, and the search compared with brute force and with a register that is
//! simulated.
//!
//! A history is written in one line, call by call as clients begin and end: `1w=a` client 1 begins to write a, `1d` to
//! delete, `1r` to read; `1:ok` its write is acknowledged, `1:=a` its read saw a, `1:=` saw no value, `1:fail` and `1:?`
//! it failed or its outcome is unknown. The key is `k`, or another one in `1w@other=a`.

mod brute;
mod simulated;

use std::collections::HashMap;

use expect_test::{Expect, expect};

use super::{Call, Checked, Fault, History, Ledger, OPEN_CALLS_MAX, Overfull, Recorder, Token, Violation};

pub(super) fn history(line: &str) -> History {
    record(&Recorder::new(), line).unwrap()
}

/// Calls that do not end in the line are still open when the history is taken.
fn record(recorder: &Recorder, line: &str) -> Result<History, Overfull> {
    let mut open: HashMap<usize, Token> = HashMap::new();
    for word in line.split_whitespace() {
        let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap();
        let client: usize = word[..digits].parse().unwrap();
        let rest = &word[digits..];
        if let Some(outcome) = rest.strip_prefix(':') {
            let token = open.remove(&client).unwrap();
            match (outcome, outcome.strip_prefix('=')) {
                ("ok", _) => token.ok_write(),
                ("fail", _) => token.failed(),
                ("?", _) => token.unknown(),
                (_, Some("")) => token.ok_read(None),
                (_, Some(value)) => token.ok_read(Some(value.to_owned())),
                _ => panic!("no such outcome: {word}"),
            }
            continue;
        }
        let (what, value) = rest.split_once('=').unwrap_or((rest, ""));
        let (what, key) = what.split_once('@').unwrap_or((what, "k"));
        let call = match what {
            "w" => Call::Write(value.to_owned()),
            "d" => Call::Delete,
            "r" => Call::Read,
            _ => panic!("no such call: {word}"),
        };
        assert!(open.insert(client, recorder.begin(client, key, call)).is_none(), "client is busy: {word}");
    }
    recorder.history()
}

/// Names and histories; the verdicts are in the golden text below.
const HISTORIES: &[(&str, &str)] = &[
    ("nothing at all", ""),
    ("a read of nothing", "1r 1:="),
    ("write and read", "1w=a 1:ok 2r 2:=a"),
    ("a read beside a write sees the old value", "1w=a 1:ok 1w=b 2r 2:=a 1:ok"),
    ("a read beside a write sees the new value", "1w=a 1:ok 1w=b 2r 2:=b 1:ok"),
    ("new, then old, while the write goes on", "1w=a 1:ok 1w=b 2r 2:=b 3r 3:=a 1:ok"),
    ("writes side by side, either order", "1w=a 2w=b 1:ok 2:ok 3r 3:=a 3r 3:=a"),
    ("a deletion", "1w=a 1:ok 1d 1:ok 2r 2:="),
    ("a failed write is not seen", "1w=a 1:ok 1w=b 1:fail 2r 2:=a"),
    ("a failed write is repeated", "1w=a 1:fail 1w=a 1:ok 2r 2:=a"),
    ("an unknown write stays out", "1w=a 1:ok 1w=b 1:? 2r 2:=a 2r 2:=a"),
    ("an unknown write appears late", "1w=a 1:ok 1w=b 1:? 2r 2:=a 2w=c 2:ok 2r 2:=c 2r 2:=b 2r 2:=b"),
    ("an unknown deletion appears late", "1w=a 1:ok 1d 1:? 2r 2:=a 2w=b 2:ok 2r 2:="),
    ("two unknown deletions are used", "1d 1:? 1d 1:? 2w=a 2:ok 2r 2:= 2w=b 2:ok 2r 2:="),
    ("a call that never ends", "1w=a 2r 2:= 2r 2:=a 2r 2:=a"),
    ("an unknown read says nothing", "1w=a 1:ok 1r 1:? 1r 1:=a"),
    ("stale read, seen by others", "1w=a 1:ok 1w=b 1:ok 2r 2:=b 3r 3:=a"),
    ("stale read of nothing", "1w=a 1:ok 2r 2:= 2r 2:=a"),
    ("stale read of what was deleted", "1w=a 1:ok 1d 1:ok 2r 2:=a 2r 2:="),
    ("lost acknowledged write", "1w=a 1:ok 1w=b 1:ok 2r 2:=a 2r 2:=a"),
    ("lost first write", "1w=a 1:ok 2r 2:="),
    ("lost deletion", "1w=a 1:ok 1d 1:ok 2r 2:=a"),
    ("lost write after earlier deletions", "1w=a 1:ok 1d 1:ok 2r 2:= 1d 1:ok 1w=b 1:ok 2r 2:="),
    ("two masters' values take turns", "1w=a 2w=b 1:ok 2:ok 3r 3:=a 4r 4:=b 3r 3:=a 4r 4:=b"),
    ("a value from an unknown write comes and goes", "1w=a 1:ok 1w=b 1:? 2r 2:=a 2r 2:=b 2r 2:=a"),
    ("an unknown deletion comes and goes", "1w=a 1:ok 1d 1:? 2r 2:= 2r 2:=a"),
    ("one unknown deletion, needed twice", "1d 1:? 2w=a 2:ok 2r 2:= 2w=b 2:ok 2r 2:="),
    ("an unknown write, overwritten after it was seen", "1w=a 1:? 2r 2:=a 2w=b 2:ok 2r 2:=a"),
    ("value from nowhere", "1w=a 1:ok 2r 2:=z"),
    ("failed write visible", "1w=a 1:ok 1w=b 1:fail 2r 2:=b"),
    ("seen before it was written", "1r 1:=a 1w=a 1:ok"),
    ("seen before it was written, outcome unknown", "1r 1:=a 1w=a 1:?"),
    ("side by side, seen in two orders", "1w=a 2w=b 1:ok 2:ok 3r 4r 3:=a 4:=b 3r 4r 3:=b 4:=a"),
    ("failed, then seen, then repeated", "1w=a 1:fail 2r 2:=a 1w=a 1:ok"),
    ("two reads beside a write, crossed", "1w=a 1:ok 1w=b 2r 2:=b 3r 3:=a 3r 3:=b 1:ok 2r 2:=a"),
    ("one value written twice", "1w=a 1:? 1w=a 1:ok"),
];

#[test]
fn known_histories() {
    let verdict = |line: &str| match history(line).check() {
        Ok(_) => "fine".to_owned(),
        Err(violation) => format!("{:?}, shown with {} calls", violation.fault, violation.calls.len()),
    };
    let rows: Vec<String> = HISTORIES.iter().map(|(name, line)| format!("{name:<48} {}\n", verdict(line))).collect();
    expect![[r#"
        nothing at all                                   fine
        a read of nothing                                fine
        write and read                                   fine
        a read beside a write sees the old value         fine
        a read beside a write sees the new value         fine
        new, then old, while the write goes on           StaleRead, shown with 4 calls
        writes side by side, either order                fine
        a deletion                                       fine
        a failed write is not seen                       fine
        a failed write is repeated                       fine
        an unknown write stays out                       fine
        an unknown write appears late                    fine
        an unknown deletion appears late                 fine
        two unknown deletions are used                   fine
        a call that never ends                           fine
        an unknown read says nothing                     fine
        stale read, seen by others                       StaleRead, shown with 3 calls
        stale read of nothing                            StaleRead, shown with 2 calls
        stale read of what was deleted                   StaleRead, shown with 3 calls
        lost acknowledged write                          LostWrite, shown with 3 calls
        lost first write                                 LostWrite, shown with 2 calls
        lost deletion                                    LostWrite, shown with 3 calls
        lost write after earlier deletions               LostWrite, shown with 2 calls
        two masters' values take turns                   Split, shown with 4 calls
        a value from an unknown write comes and goes     Vanished, shown with 4 calls
        an unknown deletion comes and goes               Vanished, shown with 4 calls
        one unknown deletion, needed twice               NoOrder, shown with 5 calls
        an unknown write, overwritten after it was seen  LostWrite, shown with 4 calls
        value from nowhere                               FromNowhere, shown with 1 calls
        failed write visible                             FailedWriteVisible, shown with 2 calls
        seen before it was written                       SeenTooEarly, shown with 2 calls
        seen before it was written, outcome unknown      SeenTooEarly, shown with 2 calls
        side by side, seen in two orders                 Split, shown with 4 calls
        failed, then seen, then repeated                 FailedWriteVisible, shown with 2 calls
        two reads beside a write, crossed                StaleRead, shown with 4 calls
        one value written twice                          SameValueTwice, shown with 2 calls
    "#]]
    .assert_eq(&rows.concat());
}

fn check_text(line: &str, expected: &Expect) {
    expected.assert_eq(&history(line).check().unwrap_err().to_string());
}

#[test]
fn a_violation_tells_what_happened() {
    let noise = "5r 5:= 5w=x 5:ok 6r 6:=x 6w=y 6:? 5d 5:ok 5r 5:=";
    check_text(
        &format!("{noise} 1w=a 2r 2:= 1:ok 4r 4:=a 1w=b 1:ok 2r 2:=b 3r 3:=a 2r 2:=b"),
        &expect![[r#"
            key "k": stale read
            Client 3 saw "a" after "b" had taken its place.
                  13 to 16     client 1   write "a": ok
                  19 to 20     client 1   write "b": ok
                  23 to 24     client 3   read: saw "a""#]],
    );
    check_text(
        "1w=a 1:ok 2w=b 3r 3:=b 3r 3:=a",
        &expect![[r#"
            key "k": a value appeared and vanished again
            Client 3 saw "b", and after it client 3 saw "a": a write with an unknown outcome came and went.
                   1 to 2      client 1   write "a": ok
                   3 to open   client 2   write "b": outcome unknown
                   4 to 5      client 3   read: saw "b"
                   6 to 7      client 3   read: saw "a""#]],
    );
}

#[test]
fn a_limit_that_is_reached_is_no_verdict() {
    let writes = |count: usize| (0..count).map(|client| format!("{client}w=v{client} ")).collect::<String>();
    let ends = |count: usize| (0..count).map(|client| format!("{client}:ok ")).collect::<String>();
    let reads = |count: usize| (0..count).map(|value| format!("999r 999:=v{value} ")).collect::<String>();
    let all = |count| history(&format!("{}{}{}", writes(count), reads(count), ends(count)));
    assert!(all(OPEN_CALLS_MAX - 1).check().is_ok());
    let text = |checked: Result<Checked, Violation>| checked.unwrap_err().to_string();
    expect![[r#"
        key "k": not decided: the search reached its limit
        More than 128 calls were open at the same time.
        Nothing is proven, good or bad: let fewer clients use one key, or make shorter runs."#]]
    .assert_eq(&text(all(OPEN_CALLS_MAX).check()));
    let steps = all(20).check().unwrap().longest_search;
    assert!(all(20).check_within(steps).is_ok());
    expect![[r#"
        key "k": not decided: the search reached its limit
        More than 10 configurations were looked at.
        Nothing is proven, good or bad: let fewer clients use one key, or make shorter runs."#]]
    .assert_eq(&text(all(20).check_within(10)));
    assert_eq!(all(20).check_within(steps - 1).unwrap_err().fault, Fault::Undecided);
}

#[test]
fn keys_are_checked_apart() {
    let fine = history("1w@one=a 1:ok 1w@two=a 1:ok 2r@one 2:=a 2r@three 2:= 2w@two=b 2:?");
    assert_eq!(fine.check(), Ok(Checked { keys: 3, calls: 5, unknown: 1, longest_search: 3 }));
    let bad = history("1w@one=a 1:ok 2r@one 2:=a 1w@two=b 1:ok 2r@two 2:=a");
    assert_eq!(bad.check().unwrap_err().key, "two");
}

#[test]
fn a_recorder_that_is_full_gives_no_history() {
    let full = |bytes_max, line| record(&Recorder { bytes_max, ..Recorder::new() }, line);
    let call = size_of::<super::Recorded>() + "k".len();
    assert!(full(2 * call + 2, "1w=a 1:ok 1r 1:=a").is_ok());
    assert_eq!(full(2 * call + 1, "1w=a 1:ok 1r 1:=a").unwrap_err().left_out, 1, "the value that was read");
    assert_eq!(full(call + 1, "1w=a 1:ok 1r 1:=a 1d 1:ok").unwrap_err().left_out, 2, "the read and the deletion");
    expect!["the recorder is full: 1 calls were left out after 0, so nothing can be said about this run. Make fewer calls or shorter values, or use a recorder for each group of keys (10 bytes each)."].assert_eq(&full(10, "1w=a 1:ok").unwrap_err().to_string());
}

#[test]
fn clones_of_a_recorder_share_one_order() {
    let recorder = Recorder::new();
    let threads: Vec<_> = (0..4)
        .map(|client| {
            let recorder = recorder.clone();
            std::thread::spawn(move || {
                for call in 0..200 {
                    recorder.begin(client, "k", Call::Write(format!("{client}-{call}"))).ok_write();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let history = recorder.history().unwrap();
    let mut numbers: Vec<u64> = history.calls().iter().flat_map(|call| [call.begin, call.end.unwrap()]).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=1_600).collect::<Vec<u64>>());
    assert!(history.check().is_ok());
}

#[test]
#[should_panic(expected = "a read was reported as a write")]
fn a_mixed_up_token_is_refused() {
    Recorder::new().begin(1, "k", Call::Read).ok_write();
}

#[test]
#[should_panic(expected = "a write was reported as a read")]
fn a_token_mixed_up_the_other_way_is_refused() {
    Recorder::new().begin(1, "k", Call::Delete).ok_read(None);
}

/// What is wrong with a final value, or nothing.
fn missing(line: &str, last: &str) -> String {
    let last = (last != "-").then(|| last.to_owned());
    let missing = Ledger::of(&history(line)).missing(|_| last.clone());
    missing.first().map_or_else(|| "fine".to_owned(), ToString::to_string)
}

/// History, and final values; `-` is none.
const LEDGERS: &[(&str, &[&str])] = &[
    ("1w=a 1:ok 1w=b 1:ok", &["b", "a", "-"]),
    ("1w=a 2w=b 1:ok 2:ok", &["a", "b", "-"]),
    ("1w=a 2w=b 1:ok 1w=c 2:ok 1:ok", &["a", "b", "c"]),
    ("1w=a 1:? 1w=b 1:ok", &["a", "b", "-"]),
    ("1w=a 1:? 2r 2:=a 1w=b 1:ok", &["a", "b"]),
    ("1w=a 1:ok 1w=b 1:? 2r 2:=b", &["a", "b", "-"]),
    ("1w=a 1:ok 1d 1:ok", &["a", "-"]),
    ("1w=a 1:ok 1d 1:?", &["a", "-", "z"]),
    ("1d 1:? 2r 2:= 1w=a 1:ok", &["a", "-"]),
    ("1w=a 1:fail", &["a", "-"]),
    ("1w=a 1:?", &["a", "-", "z"]),
];

#[test]
fn the_ledger_knows_what_must_be_there() {
    let row = |line: &str, last: &&str| format!("{line:<32} {last}: {}\n", missing(line, last));
    let rows: String = LEDGERS.iter().flat_map(|(line, lasts)| lasts.iter().map(|last| row(line, last))).collect();
    expect![[r#"
        1w=a 1:ok 1w=b 1:ok              b: fine
        1w=a 1:ok 1w=b 1:ok              a: key "k" holds "a" in the end; acknowledged last: "b"
        1w=a 1:ok 1w=b 1:ok              -: key "k" holds no value in the end; acknowledged last: "b"
        1w=a 2w=b 1:ok 2:ok              a: fine
        1w=a 2w=b 1:ok 2:ok              b: fine
        1w=a 2w=b 1:ok 2:ok              -: key "k" holds no value in the end; acknowledged last: "a" or "b"
        1w=a 2w=b 1:ok 1w=c 2:ok 1:ok    a: key "k" holds "a" in the end; acknowledged last: "b" or "c"
        1w=a 2w=b 1:ok 1w=c 2:ok 1:ok    b: fine
        1w=a 2w=b 1:ok 1w=c 2:ok 1:ok    c: fine
        1w=a 1:? 1w=b 1:ok               a: fine
        1w=a 1:? 1w=b 1:ok               b: fine
        1w=a 1:? 1w=b 1:ok               -: key "k" holds no value in the end; acknowledged last: "b"; possible after unknown outcomes: "a"
        1w=a 1:? 2r 2:=a 1w=b 1:ok       a: key "k" holds "a" in the end; acknowledged last: "b"
        1w=a 1:? 2r 2:=a 1w=b 1:ok       b: fine
        1w=a 1:ok 1w=b 1:? 2r 2:=b       a: fine
        1w=a 1:ok 1w=b 1:? 2r 2:=b       b: fine
        1w=a 1:ok 1w=b 1:? 2r 2:=b       -: key "k" holds no value in the end; acknowledged last: "a"; possible after unknown outcomes: "b"
        1w=a 1:ok 1d 1:ok                a: key "k" holds "a" in the end; acknowledged last: no value
        1w=a 1:ok 1d 1:ok                -: fine
        1w=a 1:ok 1d 1:?                 a: fine
        1w=a 1:ok 1d 1:?                 -: fine
        1w=a 1:ok 1d 1:?                 z: key "k" holds "z" in the end; acknowledged last: "a"; possible after unknown outcomes: no value
        1d 1:? 2r 2:= 1w=a 1:ok          a: fine
        1d 1:? 2r 2:= 1w=a 1:ok          -: fine
        1w=a 1:fail                      a: key "k" holds "a" in the end; no write of it was acknowledged
        1w=a 1:fail                      -: fine
        1w=a 1:?                         a: fine
        1w=a 1:?                         -: fine
        1w=a 1:?                         z: key "k" holds "z" in the end; no write of it was acknowledged; possible after unknown outcomes: "a"
    "#]].assert_eq(&rows);
}
