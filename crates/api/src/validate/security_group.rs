//! Security group rules: which traffic may leave a container.

use super::destination::destinations;
use super::{Findings, Validate};
use crate::models::SecurityGroupRule;

impl Validate for SecurityGroupRule {
    fn findings(&self, found: &mut Findings) {
        match self.protocol.as_str() {
            "tcp" | "udp" => {
                ports(self, found);
                no_icmp_info(self, found);
            }
            "icmp" => icmp(self, "icmp_info", found),
            "icmpv6" => icmp(self, "icmpv6_info", found),
            "all" => {
                no_ports(self, found);
                no_icmp_info(self, found);
            }
            _ => found.field("protocol"),
        }
        destination_list(&self.destinations, found);
    }
}

fn ports(rule: &SecurityGroupRule, found: &mut Findings) {
    match (&rule.port_range, rule.ports.as_slice()) {
        (None, []) => found.text("Missing required field: ports or port_range"),
        (Some(_), [_, ..]) => found.text("Invalid: ports and port_range provided"),
        (None, ports) => ports.iter().filter(|port| **port == 0).for_each(|_| found.field("ports")),
        (Some(range), []) => {
            let violations = [range.start == 0, range.end == 0, range.start > range.end];
            violations.into_iter().filter(|violated| *violated).for_each(|_| found.field("port_range"));
        }
    }
}

/// The missing field is reported under the name of the protocol, although both protocols use the same field.
fn icmp(rule: &SecurityGroupRule, info_name: &str, found: &mut Findings) {
    no_ports(rule, found);
    if rule.icmp_info.is_none() {
        found.field(info_name);
    }
}

fn no_ports(rule: &SecurityGroupRule, found: &mut Findings) {
    if rule.port_range.is_some() {
        found.field("port_range");
    }
    if !rule.ports.is_empty() {
        found.field("ports");
    }
}

fn no_icmp_info(rule: &SecurityGroupRule, found: &mut Findings) {
    if rule.icmp_info.is_some() {
        found.field("icmp_info");
    }
}

/// All findings about destinations are quoted inside a single one.
fn destination_list(entries: &[String], found: &mut Findings) {
    let mut inside = Findings::default();
    if entries.is_empty() {
        inside.text("Must have at least 1 destination");
    }
    for entry in entries {
        destinations(entry, &mut inside);
    }
    if let Some(texts) = inside.joined() {
        found.field(&format!("destinations [ {texts} ]"));
    }
}

/// Reports each bad rule with its findings.
pub(super) fn egress_rules(rules: &[SecurityGroupRule], found: &mut Findings) {
    for rule in rules {
        found.under("egress_rules", |found| rule.findings(found));
    }
}

/// Reports each bad rule without its findings, as tasks do.
pub(super) fn egress_rules_in_brief(rules: &[SecurityGroupRule], found: &mut Findings) {
    for rule in rules {
        let mut inside = Findings::default();
        rule.findings(&mut inside);
        if !inside.is_empty() {
            found.field("egress_rules");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{IcmpInfo, PortRange};
    use crate::validate::samples::verdict;

    fn rule(protocol: &str, ports: &[u32], range: Option<(u32, u32)>, icmp: bool) -> SecurityGroupRule {
        SecurityGroupRule {
            protocol: protocol.into(),
            destinations: vec!["10.0.0.0/8".into()],
            ports: ports.to_vec(),
            port_range: range.map(|(start, end)| PortRange { start, end }),
            icmp_info: icmp.then(IcmpInfo::default),
            ..Default::default()
        }
    }

    #[test]
    fn tcp_and_udp_want_ports_or_a_range() {
        for protocol in ["tcp", "udp"] {
            for (ports, range, icmp, expected) in [
                (&[80, 443][..], None, false, ""),
                (&[], Some((1, 1)), false, ""),
                (&[], Some((80, 90)), false, ""),
                (&[], None, false, "Missing required field: ports or port_range"),
                (&[80], Some((1, 2)), false, "Invalid: ports and port_range provided"),
                (&[0, 80, 0], None, false, "Invalid field: ports, Invalid field: ports"),
                (&[], Some((0, 1)), false, "Invalid field: port_range"),
                (&[], Some((2, 1)), false, "Invalid field: port_range"),
                (&[], Some((0, 0)), false, "Invalid field: port_range, Invalid field: port_range"),
                (&[], Some((1, 0)), false, "Invalid field: port_range, Invalid field: port_range"),
                (&[80], None, true, "Invalid field: icmp_info"),
                (&[], None, true, "Missing required field: ports or port_range, Invalid field: icmp_info"),
            ] {
                assert_eq!(verdict(&rule(protocol, ports, range, icmp)), expected, "{ports:?} {range:?} {icmp}");
            }
        }
    }

    #[test]
    fn icmp_wants_its_info_and_nothing_else() {
        for (protocol, missing) in [("icmp", "Invalid field: icmp_info"), ("icmpv6", "Invalid field: icmpv6_info")] {
            assert_eq!(verdict(&rule(protocol, &[], None, true)), "");
            assert_eq!(verdict(&rule(protocol, &[], None, false)), missing);
            let all = format!("Invalid field: port_range, Invalid field: ports, {missing}");
            assert_eq!(verdict(&rule(protocol, &[1], Some((1, 1)), false)), all);
        }
    }

    #[test]
    fn all_wants_nothing() {
        assert_eq!(verdict(&rule("all", &[], None, false)), "");
        let text = "Invalid field: port_range, Invalid field: ports, Invalid field: icmp_info";
        assert_eq!(verdict(&rule("all", &[1], Some((1, 1)), true)), text);
    }

    #[test]
    fn protocols_are_lower_case() {
        for protocol in ["", "TCP", "Icmp", "sctp", "tcp "] {
            assert_eq!(verdict(&rule(protocol, &[80], None, true)), "Invalid field: protocol", "{protocol:?}");
        }
    }

    #[test]
    fn findings_about_destinations_are_quoted_in_one() {
        let with = |destinations: &[&str]| {
            let destinations = destinations.iter().map(|text| (*text).to_owned()).collect();
            verdict(&SecurityGroupRule { destinations, ..rule("all", &[], None, false) })
        };
        assert_eq!(with(&["1.2.3.4", "::1,10.0.0.0/8"]), "");
        assert_eq!(with(&[]), "Invalid field: destinations [ Must have at least 1 destination ]");
        let text = "Invalid field: destinations [ Invalid IP, invalid CIDR address: 1.1.1.1/33 ]";
        assert_eq!(with(&["nowhere", "1.2.3.4,1.1.1.1/33"]), text);
    }

    #[test]
    fn rule_lists_with_and_without_details() {
        let bad = SecurityGroupRule { destinations: vec![], ..rule("tcp", &[80], None, false) };
        let rules = [bad.clone(), rule("all", &[], None, false), bad];
        let mut found = Findings::default();
        egress_rules(&rules, &mut found);
        let one = "Invalid field: egress_rules, Invalid field: destinations [ Must have at least 1 destination ]";
        assert_eq!(found.joined(), Some(format!("{one}, {one}")));
        let mut found = Findings::default();
        egress_rules_in_brief(&rules, &mut found);
        assert_eq!(found.joined().as_deref(), Some("Invalid field: egress_rules, Invalid field: egress_rules"));
    }
}
