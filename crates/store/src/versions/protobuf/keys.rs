//! Where each record lies: as in Diego's etcd. Names are percent-encoded, because a guid may hold any character, also a
//! slash. Diego never wrote `suspect`; the presence came later and has its place here, so that going back loses nothing.

use std::borrow::Cow;

use super::ROOT;
use crate::versions::place::escaped;

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

/// What a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Desired,
    /// With its presence.
    Actual(i32),
    Task,
    Domain,
}

impl Kind {
    pub(super) fn of(key: &str) -> Option<Kind> {
        let (kind, rest) = key.strip_prefix(ROOT)?.split_once('/')?;
        match kind {
            "desired" => Some(Kind::Desired),
            "actual" => {
                let (_, name) = rest.rsplit_once('/')?;
                let at = PRESENCES.iter().position(|known| *known == name)?;
                i32::try_from(at).ok().map(Kind::Actual)
            }
            "task" => Some(Kind::Task),
            "domain" => Some(Kind::Domain),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_frozen() {
        assert_eq!(desired("9f3c-ab_1.x~y"), "/v1441411196/desired/9f3c-ab_1.x~y");
        assert_eq!(actual("g", 3, 0), "/v1441411196/actual/g/3/instance");
        assert_eq!(actual("g", 3, 1), "/v1441411196/actual/g/3/evacuating");
        assert_eq!(actual("g", -3, 2), "/v1441411196/actual/g/-3/suspect");
        assert_eq!(task("a/b%"), "/v1441411196/task/a%2Fb%25");
        assert_eq!(domain("cf apps/ü"), "/v1441411196/domain/cf%20apps%2F%C3%BC");
    }

    #[test]
    fn a_key_tells_its_kind() {
        assert_eq!(Kind::of("/v1441411196/desired/x"), Some(Kind::Desired));
        assert_eq!(Kind::of("/v1441411196/actual/x/1/evacuating"), Some(Kind::Actual(1)));
        assert_eq!(Kind::of("/v1441411196/actual/x/1/other"), None);
        assert_eq!(Kind::of("/v1441411196/domain/d"), Some(Kind::Domain));
        assert_eq!(Kind::of("/v1441411196/desired_lrp/run/x"), None);
        assert_eq!(Kind::of("/v1/task/x"), None);
    }
}
