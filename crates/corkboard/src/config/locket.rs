//! The two tables about Locket. `[locket]`: the server that knows which node may serve and which cells are there, and this node
//! as its client. `[serve_locket]`: this node as that server, for everybody else.
//!
//! Locket speaks TLS only and wants to see a certificate, so neither goes without.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bbs::config::{Config, Locket};
use toml::Value;

use super::check::Reader;
use super::raw::{RawLocket, RawServeLocket};
use super::values::{address, duration, text};

/// Diego's port.
pub(crate) const DEFAULT_LOCKET: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8891);

/// How long a probed connection may stay silent, if nothing else is said. gRPC's own default.
pub(super) const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

impl Reader {
    /// `None` without the table, and when it cannot be understood, which is noted.
    /// `node` is the name of this node, if it was given one: to Locket, two nodes with one name are one.
    pub(super) fn locket(&mut self, raw: Option<RawLocket>, node: Option<&String>) -> Option<Locket> {
        let raw = raw?;
        self.refuse_unknown("locket.", RawLocket::KEYS, &raw.unknown);
        if raw.address.is_none() {
            self.note("locket.address", "is missing; expected a host and a port, such as \"locket.example.org:8891\"");
        }
        let address = self.optional("locket.address", raw.address, host_and_port);
        if raw.ca.is_none() && raw.cert.is_none() && raw.key.is_none() {
            self.note("locket.ca", "is missing, and cert and key too; Locket wants to see a certificate");
        }
        let tls = self.tls_files("locket", raw.ca, raw.cert, raw.key);
        if raw.owner.is_none() && node.is_none() {
            let what = "is missing, and so is `node`; nodes that ask the same Locket need a name each";
            self.note("locket.owner", what);
        }
        let owner = self.optional("locket.owner", raw.owner, text).or_else(|| node.cloned());
        let has_time = raw.keepalive_time.is_some();
        let time = self.optional("locket.keepalive_time", raw.keepalive_time, duration);
        let silence = self.optional("locket.keepalive_timeout", raw.keepalive_timeout, duration);
        if silence.is_some() && !has_time {
            self.note(
                "locket.keepalive_timeout",
                "is for connections that are probed; add keepalive_time, or leave it out",
            );
        }
        let keepalive = time.map(|time| (time, silence.unwrap_or(KEEPALIVE_TIMEOUT)));
        Some(Locket { address: address?, tls: tls?, owner: owner?, keepalive })
    }

    /// `None` without the table, and when it cannot be understood, which is noted.
    pub(super) fn serve_locket(&mut self, raw: Option<RawServeLocket>, config: &Config) -> Option<SocketAddr> {
        let raw = raw?;
        self.refuse_unknown("serve_locket.", RawServeLocket::KEYS, &raw.unknown);
        let listen = self.or("serve_locket.listen", raw.listen, DEFAULT_LOCKET, address);
        if config.tls.is_none() {
            self.note("serve_locket", "needs the table [tls]: Locket shows a certificate, and wants to see one");
        }
        if config.locket.is_some() {
            let what = "serves Locket from this node, and [locket] makes this node a client of another one; expected one of \
                        the two tables";
            self.note("serve_locket", what);
        }
        for (key, taken) in [("listen", config.listen), ("health", config.health)] {
            if listen == taken && listen.port() != 0 {
                let what = format!("{listen} is also the address of `{key}`; expected another port");
                self.note("serve_locket.listen", what);
            }
        }
        Some(listen)
    }
}

/// Without a scheme, as gRPC writes it. A name is as good as an address. Several Lockets on one store have commas between them.
pub(crate) fn host_and_port(value: &Value) -> Result<String, String> {
    let text = text(value)?;
    if text.split(',').all(|one| is_host_and_port(one.trim())) {
        Ok(text)
    } else {
        Err("is not a host and a port; expected for instance \"locket.example.org:8891\", without https://, or several with \
             commas between them"
            .to_owned())
    }
}

fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        !host.is_empty()
            && !host.contains(['/', '@', ' ', '[', ']'])
            && (!host.contains(':') || text.starts_with('['))
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_from_the_rest() {
        let is_read = |text: &str| host_and_port(&Value::String(text.to_owned())).is_ok();
        for text in [
            "locket.service.cf.internal:8891",
            "127.0.0.1:1",
            "[::1]:8891",
            "localhost:65535",
            "a:1,b:1",
            "10.0.0.1:1, [::1]:1",
        ] {
            assert!(is_read(text), "{text}");
        }
        let wrong =
            "|locket|:8891|locket:|locket:0|locket:65536|::1:8891|https://locket:8891|a@b:1|a:1,|,a:1|a:1,b|a:1 b:1";
        for text in wrong.split('|') {
            assert!(!is_read(text), "{text}");
        }
    }
}
