//! Cached dependencies came with V1. Before, each container downloaded them itself, before anything else.

use super::{parallel, serial};
use crate::models::{Action, CachedDependency, DownloadAction};

/// The action that runs first, preceded by the downloads of what was cached, if anything was.
pub(super) fn first_action(
    dependencies: Vec<CachedDependency>,
    user: &str,
    existing: Option<Action>,
) -> Option<Action> {
    if dependencies.is_empty() {
        return existing;
    }
    let downloads = parallel(dependencies.into_iter().map(|dependency| download(dependency, user)).collect());
    Some(serial(std::iter::once(downloads).chain(existing).collect()))
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
