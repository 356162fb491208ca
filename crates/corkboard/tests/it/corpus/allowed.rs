//! What a newer release answers differently on purpose.
//!
//! When you add one: say who may rely on the old answer and why it harms nobody. It goes with the release it speaks of. An
//! entry that matches nothing fails the test, so the list does not outlive its reasons.

use super::exchange::Exchange;

pub(super) struct Allowed {
    /// The release that answered otherwise.
    pub(super) release: &'static str,
    pub(super) path: &'static str,
    /// A line of the recorded answer, without its indentation.
    pub(super) was: &'static str,
    /// What stands there now, in as many lines as it takes; empty if nothing does.
    pub(super) is: &'static str,
    pub(super) why: &'static str,
}

pub(super) const ALLOWED: &[Allowed] = &[];

/// The recorded answer as this release is allowed to give it.
pub(super) fn apply(list: &[Allowed], release: &str, recorded: &Exchange, used: &mut [bool]) -> String {
    let mut answer = String::new();
    for line in recorded.answer.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_meant =
            |entry: &Allowed| entry.release == release && entry.path == recorded.path && entry.was == line.trim_start();
        match list.iter().position(is_meant) {
            Some(at) => {
                used[at] = true;
                list[at].is.lines().for_each(|line| answer += &format!("{indent}{line}\n"));
            }
            None => answer += &format!("{line}\n"),
        }
    }
    answer
}

/// The first number of fields that are ours and not Diego's.
const OURS: u32 = 100;

/// What a release knows of an answer: fields of ours that it has no name for came later, and every client skips them.
pub(super) fn without_later_fields(answer: &str) -> String {
    let is_later = |line: &&str| {
        let number = line.trim_start().split_once(':').and_then(|(number, _)| number.parse::<u32>().ok());
        number.is_some_and(|number| number >= OURS)
    };
    answer.lines().filter(|line| !is_later(line)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn only_fields_of_ours_may_come_later() {
    let answer = "200 x\nd {\n    40: 1\n    100: \"v2\"\n    b: 1\n}\n";
    assert_eq!(without_later_fields(answer), "200 x\nd {\n    40: 1\n    b: 1\n}\n");
}

#[test]
fn a_line_is_replaced_only_where_it_is_allowed() {
    let list = [
        Allowed { release: "0.1", path: "/a", was: "b: 1", is: "b: 2\nc: 3", why: "a test" },
        Allowed { release: "0.2", path: "/a", was: "b: 1", is: "", why: "another release" },
    ];
    let text = "POST /a A\n= B\n200 x\nd {\n    b: 1\n}\n\nPOST /b A\n= B\nb: 1\n";
    let recorded = super::exchange::parse(text);
    let mut used = [false; 2];
    assert_eq!(apply(&list, "0.1", &recorded[0], &mut used), "200 x\nd {\n    b: 2\n    c: 3\n}\n");
    assert_eq!(apply(&list, "0.1", &recorded[1], &mut used), "b: 1\n");
    assert_eq!(used, [true, false]);
    assert!(list.iter().all(|entry| !entry.why.is_empty()));
}
