//! `rollout history`: the definitions of an app that are kept, and who has them.

use std::collections::BTreeMap;

use api::client::Client;
use api::models::{ActualLrPsRequest, DesiredLrp};
use serde::Serialize;

use super::in_words;
use super::sight::number;
use crate::commands::guid;
use crate::commands::logs::harmless::harmless;
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;
use crate::output::Tabular;

#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// The process guid of the app
    #[arg(value_name = "APP", value_parser = guid)]
    process_guid: String,
    #[command(flatten)]
    pub(super) json: JsonFlag,
}

/// The one in use first, then the previous one, then former ones, the latest first.
#[derive(Debug, Serialize)]
struct Kept {
    number: u32,
    identifier: String,
    r#use: &'static str,
    /// How many instances have it, those included that are leaving.
    instances: usize,
    memory_mb: i32,
    disk_mb: i32,
}

pub(super) async fn history(client: &Client, args: History, console: &mut Console) -> Result<u8, CommandError> {
    let guid = args.process_guid;
    let definitions = client.desired_lrp_definitions(&guid).await.map_err(|error| in_words(&guid, error))?;
    let filter = ActualLrPsRequest { process_guid: guid, ..ActualLrPsRequest::default() };
    let mut users: BTreeMap<u32, usize> = BTreeMap::new();
    for row in client.actual_lrps(filter).await? {
        *users.entry(number(row.definition_number)).or_default() += 1;
    }
    let previous = definitions.first().map_or(0, |in_use| in_use.previous_definition_number);
    let kept: Vec<Kept> = definitions.iter().enumerate().map(|(at, lrp)| kept(at, lrp, previous, &users)).collect();
    if console.is_json() {
        for one in &kept {
            console.line(&api::json::to_string(one))?;
        }
    } else {
        console.rows(&kept)?;
    }
    Ok(super::EXIT_DONE)
}

fn kept(at: usize, lrp: &DesiredLrp, previous: u32, users: &BTreeMap<u32, usize>) -> Kept {
    let number = number(lrp.definition_number);
    Kept {
        number,
        identifier: lrp.definition_identifier.clone(),
        r#use: match at {
            0 => "in use",
            _ if number == previous => "previous",
            _ => "former",
        },
        instances: users.get(&number).copied().unwrap_or(0),
        memory_mb: lrp.memory_mb,
        disk_mb: lrp.disk_mb,
    }
}

impl Tabular for Kept {
    const PLURAL: &'static str = "definitions";
    const COLUMNS: &'static [&'static str] = &["NUMBER", "IDENTIFIER", "USE", "INSTANCES", "MEMORY MB", "DISK MB"];

    fn row(&self) -> Vec<String> {
        vec![
            self.number.to_string(),
            harmless(&self.identifier).into_owned(),
            self.r#use.to_owned(),
            self.instances.to_string(),
            self.memory_mb.to_string(),
            self.disk_mb.to_string(),
        ]
    }
}
