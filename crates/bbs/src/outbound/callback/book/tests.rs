//! What the book promises, on its own: hours pass in no time.

use std::collections::HashSet;

use model::NANOS_PER_SECOND as SECOND;
use proptest::prelude::*;

use super::*;

const HOUR: Nanos = 3600 * SECOND;
const LIMITS: Limits = Limits { tasks_max: 20_000, host_calls_max: 4 };
const DOWN: (Report, Line) = (Report::NotTaken { retry_after: None }, Line::Silent);
const REFUSED: (Report, Line) = (Report::NotTaken { retry_after: None }, Line::Answered);
const TAKEN: (Report, Line) = (Report::Taken, Line::Answered);
const SETTLED: (Report, Line) = (Report::Settled, Line::Answered);

fn guid(text: &str) -> TaskGuid {
    TaskGuid::parse(text).unwrap()
}

fn admit(book: &mut Book, task: &str, host: &str, now_ns: Nanos) -> Admission {
    book.admit(guid(task), 0, || host.to_owned(), now_ns)
}

/// Makes every call that is due until then, each ending at once as `answer` says. Returns when which task was called for.
fn play(
    book: &mut Book,
    from_ns: Nanos,
    to_ns: Nanos,
    mut answer: impl FnMut(&TaskGuid, Nanos) -> (Report, Line),
) -> Vec<(Nanos, TaskGuid)> {
    let (mut now_ns, mut calls) = (from_ns, Vec::new());
    while let Some(due_ns) = book.due_ns().filter(|due_ns| *due_ns <= to_ns) {
        now_ns = now_ns.max(due_ns);
        let task = book.next(now_ns).unwrap();
        let (report, line) = answer(&task, now_ns);
        book.ended(&task, report, line, now_ns);
        calls.push((now_ns, task));
    }
    calls
}

/// The pauses between the calls for one task, in whole seconds.
fn pauses_s(calls: &[(Nanos, TaskGuid)]) -> Vec<Nanos> {
    calls.windows(2).map(|pair| (pair[1].0 - pair[0].0) / SECOND).collect()
}

#[test]
fn a_receiver_that_is_down_for_an_hour_is_called_ever_more_rarely_and_then_told() {
    for failure in [DOWN, REFUSED] {
        let mut book = Book::new(LIMITS);
        admit(&mut book, "t", "host", 0);
        let calls = play(&mut book, 0, 2 * HOUR, |_, now_ns| if now_ns < HOUR { failure } else { SETTLED });
        let pauses = pauses_s(&calls);
        assert!(pauses.iter().take(9).is_sorted(), "{pauses:?}");
        assert!((15..30).contains(&calls.len()), "{} calls: {pauses:?}", calls.len());
        assert!(calls.last().unwrap().0 - HOUR < 300 * SECOND, "it is told soon after");
        assert_eq!((book.len(), book.due_ns()), (0, None));
    }
}

#[test]
fn who_took_a_report_and_did_not_delete_is_reminded_ever_more_rarely() {
    let mut book = Book::new(LIMITS);
    admit(&mut book, "t", "host", 0);
    let calls = play(&mut book, 0, 24 * HOUR, |_, _| TAKEN);
    let pauses = pauses_s(&calls);
    assert!(pauses[0] >= 45 && pauses.iter().take(6).is_sorted(), "{pauses:?}");
    assert!((24..40).contains(&calls.len()), "{} calls in a day", calls.len());
}

#[test]
fn asking_again_changes_nothing() {
    let mut book = Book::new(LIMITS);
    assert_eq!(admit(&mut book, "t", "host", 0), Admission::New);
    assert_eq!(admit(&mut book, "t", "host", 0), Admission::Known);
    assert_eq!(book.next(0), Some(guid("t")));
    assert_eq!(admit(&mut book, "t", "host", 0), Admission::Known);
    assert_eq!((book.next(HOUR), book.due_ns()), (None, None), "a call is under way");
    book.ended(&guid("t"), REFUSED.0, REFUSED.1, 0);
    let due_ns = book.due_ns().unwrap();
    assert_eq!(admit(&mut book, "t", "host", due_ns / 2), Admission::Known);
    assert_eq!((book.next(due_ns - 1), book.due_ns()), (None, Some(due_ns)));
    assert_eq!(book.next(due_ns), Some(guid("t")));
}

