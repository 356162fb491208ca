//! How a cell in this process is known to be there: on the shelf of the state server's own store, with nobody in between.

use std::time::Duration;

use api::locket::{Kind, Resource};
use bbs::shelf::{Outcome, Shelf};
use cell::executor::Later;
use cell::presence::{Presence, PresenceError};
use store::StoreError;

/// One process has the store of a directory, so that nobody else can claim to be this cell.
#[derive(Debug)]
pub(super) struct OnShelf {
    pub(super) shelf: Shelf,
    pub(super) cell_id: String,
}

impl OnShelf {
    fn resource(&self, value: &str) -> Resource {
        let (key, owner) = (self.cell_id.clone(), self.cell_id.clone());
        Resource { key, owner, value: value.to_owned(), kind: Kind::Presence }
    }
}

impl Presence for OnShelf {
    fn announce<'a>(&'a self, value: &'a str, ttl: Duration) -> Later<'a, Result<(), PresenceError>> {
        Box::pin(async move { said(self.shelf.take(&self.resource(value), ttl).await) })
    }

    fn withdraw(&self) -> Later<'_, Result<(), PresenceError>> {
        Box::pin(async move { said(self.shelf.give_back(&self.cell_id, &self.cell_id).await) })
    }
}

fn said(outcome: Result<Outcome, StoreError>) -> Result<(), PresenceError> {
    match outcome {
        Ok(Outcome::Done) => Ok(()),
        Ok(Outcome::SomebodyElses { .. }) => Err(PresenceError::Taken),
        Err(error) => Err(PresenceError::Failed(error.to_string())),
    }
}
