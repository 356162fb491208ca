//! `lrp-events`, `task-events`: one JSON line per event, until the server ends the stream.
//!
//! Groups of actual LRPs travel on a stream of their own. `lrp-events` follows both and prints from the older one only the
//! three group events, because everything else on it is on the newer one too.

use std::io::Write;

use api::client::{Client, ClientError, EventStream, Subscription};
use api::event::{Event, EventPayload};

use crate::failure::CommandError;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Lrps {
    /// Only events about instances on this cell; events about desired LRPs always come
    #[arg(short, long, default_value = "", hide_default_value = true)]
    cell_id: String,
    /// Leave out actual_lrp_created, actual_lrp_changed and actual_lrp_removed, which are deprecated
    #[arg(short = 'x', long)]
    exclude_actual_lrp_groups: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Tasks {}

const GROUP_NOTE: &str =
    "Events about groups of actual LRPs are deprecated; --exclude-actual-lrp-groups leaves them out.";

pub(crate) async fn lrps(client: &Client, args: Lrps, out: &mut Output) -> Result<(), CommandError> {
    let what = Subscription { cell_id: args.cell_id, last_event_id: None };
    let groups = if args.exclude_actual_lrp_groups {
        None
    } else {
        note(GROUP_NOTE);
        Some(client.subscribe_to_events(what.clone()).await?)
    };
    let instances = client.subscribe_to_instance_events(what).await?;
    follow_both(groups, instances, out).await
}

pub(crate) async fn tasks(client: &Client, _: Tasks, out: &mut Output) -> Result<(), CommandError> {
    let mut stream = client.subscribe_to_task_events(Subscription::default()).await?;
    while let Some(event) = next(&mut stream).await? {
        out.event(&event)?;
    }
    Ok(())
}

/// Until both have ended. A stream that breaks does not end the other; its error is reported last, as `cfdot` does.
async fn follow_both(
    mut groups: Option<EventStream>,
    instances: EventStream,
    out: &mut Output,
) -> Result<(), CommandError> {
    let mut instances = Some(instances);
    let mut torn: Option<ClientError> = None;
    while groups.is_some() || instances.is_some() {
        let (ended, from_groups, step) = tokio::select! {
            step = next_of(&mut groups), if groups.is_some() => (&mut groups, true, step),
            step = next_of(&mut instances), if instances.is_some() => (&mut instances, false, step),
        };
        match step {
            Ok(Some(event)) if !from_groups || is_about_a_group(&event) => out.event(&event)?,
            Ok(Some(_)) => {}
            Ok(None) => *ended = None,
            Err(error) => {
                *ended = None;
                torn = Some(error);
            }
        }
    }
    torn.map_or(Ok(()), |error| Err(error.into()))
}

async fn next_of(stream: &mut Option<EventStream>) -> Result<Option<Event>, ClientError> {
    match stream {
        Some(stream) => next(stream).await,
        None => std::future::pending().await,
    }
}

/// The next event that can be understood. One that cannot is noted, and the stream goes on.
async fn next(stream: &mut EventStream) -> Result<Option<Event>, ClientError> {
    loop {
        match stream.next().await {
            Err(ClientError::Event { source, .. }) => note(&source.to_string()),
            other => return other,
        }
    }
}

fn is_about_a_group(event: &Event) -> bool {
    matches!(
        event.payload,
        EventPayload::ActualLrpCreated(_) | EventPayload::ActualLrpChanged(_) | EventPayload::ActualLrpRemoved(_)
    )
}

/// A remark beside the output. If nobody can read it, the events still matter.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "corkboard: {text}");
}
