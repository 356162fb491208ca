//! Rules about the record of what was decided and what changed: `docs/decisions/` and `CHANGELOG.md`.

use super::Finding;

const FOLDER: &str = "docs/decisions/";

/// Whether this file is a decision. A `README.md` in the folder is its cover and not a page of it.
pub(crate) fn is_in_the_folder(path: &str) -> bool {
    path.strip_prefix(FOLDER).is_some_and(|name| !name.contains('/') && name != "README.md")
}

/// Decisions are numbered `0001-title.md` onwards without a hole or a double, so "decision 7" means one page for ever.
pub(crate) fn numbers<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut numbered: Vec<(u32, &str)> = Vec::new();
    for path in paths {
        let number = path.strip_prefix(FOLDER).and_then(|name| name.split_once('-')?.0.parse().ok());
        match number {
            Some(number) => numbered.push((number, path)),
            None => found.push(Finding::new(
                path,
                1,
                "a decision without a number",
                "call it `0001-title.md`, next in line",
            )),
        }
    }
    numbered.sort_unstable();
    let mut next = 1;
    for (number, path) in numbered {
        if number != next {
            let instead = "number decisions without a hole; one that was withdrawn stays, marked as such";
            found.push(Finding::new(path, 1, format!("number {number} where {next} is next"), instead));
        }
        next = number + 1;
    }
    found
}

/// A decision says in which situation it was taken, what it is, and what it costs.
pub(crate) fn headings(path: &str, text: &str) -> Vec<Finding> {
    let headings: Vec<String> = headings_of(text).collect();
    let wanted: [&[&str]; 3] = [&["Context"], &["Decision"], &["Consequences", "What we gave up"]];
    let missing = wanted
        .into_iter()
        .filter(|names| !headings.iter().any(|heading| names.iter().any(|name| heading.eq_ignore_ascii_case(name))));
    let finding = |names: &[&str]| {
        let what = match names {
            [name] => format!("no heading `{name}`"),
            [name, or, ..] => format!("no heading `{name}` (or `{or}`)"),
            [] => "no heading".to_owned(),
        };
        Finding::new(path, 1, what, "every decision has Context, Decision and Consequences")
    };
    missing.map(finding).collect()
}

/// The change log has a place for the change at hand.
pub(crate) fn changelog(path: &str, text: Option<&str>) -> Option<Finding> {
    let Some(text) = text else {
        return Some(Finding::new(path, 1, "there is no change log", "create it with a section `## Unreleased`"));
    };
    let has_section =
        headings_of(text).any(|heading| heading.trim_matches(['[', ']']).eq_ignore_ascii_case("unreleased"));
    let instead = "add `## Unreleased` above the newest release and put what users notice there";
    (!has_section).then(|| Finding::new(path, 1, "no section `Unreleased`", instead))
}

/// The headings of a page, without their marks; lines in code blocks are not headings.
fn headings_of(text: &str) -> impl Iterator<Item = String> {
    let mut in_code = false;
    text.lines().filter_map(move |line| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let heading = line.strip_prefix('#').filter(|_| !in_code)?;
        Some(heading.trim_start_matches('#').trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_numbers(names: &[&str]) -> Vec<String> {
        let paths: Vec<String> = names.iter().map(|name| format!("{FOLDER}{name}")).collect();
        numbers(paths.iter().map(String::as_str)).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn numbers_follow_each_other() {
        assert!(refused_numbers(&["0001-a.md", "0002-b.md", "0003-c.md"]).is_empty());
        assert!(
            refused_numbers(&[
                "10-j.md", "1-a.md", "2-b.md", "3-c.md", "4-d.md", "5-e.md", "6-f.md", "7-g.md", "8-h.md", "9-i.md"
            ])
            .is_empty()
        );
        assert_eq!(refused_numbers(&["0002-a.md"]), ["number 2 where 1 is next"]);
        assert_eq!(refused_numbers(&["0001-a.md", "0003-c.md", "0004-d.md"]), ["number 3 where 2 is next"]);
        assert_eq!(refused_numbers(&["0001-a.md", "0001-b.md"]), ["number 1 where 2 is next"]);
        assert_eq!(refused_numbers(&["first.md"]), ["a decision without a number"]);
    }

    #[test]
    fn the_cover_of_the_folder_is_not_a_decision() {
        assert!(!is_in_the_folder("docs/decisions/README.md"));
        assert!(!is_in_the_folder("docs/formats/0001-a.md"));
        assert!(is_in_the_folder("docs/decisions/0001-a.md"));
    }

    #[test]
    fn a_decision_has_its_three_headings() {
        assert!(headings("a.md", "# A\n## Context\n## Decision\n## Consequences\n").is_empty());
        assert!(headings("a.md", "# A\n## context\n### Decision\n## What we gave up\n").is_empty());
        assert_eq!(headings("a.md", "## Context\n## Decision\n").len(), 1);
        assert_eq!(headings("a.md", "## Context\n```\n## Decision\n```\n## Consequences\n").len(), 1);
        assert_eq!(headings("a.md", "Context, Decision, Consequences\n").len(), 3);
    }

    #[test]
    fn the_change_log_has_room_for_the_change() {
        assert_eq!(changelog("CHANGELOG.md", Some("# Changes\n\n## Unreleased\n")), None);
        assert_eq!(changelog("CHANGELOG.md", Some("## [Unreleased]\n")), None);
        assert!(changelog("CHANGELOG.md", Some("## 0.1.0\nUnreleased things\n")).is_some());
        assert!(changelog("CHANGELOG.md", None).is_some());
    }
}
