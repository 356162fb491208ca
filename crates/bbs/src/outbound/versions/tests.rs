//! What is sent to a cell and what is concluded, for every call and every way in which a cell can answer.

use std::cell::RefCell;
use std::fmt::Write;

use expect_test::expect;

use super::*;

/// What a cell answers to version 2 and to version 1. An older release lacks a path; a newer one may not know the instance.
type Answers = [u16; 2];

fn cell(id: &str, rep_url: &str) -> Cell {
    let wire = api::models::CellPresence { cell_id: id.into(), rep_url: rep_url.into(), ..Default::default() };
    api::convert::cell_from_wire(wire).unwrap()
}

/// Makes one call; says which versions were sent, and how it ended.
async fn made(versions: &Versions, cell: &Cell, call: CellCall, now: Instant, answers: Answers, v1: bool) -> String {
    let sent = RefCell::new(String::new());
    let send = |version: u8| {
        let carries = version > 1 || v1;
        if carries {
            write!(sent.borrow_mut(), "v{version} ").unwrap();
        }
        let status = StatusCode::from_u16(answers[usize::from(2 - version)]).unwrap();
        async move { carries.then_some(Ok(status)) }
    };
    let callee = Callee { cell, address: &cell.rep_url };
    let last = versions.call(callee, call, now, send).await.unwrap();
    let last = last.map_or_else(|| "nothing to send".to_owned(), |status| status.as_u16().to_string());
    format!("{}-> {last}", sent.borrow())
}

#[tokio::test]
async fn the_whole_table() {
    let (cell, now) = (cell("cell", "http://cell"), Instant::now());
    let mut table = String::new();
    for call in [CellCall::Stop, CellCall::Update, CellCall::Cancel] {
        for v2 in [202, 404, 500] {
            for v1 in [202, 404, 500] {
                if call.versions() == [1] && v2 != 404 {
                    continue;
                }
                let versions = Versions::default();
                let first = made(&versions, &cell, call, now, [v2, v1], true).await;
                let then = made(&versions, &cell, call, now, [v2, v1], true).await;
                let upgraded = made(&versions, &cell, call, now, [202, 404], true).await;
                let name = format!("{}, v2 {v2}, v1 {v1}", call.name());
                writeln!(table, "{name:<24}first {first:<16}then {then:<16}upgraded, v1 gone {upgraded}").unwrap();
            }
        }
    }
    expect![[r#"
        stop, v2 404, v1 202    first v1 -> 202       then v1 -> 202       upgraded, v1 gone v1 -> 404
        stop, v2 404, v1 404    first v1 -> 404       then v1 -> 404       upgraded, v1 gone v1 -> 404
        stop, v2 404, v1 500    first v1 -> 500       then v1 -> 500       upgraded, v1 gone v1 -> 404
        update, v2 202, v1 202  first v2 -> 202       then v2 -> 202       upgraded, v1 gone v2 -> 202
        update, v2 202, v1 404  first v2 -> 202       then v2 -> 202       upgraded, v1 gone v2 -> 202
        update, v2 202, v1 500  first v2 -> 202       then v2 -> 202       upgraded, v1 gone v2 -> 202
        update, v2 404, v1 202  first v2 v1 -> 202    then v1 -> 202       upgraded, v1 gone v1 v2 -> 202
        update, v2 404, v1 404  first v2 v1 -> 404    then v2 v1 -> 404    upgraded, v1 gone v2 -> 202
        update, v2 404, v1 500  first v2 v1 -> 500    then v2 v1 -> 500    upgraded, v1 gone v2 -> 202
        update, v2 500, v1 202  first v2 -> 500       then v2 -> 500       upgraded, v1 gone v2 -> 202
        update, v2 500, v1 404  first v2 -> 500       then v2 -> 500       upgraded, v1 gone v2 -> 202
        update, v2 500, v1 500  first v2 -> 500       then v2 -> 500       upgraded, v1 gone v2 -> 202
        cancel, v2 404, v1 202  first v1 -> 202       then v1 -> 202       upgraded, v1 gone v1 -> 404
        cancel, v2 404, v1 404  first v1 -> 404       then v1 -> 404       upgraded, v1 gone v1 -> 404
        cancel, v2 404, v1 500  first v1 -> 500       then v1 -> 500       upgraded, v1 gone v1 -> 404
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn what_the_older_version_cannot_carry_is_not_sent() {
    let (versions, cell, now) = (Versions::default(), cell("cell", "http://cell"), Instant::now());
    let old = [404, 202];
    assert_eq!(made(&versions, &cell, CellCall::Update, now, old, false).await, "v2 -> 404");
    assert_eq!(made(&versions, &cell, CellCall::Update, now, old, false).await, "v2 -> 404", "one 404 proves nothing");
    assert_eq!(made(&versions, &cell, CellCall::Update, now, old, true).await, "v2 v1 -> 202");
    assert_eq!(made(&versions, &cell, CellCall::Update, now, old, false).await, "-> nothing to send");
    assert_eq!(made(&versions, &cell, CellCall::Stop, now, old, true).await, "v1 -> 202", "known for one call only");
}

#[tokio::test]
async fn what_is_known_holds_for_one_presence_at_one_address_and_not_for_ever() {
    let (versions, old, now) = (Versions::default(), cell("cell", "http://cell"), Instant::now());
    let zoned = Cell { zone: "z2".into(), ..old.clone() };
    let moved = cell("cell", "http://elsewhere");
    let long_after = now + LACK_TTL;
    for (who, cell, at) in [("another presence", &zoned, now), ("moved", &moved, now), ("later", &old, long_after)] {
        assert_eq!(made(&versions, &old, CellCall::Update, now, [404, 202], true).await, "v2 v1 -> 202", "{who}");
        assert_eq!(made(&versions, &old, CellCall::Update, now, [404, 202], true).await, "v1 -> 202", "{who}");
        assert_eq!(made(&versions, cell, CellCall::Update, at, [202, 202], true).await, "v2 -> 202", "{who}");
    }
    let other = cell("other", "http://cell");
    made(&versions, &old, CellCall::Update, now, [404, 202], true).await;
    assert_eq!(made(&versions, &other, CellCall::Update, now, [202, 202], true).await, "v2 -> 202");
}

#[tokio::test]
async fn the_memory_is_bounded() {
    let (versions, now) = (Versions::default(), Instant::now());
    let cells: Vec<_> = (0..=CELLS_MAX).map(|number| cell(&number.to_string(), "http://cell")).collect();
    for cell in &cells {
        made(&versions, cell, CellCall::Update, now, [404, 202], true).await;
    }
    assert_eq!(versions.known().len(), CELLS_MAX);
    let last = cells.last().unwrap();
    assert_eq!(made(&versions, last, CellCall::Update, now, [404, 202], true).await, "v2 v1 -> 202");
    made(&versions, last, CellCall::Update, now + LACK_TTL, [404, 202], true).await;
    assert_eq!(versions.known().len(), 1, "those that are no longer believed make room");
}
