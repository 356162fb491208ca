//! The table `[locket]`: the server that knows which node may serve and which cells are there, and this node as its client.
//!
//! Locket speaks TLS only and wants to see a certificate, so the three files are not optional.

use std::time::Duration;

use bbs::config::Locket;
use toml::Value;

use super::check::Reader;
use super::raw::RawLocket;
use super::values::{duration, text};

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
}

/// Without a scheme, as gRPC writes it. A name is as good as an address.
pub(crate) fn host_and_port(value: &Value) -> Result<String, String> {
    let text = text(value)?;
    let is_address = text.rsplit_once(':').is_some_and(|(host, port)| {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        !host.is_empty()
            && !host.contains(['/', '@', ' ', '[', ']'])
            && (!host.contains(':') || text.starts_with('['))
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_address {
        Ok(text)
    } else {
        Err("is not a host and a port; expected for instance \"locket.example.org:8891\", without https://".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_from_the_rest() {
        let is_read = |text: &str| host_and_port(&Value::String(text.to_owned())).is_ok();
        for text in ["locket.service.cf.internal:8891", "127.0.0.1:1", "[::1]:8891", "localhost:65535"] {
            assert!(is_read(text), "{text}");
        }
        for text in
            ["", "locket", ":8891", "locket:", "locket:0", "locket:65536", "::1:8891", "https://locket:8891", "a@b:1"]
        {
            assert!(!is_read(text), "{text}");
        }
    }
}
