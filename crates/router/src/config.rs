//! What an operator can choose, and the limits that keep one client or one backend from hurting the others.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

/// How the next instance is chosen, where a route does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    #[default]
    RoundRobin,
    LeastConnections,
}

impl Balance {
    /// As a route's options name it.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "round-robin" => Some(Balance::RoundRobin),
            "least-connection" => Some(Balance::LeastConnections),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Config {
    /// How this router calls itself.
    pub id: String,
    pub balance: Balance,
    /// How often emitters should register everything.
    pub register_interval: Duration,
    /// After how long an endpoint that is not registered again is forgotten; not while nobody is heard at all.
    pub prune_threshold: Duration,
    /// How to speak TLS with backends that offer it. Without it their plain port is used.
    pub backend_tls: Option<Arc<ClientConfig>>,
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            id: "corkboard-router".to_owned(),
            balance: Balance::default(),
            register_interval: Duration::from_secs(20),
            prune_threshold: Duration::from_secs(120),
            backend_tls: None,
            limits: Limits::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Limits {
    /// Of the head of a request.
    pub header_bytes_max: usize,
    /// Clients at one time, of each port; more are closed at once.
    pub connections_max: usize,
    /// How long a client may take to send a head, and to begin the next one.
    pub client_idle_timeout: Duration,
    /// How long a client may send nothing of a body, or read nothing of an answer.
    pub client_stall_timeout: Duration,
    pub handshake_timeout: Duration,
    pub backend_connect_timeout: Duration,
    /// How long a backend may be silent before its answer and between two parts of it.
    pub backend_timeout: Duration,
    /// How long an upgraded connection may be silent.
    pub upgrade_idle_timeout: Duration,
    /// Instances that are tried for one request.
    pub attempts_max: usize,
    /// How long an instance that failed is left alone while others are there.
    pub failed_pause: Duration,
    /// How long a path without instances is answered with 503 before it is unknown.
    pub empty_grace: Duration,
    pub idle_connections_per_endpoint_max: usize,
    pub idle_connection_timeout: Duration,
    /// Between saying "no more" on the health port and closing the door.
    pub drain_wait: Duration,
    /// How long requests in flight may take after that.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes_max: 128 * 1024,
            connections_max: 10_000,
            client_idle_timeout: Duration::from_secs(90),
            client_stall_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            backend_connect_timeout: Duration::from_secs(5),
            backend_timeout: Duration::from_secs(900),
            upgrade_idle_timeout: Duration::from_secs(900),
            attempts_max: 3,
            failed_pause: Duration::from_secs(5),
            empty_grace: Duration::from_secs(30),
            idle_connections_per_endpoint_max: 100,
            idle_connection_timeout: Duration::from_secs(30),
            drain_wait: Duration::from_secs(1),
            drain_timeout: Duration::from_secs(60),
        }
    }
}
