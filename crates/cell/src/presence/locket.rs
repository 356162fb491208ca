//! The presence of a cell in Locket, Diego's service of locks and presences.

use std::time::Duration;

use api::locket::{Client, Kind, LocketError, Resource};

use super::{Presence, PresenceError};
use crate::executor::Later;

/// How long one call may take.
const CALL_LIMIT: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub struct LocketPresence {
    client: Client,
    cell_id: String,
    /// The same after a restart, if one process at a time can have it: then the presence goes on without a gap. Diego's is
    /// another one at each start, and waits until the time of the former is over.
    owner: String,
}

impl LocketPresence {
    pub fn new(client: Client, cell_id: &str, owner: &str) -> Self {
        Self { client, cell_id: cell_id.to_owned(), owner: owner.to_owned() }
    }

    fn resource(&self, value: &str) -> Resource {
        Resource { key: self.cell_id.clone(), owner: self.owner.clone(), value: value.to_owned(), kind: Kind::Presence }
    }
}

impl Presence for LocketPresence {
    fn announce<'a>(&'a self, value: &'a str, ttl: Duration) -> Later<'a, Result<(), PresenceError>> {
        Box::pin(async move {
            let resource = self.resource(value);
            self.client.lock(&resource, ttl, &self.owner, CALL_LIMIT).await.map_err(of)
        })
    }

    fn withdraw(&self) -> Later<'_, Result<(), PresenceError>> {
        Box::pin(async move { self.client.release(&self.resource(""), CALL_LIMIT).await.map_err(of) })
    }
}

fn of(error: LocketError) -> PresenceError {
    match error {
        LocketError::Collision { .. } => PresenceError::Taken,
        error => PresenceError::Failed(error.to_string()),
    }
}
