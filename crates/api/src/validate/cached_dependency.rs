//! Cached dependencies and the checksum rule they share with downloads.

use super::{Findings, Validate};
use crate::models::CachedDependency;

/// Compared without regard to case.
const CHECKSUM_ALGORITHMS: [&str; 3] = ["md5", "sha1", "sha256"];

impl Validate for CachedDependency {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("from", &self.from);
        found.not_empty("to", &self.to);
        checksum(&self.checksum_algorithm, &self.checksum_value, found);
    }
}

/// Algorithm and value come together or not at all.
pub(super) fn checksum(algorithm: &str, value: &str, found: &mut Findings) {
    match (algorithm.is_empty(), value.is_empty()) {
        (true, true) => {}
        (true, false) => found.field("checksum algorithm"),
        (false, true) => found.field("checksum value"),
        (false, false) => {
            if !CHECKSUM_ALGORITHMS.iter().any(|known| known.eq_ignore_ascii_case(algorithm)) {
                found.field("invalid algorithm");
            }
        }
    }
}

pub(super) fn cached_dependencies(dependencies: &[CachedDependency], found: &mut Findings) {
    for dependency in dependencies {
        found.under("cached_dependency", |found| dependency.findings(found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::samples::verdict;

    #[test]
    fn checksums() {
        for (algorithm, value, expected) in [
            ("", "", ""),
            ("", "abc", "Invalid field: checksum algorithm"),
            ("sha256", "", "Invalid field: checksum value"),
            ("crc", "", "Invalid field: checksum value"),
            ("md5", "abc", ""),
            ("SHA1", "abc", ""),
            ("Sha256", "abc", ""),
            ("sha512", "abc", "Invalid field: invalid algorithm"),
        ] {
            let dependency = CachedDependency {
                from: "http://blobs/a".into(),
                to: "/a".into(),
                checksum_algorithm: algorithm.into(),
                checksum_value: value.into(),
                ..Default::default()
            };
            assert_eq!(verdict(&dependency), expected, "{algorithm:?} {value:?}");
        }
    }

    #[test]
    fn each_bad_dependency_has_its_heading() {
        let mut found = Findings::default();
        cached_dependencies(&[CachedDependency::default(), CachedDependency::default()], &mut found);
        let one = "Invalid field: cached_dependency, Invalid field: from, Invalid field: to";
        assert_eq!(found.joined(), Some(format!("{one}, {one}")));
    }
}
