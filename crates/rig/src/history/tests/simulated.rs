//! Long histories of a register that is simulated: good by construction, and bad after one slip.

use std::collections::HashMap;

use crate::history::{Call, Checked, Fault, History, Ledger, Recorder, Token};

/// What a run looks like. One seed gives one history.
#[derive(Clone, Copy)]
struct Run {
    calls: usize,
    keys: usize,
    clients: usize,
    unknown_percent: u64,
    seed: u64,
}

/// SplitMix64: enough chance for a test, and the same everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }

    fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap()
    }
}

/// A call on its way: first it takes effect, then its client hears of it.
struct Open {
    token: Token,
    key: String,
    call: Call,
    answer: Option<Option<String>>,
}

/// Registers and the calls under way. A call whose outcome is unknown stays in `late` until it takes effect, or for
/// ever.
struct World {
    registers: HashMap<String, String>,
    before: HashMap<String, String>,
    late: Vec<(String, Call)>,
}

impl World {
    fn apply(&mut self, key: &str, call: &Call) -> Option<String> {
        let now = self.registers.get(key).cloned();
        match call {
            Call::Read => return now,
            Call::Write(value) => self.registers.insert(key.to_owned(), value.clone()),
            Call::Delete => self.registers.remove(key),
        };
        if let Some(now) = now {
            self.before.insert(key.to_owned(), now);
        }
        None
    }
}

/// Plays a run. The read at `slip`, if any, is answered with the value before the one that is there.
fn play(run: Run, slip: Option<usize>) -> (History, HashMap<String, String>) {
    let recorder = Recorder::new();
    let mut chance = Chance(run.seed);
    let mut world = World { registers: HashMap::new(), before: HashMap::new(), late: Vec::new() };
    let mut open: Vec<Option<Open>> = (0..run.clients).map(|_| None).collect();
    let (mut begun, mut slipped) = (0, false);
    while begun < run.calls || open.iter().any(Option::is_some) {
        if !world.late.is_empty() && chance.below(20) == 0 {
            let (key, call) = world.late.swap_remove(chance.index(world.late.len()));
            world.apply(&key, &call);
        }
        let client = chance.index(run.clients);
        let Some(current) = open[client].take() else {
            if begun < run.calls {
                begun += 1;
                let key = format!("key-{}", chance.index(run.keys));
                let call = match chance.below(10) {
                    0 => Call::Delete,
                    1..5 => Call::Write(begun.to_string()),
                    _ => Call::Read,
                };
                let token = recorder.begin(client, &key, call.clone());
                open[client] = Some(Open { token, key, call, answer: None });
            }
            continue;
        };
        if current.answer.is_none() && chance.below(100) < run.unknown_percent {
            world.late.push((current.key, current.call));
            current.token.unknown();
        } else if let Some(answer) = current.answer {
            if current.call == Call::Read { current.token.ok_read(answer) } else { current.token.ok_write() }
        } else {
            let mut answer = world.apply(&current.key, &current.call);
            let overdue = current.call == Call::Read && slip.is_some_and(|slip| begun >= slip) && !slipped;
            if let Some(old) = world.before.get(&current.key).filter(|old| overdue && answer.as_ref() != Some(old)) {
                answer = Some(old.clone());
                slipped = true;
            }
            open[client] = Some(Open { answer: Some(answer), ..current });
        }
    }
    (recorder.history().unwrap(), world.registers)
}

const MANY_KEYS: Run = Run { calls: 20_000, keys: 100, clients: 8, unknown_percent: 5, seed: 1 };
const ONE_KEY: Run = Run { calls: 20_000, keys: 1, ..MANY_KEYS };

/// A good run is found to be fine, with few steps, and the final state agrees with the ledger.
fn check(run: Run, steps_max: usize) {
    let (history, registers) = play(run, None);
    let Checked { keys, calls, unknown, longest_search } = history.check().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((keys, calls), (run.keys, run.calls));
    let wanted = run.calls * usize::try_from(run.unknown_percent).unwrap() / 100;
    assert!(unknown * 4 >= wanted, "only {unknown} outcomes were unknown");
    assert!(longest_search < steps_max, "a search took {longest_search} steps");
    assert_eq!(Ledger::of(&history).missing(|key| registers.get(key).cloned()), []);
}

#[test]
fn many_calls_over_many_keys_are_fine() {
    check(MANY_KEYS, 2_000);
}

#[test]
fn a_key_that_is_never_at_rest_is_fine() {
    check(ONE_KEY, 200_000);
}

#[test]
fn good_runs_are_fine_whatever_their_shape() {
    for seed in 0..60 {
        let clients = 1 + usize::try_from(seed % 12).unwrap();
        check(Run { calls: 300, keys: 2, clients, unknown_percent: 5 * (seed % 5), seed }, 200_000);
    }
}

/// One stale answer among 20,000 is found, and shown with a handful of calls. A slip beside a write would be no slip;
/// these are none of that kind.
#[test]
fn one_slip_is_found() {
    for (run, slip) in [(MANY_KEYS, 5_000), (MANY_KEYS, 10_000), (MANY_KEYS, 19_000), (ONE_KEY, 16_000)] {
        let violation = play(run, Some(slip)).0.check().unwrap_err();
        assert!(matches!(violation.fault, Fault::StaleRead | Fault::LostWrite | Fault::Vanished), "{violation}");
        assert!(violation.calls.len() <= 4, "too many calls for a reader: {violation}");
    }
}
