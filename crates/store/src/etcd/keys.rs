//! Where things lie in etcd. Everything is below one prefix, so that a cluster can be shared.
//!
//! ```text
//! <prefix>/board            the revision of the newest step, as a number
//! <prefix>/board/version    a record; its key in the store is /version
//! <prefix>/claims/nodes/a   a claim; its key is /nodes/a
//! <prefix>/master           who is master, with his lease
//! ```
//! The revision and the records lie side by side, so that one watch hears of both.

use bytes::Bytes;

/// Bytes of a prefix. A transaction repeats it for every record, and must stay within etcd's limit.
pub const PREFIX_BYTES_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Keys {
    board: String,
    claims: String,
    master: String,
}

impl Keys {
    pub(super) fn below(prefix: &str) -> Keys {
        Keys {
            board: format!("{prefix}/board"),
            claims: format!("{prefix}/claims"),
            master: format!("{prefix}/master"),
        }
    }

    pub(super) fn revision(&self) -> Bytes {
        Bytes::copy_from_slice(self.board.as_bytes())
    }

    pub(super) fn master(&self) -> Bytes {
        Bytes::copy_from_slice(self.master.as_bytes())
    }

    pub(super) fn record(&self, key: &str) -> Bytes {
        joined(&self.board, key)
    }

    pub(super) fn claim(&self, key: &str) -> Bytes {
        joined(&self.claims, key)
    }

    /// From the first record after `after` to behind the last one with `prefix`.
    pub(super) fn records(&self, prefix: &str, after: Option<&str>) -> (Bytes, Bytes) {
        // Every key begins with a slash, and the revision, which has the bare name, is no record.
        let first = if prefix.is_empty() { "/" } else { prefix };
        let from = match after {
            Some(after) if after >= first => Bytes::from([self.board.as_bytes(), after.as_bytes(), b"\0"].concat()),
            _ => self.record(first),
        };
        (from, behind(&self.record(first)))
    }

    pub(super) fn claims(&self, prefix: &str) -> (Bytes, Bytes) {
        let from = self.claim(if prefix.is_empty() { "/" } else { prefix });
        let to = behind(&from);
        (from, to)
    }

    /// The revision and all records.
    pub(super) fn board(&self) -> (Bytes, Bytes) {
        (self.revision(), behind(&self.record("/")))
    }

    /// The key that a record has in the store. `None` if it is not one.
    pub(super) fn key_of<'a>(&self, stored: &'a [u8]) -> Option<&'a str> {
        let key = stored.strip_prefix(self.board.as_bytes())?;
        std::str::from_utf8(key).ok().filter(|key| key.starts_with('/'))
    }

    pub(super) fn claim_of<'a>(&self, stored: &'a [u8]) -> Option<&'a str> {
        std::str::from_utf8(stored.strip_prefix(self.claims.as_bytes())?).ok()
    }
}

fn joined(space: &str, key: &str) -> Bytes {
    Bytes::from([space.as_bytes(), key.as_bytes()].concat())
}

/// The first key behind all that begin with `prefix`. Ours never end in the highest byte, which no text contains.
fn behind(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    Bytes::from(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_they_should() {
        let keys = Keys::below("/cork");
        let holds = |(from, to): (Bytes, Bytes), key: &Bytes| from <= *key && *key < to;
        let rows = [
            ("", None, "/a", true),
            ("", Some("/a"), "/a", false),
            ("", Some("/a"), "/a/b", true),
            ("/v1/", None, "/v1/x", true),
            ("/v1/", None, "/v10/x", false),
            ("/v1/", Some("/v1/x"), "/v1/x", false),
            ("/v1/", Some("/v1/x"), "/v1/x\u{0}", true),
            ("/v1/", Some("/a"), "/v1/x", true),
            ("/v", Some("/z"), "/v1/x", false),
        ];
        for (prefix, after, key, expected) in rows {
            assert_eq!(holds(keys.records(prefix, after), &keys.record(key)), expected, "{prefix} {after:?} {key}");
        }
        for other in [keys.revision(), keys.master(), keys.claim("/nodes/a")] {
            assert!(!holds(keys.records("", None), &other));
        }
        assert!(holds(keys.board(), &keys.revision()) && holds(keys.board(), &keys.record("/a")));
        assert!(!holds(keys.board(), &keys.master()) && !holds(keys.board(), &keys.claim("/a")));
        assert!(holds(keys.claims(""), &keys.claim("/a")) && !holds(keys.claims("/b"), &keys.claim("/a")));
        assert_eq!(keys.key_of(&keys.record("/a/b")), Some("/a/b"));
        assert_eq!((keys.key_of(&keys.revision()), keys.key_of(&keys.master())), (None, None));
        assert_eq!(keys.claim_of(&keys.claim("/nodes/a")), Some("/nodes/a"));
    }
}
