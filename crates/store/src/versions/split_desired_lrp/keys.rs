//! Where each record lies. Names are percent-encoded, because a guid may hold any character, also a slash.

use std::fmt::{self, Display};

use model::Presence;

use super::{ROOT, records};
use crate::versions::Subject;
use crate::versions::place::{escaped, is_at, unescaped};

/// The key of one record, not yet written out. Displaying it gives the key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Schedule(&'a str),
    Run(&'a str),
    /// The domain is part of the record but not of its key: a guid is unique over all domains.
    Actual(&'a str, i32, &'static str),
    Task(&'a str),
    Domain(&'a str),
}

impl Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(ROOT)?;
        match self {
            Self::Schedule(guid) => write!(out, "desired/schedule/{}", escaped(guid)),
            Self::Run(guid) => write!(out, "desired/run/{}", escaped(guid)),
            Self::Actual(guid, index, presence) => write!(out, "actual/{}/{index}/{presence}", escaped(guid)),
            Self::Task(guid) => write!(out, "task/{}", escaped(guid)),
            Self::Domain(name) => write!(out, "domain/{}", escaped(name)),
        }
    }
}

pub(super) fn actual(record: &records::Actual) -> Place<'_> {
    Place::Actual(&record.process_guid, record.index, presence(record.presence))
}

/// What the number of a presence is called. One that nobody knows does not get past the loader.
pub(super) fn presence(number: u32) -> &'static str {
    match number {
        1 => "ordinary",
        2 => "evacuating",
        3 => "suspect",
        _ => "unknown",
    }
}

/// What kind of record a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Schedule,
    Run,
    Actual,
    Task,
    Domain,
}

impl Kind {
    pub(super) fn of(key: &str) -> Option<Kind> {
        let below = key.strip_prefix(ROOT)?;
        let kinds = [
            ("desired/schedule/", Kind::Schedule),
            ("desired/run/", Kind::Run),
            ("actual/", Kind::Actual),
            ("task/", Kind::Task),
            ("domain/", Kind::Domain),
        ];
        kinds.into_iter().find(|(prefix, _)| below.starts_with(prefix)).map(|(_, kind)| kind)
    }
}

