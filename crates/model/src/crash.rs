//! Crash arithmetic: how often an instance may crash before it waits, and how long it waits.

use crate::{ActualLrp, ActualState, NANOS_PER_SECOND, Nanos};

/// An instance that ran longer than this starts counting again.
pub const RESET_AFTER_NS: Nanos = 5 * 60 * NANOS_PER_SECOND;
/// Crash counts below this restart at once.
pub const IMMEDIATE_RESTARTS: i32 = 3;
/// From this crash count on the system does not restart the instance any more.
pub const RESTARTS_MAX: i32 = 200;
pub const BACKOFF_MIN_NS: Nanos = 30 * NANOS_PER_SECOND;
pub const BACKOFF_MAX_NS: Nanos = 16 * 60 * NANOS_PER_SECOND;

/// The crash count after one more crash of this instance.
pub fn count_after_crash(row: &ActualLrp, now_ns: Nanos) -> i32 {
    if row.state == ActualState::Running && now_ns.saturating_sub(row.since_ns) > RESET_AFTER_NS {
        1
    } else {
        row.crash_count.saturating_add(1)
    }
}

pub fn restarts_at_once(crash_count: i32) -> bool {
    crash_count < IMMEDIATE_RESTARTS
}

/// How long a crashed instance waits before it is started again, or `None` if it has used up its restarts.
pub fn backoff_ns(crash_count: i32) -> Option<Nanos> {
    match crash_count {
        ..IMMEDIATE_RESTARTS => Some(0),
        IMMEDIATE_RESTARTS..RESTARTS_MAX => {
            let doublings = u32::try_from(crash_count - IMMEDIATE_RESTARTS).unwrap_or(0).min(5);
            Some((BACKOFF_MIN_NS << doublings).min(BACKOFF_MAX_NS))
        }
        RESTARTS_MAX.. => None,
    }
}

/// Whether a crashed row may be started again now. The boundary itself counts as elapsed.
pub fn is_due(row: &ActualLrp, now_ns: Nanos) -> bool {
    backoff_ns(row.crash_count).is_some_and(|wait_ns| now_ns.saturating_sub(row.since_ns) >= wait_ns)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect;

    use super::*;

    #[test]
    fn backoff_table() {
        let mut table = String::new();
        for count in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 199, 200, 201, i32::MAX] {
            match backoff_ns(count) {
                Some(ns) => writeln!(table, "{count}: {} s", ns / NANOS_PER_SECOND).unwrap(),
                None => writeln!(table, "{count}: never").unwrap(),
            }
        }
        expect![[r#"
            0: 0 s
            1: 0 s
            2: 0 s
            3: 30 s
            4: 60 s
            5: 120 s
            6: 240 s
            7: 480 s
            8: 960 s
            9: 960 s
            199: 960 s
            200: never
            201: never
            2147483647: never
        "#]]
        .assert_eq(&table);
    }
}
