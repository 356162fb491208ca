//! JSON as Go prints it: no white space, and `<`, `>`, `&` and the two line separators escaped in strings.

use std::fmt::Write;

pub(super) fn put_string(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, character) in text.char_indices() {
        let short = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        plain = at + character.len_utf8();
        if short.is_empty() {
            escape(character, out);
        } else {
            out.push_str(short);
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

fn escape(character: char, out: &mut String) {
    // Writing into a string cannot fail.
    let _ = write!(out, "\\u{:04x}", u32::from(character));
}

/// A JSON text without its white space. Numbers and the order of keys are untouched.
pub(super) fn put_compact(json: &str, out: &mut String) {
    let (mut in_string, mut after_backslash) = (false, false);
    for character in json.chars() {
        match character {
            ' ' | '\t' | '\n' | '\r' if !in_string => continue,
            '"' if !after_backslash => in_string = !in_string,
            _ => {}
        }
        after_backslash = character == '\\' && !after_backslash;
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escape(character, out),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn white_space_goes_and_content_stays() {
        let mut out = String::new();
        put_compact(" { \"b\" : [ 1.50, 1e400 ] , \"a\" : \" spaced \\\" < \\\\\" } ", &mut out);
        assert_eq!(out, r#"{"b":[1.50,1e400],"a":" spaced \" \u003c \\"}"#);
    }

    proptest! {
        #[test]
        fn every_text_is_read_back(text in "\\PC{0,10}[\u{0}-\u{40}\u{2020}-\u{2030}]{0,10}") {
            let mut out = String::new();
            put_string(&text, &mut out);
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
            let escaped = !out.contains(['<', '>', '&', '\u{2028}', '\u{2029}', '\u{1}']);
            prop_assert!(escaped);
        }
    }
}
