//! The dotted names under which our sentences stand in a log of Diego's shape.
//!
//! Names that pipelines and start checks look for are Diego's own and stand in the table. All others are made: the part of
//! the server that speaks, and the first clause of what it says, up to the first thing that differs from time to time. Such
//! a name stays as long as the sentence does; only those of the table are promised.
//!
//! When you add a line that Diego's BBS has too: a row in the table, or the field `lager` with the name without the
//! component (`lager = "locket-lock.acquired-lock"`).

use super::lager::Level;

/// How a sentence begins, Diego's name for it without the component, and the level where it is not that of the line.
const DIEGOS: &[(&str, &str, Option<Level>)] = &[
    ("starting under a configuration file of Diego's", "starting", None),
    ("the server is ready", "started", None),
    ("the server has stopped", "exited", None),
    ("the server ended with an error", "exited-with-failure", None),
    ("the configuration cannot be used", "invalid-configuration", Some(Level::Fatal)),
    ("this node asks Locket for its lock", "locket-lock.started", None),
    ("this node waits for its lock", "locket-lock.failed-to-acquire-lock", None),
    ("this node has the lock in Locket", "locket-lock.acquired-lock", None),
    ("the lock in Locket is lost", "locket-lock.lost-lock", None),
    ("the lock is given back", "locket-lock.released-lock", None),
    ("the lock could not be given back", "locket-lock.failed-to-release-lock", None),
];

/// More of a sentence is not needed to tell it from others.
const WORDS_MAX: usize = 10;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) message: String,
    pub(super) level: Option<Level>,
}

/// `target` is the module that speaks, `given` the name that it gives itself.
pub(super) fn name(target: &str, sentence: &str, given: Option<&str>) -> Name {
    if let Some(given) = given {
        return Name { message: given.to_owned(), level: None };
    }
    if let Some((_, name, level)) = DIEGOS.iter().find(|(known, ..)| sentence.starts_with(known)) {
        return Name { message: (*name).to_owned(), level: *level };
    }
    let message = match part(target) {
        Some(part) => format!("{}.{}", part.replace('_', "-"), slug(sentence)),
        None => slug(sentence),
    };
    Name { message, level: None }
}

/// The uppermost module of one of our crates, or the crate of somebody else.
fn part(target: &str) -> Option<&str> {
    let mut modules = target.split("::");
    let first = modules.next()?;
    if first.starts_with("corkboard") { modules.next() } else { Some(first).filter(|name| !name.is_empty()) }
}

fn slug(sentence: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in sentence.split_whitespace().take(WORDS_MAX) {
        let begins_plainly = word.starts_with(|c: char| c.is_ascii_alphabetic());
        if !begins_plainly || word.contains(['=', '/', '"', '`']) {
            break;
        }
        let kept = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
        words.push(word.chars().filter(kept).map(|c| c.to_ascii_lowercase()).collect());
        if word.ends_with([';', ':', '.', ',', '!', '?']) {
            break;
        }
    }
    if words.is_empty() { "event".to_owned() } else { words.join("-") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_do_not_vary_with_what_is_told() {
        for (target, sentence, expected) in [
            ("corkboard_bbs::server", "the store is open", "server.the-store-is-open"),
            ("corkboard_bbs::server::standby", "this node waits, and will not become master", "server.this-node-waits"),
            (
                "corkboard_bbs::migrate::act",
                "an operator's request was refused: no",
                "migrate.an-operators-request-was-refused",
            ),
            ("corkboard_bbs", "rolled back to data version 7 (x); start it", "rolled-back-to-data-version"),
            ("corkboard_bbs::cells_file", "LRP convergence", "cells-file.lrp-convergence"),
            ("corkboard_store::etcd", "`x` is there", "etcd.event"),
            ("h2::codec", "", "h2.event"),
            ("", "key \"a\" is lost", "key"),
            (
                "x",
                "one two three four five six seven eight nine ten eleven",
                "x.one-two-three-four-five-six-seven-eight-nine-ten",
            ),
        ] {
            assert_eq!(name(target, sentence, None).message, expected);
        }
    }

    #[test]
    fn a_name_that_is_given_wins_and_the_table_comes_next() {
        assert_eq!(name("a", "the server is ready", Some("b.c")).message, "b.c");
        assert_eq!(name("a", "the server is ready", None).message, "started");
        assert_eq!(name("a", "the configuration cannot be used", None).level, Some(Level::Fatal));
    }
}