#[test]
fn another_task_of_the_same_guid_does_not_wait_for_the_first() {
    let mut book = Book::new(LIMITS);
    book.admit(guid("t"), 1, || "host".into(), 0);
    play(&mut book, 0, HOUR, |_, _| TAKEN);
    assert!(book.due_ns().unwrap() > HOUR);
    assert_eq!(book.admit(guid("t"), 2, || "other".into(), HOUR), Admission::New);
    assert_eq!((book.next(HOUR), book.len()), (Some(guid("t")), 1));
}

#[test]
fn a_receiver_can_ask_for_a_pause_within_bounds() {
    let pause_s = |seconds| {
        let mut book = Book::new(LIMITS);
        admit(&mut book, "t", "host", 0);
        book.next(0);
        let retry_after = Some(Duration::from_secs(seconds));
        book.ended(&guid("t"), Report::NotTaken { retry_after }, Line::Answered, 0).unwrap().pause_ns / SECOND
    };
    assert_eq!((pause_s(0), pause_s(120), pause_s(100_000)), (0, 120, 600), "less than a second is our own pause");
}

#[test]
fn ten_thousand_tasks_for_a_host_that_is_down_delay_nobody() {
    let mut book = Book::new(LIMITS);
    for task in 0..10_000 {
        admit(&mut book, &format!("dead-{task}"), "dead", 0);
    }
    admit(&mut book, "live", "live", 0);
    let down_until_ns = 2 * HOUR;
    let calls = play(&mut book, 0, down_until_ns, |task, _| if task.as_str() == "live" { SETTLED } else { DOWN });
    assert_eq!(calls.iter().position(|(_, task)| task.as_str() == "live"), Some(1), "it has the second turn");
    assert!((200..400).contains(&calls.len()), "{} calls in two hours, whatever the number of tasks", calls.len());
    let calls = play(&mut book, down_until_ns, down_until_ns + 300 * SECOND, |_, _| SETTLED);
    assert!(calls[0].0 - down_until_ns <= 30 * SECOND, "it is soon noticed that the host is back");
    assert_eq!((calls.len(), book.len()), (10_000, 0));
}

#[test]
fn hosts_take_turns_and_none_has_all_the_workers() {
    let mut book = Book::new(LIMITS);
    for task in 0..10 {
        admit(&mut book, &format!("a{task}"), "a", 0);
    }
    for task in ["b0", "b1", "c0"] {
        admit(&mut book, task, &task[..1], 0);
    }
    let mut next = || book.next(5).map(|task| task.to_string()).unwrap_or_default();
    let calls: Vec<_> = std::iter::repeat_with(&mut next).take(8).collect();
    assert_eq!(calls, ["a0", "b0", "c0", "a1", "b1", "a2", "a3", ""], "four calls to a host at a time");
    book.ended(&guid("a0"), SETTLED.0, SETTLED.1, 5);
    assert_eq!((book.next(5), book.next(5)), (Some(guid("a4")), None));
}

#[test]
fn a_host_that_cannot_be_reached_has_one_call_at_a_time_until_it_answers() {
    let mut book = Book::new(LIMITS);
    for task in 0..10 {
        admit(&mut book, &format!("t{task}"), "host", 0);
    }
    let burst: Vec<_> = std::iter::from_fn(|| book.next(0)).collect();
    assert_eq!(burst.len(), LIMITS.host_calls_max);
    for task in &burst {
        book.ended(task, DOWN.0, DOWN.1, SECOND);
    }
    let due_ns = book.due_ns().unwrap();
    assert!(due_ns <= 2 * SECOND, "calls that fail together count as one failure");
    let probe = book.next(due_ns).unwrap();
    assert_eq!(book.next(HOUR), None);
    book.ended(&probe, SETTLED.0, SETTLED.1, HOUR);
    assert_eq!(std::iter::from_fn(|| book.next(HOUR)).count(), LIMITS.host_calls_max);
}

