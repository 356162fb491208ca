//! Desired LRPs in the shapes of older revisions.

use super::{image_layers, parallel, serial, timeouts};
use crate::models::{CachedDependency, DesiredLrp, DownloadAction};

/// For `desired_lrps/*.r2`: without image layers.
pub fn desired_lrp_v3_to_v2(mut lrp: DesiredLrp) -> DesiredLrp {
    let layers = std::mem::take(&mut lrp.image_layers);
    lrp.cached_dependencies = image_layers::dependencies(&layers, lrp.cached_dependencies);
    lrp.setup = image_layers::first_action(&layers, &lrp.legacy_download_user, lrp.setup);
    lrp
}

/// For the event streams without a revision: also without cached dependencies, and with the deprecated timeouts.
pub fn desired_lrp_v2_to_v0(mut lrp: DesiredLrp) -> DesiredLrp {
    for action in [&mut lrp.setup, &mut lrp.action, &mut lrp.monitor].into_iter().flatten() {
        timeouts::fill(action);
    }
    lrp.deprecated_start_timeout_s = cut_to_u32(lrp.start_timeout_ms) / 1000;
    let dependencies = std::mem::take(&mut lrp.cached_dependencies);
    if !dependencies.is_empty() {
        let user = &lrp.legacy_download_user;
        let downloads = parallel(dependencies.into_iter().map(|dependency| download(dependency, user)).collect());
        lrp.setup = Some(serial(std::iter::once(downloads).chain(lrp.setup).collect()));
    }
    lrp
}

/// From the newest to the oldest.
pub fn desired_lrp_v3_to_v0(lrp: DesiredLrp) -> DesiredLrp {
    desired_lrp_v2_to_v0(desired_lrp_v3_to_v2(lrp))
}

/// Diego converts before it divides, so a time beyond 49 days comes out small. Nobody sets one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "this is Diego's arithmetic")]
fn cut_to_u32(ms: i64) -> u32 {
    ms as u32
}

/// The checksum is dropped: V0 had no field for it.
fn download(dependency: CachedDependency, user: &str) -> DownloadAction {
    DownloadAction {
        artifact: dependency.name,
        from: dependency.from,
        to: dependency.to,
        cache_key: dependency.cache_key,
        log_source: dependency.log_source,
        user: user.to_owned(),
        ..DownloadAction::default()
    }
}
