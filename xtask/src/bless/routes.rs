//! A released path is served until the end of that release's support: with its method, its messages, and one answer or many.
//!
//! Compared are two copies of the golden table of routes, which a test of `api` keeps equal to the routes that are served.
//! Free are: new rows, their order, whether a route is deprecated, and its name, which is only a label of ours.
//!
//! A row begins with the name; the method and the path follow on the same line. What stands indented below belongs to it, such
//! as `Request -> Answer`. Tables of different age say more or less of a route, and what only one of them says is not compared.

use crate::tidy::Finding;

/// The table of today.
pub(crate) const TABLE: &str = "crates/api/tests/golden/routes.txt";

const SOURCE: &str = "crates/api/src/routes.rs";
const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE"];
/// What stands for the answer where it is a stream.
const STREAMS: &[&str] = &["stream", "events"];

struct Row<'a> {
    line: usize,
    name: &'a str,
    method: &'a str,
    path: &'a str,
    messages: Option<(&'a str, &'a str)>,
    is_stream: bool,
}

fn rows<'a>(path: &str, text: &'a str) -> Result<Vec<Row<'a>>, Finding> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_stream = words.iter().any(|word| STREAMS.contains(word));
        let last = rows.last_mut().filter(|_| line.starts_with(' '));
        if let Some(row) = last {
            row.messages = row.messages.or_else(|| line.trim().split_once(" -> "));
            row.is_stream |= is_stream;
            continue;
        }
        let find = |is_it: &dyn Fn(&str) -> bool| words.iter().copied().skip(1).find(|word| is_it(word));
        let method = find(&|word| METHODS.contains(&word));
        let (Some(name), Some(method), Some(route)) = (words.first(), method, find(&|word| word.starts_with('/')))
        else {
            let instead = "restore the line; the tests of corkboard-api write this file with `UPDATE_EXPECT=1`";
            return Err(Finding::new(path, number + 1, format!("not a row of the table: `{line}`"), instead));
        };
        rows.push(Row { line: number + 1, name, method, path: route, messages: None, is_stream });
    }
    Ok(rows)
}

/// Every released path that is not served as it was. The first of a pair is the path of the file.
pub(crate) fn broken(released: (&str, &str), current: (&str, &str)) -> Result<Vec<Finding>, Finding> {
    let today = rows(current.0, current.1)?;
    let mut found = Vec::new();
    for old in rows(released.0, released.1)? {
        let Some(new) = today.iter().find(|new| new.path == old.path) else {
            found.push(gone(released.0, &old, current.0, &today));
            continue;
        };
        if new.method != old.method {
            let what = format!(
                "method: `{}` was called with {} and is with {}; clients of that release get 405",
                old.path, old.method, new.method
            );
            let instead = format!("restore the method in {SOURCE}, and give the new call a revision of its own");
            found.push(Finding::new(current.0, new.line, what, instead));
        }
        if let (Some(was), Some(is)) = (old.messages, new.messages)
            && was != is
        {
            let what = format!(
                "messages: `{}` was `{} -> {}` and is `{} -> {}`; what clients of that release send is read as something else",
                old.path, was.0, was.1, is.0, is.1
            );
            let instead = format!("restore them in {SOURCE}, and give the new messages a revision of their own");
            found.push(Finding::new(current.0, new.line, what, instead));
        }
        if new.is_stream != old.is_stream {
            let (was, is) = if old.is_stream { ("a stream", "one message") } else { ("one message", "a stream") };
            let what =
                format!("answer: `{}` answered with {was} and does with {is}; clients wait for ever or fail", old.path);
            let instead = format!("restore it in {SOURCE}, and give the new answer a revision of its own");
            found.push(Finding::new(current.0, new.line, what, instead));
        }
    }
    Ok(found)
}

