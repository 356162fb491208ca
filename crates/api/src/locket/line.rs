//! The way to one Locket server: its address, and a connection that is made when it is needed.
//!
//! Promise: after a call without an answer the next one goes over a new connection, because a line that was cut looks like a slow
//! server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use super::client::Options;
use super::dial::Dial;
use super::error::LocketError;
use super::proto::locket_client::LocketClient;

/// What one answer may take in memory: a list of all cells of a large platform is a few megabytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Line {
    pub(super) address: String,
    endpoint: Endpoint,
    dial: Dial,
    channel: Mutex<Channel>,
}

impl Line {
    /// Prepares the way, and goes it with the first call.
    pub(super) fn new(address: &str, options: &Options) -> Result<Self, LocketError> {
        let wrong = || LocketError::Address { address: address.to_owned() };
        let dial = Dial::new(address, &options.tls)?;
        // Our own dialling speaks TLS; tonic must not try to.
        let mut endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|_| wrong())?;
        let origin = format!("https://{address}").parse();
        endpoint = endpoint.origin(origin.map_err(|_| wrong())?);
        if let Some((interval, silence)) = options.keepalive {
            endpoint = endpoint.http2_keep_alive_interval(interval).keep_alive_timeout(silence);
        }
        let channel = Mutex::new(endpoint.connect_with_connector_lazy(dial.clone()));
        Ok(Self { address: address.to_owned(), endpoint, dial, channel })
    }

    /// Makes one call. `call_id` is for Locket's log.
    pub(super) async fn call<Q, A, F>(
        &self,
        doing: &str,
        limit: Duration,
        message: Q,
        call_id: Option<&str>,
        ask: impl Fn(LocketClient<Channel>, Request<Q>) -> F,
    ) -> Result<A, LocketError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut request = Request::new(message);
        if let Some(call_id) = call_id.and_then(|id| MetadataValue::try_from(id).ok()) {
            request.metadata_mut().insert("uuid", call_id);
        }
        // Locket need not finish what nobody waits for any more.
        request.set_timeout(limit);
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let client = LocketClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let error = match timeout(limit, ask(client, request)).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => LocketError::of(doing.to_owned(), &self.address, &status),
            Err(_) => {
                let why = format!("nothing came back within {} ms", limit.as_millis());
                LocketError::Unreachable { doing: doing.to_owned(), address: self.address.clone(), why }
            }
        };
        if matches!(error, LocketError::Unreachable { .. }) {
            let fresh = self.endpoint.connect_with_connector_lazy(self.dial.clone());
            *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
        Err(error)
    }
}
