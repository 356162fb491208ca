//! `actual-lrps`, `actual-lrp-groups`, `actual-lrp-groups-for-guid`, `retire-actual-lrp`.

use api::client::Client;
use api::models::{ActualLrPsRequest, ActualLrp, ActualLrpGroup, ActualLrpGroupsRequest, ActualLrpKey};

use super::guid;
use crate::failure::CommandError;
use crate::output::{FormatFlags, Output, Tabular};

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only those of this domain
    #[arg(short, long, default_value = "", hide_default_value = true)]
    domain: String,
    /// Only those on this cell
    #[arg(short, long, default_value = "", hide_default_value = true)]
    cell_id: String,
    /// Only those of this desired LRP
    #[arg(short, long, default_value = "", hide_default_value = true)]
    process_guid: String,
    /// Only those with this index
    #[arg(short, long, allow_negative_numbers = true)]
    index: Option<i32>,
    #[command(flatten)]
    pub(crate) format: FormatFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListGroups {
    /// Only those of this domain
    #[arg(short, long, default_value = "", hide_default_value = true)]
    domain: String,
    /// Only those on this cell
    #[arg(short, long, default_value = "", hide_default_value = true)]
    cell_id: String,
    #[command(flatten)]
    pub(crate) format: FormatFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListGroupsForGuid {
    #[arg(value_parser = guid)]
    process_guid: String,
    /// Only the group with this index
    #[arg(short, long, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    index: Option<i32>,
    #[command(flatten)]
    pub(crate) format: FormatFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Retire {
    #[arg(value_parser = guid)]
    process_guid: String,
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    index: i32,
}

pub(crate) async fn list(client: &Client, args: List, out: &mut Output) -> Result<(), CommandError> {
    let List { domain, cell_id, process_guid, index, .. } = args;
    Ok(out.list(&client.actual_lrps(ActualLrPsRequest { domain, cell_id, process_guid, index }).await?)?)
}

pub(crate) async fn list_groups(client: &Client, args: ListGroups, out: &mut Output) -> Result<(), CommandError> {
    let ListGroups { domain, cell_id, .. } = args;
    Ok(out.list(&client.actual_lrp_groups(ActualLrpGroupsRequest { domain, cell_id }).await?)?)
}

pub(crate) async fn list_groups_for_guid(
    client: &Client,
    args: ListGroupsForGuid,
    out: &mut Output,
) -> Result<(), CommandError> {
    let groups = match args.index {
        None => client.actual_lrp_groups_by_process_guid(&args.process_guid).await?,
        Some(index) => vec![client.actual_lrp_group_by_process_guid_and_index(&args.process_guid, index).await?],
    };
    Ok(out.list(&groups)?)
}

pub(crate) async fn retire(client: &Client, args: Retire, _: &mut Output) -> Result<(), CommandError> {
    let Retire { process_guid, index } = args;
    // A key names its domain, which the operator does not know by heart.
    let domain = client.desired_lrp_by_process_guid(&process_guid).await?.domain;
    Ok(client.retire_actual_lrp(ActualLrpKey { process_guid, index, domain }).await?)
}

impl Tabular for ActualLrp {
    const PLURAL: &'static str = "actual LRPs";
    const COLUMNS: &'static [&'static str] =
        &["PROCESS GUID", "INDEX", "STATE", "PRESENCE", "CELL", "ADDRESS", "CRASHES", "PROBLEM"];

    fn row(&self) -> Vec<String> {
        let key = self.actual_lrp_key.clone().unwrap_or_default();
        let holder = self.actual_lrp_instance_key.clone().unwrap_or_default();
        let problem = if self.placement_error.is_empty() { &self.crash_reason } else { &self.placement_error };
        vec![
            key.process_guid,
            key.index.to_string(),
            self.state.clone(),
            // An update replaces it; for the protocol that is an evacuation.
            if self.leaving { "LEAVING" } else { self.presence().as_str_name() }.to_owned(),
            holder.cell_id,
            address(self),
            self.crash_count.to_string(),
            problem.clone(),
        ]
    }
}

/// A group is one line for its ordinary or suspect record, and says beside it whether another is on its way out.
impl Tabular for ActualLrpGroup {
    const PLURAL: &'static str = "actual LRP groups";
    const COLUMNS: &'static [&'static str] = &["PROCESS GUID", "INDEX", "STATE", "CELL", "ADDRESS", "EVACUATING FROM"];

    fn row(&self) -> Vec<String> {
        let lrp = self.instance.clone().or_else(|| self.evacuating.clone()).unwrap_or_default();
        let cell_of = |lrp: &ActualLrp| lrp.actual_lrp_instance_key.clone().unwrap_or_default().cell_id;
        let key = lrp.actual_lrp_key.clone().unwrap_or_default();
        vec![
            key.process_guid,
            key.index.to_string(),
            lrp.state.clone(),
            cell_of(&lrp),
            address(&lrp),
            self.evacuating.as_ref().map(cell_of).unwrap_or_default(),
        ]
    }
}

/// Address and first port, which is how one tries an instance by hand.
fn address(lrp: &ActualLrp) -> String {
    let net = lrp.actual_lrp_net_info.clone().unwrap_or_default();
    match net.ports.first() {
        Some(port) => format!("{}:{}", net.address, port.host_port),
        None => net.address,
    }
}
