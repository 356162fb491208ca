//! A report that several benchmarks share: each replaces its own section and leaves the others as they are.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;

/// The text of a report, empty when there is none yet.
pub fn read(path: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// The section under a heading of the second level, with its heading. It ends at the next such heading.
pub fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (from, to) = bounds(text, heading)?;
    Some(&text[from..to])
}

/// The text with the section in the place of the former one, or at the end when there was none.
pub fn with_section(text: &str, heading: &str, section: &str) -> String {
    let (before, after) = match bounds(text, heading) {
        Some((from, to)) => (&text[..from], &text[to..]),
        None => (text, ""),
    };
    let mut parts = vec![before.trim_end(), section.trim(), after.trim()];
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n") + "\n"
}

fn bounds(text: &str, heading: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    let mut from = None;
    for line in text.split_inclusive('\n') {
        if line.starts_with("## ") {
            if let Some(from) = from {
                return Some((from, at));
            }
            if line.trim_end() == heading {
                from = Some(at);
            }
        }
        at += line.len();
    }
    from.map(|from| (from, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n\n## One\n\na\n\n## Two\n\nb\n\n### Part\n\nc\n\n## Three\n\nd\n";

    #[test]
    fn a_section_is_replaced_and_the_others_stay() {
        assert_eq!(section(TEXT, "## Two"), Some("## Two\n\nb\n\n### Part\n\nc\n\n"));
        assert_eq!(section(TEXT, "## Part"), None);
        let replaced = with_section(TEXT, "## Two", "## Two\n\nnew\n");
        assert_eq!(replaced, "# Title\n\n## One\n\na\n\n## Two\n\nnew\n\n## Three\n\nd\n");
        assert_eq!(with_section(&replaced, "## Two", "## Two\n\nnew\n"), replaced, "twice is once");
        assert_eq!(with_section(TEXT, "## Three", "## Three\n\nnew"), TEXT.replace("\nd\n", "\nnew\n"));
    }

    #[test]
    fn what_was_not_there_is_added_at_the_end() {
        assert_eq!(with_section("# Title\n\n\n", "## New", "## New\n\nx"), "# Title\n\n## New\n\nx\n");
        assert_eq!(with_section("", "## New", "## New\n"), "## New\n");
    }
}
