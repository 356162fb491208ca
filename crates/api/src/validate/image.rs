//! Image layers.

use super::{Findings, Validate};
use crate::models::ImageLayer;
use crate::models::image_layer::{DigestAlgorithm, MediaType, Type};

impl Validate for ImageLayer {
    /// A digest without an algorithm is reported twice: it lacks the algorithm, and what it has is not a known one.
    fn findings(&self, found: &mut Findings) {
        let exclusive = is_exclusive(self);
        let has_digest = !self.digest_value.is_empty();
        let algorithm = DigestAlgorithm::try_from(self.digest_algorithm);

        found.not_empty("url", &self.url);
        found.not_empty("destination_path", &self.destination_path);
        if !matches!(Type::try_from(self.layer_type), Ok(Type::Shared | Type::Exclusive)) {
            found.field("layer_type");
        }
        if !matches!(MediaType::try_from(self.media_type), Ok(MediaType::Tgz | MediaType::Tar | MediaType::Zip)) {
            found.field("media_type");
        }
        if (has_digest || exclusive) && algorithm == Ok(DigestAlgorithm::Invalid) {
            found.field("digest_algorithm");
        }
        if (exclusive || algorithm != Ok(DigestAlgorithm::Invalid)) && !has_digest {
            found.field("digest_value");
        }
        if has_digest && !matches!(algorithm, Ok(DigestAlgorithm::Sha256 | DigestAlgorithm::Sha512)) {
            found.field("digest_algorithm");
        }
    }
}

fn is_exclusive(layer: &ImageLayer) -> bool {
    layer.layer_type == Type::Exclusive as i32
}

/// Exclusive layers become downloads for older clients, and a download needs a user.
pub(super) fn image_layers(layers: &[ImageLayer], legacy_download_user: &str, found: &mut Findings) {
    for layer in layers {
        found.under("image_layer", |found| layer.findings(found));
    }
    if layers.iter().any(is_exclusive) {
        found.not_empty("legacy_download_user", legacy_download_user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::samples::verdict;

    fn layer(layer_type: i32, media_type: i32, digest_algorithm: i32, digest_value: &str) -> ImageLayer {
        ImageLayer {
            url: "http://blobs/layer".into(),
            destination_path: "/".into(),
            layer_type,
            media_type,
            digest_algorithm,
            digest_value: digest_value.into(),
            ..Default::default()
        }
    }

    #[test]
    fn the_empty_layer() {
        let text = "Invalid field: url, Invalid field: destination_path, Invalid field: layer_type, \
                    Invalid field: media_type";
        assert_eq!(verdict(&ImageLayer::default()), text);
    }

    #[test]
    fn enums_are_open_on_the_wire_and_closed_here() {
        for media_type in [1, 2, 3] {
            assert_eq!(verdict(&layer(1, media_type, 0, "")), "");
        }
        for number in [-1, 0, 4, i32::MAX] {
            assert_eq!(verdict(&layer(1, number, 0, "")), "Invalid field: media_type");
            assert_eq!(verdict(&layer(number, 1, 0, "")), "Invalid field: layer_type");
        }
        assert_eq!(verdict(&layer(3, 1, 0, "")), "Invalid field: layer_type");
    }

    #[test]
    fn digests() {
        for (layer_type, algorithm, value, expected) in [
            (1, 0, "", ""),
            (1, 1, "abc", ""),
            (1, 2, "abc", ""),
            (1, 1, "", "Invalid field: digest_value"),
            (1, 3, "", "Invalid field: digest_value"),
            (1, 3, "abc", "Invalid field: digest_algorithm"),
            (1, 0, "abc", "Invalid field: digest_algorithm, Invalid field: digest_algorithm"),
            (2, 0, "", "Invalid field: digest_algorithm, Invalid field: digest_value"),
            (2, 1, "", "Invalid field: digest_value"),
            (2, 1, "abc", ""),
        ] {
            assert_eq!(
                verdict(&layer(layer_type, 1, algorithm, value)),
                expected,
                "{layer_type} {algorithm} {value:?}"
            );
        }
    }

    #[test]
    fn exclusive_layers_need_a_download_user() {
        let text = |layers: &[ImageLayer], user: &str| {
            let mut found = Findings::default();
            image_layers(layers, user, &mut found);
            found.joined().unwrap_or_default()
        };
        let (shared, exclusive) = (layer(1, 1, 0, ""), layer(2, 1, 1, "abc"));
        assert_eq!(text(&[], ""), "");
        assert_eq!(text(&[shared], ""), "");
        assert_eq!(text(std::slice::from_ref(&exclusive), "vcap"), "");
        assert_eq!(text(&[exclusive.clone(), exclusive], ""), "Invalid field: legacy_download_user");
        let bad = layer(2, 0, 1, "abc");
        let both = "Invalid field: image_layer, Invalid field: media_type, Invalid field: legacy_download_user";
        assert_eq!(text(&[bad], ""), both);
    }
}
