//! `cells`, `cell`.

use api::client::Client;
use api::models::CellPresence;

use super::guid;
use crate::failure::CommandError;
use crate::output::{FormatFlags, Output, Tabular};

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) format: FormatFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    #[arg(value_parser = guid)]
    cell_id: String,
    #[command(flatten)]
    pub(crate) format: FormatFlags,
}

pub(crate) async fn list(client: &Client, _: List, out: &mut Output) -> Result<(), CommandError> {
    Ok(out.list(&client.cells().await?)?)
}

/// The protocol has no call for one cell.
pub(crate) async fn show(client: &Client, args: Show, out: &mut Output) -> Result<(), CommandError> {
    match client.cells().await?.into_iter().find(|cell| cell.cell_id == args.cell_id) {
        Some(cell) => Ok(out.one(&cell)?),
        None => Err(CommandError::NotFound("Cell not found".to_owned())),
    }
}

impl Tabular for CellPresence {
    const PLURAL: &'static str = "cells";
    const COLUMNS: &'static [&'static str] = &["CELL", "ZONE", "MEMORY MB", "DISK MB", "CONTAINERS", "ADDRESS"];

    fn row(&self) -> Vec<String> {
        let capacity = self.capacity.unwrap_or_default();
        let address = if self.rep_url.is_empty() { &self.rep_address } else { &self.rep_url };
        vec![
            self.cell_id.clone(),
            self.zone.clone(),
            capacity.memory_mb.to_string(),
            capacity.disk_mb.to_string(),
            capacity.containers.to_string(),
            address.clone(),
        ]
    }
}
