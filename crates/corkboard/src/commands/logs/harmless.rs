//! Text that came from somebody else, for a terminal: it cannot move the cursor, change what was shown, or pass for something
//! else.
//!
//! Colours are left out, since many apps write them and they only get in the way of ours. Every other control character is shown
//! as a visible sign, and so are the characters that turn the direction of text.

use std::borrow::Cow;

pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after_colour = colour_end(rest);
        rest = &rest[after_colour.unwrap_or(c.len_utf8())..];
        match c {
            _ if after_colour.is_some() => {}
            // The control pictures of Unicode stand in the order of the characters that they show.
            '\0'..='\u{1f}' if c != '\t' => shown.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => shown.push('\u{2421}'),
            c if is_harmful(c) => shown.push(char::REPLACEMENT_CHARACTER),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

fn is_harmful(c: char) -> bool {
    let turns = matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() && c != '\t' || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Where a sequence that only sets colours ends, if the text begins with one.
fn colour_end(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\u{1b}[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':')?;
    numbers[end..].starts_with('m').then(|| text.len() - numbers.len() + end + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_could_do_harm_is_shown_instead() {
        let table = [
            ("plain\ttext, Grüße", "plain\ttext, Grüße"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}[2J\u{1b}[Hgone", "␛[2J␛[Hgone"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("over\rwritten\u{8}", "over␍written␈"),
            ("\u{9b}31m\u{7f}\u{202e}", "\u{fffd}31m\u{2421}\u{fffd}"),
            ("\u{1b}[31", "␛[31"),
        ];
        for (text, expected) in table {
            assert_eq!(harmless(text), expected);
        }
    }

    proptest! {
        #[test]
        fn nothing_harmful_is_left(text in any::<String>()) {
            prop_assert!(!harmless(&text).contains(is_harmful));
        }
    }
}
