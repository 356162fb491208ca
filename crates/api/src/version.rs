//! Versions of the API, and who may speak with whom.
//!
//! The version of the API is the version of the release. A client of our own names itself and its version in
//! `X-Corkboard-Client: name/1.2.3`. A server serves clients of its own major version and of the one before, because it is
//! upgraded first; a client that is newer than its server may ask for what the server has never heard of, and is told so
//! instead of being misunderstood. A request without the header, as Diego's own clients send it, counts as current.

use std::fmt;
use std::str::FromStr;

/// The version of this release, which is the version of the API that it serves and of the client in it.
pub const CURRENT: Version = Version::of_this_release();

/// How many major versions behind the server a client may be.
pub const MAJORS_BEHIND_MAX: u64 = 1;
/// Length of the header; also bounds what the census of clients keeps of one.
pub const CLIENT_BYTES_MAX: usize = 128;

/// A semantic version without the parts after a hyphen or a plus, which say nothing about compatibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
}

impl Version {
    const fn of_this_release() -> Self {
        Self {
            major: number(env!("CARGO_PKG_VERSION_MAJOR")),
            minor: number(env!("CARGO_PKG_VERSION_MINOR")),
            patch: number(env!("CARGO_PKG_VERSION_PATCH")),
        }
    }

    /// Whether a server of this version serves a client of that one.
    pub fn serves(self, client: Version) -> bool {
        self.major.checked_sub(client.major).is_some_and(|behind| behind <= MAJORS_BEHIND_MAX)
    }
}

/// Cargo has checked that these are numbers.
const fn number(text: &str) -> u64 {
    let digits = text.as_bytes();
    let (mut at, mut value) = (0, 0);
    while at < digits.len() {
        value = value * 10 + (digits[at] - b'0') as u64;
        at += 1;
    }
    value
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The text is not three numbers with dots between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a version such as 1.2.3")]
pub struct NotAVersion;

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let core = text.split(['-', '+']).next().unwrap_or_default();
        let mut parts = core.split('.').map(|part| {
            let plain = part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
            part.parse::<u64>().ok().filter(|_| plain).ok_or(NotAVersion)
        });
        let mut next = || parts.next().unwrap_or(Err(NotAVersion));
        let version = Version { major: next()?, minor: next()?, patch: next()? };
        if parts.next().is_some() { Err(NotAVersion) } else { Ok(version) }
    }
}

/// Who calls: the header `X-Corkboard-Client`, understood.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId {
    pub name: String,
    pub version: Version,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.version)
    }
}

/// The header does not name a client and its version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the header X-Corkboard-Client is not a name and a version, such as my-tool/1.2.3 (a name of letters, digits, `-`, `_` and \
     `.`, at most {CLIENT_BYTES_MAX} bytes in all). Nothing was changed. Correct it, or leave it out to be served as current"
)]
pub struct NotAClient;

impl FromStr for ClientId {
    type Err = NotAClient;

    fn from_str(text: &str) -> Result<Self, NotAClient> {
        let (name, version) = text.split_once('/').ok_or(NotAClient)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if text.len() > CLIENT_BYTES_MAX || name.is_empty() || !name.bytes().all(is_plain) {
            return Err(NotAClient);
        }
        Ok(Self { name: name.to_owned(), version: version.parse().map_err(|_| NotAClient)? })
    }
}

/// A client that the server does not serve, in words that name both versions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    #[error(
        "{client} is too old for this server: it speaks version {} of the API, and server {server} serves clients of versions \
         {} and {}. Nothing was changed. Upgrade {}, one major version at a time",
        client.version, server.major - MAJORS_BEHIND_MAX, server.major, client.name
    )]
    TooOld { client: ClientId, server: Version },
    #[error(
        "{client} is newer than this server: it speaks version {} of the API, and server {server} does not know more than \
         version {}. Nothing was changed. Upgrade the servers first, then {}",
        client.version, server.major, client.name
    )]
    TooNew { client: ClientId, server: Version },
}

/// The rule: `0 <= server major - client major <= 1`.
pub fn admit(client: &ClientId, server: Version) -> Result<(), Unserved> {
    let client = client.clone();
    match client.version.major {
        major if major > server.major => Err(Unserved::TooNew { client, server }),
        _ if !server.serves(client.version) => Err(Unserved::TooOld { client, server }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect;

    use super::*;

    fn client(major: u64) -> ClientId {
        ClientId { name: "tool".into(), version: Version { major, minor: 2, patch: 3 } }
    }

    #[test]
    fn this_release_knows_its_own_version() {
        assert_eq!(CURRENT.to_string(), env!("CARGO_PKG_VERSION"));
    }

    /// Rows are servers, columns clients.
    #[test]
    fn a_server_serves_its_own_major_and_the_one_before() {
        let mut table = String::from("   c0  c1  c2  c3  c4\n");
        for server in 0..5 {
            write!(table, "s{server}").unwrap();
            for major in 0..5 {
                let server = Version { major: server, minor: 0, patch: 0 };
                let mark = match admit(&client(major), server) {
                    Ok(()) => "yes",
                    Err(Unserved::TooOld { .. }) => "old",
                    Err(Unserved::TooNew { .. }) => "new",
                };
                write!(table, " {mark}").unwrap();
            }
            table.push('\n');
        }
        expect![[r#"
               c0  c1  c2  c3  c4
            s0 yes new new new new
            s1 yes yes new new new
            s2 old yes yes new new
            s3 old old yes yes new
            s4 old old old yes yes
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn both_versions_are_named() {
        let server = Version { major: 3, minor: 1, patch: 0 };
        expect!["tool/1.2.3 is too old for this server: it speaks version 1.2.3 of the API, and server 3.1.0 serves clients of versions 2 and 3. Nothing was changed. Upgrade tool, one major version at a time"]
            .assert_eq(&admit(&client(1), server).unwrap_err().to_string());
        expect!["tool/4.2.3 is newer than this server: it speaks version 4.2.3 of the API, and server 3.1.0 does not know more than version 3. Nothing was changed. Upgrade the servers first, then tool"]
            .assert_eq(&admit(&client(4), server).unwrap_err().to_string());
    }

    #[test]
    fn what_is_a_version() {
        let read = |text: &str| text.parse::<Version>().map(|version| version.to_string()).ok();
        for (text, expected) in [
            ("1.2.3", Some("1.2.3")),
            ("0.0.0", Some("0.0.0")),
            ("1.2.3-rc.1+5", Some("1.2.3")),
            ("18446744073709551615.0.0", Some("18446744073709551615.0.0")),
            ("18446744073709551616.0.0", None),
            ("1.2", None),
            ("1.2.3.4", None),
            ("01.2.3", None),
            ("+1.2.3", None),
            ("1..3", None),
            ("", None),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_a_client() {
        let read = |text: &str| text.parse::<ClientId>().map(|id| id.to_string()).ok();
        assert_eq!(read("my-tool_2.x/1.2.3").as_deref(), Some("my-tool_2.x/1.2.3"));
        for wrong in ["", "tool", "/1.2.3", "tool/", "tool/1", "to ol/1.2.3", "tool/1.2.3/4", "tööl/1.2.3"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(read(&format!("{}/1.2.3", "a".repeat(CLIENT_BYTES_MAX))), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<ClientId>();
            let _ = text.parse::<Version>();
        }
    }
}
