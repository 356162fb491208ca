//! All outcomes of the four calls, and any sequence of calls against a book that is written as naively as possible.

use std::fmt::Write;

use expect_test::expect_file;
use proptest::prelude::*;

use super::*;

const SECOND: u64 = NANOS_PER_SECOND;

fn asked(key: &str, owner: &str, value: &str, type_code: i32) -> Asked {
    Asked { key: key.into(), owner: owner.into(), value: value.into(), r#type: String::new(), type_code }
}

fn told<T>(result: Result<T, Refusal>, show: impl Fn(T) -> String) -> String {
    match result {
        Ok(answer) => format!("ok {}", show(answer)).trim_end().to_owned(),
        Err(refusal) => format!("{} {:?}: {refusal}", i32::from(refusal.code()), refusal.code()),
    }
}

fn shown(resource: &Resource) -> String {
    format!("{}={}/{}/{}", resource.key, resource.owner, resource.value, resource.kind.name())
}

/// The name of the type alone counts for nothing, and everything that is wrong is refused in the order of the checks.
#[test]
fn every_outcome() {
    let mut text = String::new();
    let mut book = Book::default();
    let long = |chars: usize| "ä".repeat(chars);
    let locks: Vec<(&str, Option<Asked>, i64)> = vec![
        ("no resource", None, 15),
        ("no resource and no time", None, 0),
        ("no type, no time, no owner", Some(asked("a", "", "", 0)), 0),
        ("the name of a type alone", Some(Asked { r#type: "lock".into(), ..asked("a", "one", "", 0) }), 15),
        ("an unknown type", Some(asked("a", "one", "", 3)), 15),
        ("no time, no owner", Some(asked("a", "", "", 1)), 0),
        ("a time before now", Some(asked("a", "one", "", 1)), -1),
        ("no owner", Some(asked("a", "", "", 1)), 15),
        ("free", Some(asked("a", "one", "v1", 1)), 15),
        ("again, another value", Some(asked("a", "one", "v2", 1)), 15),
        ("somebody else's", Some(asked("a", "two", "", 1)), 15),
        ("somebody else's, and too long", Some(asked("a", "two", &long(VALUE_CHARS_MAX + 1), 1)), 15),
        ("another type by its owner", Some(asked("a", "one", "v3", 2)), 15),
        ("no key", Some(asked("", "one", "", 2)), 15),
        ("a longest key", Some(asked(&long(KEY_CHARS_MAX), "one", "", 1)), 1),
        ("too long a key", Some(asked(&long(KEY_CHARS_MAX + 1), "one", "", 1)), 1),
        ("a longest owner", Some(asked("o", &long(OWNER_CHARS_MAX), "", 1)), 1),
        ("too long an owner", Some(asked("p", &long(OWNER_CHARS_MAX + 1), "", 1)), 1),
        ("a longest value", Some(asked("v", "one", &long(VALUE_CHARS_MAX), 1)), 1),
        ("too long a value", Some(asked("w", "one", &long(VALUE_CHARS_MAX + 1), 1)), 1),
        ("for ever", Some(asked("z", "one", "", 1)), i64::MAX),
    ];
    for (what, asked, ttl_s) in locks {
        writeln!(text, "lock     {what}: {}", told(book.lock(asked, ttl_s, 0), |()| String::new())).unwrap();
    }
    let later = 14 * SECOND;
    for key in ["a", "", "nobody's", "o", "z"] {
        let outcome = told(book.fetch(key, later), |resource| shown(&resource));
        writeln!(text, "fetch    {key:?}: {outcome}").unwrap();
    }
    for type_code in 0..4 {
        let all = |all: Vec<Resource>| all.iter().map(shown).collect::<Vec<_>>().join(" ");
        writeln!(text, "fetchall {type_code}: {}", told(book.fetch_all(type_code, later), all)).unwrap();
    }
    let releases = [
        ("no resource", None),
        ("nobody's", Some(asked("nobody's", "", "", 0))),
        ("somebody else's", Some(asked("a", "two", "", 2))),
        ("no owner", Some(asked("a", "", "", 2))),
        ("its own, under another type", Some(asked("a", "one", "", 1))),
        ("again", Some(asked("a", "one", "", 1))),
    ];
    for (what, asked) in releases {
        writeln!(text, "release  {what}: {}", told(book.release(asked.as_ref(), later), |()| String::new())).unwrap();
    }
    writeln!(text, "expire   14 s: {:?}", book.expire(14 * SECOND)).unwrap();
    writeln!(text, "expire   15 s: {:?}", book.expire(15 * SECOND)).unwrap();
    writeln!(text, "left: {}", book.rows.len()).unwrap();
    expect_file!["outcomes.golden"].assert_eq(&text);
}

#[test]
fn a_lock_is_free_when_its_time_is_over_and_not_before() {
    let mut book = Book::default();
    let by = |owner: &str| Some(asked("bbs", owner, "", 1));
    book.lock(by("one"), 15, 0).unwrap();
    book.lock(by("one"), 15, 10 * SECOND).unwrap();
    assert_eq!(book.lock(by("two"), 15, 25 * SECOND - 1), Err(Refusal::Collision));
    assert_eq!(book.lock(by("two"), 15, 25 * SECOND), Ok(()));
    assert_eq!(book.release(by("one").as_ref(), 26 * SECOND), Err(Refusal::Collision));
}

#[test]
fn a_full_book_serves_those_who_are_in_it() {
    let mut book = Book::default();
    for at in 0..RESOURCES_MAX {
        book.lock(Some(asked(&at.to_string(), "one", "", 2)), 15, 0).unwrap();
    }
    assert_eq!(book.lock(Some(asked("one more", "one", "", 2)), 15, 0), Err(Refusal::Full));
    assert_eq!(book.lock(Some(asked("7", "one", "", 2)), 15, 0), Ok(()));
    book.release(Some(&asked("7", "one", "", 2)), 0).unwrap();
    assert_eq!(book.lock(Some(asked("one more", "one", "", 2)), 15, 0), Ok(()));
}

#[derive(Clone, Debug)]
enum Call {
    Lock { key: String, owner: String, value: String, type_code: i32, ttl_s: i64 },
    Release { key: String, owner: String },
    Fetch { key: String },
    FetchAll { type_code: i32 },
    Wait { ns: u64 },
}

fn call() -> impl Strategy<Value = Call> {
    let (key, owner) = ("[ab]?", "(|one|two)");
    prop_oneof![
        4 => (key, owner, "[xy]", 0..4_i32, -1..4_i64)
            .prop_map(|(key, owner, value, type_code, ttl_s)| Call::Lock { key, owner, value, type_code, ttl_s }),
        1 => (key, owner).prop_map(|(key, owner)| Call::Release { key, owner }),
        1 => key.prop_map(|key| Call::Fetch { key }),
        1 => (0..4_i32).prop_map(|type_code| Call::FetchAll { type_code }),
        2 => (0..3 * SECOND).prop_map(|ns| Call::Wait { ns }),
    ]
}

/// A list of what was granted, of which the last entry of a key counts; nothing is ever taken out of it.
#[derive(Default)]
struct Naive {
    granted: Vec<(String, Option<Grant>)>,
}

#[derive(Clone)]
struct Grant {
    owner: String,
    value: String,
    type_code: i32,
    end_ns: u64,
}

impl Naive {
    fn held(&self, key: &str, now_ns: u64) -> Option<Grant> {
        let (_, last) = self.granted.iter().rev().find(|(known, _)| known == key)?;
        last.clone().filter(|grant| now_ns < grant.end_ns)
    }

    fn answer(&mut self, call: &Call, now_ns: u64) -> String {
        let is_type = |code: &i32| (1..=2).contains(code);
        let shown = |key: &str, grant: &Grant| {
            let name = if grant.type_code == 1 { "lock" } else { "presence" };
            format!("{key}={}/{}/{name}", grant.owner, grant.value)
        };
        match call {
            Call::Lock { type_code, .. } if !is_type(type_code) => "5 NotFound: invalid-type".into(),
            Call::Lock { ttl_s, .. } if *ttl_s <= 0 => "3 InvalidArgument: invalid-ttl".into(),
            Call::Lock { owner, .. } if owner.is_empty() => "3 InvalidArgument: invalid-owner".into(),
            Call::Lock { key, owner, value, type_code, ttl_s } => match self.held(key, now_ns) {
                Some(held) if held.owner != *owner => "6 AlreadyExists: lock-collision".into(),
                _ => {
                    let end_ns = now_ns + u64::try_from(*ttl_s).unwrap() * SECOND;
                    let (owner, value, type_code) = (owner.clone(), value.clone(), *type_code);
                    self.granted.push((key.clone(), Some(Grant { owner, value, type_code, end_ns })));
                    "ok".into()
                }
            },
            Call::Release { key, owner } => match self.held(key, now_ns) {
                Some(held) if held.owner != *owner => "6 AlreadyExists: lock-collision".into(),
                _ => {
                    self.granted.push((key.clone(), None));
                    "ok".into()
                }
            },
            Call::Fetch { key } => match self.held(key, now_ns) {
                Some(held) => format!("ok {}", shown(key, &held)),
                None => "5 NotFound: resource-not-found".into(),
            },
            Call::FetchAll { type_code } if !is_type(type_code) => "5 NotFound: invalid-type".into(),
            Call::FetchAll { type_code } => {
                let mut text = "ok".to_owned();
                for key in ["", "a", "b"] {
                    if let Some(held) = self.held(key, now_ns).filter(|held| held.type_code == *type_code) {
                        write!(text, " {}", shown(key, &held)).unwrap();
                    }
                }
                text
            }
            Call::Wait { .. } => String::new(),
        }
    }
}

fn answer(book: &mut Book, call: &Call, now_ns: u64) -> String {
    match call {
        Call::Lock { key, owner, value, type_code, ttl_s } => {
            told(book.lock(Some(asked(key, owner, value, *type_code)), *ttl_s, now_ns), |()| String::new())
        }
        Call::Release { key, owner } => told(book.release(Some(&asked(key, owner, "", 0)), now_ns), |()| String::new()),
        Call::Fetch { key } => told(book.fetch(key, now_ns), |resource| shown(&resource)),
        Call::FetchAll { type_code } => {
            told(book.fetch_all(*type_code, now_ns), |all| all.iter().map(shown).collect::<Vec<_>>().join(" "))
        }
        Call::Wait { .. } => String::new(),
    }
}

proptest! {
    #[test]
    fn any_calls_are_answered_as_a_naive_book_would(calls in proptest::collection::vec((call(), any::<bool>()), 1..60)) {
        let (mut book, mut naive, mut now_ns) = (Book::default(), Naive::default(), 0);
        for (call, sweep) in calls {
            if let Call::Wait { ns } = call {
                now_ns += ns;
            }
            // Whether somebody sweeps between the calls makes no difference.
            if sweep {
                book.expire(now_ns);
            }
            prop_assert_eq!(answer(&mut book, &call, now_ns), naive.answer(&call, now_ns), "{:?} at {}", call, now_ns);
            prop_assert_eq!(book.rows.len(), book.ends.len());
            prop_assert!(book.ends.iter().all(|(end_ns, key)| book.rows[key].expires_ns == *end_ns));
        }
    }
}
