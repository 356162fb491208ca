//! One instance that requests can be sent to.
//!
//! It is shared: the table holds it as long as it is registered, and every request that goes to it holds it until its answer
//! has ended. So an instance that is unregistered gets no new requests, and those in flight are not disturbed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::registry::RegistryMessage;
use tokio::time::Instant;

use crate::upstream::Idle;

/// What two registrations must agree in to mean the same instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub host: String,
    pub port: u16,
    pub tls_port: u16,
    pub app: String,
    pub instance_id: String,
    pub instance_index: String,
    /// The name in its certificate.
    pub certificate_name: String,
}

#[derive(Debug)]
pub struct Endpoint {
    pub identity: Identity,
    in_flight: AtomicUsize,
    failed_at: Mutex<Option<Instant>>,
    pub(crate) idle: Idle,
}

impl Identity {
    pub fn of(message: &RegistryMessage) -> Self {
        Self {
            host: message.host.clone(),
            port: message.port,
            tls_port: message.tls_port,
            app: message.app.clone(),
            instance_id: message.private_instance_id.clone(),
            instance_index: message.private_instance_index.clone(),
            certificate_name: message.server_cert_domain_san.clone(),
        }
    }

    /// What a router knows an endpoint by.
    pub fn address(&self) -> (&str, u16, u16) {
        (&self.host, self.port, self.tls_port)
    }

    /// Whether an unregistration of `other` means this. The same address may have passed to another instance meanwhile; news
    /// of the former one comes late and says nothing about the new one.
    pub fn is_meant_by(&self, other: &Identity) -> bool {
        let unnamed = self.instance_id.is_empty() || other.instance_id.is_empty();
        self.address() == other.address() && (unnamed || self.instance_id == other.instance_id)
    }
}

impl Endpoint {
    pub fn new(identity: Identity) -> Arc<Self> {
        Arc::new(Self { identity, in_flight: AtomicUsize::new(0), failed_at: Mutex::default(), idle: Idle::default() })
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Notes that the instance did not take a request.
    pub fn fail(&self, now: Instant) {
        *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    pub fn recover(&self) {
        *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub fn failed_lately(&self, now: Instant, pause: Duration) -> bool {
        let failed_at = *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        failed_at.is_some_and(|at| now.saturating_duration_since(at) < pause)
    }
}

/// A request on its way to an instance.
#[derive(Debug)]
pub struct InFlight(Arc<Endpoint>);

impl InFlight {
    pub fn new(endpoint: Arc<Endpoint>) -> Self {
        endpoint.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(endpoint)
    }

    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
