//! `desired-lrps`, `desired-lrp`, `desired-lrp-scheduling-infos`, `create-desired-lrp`, `delete-desired-lrp`.

use api::client::Client;
use api::models::{DesiredLrPsRequest, DesiredLrp, DesiredLrpSchedulingInfo, ProtoRoutes};

use super::{guid, spec};
use crate::failure::CommandError;
use crate::output::{FormatFlags, Output, Tabular};

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only those of this domain
    #[arg(short, long, default_value = "", hide_default_value = true)]
    domain: String,
    #[command(flatten)]
    pub(crate) format: FormatFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    #[arg(value_parser = guid)]
    process_guid: String,
    #[command(flatten)]
    pub(crate) format: FormatFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The desired LRP as JSON, or @FILE
    #[arg(value_name = "SPEC|@FILE")]
    spec: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    #[arg(value_parser = guid)]
    process_guid: String,
}

pub(crate) async fn list(client: &Client, args: List, out: &mut Output) -> Result<(), CommandError> {
    let filter = DesiredLrPsRequest { domain: args.domain, ..DesiredLrPsRequest::default() };
    Ok(out.list(&client.desired_lrps(filter).await?)?)
}

pub(crate) async fn list_scheduling_infos(client: &Client, args: List, out: &mut Output) -> Result<(), CommandError> {
    let filter = DesiredLrPsRequest { domain: args.domain, ..DesiredLrPsRequest::default() };
    Ok(out.list(&client.desired_lrp_scheduling_infos(filter).await?)?)
}

pub(crate) async fn show(client: &Client, args: Show, out: &mut Output) -> Result<(), CommandError> {
    Ok(out.one(&client.desired_lrp_by_process_guid(&args.process_guid).await?)?)
}

pub(crate) async fn create(client: &Client, args: Create, _: &mut Output) -> Result<(), CommandError> {
    let desired: DesiredLrp = spec::read(&args.spec)?;
    Ok(client.desire_lrp(desired).await?)
}

pub(crate) async fn delete(client: &Client, args: Delete, _: &mut Output) -> Result<(), CommandError> {
    Ok(client.remove_desired_lrp(&args.process_guid).await?)
}

const COLUMNS: &[&str] = &["PROCESS GUID", "DOMAIN", "INSTANCES", "MEMORY MB", "DISK MB", "ROOTFS", "ROUTERS"];

impl Tabular for DesiredLrp {
    const PLURAL: &'static str = "desired LRPs";
    const COLUMNS: &'static [&'static str] = COLUMNS;

    fn row(&self) -> Vec<String> {
        vec![
            self.process_guid.clone(),
            self.domain.clone(),
            self.instances.to_string(),
            self.memory_mb.to_string(),
            self.disk_mb.to_string(),
            self.root_fs.clone(),
            routers(self.routes.as_ref()),
        ]
    }
}

impl Tabular for DesiredLrpSchedulingInfo {
    const PLURAL: &'static str = "desired LRPs";
    const COLUMNS: &'static [&'static str] = COLUMNS;

    fn row(&self) -> Vec<String> {
        let key = self.desired_lrp_key.clone().unwrap_or_default();
        let resource = self.desired_lrp_resource.clone().unwrap_or_default();
        vec![
            key.process_guid,
            key.domain,
            self.instances.to_string(),
            resource.memory_mb.to_string(),
            resource.disk_mb.to_string(),
            resource.root_fs,
            routers(self.routes.as_ref()),
        ]
    }
}

/// Which routers have routes. What a route is, only they know.
fn routers(routes: Option<&ProtoRoutes>) -> String {
    let names: Vec<&str> = routes.iter().flat_map(|routes| routes.routes.keys()).map(String::as_str).collect();
    names.join(" ")
}