fn gone(released_table: &str, old: &Row<'_>, table: &str, today: &[Row<'_>]) -> Finding {
    let instead = format!("put the row back in {SOURCE}, marked as Deprecated, and let the old handler answer it");
    match today.iter().find(|new| new.name == old.name) {
        Some(new) => {
            let what = format!("renamed: `{}` is now `{}`; clients of that release get 404", old.path, new.path);
            Finding::new(table, new.line, what, instead)
        }
        None => {
            let what = format!("removed: `{}` is not served any more; clients of that release get 404", old.path);
            Finding::new(released_table, old.line, what, instead)
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const BEFORE: &str = "Ping    POST /v1/ping\nEvents  GET  /v1/events deprecated stream\n";

    #[test]
    fn additions_order_age_and_labels_are_free() {
        check(BEFORE, &expect![""]);
        check("Everything GET /v1/events stream\nNew POST /v1/ping.r1\nPing POST /v1/ping deprecated\n", &expect![""]);
    }

    #[test]
    fn a_released_path_stays_with_its_method_and_its_answer() {
        check(
            "Events GET /v1/events stream\n",
            &expect![[r#"
                frozen/0.1/routes.txt:1: removed: `/v1/ping` is not served any more; clients of that release get 404 — put the row back in crates/api/src/routes.rs, marked as Deprecated, and let the old handler answer it
            "#]],
        );
        check(
            "Ping POST /v2/ping\nEvents GET /v1/events stream\n",
            &expect![[r#"
                routes.txt:1: renamed: `/v1/ping` is now `/v2/ping`; clients of that release get 404 — put the row back in crates/api/src/routes.rs, marked as Deprecated, and let the old handler answer it
            "#]],
        );
        check(
            "Ping GET /v1/ping\nEvents GET /v1/events\n",
            &expect![[r#"
                routes.txt:1: method: `/v1/ping` was called with POST and is with GET; clients of that release get 405 — restore the method in crates/api/src/routes.rs, and give the new call a revision of its own
                routes.txt:2: answer: `/v1/events` answered with a stream and does with one message; clients wait for ever or fail — restore it in crates/api/src/routes.rs, and give the new answer a revision of its own
            "#]],
        );
    }

    /// A table that says more of its routes is compared with one that says less, and both with themselves.
    #[test]
    fn tables_of_different_age_are_compared() {
        let newer =
            "Ping    r0 POST /v1/ping\n    - -> Pong\n    since 0.1\nEvents  r0 GET /v1/events\n    - -> events\n";
        check(newer, &expect![""]);
        let after = newer.replace("Pong", "Echo").replace("- -> events", "- -> Event");
        check_from(
            newer,
            &after,
            &expect![[r#"
            routes.txt:1: messages: `/v1/ping` was `- -> Pong` and is `- -> Echo`; what clients of that release send is read as something else — restore them in crates/api/src/routes.rs, and give the new messages a revision of their own
            routes.txt:4: messages: `/v1/events` was `- -> events` and is `- -> Event`; what clients of that release send is read as something else — restore them in crates/api/src/routes.rs, and give the new messages a revision of their own
            routes.txt:4: answer: `/v1/events` answered with a stream and does with one message; clients wait for ever or fail — restore it in crates/api/src/routes.rs, and give the new answer a revision of its own
        "#]],
        );
    }

    #[test]
    fn a_line_that_is_no_row_is_refused() {
        for text in ["Ping POST\n", "Ping /v1/ping\n", "POST /v1/ping\n", "\n", "    - -> Pong\n"] {
            let refused = broken(("frozen/0.1/routes.txt", BEFORE), ("routes.txt", text)).unwrap_err();
            assert_eq!((refused.path.as_str(), refused.line), ("routes.txt", 1), "{text}");
        }
    }

    fn check(after: &str, expected: &Expect) {
        check_from(BEFORE, after, expected);
    }

    fn check_from(before: &str, after: &str, expected: &Expect) {
        let found = broken(("frozen/0.1/routes.txt", before), ("routes.txt", after)).unwrap();
        expected.assert_eq(&found.iter().map(|finding| format!("{finding}\n")).collect::<String>());
    }
}
