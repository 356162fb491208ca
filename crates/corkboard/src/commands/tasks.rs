//! `tasks`, `task`, `create-task`, `cancel-task`, `delete-task`.

use api::client::Client;
use api::models::{Task, TasksRequest};

use super::{guid, spec};
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
    #[command(flatten)]
    pub(crate) format: FormatFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    #[arg(value_parser = guid)]
    task_guid: String,
    #[command(flatten)]
    pub(crate) format: FormatFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The task as JSON, or @FILE
    #[arg(value_name = "SPEC|@FILE")]
    spec: String,
}

/// For `cancel-task` and `delete-task`.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    #[arg(value_parser = guid)]
    task_guid: String,
}

pub(crate) async fn list(client: &Client, args: List, out: &mut Output) -> Result<(), CommandError> {
    let List { domain, cell_id, .. } = args;
    Ok(out.list(&client.tasks(TasksRequest { domain, cell_id }).await?)?)
}

pub(crate) async fn show(client: &Client, args: Show, out: &mut Output) -> Result<(), CommandError> {
    Ok(out.one(&client.task_by_guid(&args.task_guid).await?)?)
}

/// Only guid, domain and definition are sent; what else stands in the spec is the server's to say.
pub(crate) async fn create(client: &Client, args: Create, _: &mut Output) -> Result<(), CommandError> {
    let task: Task = spec::read(&args.spec)?;
    Ok(client.desire_task(&task.task_guid, &task.domain, task.task_definition.unwrap_or_default()).await?)
}

pub(crate) async fn cancel(client: &Client, args: Which, _: &mut Output) -> Result<(), CommandError> {
    Ok(client.cancel_task(&args.task_guid).await?)
}

pub(crate) async fn delete(client: &Client, args: Which, _: &mut Output) -> Result<(), CommandError> {
    client.resolving_task(&args.task_guid).await?;
    Ok(client.delete_task(&args.task_guid).await?)
}

impl Tabular for Task {
    const PLURAL: &'static str = "tasks";
    const COLUMNS: &'static [&'static str] = &["TASK GUID", "DOMAIN", "STATE", "CELL", "REJECTIONS", "OUTCOME"];

    fn row(&self) -> Vec<String> {
        let outcome = match (self.first_completed_at, self.failed) {
            (0, _) => self.rejection_reason.clone(),
            (_, true) => format!("failed: {}", self.failure_reason),
            (_, false) => "succeeded".to_owned(),
        };
        vec![
            self.task_guid.clone(),
            self.domain.clone(),
            self.state().as_str_name().to_owned(),
            self.cell_id.clone(),
            self.rejection_count.to_string(),
            outcome,
        ]
    }
}
