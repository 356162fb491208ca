//! Where each record lies. Names are percent-encoded, because a guid may hold any character, also a slash.

use std::fmt::Display;

use model::{ActualLrpKey, DomainName, Presence, ProcessGuid, TaskGuid};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::ROOT;

/// Letters, digits and these stay as they are, so that a usual guid reads in a key as it does elsewhere.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn escaped(name: &str) -> impl Display + '_ {
    utf8_percent_encode(name, ESCAPED)
}

pub fn schedule(guid: &ProcessGuid) -> String {
    format!("{ROOT}desired/schedule/{}", escaped(guid.as_str()))
}

pub fn run(guid: &ProcessGuid) -> String {
    format!("{ROOT}desired/run/{}", escaped(guid.as_str()))
}

/// The domain is part of the record but not of its key: a guid is unique over all domains.
pub fn actual(key: &ActualLrpKey, presence: Presence) -> String {
    let presence = match presence {
        Presence::Ordinary => "ordinary",
        Presence::Evacuating => "evacuating",
        Presence::Suspect => "suspect",
    };
    format!("{ROOT}actual/{}/{}/{presence}", escaped(key.process_guid.as_str()), key.index)
}

pub fn task(guid: &TaskGuid) -> String {
    format!("{ROOT}task/{}", escaped(guid.as_str()))
}

pub fn domain(name: &DomainName) -> String {
    format!("{ROOT}domain/{}", escaped(name.as_str()))
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
    fn a_key_tells_its_kind() {
        assert_eq!(Kind::of("/v1442529338/desired/run/x"), Some(Kind::Run));
        assert_eq!(Kind::of("/v1442529338/desired/schedule/x"), Some(Kind::Schedule));
        assert_eq!(Kind::of("/v1442529338/desired/other/x"), None);
        assert_eq!(Kind::of("/v1442529337/task/x"), None);
    }
}
