//! What is added to a request and taken away from it on its way through.
//!
//! Headers that speak about the connection and not about the request stay on their connection. What a client says about those
//! before it (`X-Forwarded-*`) is kept and continued: a load balancer in front of us says it too.

use std::net::IpAddr;

use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};

use crate::endpoint::Identity;

pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-vcap-request-id");
pub(crate) static APP_INSTANCE: HeaderName = HeaderName::from_static("x-cf-app-instance");
static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static APPLICATION_ID: HeaderName = HeaderName::from_static("x-cf-applicationid");
static INSTANCE_ID: HeaderName = HeaderName::from_static("x-cf-instanceid");
static INSTANCE_INDEX: HeaderName = HeaderName::from_static("x-cf-instanceindex");

/// Beside those that the `Connection` header names.
const OF_THE_CONNECTION: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Who sent a request, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) from: IpAddr,
    pub(crate) tls: bool,
}

/// Takes away what belongs to the connection. Returns the protocol that the request wants to change to.
pub(crate) fn strip(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let upgrade = headers.get(UPGRADE).filter(|_| named.contains(&UPGRADE)).cloned();
    // A client that names the host as a matter of its connection would leave the backend without one.
    for name in named.iter().filter(|name| **name != HOST).chain(&OF_THE_CONNECTION) {
        headers.remove(name);
    }
    upgrade
}

pub(crate) fn want_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// What every backend is told.
pub(crate) fn forward(headers: &mut HeaderMap, origin: Origin, request_id: &HeaderValue) {
    let before: Vec<&str> = headers.get_all(&FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
    let mut chain = before.join(", ");
    if !chain.is_empty() {
        chain.push_str(", ");
    }
    chain.push_str(&origin.from.to_string());
    if let Ok(chain) = HeaderValue::try_from(chain) {
        headers.insert(&FORWARDED_FOR, chain);
    }
    let proto = HeaderValue::from_static(if origin.tls { "https" } else { "http" });
    headers.entry(&FORWARDED_PROTO).or_insert(proto);
    if let Some(host) = headers.get(HOST).cloned() {
        headers.entry(&FORWARDED_HOST).or_insert(host);
    }
    headers.insert(&REQUEST_ID, request_id.clone());
}

/// What one instance is told about itself.
pub(crate) fn address(headers: &mut HeaderMap, to: &Identity) {
    let told = [(&APPLICATION_ID, &to.app), (&INSTANCE_ID, &to.instance_id), (&INSTANCE_INDEX, &to.instance_index)];
    for (name, value) in told {
        headers.remove(name);
        if let Some(value) = HeaderValue::try_from(value.as_str()).ok().filter(|value| !value.is_empty()) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &[(&'static str, &str)], expected: &Expect) {
        let mut headers = HeaderMap::new();
        for (name, value) in text {
            headers.append(*name, value.parse().unwrap());
        }
        let upgrade = strip(&mut headers);
        forward(&mut headers, Origin { from: [192, 0, 2, 7].into(), tls: false }, &HeaderValue::from_static("id"));
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap())).collect();
        lines.sort();
        lines.extend(upgrade.map(|protocol| format!("(wants {})\n", protocol.to_str().unwrap())));
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn what_belongs_to_the_connection_stays_there() {
        check(
            &[
                ("host", "a.com"),
                ("connection", "close, X-Mine,host"),
                ("x-mine", "1"),
                ("te", "trailers"),
                ("x-own", "2"),
            ],
            &expect![[r#"
                host: a.com
                x-forwarded-for: 192.0.2.7
                x-forwarded-host: a.com
                x-forwarded-proto: http
                x-own: 2
                x-vcap-request-id: id
            "#]],
        );
    }

    #[test]
    fn what_others_said_before_us_is_continued() {
        check(
            &[
                ("host", "a.com"),
                ("x-forwarded-for", "10.0.0.1"),
                ("x-forwarded-for", "10.0.0.2"),
                ("x-forwarded-proto", "https"),
            ],
            &expect![[r#"
                host: a.com
                x-forwarded-for: 10.0.0.1, 10.0.0.2, 192.0.2.7
                x-forwarded-host: a.com
                x-forwarded-proto: https
                x-vcap-request-id: id
            "#]],
        );
    }

    #[test]
    fn an_upgrade_is_wanted_only_if_both_headers_say_so() {
        check(
            &[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")],
            &expect![[r#"
            x-forwarded-for: 192.0.2.7
            x-forwarded-proto: http
            x-vcap-request-id: id
            (wants websocket)
        "#]],
        );
        check(
            &[("upgrade", "websocket")],
            &expect![[r#"
            x-forwarded-for: 192.0.2.7
            x-forwarded-proto: http
            x-vcap-request-id: id
        "#]],
        );
    }
}
