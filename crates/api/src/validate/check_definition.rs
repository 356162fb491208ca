//! Health and readiness checks that the cell carries out itself.

use super::{Findings, Validate};
use crate::models::{Check, CheckDefinition};

/// The wire has 32 bits for a port.
const PORT_MAX: u32 = 65_535;

impl Validate for CheckDefinition {
    fn findings(&self, found: &mut Findings) {
        for check in self.checks.iter().chain(&self.readiness_checks) {
            check.findings(found);
        }
    }
}

impl Validate for Check {
    /// A check of no kind has no port, and is reported as such.
    fn findings(&self, found: &mut Findings) {
        let port = match (&self.tcp_check, &self.http_check) {
            (Some(_), Some(_)) => return found.field("check"),
            (Some(tcp), None) => tcp.port,
            (None, Some(http)) => http.port,
            (None, None) => 0,
        };
        if !(1..=PORT_MAX).contains(&port) {
            found.field("port");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{HttpCheck, TcpCheck};
    use crate::validate::samples::verdict;

    fn check(tcp_port: Option<u32>, http_port: Option<u32>) -> Check {
        Check {
            tcp_check: tcp_port.map(|port| TcpCheck { port, ..Default::default() }),
            http_check: http_port.map(|port| HttpCheck { port, ..Default::default() }),
        }
    }

    #[test]
    fn one_kind_and_a_real_port() {
        for (tcp, http, expected) in [
            (None, None, "Invalid field: port"),
            (Some(1), None, ""),
            (None, Some(65_535), ""),
            (Some(0), None, "Invalid field: port"),
            (None, Some(65_536), "Invalid field: port"),
            (Some(u32::MAX), None, "Invalid field: port"),
            (Some(1), Some(1), "Invalid field: check"),
            (Some(0), Some(0), "Invalid field: check"),
        ] {
            assert_eq!(verdict(&check(tcp, http)), expected, "{tcp:?} {http:?}");
        }
    }

    #[test]
    fn checks_come_before_readiness_checks() {
        let definition = CheckDefinition {
            checks: vec![check(Some(1), Some(1)), check(Some(8080), None)],
            readiness_checks: vec![check(None, None)],
            ..Default::default()
        };
        assert_eq!(verdict(&definition), "Invalid field: check, Invalid field: port");
        assert_eq!(verdict(&CheckDefinition::default()), "");
    }
}
