//! An operator's script: sets the number of instances of an app, and does not end before that is certain.
//!
//! `cargo run -p corkboard-api --example scale_app -- GUID INSTANCES`. It keeps trying for five minutes, through restarts and
//! from node to node. Setting a number twice does no harm here, so it says that every request may be repeated.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

mod from_environment;

use std::error::Error;
use std::time::Duration;

use corkboard_api::client::{Repeat, Retry};
use corkboard_api::models::DesiredLrpUpdate;
use corkboard_api::models::error::Type;

const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [guid, instances] = arguments.as_slice() else { return Err("usage: scale_app GUID INSTANCES".into()) };
    let instances: i32 = instances.parse()?;
    let client = from_environment::client("scale-app")?
        .with_retry(Retry { repeat: Repeat::Always, ..Retry::forever() })
        .with_timeout(Some(PATIENCE));
    let update = DesiredLrpUpdate { instances: Some(instances), ..Default::default() };
    match client.update_desired_lrp(guid, update).await {
        Ok(()) => {}
        Err(error) if error.is(Type::ResourceNotFound) => {
            return Err(format!("there is no app {guid}; nothing was changed").into());
        }
        // Says how often it was tried, where, and whether the change may have been made.
        Err(error) => return Err(error.into()),
    }
    let lrp = client.desired_lrp_by_process_guid(guid).await?;
    println!("{} x {}", lrp.process_guid, lrp.instances);
    if let Some(version) = client.server_version() {
        println!("answered by a server of version {version}");
    }
    Ok(())
}
