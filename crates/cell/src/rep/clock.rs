//! The one place where the time of day and chance enter the rep. What only waits uses tokio's clock.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{InstanceGuid, Nanos};

/// Letters of an instance guid, as Diego cuts them: what is longer does not fit into names of network devices and certificates.
const INSTANCE_GUID_CHARS: usize = 28;

pub trait Clock: Send + Sync + Debug {
    fn now_ns(&self) -> Nanos;
    /// Random bits. What is drawn from them must never come again on any cell.
    fn draw(&self) -> u128;
}

/// The clock and the chance of this machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineClock;

impl Clock for MachineClock {
    fn now_ns(&self) -> Nanos {
        #[expect(clippy::disallowed_methods, reason = "the one place where the rep reads the time of day")]
        let now = SystemTime::now();
        now.duration_since(UNIX_EPOCH).map_or(0, |since| Nanos::try_from(since.as_nanos()).unwrap_or(Nanos::MAX))
    }

    fn draw(&self) -> u128 {
        let mut bytes = [0; 16];
        // An instance guid that somebody else has too would let two containers take each other's place.
        aws_lc_rs::rand::fill(&mut bytes).expect("the random source of the machine answers");
        u128::from_le_bytes(bytes)
    }
}

/// A version 4 UUID, cut.
pub(super) fn instance_guid(clock: &dyn Clock) -> InstanceGuid {
    let uuid = uuid_of(clock.draw());
    InstanceGuid::parse(&uuid[..INSTANCE_GUID_CHARS]).expect("28 letters are neither none nor too many")
}

/// Who holds a presence: another at each start.
pub fn fresh_owner(clock: &dyn Clock) -> String {
    uuid_of(clock.draw())
}

fn uuid_of(bits: u128) -> String {
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 0b11 << 62;
    let bits = (bits & !VERSION & !VARIANT) | (4 << 76) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Between half of the pause and all of it, so that cells which lost the same server do not come back in the same moment.
pub(super) fn jittered(pause: Duration, clock: &dyn Clock) -> Duration {
    let half = pause / 2;
    let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX - 1);
    half + Duration::from_nanos(u64::try_from(clock.draw() % u128::from(nanos + 1)).unwrap_or(nanos))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn guids_are_uuids_of_version_4_cut_to_28() {
        expect!["00000000-0000-4000-8000-000000000000"].assert_eq(&uuid_of(0));
        expect!["ffffffff-ffff-4fff-bfff-ffffffffffff"].assert_eq(&uuid_of(u128::MAX));
        let (first, second) = (instance_guid(&MachineClock), instance_guid(&MachineClock));
        assert_eq!((first.as_str().len(), first == second), (28, false));
    }

    #[test]
    fn a_pause_is_between_half_and_whole() {
        for _ in 0..100 {
            let pause = jittered(Duration::from_secs(10), &MachineClock);
            assert!((5..=10).contains(&pause.as_secs()), "{pause:?}");
        }
    }
}
