//! Rollouts: what clients ask of one, and the definitions that are kept.

use std::sync::Arc;

use api::convert::rollout;
use api::models::{
    DesiredLrpByProcessGuidRequest, DesiredLrpDefinitionsResponse, DesiredLrpLifecycleResponse, Error,
    RollbackDesiredLrpRequest, SteerUpdateRequest,
};
use api::{Response, Route};
use bytes::BytesMut;
use model::ProcessGuid;

use super::lists::View;
use super::{Answer, App, Body, Call, Failure, errors, failed, intake, message, write_failure};
use crate::board::DesiredEntry;
use crate::commands::{Ask, Command, Steer};

/// Each definition stands where a record of a list would.
pub(super) fn definitions(app: &App, call: &Call) -> Answer {
    let request: DesiredLrpByProcessGuidRequest = match intake::parse(&call.body) {
        Ok(request) => request,
        Err(error) => return failed::<DesiredLrpDefinitionsResponse>(error),
    };
    let board = app.board.load_full();
    let Some(entry) = board.desired.get(request.process_guid.as_str()) else {
        return failed::<DesiredLrpDefinitionsResponse>(api::errors::resource_not_found());
    };
    let mut buf = BytesMut::new();
    for lrp in entry.lrp.definitions() {
        View::Newest.put(&DesiredEntry::new(Arc::new(lrp)), &mut buf);
    }
    Answer::Body(Body::full(buf.freeze()))
}

pub(super) async fn steer(app: &App, call: Call) -> Result<Answer, Failure> {
    let command = match command(&call) {
        Ok(command) => command,
        Err(error) => return Ok(message(DesiredLrpLifecycleResponse::failed(error))),
    };
    match app.writer.submit(Command::Steer(Box::new(command)), call.trace).await {
        Ok(_) => Ok(message(DesiredLrpLifecycleResponse::default())),
        Err(error) => write_failure(&error).map(failed::<DesiredLrpLifecycleResponse>),
    }
}

fn command(call: &Call) -> Result<Steer, Error> {
    let (process_guid, ask) = match call.route {
        Route::RollbackDesiredLrp => {
            let request: RollbackDesiredLrpRequest = intake::parse(&call.body)?;
            let terms = rollout::terms(request.rollout.unwrap_or_default());
            (request.process_guid, Ask::Rollback { to: request.definition_identifier, terms })
        }
        route => {
            let request: SteerUpdateRequest = intake::parse(&call.body)?;
            let ask = match route {
                Route::PauseUpdate => Ask::Pause,
                Route::ResumeUpdate => Ask::Resume,
                _ => Ask::Cancel,
            };
            (request.process_guid, ask)
        }
    };
    let process_guid = ProcessGuid::parse(&process_guid).map_err(|error| errors::of_id(&error))?;
    Ok(Steer { process_guid, ask })
}
