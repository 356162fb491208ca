//! The deprecated timeouts, in nanoseconds beside the milliseconds of today.
//!
//! The depth of actions is bounded by decoding, so recursion is safe here.

use crate::models::Action;

const NS_PER_MS: i64 = 1_000_000;

/// Fills the deprecated field of every timeout that is not inside another timeout. Diego does not look into a timeout,
/// and its old clients only ever read the outermost.
pub(super) fn fill_deprecated(action: &mut Action) {
    if let Some(timeout) = &mut action.timeout_action {
        timeout.deprecated_timeout_ns = timeout.timeout_ms.wrapping_mul(NS_PER_MS);
    }
    for_each_inner(action, fill_deprecated);
}

/// Every timeout that was given in nanoseconds gets its milliseconds, however deep it is. The nanoseconds stay, so that an old
/// client finds them where it put them.
pub(super) fn take_deprecated(action: &mut Action) {
    if let Some(timeout) = &mut action.timeout_action {
        match timeout.deprecated_timeout_ns {
            0 => {}
            // None would mean no time at all.
            1..NS_PER_MS => timeout.timeout_ms = 1,
            ns => timeout.timeout_ms = ns / NS_PER_MS,
        }
        if let Some(inner) = &mut timeout.action {
            take_deprecated(inner);
        }
    }
    for_each_inner(action, take_deprecated);
}

/// The actions inside this one, except inside a timeout.
fn for_each_inner(action: &mut Action, change: fn(&mut Action)) {
    let wrapped_once = [
        action.try_action.as_mut().and_then(|it| it.action.as_mut()),
        action.emit_progress_action.as_mut().and_then(|it| it.action.as_mut()),
    ];
    wrapped_once.into_iter().flatten().for_each(|inner| change(inner));
    let lists = [
        action.parallel_action.as_mut().map(|it| &mut it.actions),
        action.serial_action.as_mut().map(|it| &mut it.actions),
        action.codependent_action.as_mut().map(|it| &mut it.actions),
    ];
    lists.into_iter().flatten().flatten().for_each(change);
}
