//! One line of the table: an endpoint under a hostname, as a router will hear of it.

use api::registry::{ROUTER, RegistryMessage, SERVICE_DISCOVERY, Subjects};

/// Who routes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Http,
    Internal,
}

impl Kind {
    pub fn subjects(self) -> Subjects {
        match self {
            Kind::Http => ROUTER,
            Kind::Internal => SERVICE_DISCOVERY,
        }
    }
}

/// What a router removes an endpoint by. Two rows with one key are the same to it, whatever else they say; so as long as
/// anybody has a row with this key, it must not be unregistered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: Kind,
    /// The hostnames, with spaces between them.
    pub uris: String,
    pub host: String,
    pub port: u16,
    pub tls_port: u16,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub kind: Kind,
    pub message: RegistryMessage,
    /// Since when the instance is in its state. No part of what the row says: a row that differs only here is the same.
    pub since_ns: i64,
}

impl Row {
    pub fn key(&self) -> Key {
        let RegistryMessage { host, port, tls_port, uris, .. } = &self.message;
        Key { kind: self.kind, uris: uris.join(" "), host: host.clone(), port: *port, tls_port: *tls_port }
    }

    /// The registration that follows an endpoint's arrival; routers measure by the time how late they hear of it.
    pub fn fresh_message(&self) -> RegistryMessage {
        RegistryMessage { endpoint_updated_at_ns: self.since_ns, ..self.message.clone() }
    }
}
