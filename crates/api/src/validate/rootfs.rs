//! Root file systems are named by URLs with a scheme, as Go's `net/url` reads them.
//!
//! Promise: what a Go server takes is taken here and the other way round. The `url` crate follows the browsers'
//! standard, which repairs what Go refuses and refuses what Go takes, so the few rules that decide are written out.
//!
//! Not done: newer releases of Go also look at the address between brackets and at further colons in a host. Servers in
//! the field were built with older ones, so the lenient reading is the compatible one.

/// What may stand in a host without an escape, beside ASCII letters and digits.
const HOST_PUNCTUATION: &[u8] = b"!$&'()*+,;=:[]<>\"-_.~";

/// What may stand before the `@`, beside ASCII letters and digits.
const USERINFO_PUNCTUATION: &[u8] = b"-._:~!$&'()*+,;=%@";

/// Whether the text parses and has a scheme.
pub(super) fn has_scheme(text: &str) -> bool {
    let (url, fragment) = text.split_once('#').unwrap_or((text, ""));
    let Some(rest) = after_scheme(url) else {
        return false;
    };
    let hierarchy = rest.split_once('?').map_or(rest, |(hierarchy, _query)| hierarchy);
    !url.bytes().any(|byte| byte.is_ascii_control()) && escapes_are_whole(fragment) && hierarchy_is_valid(hierarchy)
}

/// A scheme is a letter followed by letters, digits and `+-.`, up to the first colon.
fn after_scheme(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once(':')?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    (scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(allowed)).then_some(rest)
}

/// Without a slash the rest is opaque, as in `preloaded:cflinuxfs4`, and is not looked at.
fn hierarchy_is_valid(rest: &str) -> bool {
    if let Some(rest) = rest.strip_prefix("//") {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        return authority_is_valid(authority) && escapes_are_whole(path);
    }
    !rest.starts_with('/') || escapes_are_whole(rest)
}

fn authority_is_valid(authority: &str) -> bool {
    let (userinfo, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || USERINFO_PUNCTUATION.contains(&byte);
    userinfo.bytes().all(allowed) && escapes_are_whole(userinfo) && host_is_valid(host)
}

fn host_is_valid(host: &str) -> bool {
    if !host.starts_with('[') {
        let port = host.rfind(':').map_or("", |colon| &host[colon..]);
        return port_is_valid(port) && host_bytes_are_valid(host, false);
    }
    let Some(bracket) = host.rfind(']') else {
        return false;
    };
    // Only the zone of an IPv6 address may hold escaped ASCII.
    let zone = host[..bracket].find("%25").unwrap_or(bracket);
    port_is_valid(&host[bracket + 1..])
        && host_bytes_are_valid(&host[..zone], false)
        && host_bytes_are_valid(&host[zone..bracket], true)
}

/// Nothing, or a colon and any number of digits, even none.
fn port_is_valid(port: &str) -> bool {
    port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn host_bytes_are_valid(text: &str, is_zone: bool) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || HOST_PUNCTUATION.contains(&byte);
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte == b'%' {
            let Some((value, tail)) = escape(tail) else {
                return false;
            };
            rest = tail;
            let allowed = if is_zone { value == b' ' || plain(value) } else { !value.is_ascii() };
            if value != b'%' && !allowed {
                return false;
            }
        } else if byte.is_ascii() && !plain(*byte) {
            return false;
        }
    }
    true
}

/// Every `%` is followed by two hexadecimal digits.
fn escapes_are_whole(text: &str) -> bool {
    text.split('%').skip(1).all(|after| escape(after.as_bytes()).is_some())
}

/// Reads the two digits after a `%`.
fn escape(after_percent: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, rest @ ..] = after_percent else {
        return None;
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some((digit(high)? * 16 + digit(low)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_go_takes() {
        for good in [
            "preloaded:cflinuxfs4",
            "preloaded+layer:cflinuxfs4?layer=https://blobs/droplet.tgz&layer_digest=abc",
            "docker://registry.example:5000/org/image#v1.2",
            "docker:///busybox#latest",
            "docker://user:p%40ss@registry/image",
            "docker://user@registry/image",
            "docker://registry:/image",
            "docker://[::1]:5000/image",
            "docker://[fe80::1%25en%200]/image",
            "docker://h%c3%a9/image",
            "docker://hé/image",
            "docker:/image",
            "preloaded:",
            "preloaded:with space and %zz and | anything",
            "PRELOADED:x",
            "a1+-.:x",
            "docker://host/path with space",
            "docker://host?query=%zz",
            "docker://host/#frag\u{1}ment",
            "x://",
        ] {
            assert!(has_scheme(good), "{good:?}");
        }
    }

    #[test]
    fn urls_that_go_refuses_or_reads_without_a_scheme() {
        for bad in [
            "",
            ":",
            ":cflinuxfs4",
            "cflinuxfs4",
            "/cflinuxfs4",
            "//host/path",
            "*",
            "1preloaded:x",
            "+preloaded:x",
            "pre_loaded:x",
            "pre loaded:x",
            "é:x",
            " preloaded:x",
            "path/with:colon",
            "#preloaded:x",
            "?preloaded:x",
            "preloaded:x\n",
            "preloaded:x\u{7f}",
            "preloaded:x?\t",
            "docker://host:port/image",
            "docker://host:80x/image",
            "docker://ho st/image",
            "docker://ho\\st/image",
            "docker://ho%20st/image",
            "docker://ho%zzst/image",
            "docker://[::1/image",
            "docker://[::1]x/image",
            "docker://[fe80::1%25%2f]/image",
            "docker://us er@host/image",
            "docker://us%zer@host/image",
            "docker://host/%",
            "docker://host/%4",
            "docker://host/%g0",
            "docker:/%zz",
            "docker://host/#%zz",
        ] {
            assert!(!has_scheme(bad), "{bad:?}");
        }
    }
}
