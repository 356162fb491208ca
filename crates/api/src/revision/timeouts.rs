//! The deprecated timeouts of V0, in nanoseconds beside the milliseconds of today.

use crate::models::Action;

const NS_PER_MS: i64 = 1_000_000;

/// Fills the deprecated field of every timeout that is not inside another timeout. Diego does not look into a timeout,
/// and its old clients only ever read the outermost.
///
/// The depth of actions is bounded by decoding, so recursion is safe here.
pub(super) fn fill(action: &mut Action) {
    if let Some(timeout) = &mut action.timeout_action {
        timeout.deprecated_timeout_ns = timeout.timeout_ms.wrapping_mul(NS_PER_MS);
    }
    let wrapped_once = [
        action.try_action.as_mut().and_then(|it| it.action.as_mut()),
        action.emit_progress_action.as_mut().and_then(|it| it.action.as_mut()),
    ];
    wrapped_once.into_iter().flatten().for_each(|inner| fill(inner));
    let lists = [
        action.parallel_action.as_mut().map(|it| &mut it.actions),
        action.serial_action.as_mut().map(|it| &mut it.actions),
        action.codependent_action.as_mut().map(|it| &mut it.actions),
    ];
    lists.into_iter().flatten().flatten().for_each(fill);
}