/// What a record with this key belongs to. `None` for a key that names nothing, or spells its names in another way.
pub fn subject(key: &str) -> Option<Subject> {
    let (kind, rest) = key.strip_prefix(ROOT)?.split_once('/')?;
    let names: Vec<&str> = rest.split('/').collect();
    let (subject, is_there) = match (kind, &names[..]) {
        ("desired", ["schedule", guid]) => {
            let guid = unescaped(guid)?;
            let is_there = is_at(&Place::Schedule(&guid), key);
            (Subject::Desired(guid), is_there)
        }
        ("desired", ["run", guid]) => {
            let guid = unescaped(guid)?;
            let is_there = is_at(&Place::Run(&guid), key);
            (Subject::Desired(guid), is_there)
        }
        ("actual", [guid, index, name]) => {
            let (guid, index) = (unescaped(guid)?, index.parse().ok()?);
            let presences = [Presence::Ordinary, Presence::Evacuating, Presence::Suspect];
            let (number, of) = (1..).zip(presences).find(|(number, _)| presence(*number) == *name)?;
            let is_there = is_at(&Place::Actual(&guid, index, presence(number)), key);
            (Subject::Actual { guid, index, presence: of }, is_there)
        }
        ("task", [guid]) => {
            let guid = unescaped(guid)?;
            let is_there = is_at(&Place::Task(&guid), key);
            (Subject::Task(guid), is_there)
        }
        ("domain", [name]) => {
            let name = unescaped(name)?;
            let is_there = is_at(&Place::Domain(&name), key);
            (Subject::Domain(name), is_there)
        }
        _ => return None,
    };
    is_there.then_some(subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::KEY_BYTES_MAX;
    use crate::versions::split_desired_lrp::NUMBER;
    use crate::versions::split_desired_lrp::check::ID_BYTES_MAX;

    fn check(place: Place<'_>, key: &str) {
        assert_eq!(place.to_string(), key);
    }

    #[test]
    fn the_layout_is_frozen() {
        check(Place::Schedule("9f3c-ab_1.x~y"), "/v1442529338/desired/schedule/9f3c-ab_1.x~y");
        check(Place::Run("9f3c-ab_1.x~y"), "/v1442529338/desired/run/9f3c-ab_1.x~y");
        check(Place::Actual("g", 3, presence(1)), "/v1442529338/actual/g/3/ordinary");
        check(Place::Actual("g", 3, presence(2)), "/v1442529338/actual/g/3/evacuating");
        check(Place::Actual("g", 3, presence(3)), "/v1442529338/actual/g/3/suspect");
        check(Place::Task("a/b%"), "/v1442529338/task/a%2Fb%25");
        check(Place::Domain("cf apps/ü"), "/v1442529338/domain/cf%20apps%2F%C3%BC");
        assert_eq!(ROOT, format!("/v{NUMBER}/"));
    }

    #[test]
    fn the_longest_name_fits_into_a_key() {
        let longest = "/".repeat(ID_BYTES_MAX);
        assert!(Place::Actual(&longest, i32::MIN, presence(2)).to_string().len() <= KEY_BYTES_MAX);
        assert!(Place::Schedule(&longest).to_string().len() <= KEY_BYTES_MAX);
    }

    #[test]
    fn a_place_is_its_own_key_and_no_other() {
        let name = "a/b ü";
        let mut places = vec![Place::Schedule(name), Place::Run(name), Place::Task(name), Place::Domain(name)];
        places.extend([1, 3].map(|number| Place::Actual(name, i32::MIN, presence(number))));
        let keys: Vec<String> = places.iter().map(Place::to_string).collect();
        for (at, place) in places.iter().enumerate() {
            for (other, key) in keys.iter().enumerate() {
                assert_eq!(is_at(place, key), at == other, "{place:?} and {key}");
            }
            assert!(!is_at(place, &format!("{}x", keys[at])), "a longer key is another one");
            assert!(!is_at(place, &keys[at][..keys[at].len() - 1]), "a shorter key is another one");
            assert!(!is_at(place, &keys[at].replace("%2F", "/")), "a name has one spelling");
            assert!(!is_at(place, &keys[at].replace("%2F", "%2f")), "a name has one spelling");
        }
    }

    #[test]
    fn a_key_tells_its_kind() {
        assert_eq!(Kind::of("/v1442529338/desired/run/x"), Some(Kind::Run));
        assert_eq!(Kind::of("/v1442529338/desired/schedule/x"), Some(Kind::Schedule));
        assert_eq!(Kind::of("/v1442529338/desired/other/x"), None);
        assert_eq!(Kind::of("/v1442529337/task/x"), None);
    }

    #[test]
    fn a_key_tells_what_it_belongs_to() {
        let check = |key: &str, expected: Option<Subject>| assert_eq!(subject(key), expected, "{key}");
        let row = |guid: &str, index, presence| Subject::Actual { guid: guid.into(), index, presence };
        check("/v1442529338/desired/schedule/a%2Fb", Some(Subject::Desired("a/b".into())));
        check("/v1442529338/desired/run/a%2Fb", Some(Subject::Desired("a/b".into())));
        check("/v1442529338/desired/schedule/", Some(Subject::Desired(String::new())));
        check("/v1442529338/actual/g/-3/ordinary", Some(row("g", -3, Presence::Ordinary)));
        check("/v1442529338/actual/g%20h/0/evacuating", Some(row("g h", 0, Presence::Evacuating)));
        check("/v1442529338/actual/g/7/suspect", Some(row("g", 7, Presence::Suspect)));
        check("/v1442529338/task/t", Some(Subject::Task("t".into())));
        check("/v1442529338/domain/%C3%BC", Some(Subject::Domain("ü".into())));
        // Another spelling is another key, and nothing belongs there.
        for below in [
            "desired/definition/g/0000000001", "desired/schedule/a%2fb", "desired/schedule/a/b", "desired/g",
            "task/a%2fb", "task/a/b", "task/%61", "task/%FF", "actual/g/03/ordinary", "actual/g/+3/ordinary",
            "actual/g/3/unknown", "actual/g/3/instance", "actual/g/x/ordinary", "actual/g/3", "actual/g", "desired", "other/x", "",
        ] {
            check(&format!("/v1442529338/{below}"), None);
        }
        check("/v7/task/t", None);
        check("/version", None);
    }
}
