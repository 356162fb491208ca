//! Asks the state server for everything that routes depend on.
//!
//! A listing is whole or it is none: if one question fails, nothing of the answers is used.
//!
//! On a cell only the cell's own instances are listed. What the table holds and the list lacks is then asked for by process,
//! so that an instance is withdrawn because the server says where else its index runs, and not because of silence. That counts
//! every instance: other instances of the process may well go on here.

use std::collections::BTreeSet;

use api::client::{Client, ClientError};
use api::models::{ActualLrPsRequest, ActualLrp, DesiredLrPsRequest};

use crate::process::Desired;
use crate::table::{Held, Listing};

const NOT_FOUND: u16 = 404;

/// `held` is what the table knows; it matters on a cell.
pub(crate) async fn fetch(client: Client, cell_id: Option<String>, held: Held) -> Result<Listing, ClientError> {
    let Some(cell_id) = cell_id else {
        let (desired, actual, fresh) = tokio::try_join!(
            routing_infos(&client, Vec::new()),
            client.actual_lrps(ActualLrPsRequest::default()),
            client.domains(),
        )?;
        return Ok(Listing { desired, actual, fresh: fresh.into_iter().collect() });
    };
    let here = ActualLrPsRequest { cell_id, ..ActualLrPsRequest::default() };
    let (mut actual, fresh) = tokio::try_join!(client.actual_lrps(here), client.domains())?;
    let listed: BTreeSet<String> = actual.iter().filter_map(process_guid).collect();
    let unsaid = unsaid(&held, &actual);
    if !unsaid.is_empty() {
        actual.extend(elsewhere(&client, unsaid).await?);
    }
    let wanted: Vec<String> = held.into_keys().chain(listed).collect::<BTreeSet<_>>().into_iter().collect();
    let desired = if wanted.is_empty() { Vec::new() } else { routing_infos(&client, wanted).await? };
    Ok(Listing { desired, actual, fresh: fresh.into_iter().collect() })
}

/// Processes without a statement about one of their instances.
fn unsaid(held: &Held, actual: &[ActualLrp]) -> Vec<String> {
    let key = |lrp: &ActualLrp| lrp.actual_lrp_instance_key.as_ref().map(|key| key.instance_guid.clone());
    let listed: BTreeSet<String> = actual.iter().filter_map(key).collect();
    let is_unsaid = |instances: &BTreeSet<String>| instances.is_empty() || !instances.is_subset(&listed);
    held.iter().filter(|(_, instances)| is_unsaid(instances)).map(|(guid, _)| guid.clone()).collect()
}

/// What routes of these processes are; of all processes, if none is named.
pub(crate) async fn routing_infos(client: &Client, process_guids: Vec<String>) -> Result<Vec<Desired>, ClientError> {
    let filter = DesiredLrPsRequest { process_guids, ..DesiredLrPsRequest::default() };
    let found = match client.desired_lrp_routing_infos(filter.clone()).await {
        // An older server does not know the short form.
        Err(ClientError::Status { status: NOT_FOUND, .. }) => client.desired_lrps(filter).await?,
        answer => answer?,
    };
    Ok(found.into_iter().map(Desired::of).collect())
}

/// All records of these processes, wherever they are.
async fn elsewhere(client: &Client, process_guids: Vec<String>) -> Result<Vec<ActualLrp>, ClientError> {
    match client.actual_lrps_by_process_guids(process_guids.clone()).await {
        // An older server is asked for one process at a time.
        Err(ClientError::Status { status: NOT_FOUND, .. }) => {}
        answer => return answer,
    }
    let mut found = Vec::new();
    for process_guid in process_guids {
        found.extend(client.actual_lrps(ActualLrPsRequest { process_guid, ..ActualLrPsRequest::default() }).await?);
    }
    Ok(found)
}

fn process_guid(lrp: &ActualLrp) -> Option<String> {
    lrp.actual_lrp_key.as_ref().map(|key| key.process_guid.clone())
}
