//! Data versions as people write them: by number, or by the name of what changed.

use store::Version;

/// The newest data version that this binary writes. A build with the feature `former-data-version` is the release before
/// this one, for tests that upgrade and go back with two real binaries.
pub(crate) const NEWEST: Version =
    if cfg!(feature = "former-data-version") { Version::ALL[Version::ALL.len() - 2] } else { Version::LATEST };

fn known() -> impl Iterator<Item = Version> {
    Version::ALL.iter().copied().filter(|version| *version <= NEWEST)
}

/// The number that a text means. A number is taken as it is, since the server asked may know more versions than we do.
pub(crate) fn resolve_version(text: &str) -> Result<u64, String> {
    if let Some(version) = known().find(|version| version.name() == text) {
        return Ok(version.number().0);
    }
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is neither the number nor the name of a data version; expected {}", listed())),
    }
}

/// For what this very binary must be able to do.
pub(crate) fn resolve_known_version(text: &str) -> Result<u64, String> {
    let number = resolve_version(text)?;
    if known().any(|version| version.number().0 == number) {
        Ok(number)
    } else {
        Err(format!("{number} is not a data version of this release; expected {}", listed()))
    }
}

fn listed() -> String {
    let versions: Vec<String> = known().map(|version| format!("{} ({})", version.name(), version.number())).collect();
    versions.join(", ")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn names_and_numbers_are_read() {
        for (text, number) in
            [("initial_json", 1), ("split_desired_lrp", 1_442_529_338), ("1794700800", 1_794_700_800), ("7", 7)]
        {
            assert_eq!(resolve_version(text), Ok(number), "{text}");
        }
        for text in ["", "0", "-1", "split", "1e3", "Protobuf", "99999999999999999999"] {
            assert!(resolve_version(text).is_err(), "{text}");
        }
        expect![[r#""split" is neither the number nor the name of a data version; expected initial_json (1), protobuf (1441411196), split_desired_lrp (1442529338), lrp_definitions (1794700800)"#]]
            .assert_eq(&resolve_version("split").unwrap_err());
    }

    #[test]
    fn what_this_release_must_do_itself_it_must_know() {
        assert_eq!(resolve_known_version("protobuf"), resolve_known_version("1441411196"));
        expect!["7 is not a data version of this release; expected initial_json (1), protobuf (1441411196), split_desired_lrp (1442529338), lrp_definitions (1794700800)"]
            .assert_eq(&resolve_known_version("7").unwrap_err());
    }
}
