//! Destinations of a security group rule: single addresses, networks and ranges.
//!
//! The rules are those of Go's `net` package, whose texts clients see. The standard library reads addresses as Go does
//! (no leading zeros in IPv4, no zones), so only the network prefix and the order of ranges are ours.

use std::net::{IpAddr, Ipv6Addr};

use super::Findings;

const INVALID_IP: &str = "Invalid IP";

/// Reports on one entry of the list, which may itself hold several destinations separated by commas.
pub(super) fn destinations(entry: &str, found: &mut Findings) {
    for destination in entry.split(',') {
        // Whichever of the two comes first decides what the text is meant to be.
        match destination.find(['-', '/']) {
            None => address(destination, found),
            Some(at) if destination.as_bytes()[at] == b'/' => network(destination, at, found),
            Some(at) => range(&destination[..at], &destination[at + 1..], found),
        }
    }
}

fn address(text: &str, found: &mut Findings) {
    if text.parse::<IpAddr>().is_err() {
        found.text(INVALID_IP);
    }
}

fn network(text: &str, slash_at: usize, found: &mut Findings) {
    let bits_max = match text[..slash_at].parse() {
        Ok(IpAddr::V4(_)) => Some(32),
        Ok(IpAddr::V6(_)) => Some(128),
        Err(_) => None,
    };
    let bits = prefix_bits(&text[slash_at + 1..]);
    if bits.zip(bits_max).is_none_or(|(bits, bits_max)| bits > bits_max) {
        found.text(format!("invalid CIDR address: {text}"));
    }
}

/// Decimal digits only, so no sign; leading zeros are allowed, as Go allows them.
fn prefix_bits(text: &str) -> Option<u32> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits_only
        .then(|| text.bytes().fold(0_u32, |bits, digit| bits.saturating_mul(10).saturating_add((digit - b'0').into())))
}

/// IPv4 addresses are compared in their IPv6-mapped form, so that a range may even mix the two.
///
/// A range in the wrong order is reported once for each byte that is greater before the first one that is smaller.
/// One report would do, but the joined text is compared.
fn range(first: &str, last: &str, found: &mut Findings) {
    let (Ok(first), Ok(last)) = (first.parse(), last.parse()) else {
        return found.text(INVALID_IP);
    };
    for (first, last) in mapped(first).octets().into_iter().zip(mapped(last).octets()) {
        if first < last {
            return;
        }
        if first > last {
            found.text(INVALID_IP);
        }
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(entry: &str) -> String {
        let mut found = Findings::default();
        destinations(entry, &mut found);
        found.joined().unwrap_or_default()
    }

    #[test]
    fn single_addresses() {
        for good in
            ["1.2.3.4", "0.0.0.0", "255.255.255.255", "::", "::1", "2001:DB8::1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7::"]
        {
            assert_eq!(text(good), "", "{good:?}");
        }
        for bad in [
            "",
            " ",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "01.2.3.4",
            "1.2.3.4 ",
            "+1.2.3.4",
            "1.2.3.4:80",
            "[::1]",
            "fe80::1%eth0",
            ":::",
            "1::2::3",
            "12345::",
            "1:2:3:4:5:6:7:8::",
            "::1.2.3.4:5",
            "example.com",
            "0x1.2.3.4",
        ] {
            assert_eq!(text(bad), "Invalid IP", "{bad:?}");
        }
    }

    #[test]
    fn networks() {
        for good in
            ["1.2.3.4/16", "0.0.0.0/0", "1.2.3.4/32", "1.2.3.4/024", "::/0", "2001:db8::/128", "::ffff:1.2.3.4/128"]
        {
            assert_eq!(text(good), "", "{good:?}");
        }
        for bad in [
            "1.2.3.4/33",
            "1.2.3.4/",
            "/8",
            "1.2.3.4/-1",
            "1.2.3.4/+8",
            "1.2.3.4/8 ",
            "1.2.3/8",
            "01.2.3.4/8",
            "::/129",
            "fe80::1%eth0/64",
            "1.2.3.4/8/8",
            "1.2.3.4/8-9",
            "1.2.3.4/4294967296",
            "1.2.3.4/99999999999999999999",
            "é/8",
        ] {
            assert_eq!(text(bad), format!("invalid CIDR address: {bad}"));
        }
    }

    #[test]
    fn ranges() {
        for (range, expected) in [
            ("1.2.3.4-1.2.3.4", ""),
            ("1.2.3.4-1.2.4.3", ""),
            ("0.0.0.0-9.255.255.255", ""),
            ("2001:db8::1-2001:db8::ffff", ""),
            ("1.2.3.4-2001:db8::1", ""),
            ("2001:db8::1-1.2.3.4", "Invalid IP, Invalid IP, Invalid IP, Invalid IP"),
            ("1.2.3.5-1.2.3.4", "Invalid IP"),
            ("1.9.9.9-1.2.3.4", "Invalid IP, Invalid IP, Invalid IP"),
            ("1.9.3.9-1.2.3.4", "Invalid IP, Invalid IP"),
            ("1.9.1.9-1.2.3.4", "Invalid IP"),
            ("::2-::1", "Invalid IP"),
            ("1.2.3.4-", "Invalid IP"),
            ("-1.2.3.4", "Invalid IP"),
            ("-", "Invalid IP"),
            ("1.2.3.4-1.2.3.5-1.2.3.6", "Invalid IP"),
            ("1.2.3.4-1.2.3.0/24", "Invalid IP"),
            ("é-1.2.3.4", "Invalid IP"),
        ] {
            assert_eq!(text(range), expected, "{range:?}");
        }
    }

    #[test]
    fn an_entry_is_split_at_commas() {
        assert_eq!(text("1.2.3.4,::1,10.0.0.0/8,1.1.1.1-2.2.2.2"), "");
        assert_eq!(text("1.2.3.4, ::1"), "Invalid IP");
        assert_eq!(text("x,1.1.1.1/99,,1.2.3.4"), "Invalid IP, invalid CIDR address: 1.1.1.1/99, Invalid IP");
    }
}
