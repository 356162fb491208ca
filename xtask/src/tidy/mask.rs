//! Rust source with comments and the contents of literals blanked out, so that a rule looks at code only.
//!
//! Lines keep their number and length in characters. This is a lexer of the few things that hide text from the compiler,
//! not a parser: a rule that needs more than words on a line belongs in clippy.

/// Replaces every character inside comments, strings and character literals with a space; newlines stay.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = hidden_end(&chars, at);
        if end == at {
            masked.push(chars[at]);
            at += 1;
            continue;
        }
        masked.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    masked
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn hidden_end(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => find(chars, at, |c| c == '\n'),
        '/' if next == Some('*') => block_comment_end(chars, at),
        '"' => string_end(chars, at),
        'r' if !continues_a_word(chars, at) => raw_string_end(chars, at).unwrap_or(at),
        '\'' => char_end(chars, at),
        _ => at,
    }
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|&i| wanted(chars[i])).unwrap_or(chars.len())
}

/// Block comments nest in Rust.
fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0usize;
    let mut at = start;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The end of `r"…"` or `r##"…"##`; `None` for a raw identifier or a plain word. A leading `b` or `c` is code and stays.
fn raw_string_end(chars: &[char], start: usize) -> Option<usize> {
    let quote = find(chars, start + 1, |c| c != '#');
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - start - 1;
    let closes = |at: usize| chars[at] == '"' && chars[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
    Some((quote + 1..chars.len()).find(|&at| closes(at)).map_or(chars.len(), |at| at + 1 + hashes))
}

/// A quote that opens a character literal and not a lifetime: it is followed by an escape, or by one character and a quote.
fn char_end(chars: &[char], start: usize) -> usize {
    match (chars.get(start + 1), chars.get(start + 2)) {
        (Some('\\'), Some(_)) => (find(chars, start + 3, |c| c == '\'') + 1).min(chars.len()),
        (Some(_), Some('\'')) => start + 3,
        _ => start,
    }
}

/// Whether the `r` at this place is the end of a longer word. `br"…"` and `cr"…"` are the only words that may precede.
fn continues_a_word(chars: &[char], at: usize) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let prefix = chars[..at].iter().rev().take_while(|&&c| is_word(c)).count();
    prefix > 1 || (prefix == 1 && !matches!(chars[at - 1], 'b' | 'c'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_code_stays() {
        let cases = [
            ("a // todo!()", "a"),
            ("a /* x /* y */ z */ b", "a b"),
            ("f(\"todo!()\") g", "f( ) g"),
            (r#"f("a\"b") g"#, "f( ) g"),
            (r##"r#"a"b"# c"##, "c"),
            ("br\"x\" c", "b c"),
            ("r#type c", "r#type c"),
            ("for\"x\" c", "for c"),
            ("'\"' 'a", "'a"),
            ("'\\'' b", "b"),
            ("'\\u{1F600}' b", "b"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
        ];
        for (text, expected) in cases {
            let masked = code_only(text);
            assert_eq!(masked.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
            assert_eq!(masked.chars().count(), text.chars().count(), "{text}");
        }
    }

    #[test]
    fn lines_keep_their_number() {
        assert_eq!(code_only("\"a\nb\"\n/*\n*/c"), "  \n  \n  \n  c");
    }

    #[test]
    fn unfinished_text_ends_the_walk_and_does_not_panic() {
        for text in ["\"a", "/* a", "r#\"a", "'", "'\\", "'\\n", "/", "\"\\"] {
            assert_eq!(code_only(text).chars().count(), text.chars().count(), "{text}");
        }
    }
}
