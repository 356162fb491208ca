//! What route emitters and routers say to each other: Cloud Foundry's registry messages, over a message bus.
//!
//! An emitter registers every endpoint of every route, again and again; a router forgets what is no longer registered.
//! Both learn of each other by a greeting: an emitter greets, a router answers, and a router that starts announces itself
//! with the same words. The messages are JSON with Go's spelling; a field that is empty is left out, `null` means empty, and
//! what is unknown is ignored.
//!
//! [`routes`] reads what a desired LRP says about its routes. [`bus`] is what the messages travel on: in process, or NATS
//! (behind the feature `nats`, for the programs that need it).

pub mod bus;
#[cfg(feature = "nats")]
pub mod nats;
pub mod routes;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};

/// The subjects of one kind of router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subjects {
    /// Published by an emitter that looks for routers; the answer goes to the reply subject.
    pub greet: &'static str,
    /// Published by a router that starts.
    pub start: &'static str,
    pub register: &'static str,
    pub unregister: &'static str,
    /// All of them, in the order in which they were published: what is registered and unregistered must not overtake.
    pub all: &'static str,
}

/// Routes from outside: gorouter, and our own.
pub const ROUTER: Subjects = Subjects {
    greet: "router.greet",
    start: "router.start",
    register: "router.register",
    unregister: "router.unregister",
    all: "router.*",
};

/// Routes between containers: Cloud Foundry's service discovery.
pub const SERVICE_DISCOVERY: Subjects = Subjects {
    greet: "service-discovery.greet",
    start: "service-discovery.start",
    register: "service-discovery.register",
    unregister: "service-discovery.unregister",
    all: "service-discovery.*",
};

/// Size of a message that is read. NATS refuses larger ones by default, too.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Why a message cannot be used. The sender repeats itself, so the message is dropped and counted.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    #[error("the message has {bytes} bytes, more than {MESSAGE_BYTES_MAX}")]
    TooLarge { bytes: usize },
    #[error("the message is not the expected JSON")]
    Json(#[source] serde_json::Error),
    #[error("the message names no host")]
    NoHost,
    #[error("the message names no port")]
    NoPort,
    #[error("the message names no route")]
    NoUris,
}

/// One endpoint of some routes, as it is registered and unregistered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegistryMessage {
    pub host: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub port: u16,
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_is_empty")]
    pub tls_port: u16,
    #[serde(deserialize_with = "null_is_empty")]
    pub uris: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_empty")]
    pub protocol: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_empty")]
    pub app: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_empty")]
    pub route_service_url: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_empty")]
    pub private_instance_id: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_empty")]
    pub private_instance_index: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_empty")]
    pub server_cert_domain_san: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_empty")]
    pub isolation_segment: String,
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_is_empty")]
    pub endpoint_updated_at_ns: i64,
    /// Sent by other registrars: how long this endpoint is good without being registered again.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_is_empty")]
    pub stale_threshold_in_seconds: i64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_empty")]
    pub tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_empty")]
    pub availability_zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<serde_json::Value>,
}

impl RegistryMessage {
    pub fn encode(&self) -> Bytes {
        crate::json::to_string(self).into()
    }

    /// Reads a message and checks what a router of requests needs. Internal routes have no port.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLarge { bytes: bytes.len() });
        }
        let message: Self = serde_json::from_slice(bytes).map_err(MessageError::Json)?;
        if message.host.is_empty() {
            return Err(MessageError::NoHost);
        }
        if message.uris.iter().all(String::is_empty) {
            return Err(MessageError::NoUris);
        }
        Ok(message)
    }

    /// As [`RegistryMessage::decode`], for an endpoint that must be connected to.
    pub fn decode_with_port(bytes: &[u8]) -> Result<Self, MessageError> {
        let message = Self::decode(bytes)?;
        if message.port == 0 && message.tls_port == 0 { Err(MessageError::NoPort) } else { Ok(message) }
    }
}

/// How a router introduces itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouterStart {
    pub id: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub hosts: Vec<String>,
    /// How often the router wants to hear of each endpoint.
    pub minimum_register_interval_in_seconds: u64,
    /// After how long it forgets an endpoint it has not heard of.
    pub prune_threshold_in_seconds: u64,
}

impl RouterStart {
    pub fn encode(&self) -> Bytes {
        crate::json::to_string(self).into()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLarge { bytes: bytes.len() });
        }
        serde_json::from_slice(bytes).map_err(MessageError::Json)
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

fn null_is_empty<'de, D: Deserializer<'de>, V: Default + Deserialize<'de>>(from: D) -> Result<V, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
