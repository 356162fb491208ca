//! A domain says that whoever owns its LRPs has recently told us everything it wants. Only then may extras be removed.

use crate::{DomainName, NANOS_PER_SECOND, Nanos, Unknown};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    pub name: DomainName,
    /// [`Domain::NEVER_NS`] means that it never expires.
    pub expires_ns: Nanos,
    pub unknown: Unknown,
}

impl Domain {
    pub const NEVER_NS: Nanos = Nanos::MAX;

    /// A time to live of zero seconds means for ever.
    pub fn upsert(name: DomainName, ttl_s: u32, now_ns: Nanos) -> Self {
        let expires_ns = match ttl_s {
            0 => Self::NEVER_NS,
            seconds => now_ns.saturating_add(Nanos::from(seconds) * NANOS_PER_SECOND),
        };
        Self { name, expires_ns, unknown: Unknown::default() }
    }

    pub fn is_fresh(&self, now_ns: Nanos) -> bool {
        self.expires_ns > now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_ends_exactly_at_the_expiry() {
        let name = DomainName::parse("cf-apps").unwrap();
        let domain = Domain::upsert(name.clone(), 2, 100);
        assert!(domain.is_fresh(100 + 2 * NANOS_PER_SECOND - 1));
        assert!(!domain.is_fresh(100 + 2 * NANOS_PER_SECOND));
        assert!(Domain::upsert(name, 0, 100).is_fresh(Nanos::MAX - 1));
    }
}
