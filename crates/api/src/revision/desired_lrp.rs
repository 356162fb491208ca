//! Desired LRPs in the shapes of older revisions.

use super::{cached_dependencies, image_layers, timeouts};
use crate::models::DesiredLrp;

/// For `desired_lrps/*.r2`: without image layers.
pub fn desired_lrp_v3_to_v2(mut lrp: DesiredLrp) -> DesiredLrp {
    let layers = std::mem::take(&mut lrp.image_layers);
    lrp.cached_dependencies = image_layers::dependencies(&layers, lrp.cached_dependencies);
    lrp.setup = image_layers::first_action(&layers, &lrp.legacy_download_user, lrp.setup);
    lrp
}

/// For `desired_lrps/*.r1`: also with the deprecated timeouts.
pub fn desired_lrp_v3_to_v1(lrp: DesiredLrp) -> DesiredLrp {
    v2_to_v1(desired_lrp_v3_to_v2(lrp))
}

/// For `desired_lrps/*` and the LRP event streams without a revision: also without cached dependencies.
pub fn desired_lrp_v3_to_v0(lrp: DesiredLrp) -> DesiredLrp {
    v1_to_v0(desired_lrp_v3_to_v1(lrp))
}

fn v2_to_v1(mut lrp: DesiredLrp) -> DesiredLrp {
    for action in [&mut lrp.setup, &mut lrp.action, &mut lrp.monitor].into_iter().flatten() {
        timeouts::fill_deprecated(action);
    }
    lrp.deprecated_start_timeout_s = cut_to_u32(lrp.start_timeout_ms) / 1000;
    lrp
}

fn v1_to_v0(mut lrp: DesiredLrp) -> DesiredLrp {
    let dependencies = std::mem::take(&mut lrp.cached_dependencies);
    lrp.setup = cached_dependencies::first_action(dependencies, &lrp.legacy_download_user, lrp.setup);
    lrp
}

/// The deprecated seconds become the milliseconds of today.
pub(super) fn up_from_r0(lrp: &mut DesiredLrp) {
    for action in [&mut lrp.setup, &mut lrp.action, &mut lrp.monitor].into_iter().flatten() {
        timeouts::take_deprecated(action);
    }
    if lrp.deprecated_start_timeout_s != 0 {
        lrp.start_timeout_ms = i64::from(lrp.deprecated_start_timeout_s) * 1000;
    }
}

/// Diego converts before it divides, so a time beyond 49 days comes out small. Nobody sets one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "this is Diego's arithmetic")]
fn cut_to_u32(ms: i64) -> u32 {
    ms as u32
}
