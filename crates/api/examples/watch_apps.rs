//! Lists apps and follows what happens to them, through restarts of the server and over to another node.
//!
//! `cargo run -p corkboard-api --example watch_apps`, beside `corkboard up`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its reader")]

mod from_environment;

use std::collections::BTreeMap;
use std::error::Error;

use corkboard_api::client::{Client, ClientError, FeedItem};
use corkboard_api::event::EventPayload;
use corkboard_api::models::DesiredLrp;

/// How many instances of each app are wanted.
type Apps = BTreeMap<String, i32>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = from_environment::client("watch-apps")?;
    // First the feed, then the list: what changes in between is in the feed. It may bring what the list shows already, and
    // ends with what is true.
    let mut feed = client.follow_instance_events("").await?;
    let mut apps = list(&client).await?;
    loop {
        match feed.next().await {
            Ok(FeedItem::Event(event)) => apply(&mut apps, event.payload),
            Ok(FeedItem::Gap(gap)) => {
                println!("something was missed ({}); reading everything again", gap.reason);
                apps = list(&client).await?;
            }
            // What does not heal by itself ends the program; everything else was tried for a while, and is tried again.
            Err(error) if error.retryable() => eprintln!("still waiting: {error}"),
            Err(error @ ClientError::Event { .. }) => eprintln!("passed over: {error}"),
            Err(error) => return Err(error.into()),
        }
    }
}

async fn list(client: &Client) -> Result<Apps, ClientError> {
    let lrps = client.desired_lrps(Default::default()).await?;
    let apps: Apps = lrps.into_iter().map(|lrp| (lrp.process_guid, lrp.instances)).collect();
    for (guid, instances) in &apps {
        println!("{guid} x {instances}");
    }
    Ok(apps)
}

fn apply(apps: &mut Apps, payload: EventPayload) {
    match payload {
        EventPayload::DesiredLrpCreated(event) => wanted(apps, event.desired_lrp),
        EventPayload::DesiredLrpChanged(event) => wanted(apps, event.after),
        EventPayload::DesiredLrpRemoved(event) => {
            let guid = event.desired_lrp.unwrap_or_default().process_guid;
            apps.remove(&guid);
            println!("{guid} is no longer wanted");
        }
        EventPayload::ActualLrpInstanceChanged(event) => {
            let key = event.actual_lrp_key.unwrap_or_default();
            println!("{}/{} is now {}", key.process_guid, key.index, event.after.unwrap_or_default().state);
        }
        _ => {}
    }
}

fn wanted(apps: &mut Apps, lrp: Option<DesiredLrp>) {
    let lrp = lrp.unwrap_or_default();
    println!("{} x {}", lrp.process_guid, lrp.instances);
    apps.insert(lrp.process_guid, lrp.instances);
}