#[test]
fn a_full_book_makes_room_at_the_expense_of_the_largest_host() {
    let mut book = Book::new(Limits { tasks_max: 4, host_calls_max: 1 });
    for task in ["a0", "a1", "a2", "b0"] {
        assert_eq!(admit(&mut book, task, &task[..1], 0), Admission::New);
    }
    assert_eq!(admit(&mut book, "a3", "a", 0), Admission::Full, "it is the largest itself");
    assert_eq!(admit(&mut book, "b1", "b", 1), Admission::New, "a2 made room");
    assert_eq!(admit(&mut book, "b2", "b", 1), Admission::Full, "a would be smaller than b");
    assert_eq!(admit(&mut book, "c0", "c", 1), Admission::New, "b1 or a1 made room");
    assert_eq!(book.len(), 4);
    let called: HashSet<_> = play(&mut book, 1, HOUR, |_, _| SETTLED).into_iter().map(|(_, task)| task).collect();
    assert!(called.contains(&guid("a0")) && called.contains(&guid("b0")) && called.contains(&guid("c0")), "{called:?}");
}

#[test]
fn what_is_gone_is_forgotten_unless_it_is_under_way() {
    let mut book = Book::new(LIMITS);
    for task in ["a", "b", "c"] {
        admit(&mut book, task, "host", 0);
    }
    assert_eq!(book.next(0), Some(guid("a")));
    book.retain(|task| task.as_str() == "b");
    assert_eq!((book.len(), book.next(0), book.next(0)), (2, Some(guid("b")), None));
}

#[derive(Clone, Debug)]
enum Act {
    Admit { task: u8, host: u8 },
    Next,
    End { which: usize, outcome: usize },
    Pass { seconds: u8 },
    Retain { parity: u8 },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..40_u8, 0..5_u8).prop_map(|(task, host)| Act::Admit { task, host }),
        4 => Just(Act::Next),
        4 => (0..100_usize, 0..5_usize).prop_map(|(which, outcome)| Act::End { which, outcome }),
        2 => (0..=255_u8).prop_map(|seconds| Act::Pass { seconds }),
        1 => (0..2_u8).prop_map(|parity| Act::Retain { parity }),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_no_task_is_called_for_twice_and_none_is_stuck(acts in prop::collection::vec(act(), 1..200)) {
        let limits = Limits { tasks_max: 20, host_calls_max: 3 };
        let mut book = Book::new(limits);
        let (mut now_ns, mut under_way): (Nanos, Vec<TaskGuid>) = (0, Vec::new());
        for act in acts {
            match act {
                Act::Admit { task, host } => {
                    admit(&mut book, &task.to_string(), &host.to_string(), now_ns);
                }
                Act::Next => {
                    if let Some(task) = book.next(now_ns) {
                        prop_assert!(!under_way.contains(&task), "two calls for one task");
                        under_way.push(task);
                    }
                }
                Act::End { which, outcome } if !under_way.is_empty() => {
                    let task = under_way.swap_remove(which % under_way.len());
                    let unsure = (REFUSED.0, Line::Unused);
                    let (report, line) = [DOWN, REFUSED, TAKEN, SETTLED, unsure][outcome];
                    book.ended(&task, report, line, now_ns);
                }
                Act::End { .. } => {}
                Act::Pass { seconds } => now_ns += Nanos::from(seconds) * SECOND,
                Act::Retain { parity } => book.retain(|task| task.as_str().len() as u8 % 2 == parity),
            }
            prop_assert!(book.len() <= limits.tasks_max && book.len() >= under_way.len());
            for host in book.hosts.values() {
                prop_assert!(host.under_way <= limits.host_calls_max && host.size() > 0);
            }
        }
        for task in under_way {
            book.ended(&task, SETTLED.0, SETTLED.1, now_ns);
        }
        play(&mut book, now_ns, now_ns + 10 * HOUR, |_, _| SETTLED);
        prop_assert_eq!((book.len(), book.hosts.len(), book.sizes.len(), book.turns.len()), (0, 0, 0, 0));
    }
}
