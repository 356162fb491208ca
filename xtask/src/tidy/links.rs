//! Relative links in the documents lead somewhere.
//!
//! Links to other sites are not followed: a change must not fail because somebody else's server is down. Anchors inside a
//! page are not checked either, since how a heading becomes an anchor is the renderer's choice.

use super::Finding;

/// Checks every relative link of one page. `exists` answers for a path from the repository's root.
pub(crate) fn relative(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            continue;
        }
        for target in targets(&without_code(line)) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || is_elsewhere(&target) {
                continue;
            }
            if !resolve(path, file).is_some_and(|resolved| exists(&resolved)) {
                let instead = "correct the path, or write the name as `code` if the file is only planned";
                found.push(Finding::new(path, number + 1, format!("the link `{target}` leads nowhere"), instead));
            }
        }
    }
    found
}

/// The targets of `[text](target)`, `![text](target "title")` and `[name]: target` in one line.
fn targets(line: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for (at, _) in line.match_indices("](") {
        let rest = &line[at + 2..];
        if let Some(end) = rest.find(')') {
            targets.push(rest[..end].to_owned());
        }
    }
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        targets.push(target.to_owned());
    }
    let without_title = |target: String| {
        let target = target.split_whitespace().next().unwrap_or_default();
        target.trim_start_matches('<').trim_end_matches('>').to_owned()
    };
    targets.into_iter().map(without_title).collect()
}

/// The line with its `code spans` cut out, since a link in a code span is text about a link.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// The path from the root that `target` means on the page `from`; `None` if it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let start = if target.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in start.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[&str] = &["README.md", "docs", "docs/how-to", "docs/how-to/a.md", "crates/model/src/lib.rs", ""];

    fn broken(path: &str, text: &str) -> Vec<String> {
        let found = relative(path, text, &|target| FILES.contains(&target));
        found.into_iter().map(|finding| format!("{} {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        for text in [
            "[a](docs/how-to/a.md)",
            "[a](./docs/how-to/a.md#part)",
            "[a](docs/) and [b](/README.md)",
            "![a](README.md \"a title\")",
            "[a]: docs/how-to/a.md",
            "[a](<README.md>)",
            "[a](#part), [b](https://example.org/x.md), [c](mailto:a@example.org)",
            "`[a](nowhere.md)`",
            "```text\n[a](nowhere.md)\n```",
            "an array `a[0](x)`, a note[1]",
        ] {
            assert!(broken("README.md", text).is_empty(), "{text}");
        }
        assert!(broken("docs/how-to/a.md", "[a](../../crates/model/src/lib.rs) [b](a.md) [c](../..)").is_empty());
    }

    #[test]
    fn links_that_lead_nowhere_are_found_with_their_line() {
        assert_eq!(broken("README.md", "x\n[a](b.md)"), ["2 the link `b.md` leads nowhere"]);
        assert_eq!(broken("docs/how-to/a.md", "[a](README.md)"), ["1 the link `README.md` leads nowhere"]);
        assert_eq!(broken("README.md", "[a](../README.md)"), ["1 the link `../README.md` leads nowhere"]);
        assert_eq!(broken("README.md", "[a]: b.md\n").len(), 1);
        assert_eq!(broken("README.md", "[a](b.md) [c](d.md#e)").len(), 2);
        assert_eq!(broken("README.md", "```\n```\n[a](b.md)"), ["3 the link `b.md` leads nowhere"]);
    }
}
