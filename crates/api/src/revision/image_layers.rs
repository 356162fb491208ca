//! Image layers came with V3. Before, a layer shared between containers was a cached dependency, and one that belongs
//! to a single container was downloaded into it first. The media type of a layer has no older form and is lost.

use super::{parallel, serial};
use crate::models::image_layer::{DigestAlgorithm, Type};
use crate::models::{Action, CachedDependency, DownloadAction, ImageLayer};

/// Shared layers as cached dependencies, followed by those that are there already.
pub(super) fn dependencies(layers: &[ImageLayer], existing: Vec<CachedDependency>) -> Vec<CachedDependency> {
    let shared = layers.iter().filter(|layer| layer.layer_type() == Type::Shared);
    shared.map(dependency).chain(existing).collect()
}

/// The action that runs first, preceded by the downloads of exclusive layers if there are any.
pub(super) fn first_action(layers: &[ImageLayer], user: &str, existing: Option<Action>) -> Option<Action> {
    let exclusive = layers.iter().filter(|layer| layer.layer_type() == Type::Exclusive);
    let downloads: Vec<_> = exclusive.map(|layer| download(layer, user)).collect();
    if downloads.is_empty() {
        return existing;
    }
    let downloads = parallel(downloads);
    Some(match existing {
        Some(existing) => serial(vec![downloads, existing]),
        None => downloads,
    })
}

fn dependency(layer: &ImageLayer) -> CachedDependency {
    let algorithm = algorithm(layer);
    CachedDependency {
        name: layer.name.clone(),
        from: layer.url.clone(),
        to: layer.destination_path.clone(),
        cache_key: match layer.digest_value.as_str() {
            "" => layer.url.clone(),
            digest => format!("{algorithm}:{digest}"),
        },
        log_source: String::new(),
        checksum_algorithm: algorithm,
        checksum_value: layer.digest_value.clone(),
    }
}

fn download(layer: &ImageLayer, user: &str) -> DownloadAction {
    let algorithm = algorithm(layer);
    DownloadAction {
        artifact: layer.name.clone(),
        from: layer.url.clone(),
        to: layer.destination_path.clone(),
        cache_key: format!("{algorithm}:{}", layer.digest_value),
        log_source: String::new(),
        user: user.to_owned(),
        checksum_algorithm: algorithm,
        checksum_value: layer.digest_value.clone(),
    }
}

fn algorithm(layer: &ImageLayer) -> String {
    match layer.digest_algorithm() {
        DigestAlgorithm::Invalid => String::new(),
        known => known.as_str_name().to_ascii_lowercase(),
    }
}
