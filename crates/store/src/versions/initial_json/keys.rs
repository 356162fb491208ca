//! Where each record lies: Diego's layout in etcd. Names are percent-encoded, because a guid may hold any character, also
//! a slash. Diego never wrote `suspect`; the presence came later and has its place here, so that going back loses nothing.

use std::borrow::Cow;

use model::Presence;
use percent_encoding::percent_decode_str;

use super::ROOT;
use crate::versions::Subject;
use crate::versions::place::{escaped, unescaped};

pub(super) fn desired(guid: &str) -> String {
    format!("{ROOT}desired/{}", escaped(guid))
}

pub(super) fn actual(guid: &str, index: i32, of: i32) -> String {
    format!("{ROOT}actual/{}/{index}/{}", escaped(guid), presence(of))
}

pub(super) fn task(guid: &str) -> String {
    format!("{ROOT}task/{}", escaped(guid))
}

pub(super) fn domain(name: &str) -> String {
    format!("{ROOT}domain/{}", escaped(name))
}

const PRESENCES: [&str; 3] = ["instance", "evacuating", "suspect"];

/// What a presence is called in a key.
pub(super) fn presence(number: i32) -> Cow<'static, str> {
    let name = usize::try_from(number).ok().and_then(|at| PRESENCES.get(at));
    name.map_or_else(|| number.to_string().into(), |name| (*name).into())
}

/// What a key names. Names are as they stand in the key, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Desired,
    /// With its presence.
    Actual(i32),
    Task,
    Domain(&'a str),
}

impl<'a> Kind<'a> {
    pub(super) fn of(key: &'a str) -> Option<Kind<'a>> {
        let (kind, rest) = key.strip_prefix(ROOT)?.split_once('/')?;
        match kind {
            "desired" => Some(Kind::Desired),
            "actual" => {
                let (_, name) = rest.rsplit_once('/')?;
                let at = PRESENCES.iter().position(|known| *known == name)?;
                i32::try_from(at).ok().map(Kind::Actual)
            }
            "task" => Some(Kind::Task),
            "domain" => Some(Kind::Domain(rest)),
            _ => None,
        }
    }
}

/// A name as it was before it was encoded.
pub(super) fn decoded(name: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(name).decode_utf8().ok()
}

/// What a record with this key belongs to. `None` for a key that names nothing, or spells its names in another way.
pub fn subject(key: &str) -> Option<Subject> {
    let (kind, rest) = key.strip_prefix(ROOT)?.split_once('/')?;
    let names: Vec<&str> = rest.split('/').collect();
    let (subject, place) = match (kind, &names[..]) {
        ("desired", [guid]) => {
            let guid = unescaped(guid)?;
            let place = desired(&guid);
            (Subject::Desired(guid), place)
        }
        ("actual", [guid, index, name]) => {
            let (guid, index) = (unescaped(guid)?, index.parse().ok()?);
            let number = (0..).zip(PRESENCES).find(|(_, known)| known == name)?.0;
            let place = actual(&guid, index, number);
            let presence = [Presence::Ordinary, Presence::Evacuating, Presence::Suspect][number as usize];
            (Subject::Actual { guid, index, presence }, place)
        }
        ("task", [guid]) => {
            let guid = unescaped(guid)?;
            let place = task(&guid);
            (Subject::Task(guid), place)
        }
        ("domain", [name]) => {
            let name = unescaped(name)?;
            let place = domain(&name);
            (Subject::Domain(name), place)
        }
        _ => return None,
    };
    (place == key).then_some(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_frozen() {
        assert_eq!(desired("9f3c-ab_1.x~y"), "/v1/desired/9f3c-ab_1.x~y");
        assert_eq!(actual("g", 3, 0), "/v1/actual/g/3/instance");
        assert_eq!(actual("g", 3, 1), "/v1/actual/g/3/evacuating");
        assert_eq!(actual("g", -3, 2), "/v1/actual/g/-3/suspect");
        assert_eq!(task("a/b%"), "/v1/task/a%2Fb%25");
        assert_eq!(domain("cf apps/ü"), "/v1/domain/cf%20apps%2F%C3%BC");
        assert_eq!(decoded("cf%20apps%2F%C3%BC").as_deref(), Some("cf apps/ü"));
    }

    #[test]
    fn a_key_tells_its_kind() {
        assert_eq!(Kind::of("/v1/desired/x"), Some(Kind::Desired));
        assert_eq!(Kind::of("/v1/actual/x/1/evacuating"), Some(Kind::Actual(1)));
        assert_eq!(Kind::of("/v1/actual/x/1/other"), None);
        assert_eq!(Kind::of("/v1/domain/d"), Some(Kind::Domain("d")));
        assert_eq!(Kind::of("/v1/desired_lrp/run/x"), None);
        assert_eq!(Kind::of("/v2/task/x"), None);
    }

    #[test]
    fn a_key_tells_what_it_belongs_to() {
        let check = |key: &str, expected: Option<Subject>| assert_eq!(subject(key), expected, "{key}");
        let row = |guid: &str, index, presence| Subject::Actual { guid: guid.into(), index, presence };
        check("/v1/desired/a%2Fb", Some(Subject::Desired("a/b".into())));
        check("/v1/desired/", Some(Subject::Desired(String::new())));
        check("/v1/actual/g/-3/instance", Some(row("g", -3, Presence::Ordinary)));
        check("/v1/actual/g%20h/0/evacuating", Some(row("g h", 0, Presence::Evacuating)));
        check("/v1/actual/g/7/suspect", Some(row("g", 7, Presence::Suspect)));
        check("/v1/task/t", Some(Subject::Task("t".into())));
        check("/v1/domain/%C3%BC", Some(Subject::Domain("ü".into())));
        // Another spelling is another key, and nothing belongs there.
        for below in [
            "task/a%2fb", "task/a/b", "task/%61", "task/%FF", "actual/g/03/instance", "actual/g/+3/instance", "actual/g/3/2",
            "actual/g/3/ordinary", "actual/g/x/instance", "actual/g/3", "actual/g", "desired", "desired/run/g", "other/x", "",
        ] {
            check(&format!("/v1/{below}"), None);
        }
        check("/v7/task/t", None);
        check("/version", None);
    }
}
