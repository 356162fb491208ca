//! Where each record lies. Names are percent-encoded, because a guid may hold any character, also a slash.

use std::fmt::{self, Display, Write};

use model::{ActualLrpKey, DomainName, Presence, ProcessGuid, TaskGuid};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::ROOT;

/// Letters, digits and these stay as they are, so that a usual guid reads in a key as it does elsewhere.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn escaped(name: &str) -> impl Display + '_ {
    utf8_percent_encode(name, ESCAPED)
}

pub fn schedule(guid: &ProcessGuid) -> String {
    Place::Schedule(guid).to_string()
}

pub fn run(guid: &ProcessGuid) -> String {
    Place::Run(guid).to_string()
}

/// The domain is part of the record but not of its key: a guid is unique over all domains.
pub fn actual(key: &ActualLrpKey, presence: Presence) -> String {
    Place::Actual(key, presence).to_string()
}

pub fn task(guid: &TaskGuid) -> String {
    Place::Task(guid).to_string()
}

pub fn domain(name: &DomainName) -> String {
    Place::Domain(name).to_string()
}

/// The key of one record, not yet written out. Displaying it gives the key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Schedule(&'a ProcessGuid),
    Run(&'a ProcessGuid),
    Actual(&'a ActualLrpKey, Presence),
    Task(&'a TaskGuid),
    Domain(&'a DomainName),
}

impl Place<'_> {
    /// Whether this is the place that `key` names. Every record that is loaded is asked, so nothing is allocated for it.
    pub(super) fn is(self, key: &str) -> bool {
        let mut unmatched = Unmatched(key);
        write!(unmatched, "{self}").is_ok() && unmatched.0.is_empty()
    }
}

impl Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(ROOT)?;
        match self {
            Self::Schedule(guid) => write!(out, "desired/schedule/{}", escaped(guid.as_str())),
            Self::Run(guid) => write!(out, "desired/run/{}", escaped(guid.as_str())),
            Self::Actual(key, presence) => {
                let presence = match presence {
                    Presence::Ordinary => "ordinary",
                    Presence::Evacuating => "evacuating",
                    Presence::Suspect => "suspect",
                };
                write!(out, "actual/{}/{}/{presence}", escaped(key.process_guid.as_str()), key.index)
            }
            Self::Task(guid) => write!(out, "task/{}", escaped(guid.as_str())),
            Self::Domain(name) => write!(out, "domain/{}", escaped(name.as_str())),
        }
    }
}

/// What is left of a text after all that was written to it: each piece must be the next one of the text.
struct Unmatched<'a>(&'a str);

impl Write for Unmatched<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(piece).ok_or(fmt::Error)?;
        Ok(())
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

#[cfg(test)]
mod tests {
    use model::ID_BYTES_MAX;

    use super::*;
    use crate::kv::KEY_BYTES_MAX;
    use crate::versions::split_desired_lrp::VERSION;

    fn actual_key(guid: &str) -> ActualLrpKey {
        let process_guid = ProcessGuid::parse(guid).unwrap();
        ActualLrpKey { process_guid, index: i32::MIN, domain: DomainName::parse("d").unwrap() }
    }

    #[test]
    fn the_layout_is_frozen() {
        let guid = ProcessGuid::parse("9f3c-ab_1.x~y").unwrap();
        assert_eq!(schedule(&guid), "/v1442529338/desired/schedule/9f3c-ab_1.x~y");
        assert_eq!(run(&guid), "/v1442529338/desired/run/9f3c-ab_1.x~y");
        let key = ActualLrpKey { index: 3, ..actual_key("g") };
        assert_eq!(actual(&key, Presence::Ordinary), "/v1442529338/actual/g/3/ordinary");
        assert_eq!(actual(&key, Presence::Evacuating), "/v1442529338/actual/g/3/evacuating");
        assert_eq!(actual(&key, Presence::Suspect), "/v1442529338/actual/g/3/suspect");
        assert_eq!(task(&TaskGuid::parse("a/b%").unwrap()), "/v1442529338/task/a%2Fb%25");
        assert_eq!(domain(&DomainName::parse("cf apps/ü").unwrap()), "/v1442529338/domain/cf%20apps%2F%C3%BC");
        assert_eq!(ROOT, format!("/v{VERSION}/"));
    }

    #[test]
    fn the_longest_name_fits_into_a_key() {
        let longest = "/".repeat(ID_BYTES_MAX);
        assert!(actual(&actual_key(&longest), Presence::Evacuating).len() <= KEY_BYTES_MAX);
        assert!(schedule(&ProcessGuid::parse(&longest).unwrap()).len() <= KEY_BYTES_MAX);
    }

    #[test]
    fn a_place_is_its_own_key_and_no_other() {
        let guid = ProcessGuid::parse("a/b ü").unwrap();
        let key = actual_key("a/b ü");
        let (task, name) = (TaskGuid::parse("a/b ü").unwrap(), DomainName::parse("a/b ü").unwrap());
        let mut places = vec![Place::Schedule(&guid), Place::Run(&guid), Place::Task(&task), Place::Domain(&name)];
        places.extend([Presence::Ordinary, Presence::Suspect].map(|presence| Place::Actual(&key, presence)));
        let keys: Vec<String> = places.iter().map(Place::to_string).collect();
        for (at, place) in places.iter().enumerate() {
            for (other, key) in keys.iter().enumerate() {
                assert_eq!(place.is(key), at == other, "{place:?} and {key}");
            }
            assert!(!place.is(&format!("{}x", keys[at])), "a longer key is another one");
            assert!(!place.is(&keys[at][..keys[at].len() - 1]), "a shorter key is another one");
            assert!(!place.is(&keys[at].replace("%2F", "/")), "a name has one spelling");
            assert!(!place.is(&keys[at].replace("%2F", "%2f")), "a name has one spelling");
        }
    }

    #[test]
    fn a_key_tells_its_kind() {
        assert_eq!(Kind::of("/v1442529338/desired/run/x"), Some(Kind::Run));
        assert_eq!(Kind::of("/v1442529338/desired/schedule/x"), Some(Kind::Schedule));
        assert_eq!(Kind::of("/v1442529338/desired/other/x"), None);
        assert_eq!(Kind::of("/v1442529337/task/x"), None);
    }
}
