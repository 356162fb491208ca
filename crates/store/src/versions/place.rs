//! Names inside keys, and whether a key is the one that a record belongs under.
//!
//! Promise: a name can hold any character, also a slash, and has exactly one spelling in a key. Asking whether a record
//! lies where it should allocates nothing, because every record that is loaded is asked.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Letters, digits and these stay as they are, so that a usual guid reads in a key as it does elsewhere.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(crate) fn escaped(name: &str) -> impl Display + '_ {
    utf8_percent_encode(name, ESCAPED)
}

/// A name as it was before it was escaped. `None` for what is not text then.
pub(crate) fn unescaped(name: &str) -> Option<String> {
    percent_decode_str(name).decode_utf8().ok().map(Cow::into_owned)
}

/// Whether this is the place that `key` names. Displaying a place gives its key.
pub(crate) fn is_at(place: &impl Display, key: &str) -> bool {
    let mut unmatched = Unmatched(key);
    write!(unmatched, "{place}").is_ok() && unmatched.0.is_empty()
}

/// What is left of a text after all that was written to it: each piece must be the next one of the text.
struct Unmatched<'a>(&'a str);

impl Write for Unmatched<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(piece).ok_or(fmt::Error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_spelling() {
        assert_eq!(escaped("9f3c-ab_1.x~y").to_string(), "9f3c-ab_1.x~y");
        assert_eq!(escaped("cf apps/ü%").to_string(), "cf%20apps%2F%C3%BC%25");
        let place = format!("/task/{}", escaped("a/b"));
        let rows = [("/task/a%2Fb", true), ("/task/a%2fb", false), ("/task/a/b", false), ("/task/a%2Fbc", false)];
        for (key, expected) in rows {
            assert_eq!(is_at(&place, key), expected, "{key}");
        }
        assert!(!is_at(&place, "/task/a%2F"));
        assert_eq!(unescaped("cf%20apps%2F%C3%BC%25").as_deref(), Some("cf apps/ü%"));
        assert_eq!(unescaped("%FF"), None);
    }
}
