//! Domains.

use super::{Findings, Validate};
use crate::models::UpsertDomainRequest;

impl Validate for UpsertDomainRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("domain", &self.domain);
        found.stored_name(&self.domain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::STORED_NAME_BYTES_MAX;
    use crate::validate::samples::verdict;

    #[test]
    fn a_domain_has_one_to_255_bytes() {
        let verdict_on = |domain: &str| verdict(&UpsertDomainRequest { domain: domain.into(), ttl: 0 });
        assert_eq!(verdict_on(""), "Invalid field: domain");
        assert_eq!(verdict_on("cf-apps"), "");
        assert_eq!(verdict_on("any text / is fine"), "");
        assert_eq!(verdict_on(&"d".repeat(STORED_NAME_BYTES_MAX)), "");
        assert_eq!(verdict_on(&"d".repeat(STORED_NAME_BYTES_MAX + 1)), "the request received is invalid");
        // 128 characters, but 256 bytes.
        assert_eq!(verdict_on(&"é".repeat(128)), "the request received is invalid");
    }
}
