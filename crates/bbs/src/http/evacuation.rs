//! The calls of a draining cell. What they answer about keeping a container depends on how they fail.

use api::models::{
    Error, EvacuateClaimedActualLrpRequest, EvacuateCrashedActualLrpRequest, EvacuateRunningActualLrpRequest,
    EvacuateStoppedActualLrpRequest, EvacuationResponse, RemoveEvacuatingActualLrpRequest,
    RemoveEvacuatingActualLrpResponse,
};
use api::{Route, convert};
use model::IdError;

use super::{Answer, App, Call, Failure, errors, failed, intake, message, write_failure};
use crate::commands::{Command, Done, Evacuate, Evacuated, RemoveEvacuating};

pub(super) async fn handle(app: &App, call: Call) -> Result<Answer, Failure> {
    if call.route == Route::RemoveEvacuatingActualLrp {
        return remove(app, call).await;
    }
    // A cell that could not say what it wants keeps a container that may still serve.
    let keep_if_unclear = matches!(
        call.route,
        Route::EvacuateClaimedActualLrp | Route::EvacuateRunningActualLrp | Route::EvacuateRunningActualLrpR0
    );
    let evacuate = match parse(&call) {
        Ok(evacuate) => evacuate,
        Err(error) => return Ok(response(keep_if_unclear, Some(error))),
    };
    match app.writer.submit(Command::Evacuate(Box::new(evacuate)), call.trace).await {
        Ok(Done::Evacuated { keep, refusal }) => Ok(response(keep, refusal.as_ref().map(errors::of_refusal))),
        Ok(_) => Ok(response(keep_if_unclear, None)),
        Err(error) => write_failure(&error).map(|error| response(keep_if_unclear, Some(error))),
    }
}

fn response(keep_container: bool, error: Option<Error>) -> Answer {
    message(EvacuationResponse { error, keep_container })
}

fn parse(call: &Call) -> Result<Evacuate, Error> {
    let id = |error: IdError| errors::of_id(&error);
    let (key, by, what) = match call.route {
        Route::EvacuateClaimedActualLrp => {
            let request: EvacuateClaimedActualLrpRequest = intake::parse(&call.body)?;
            (request.actual_lrp_key, request.actual_lrp_instance_key, Evacuated::Claimed)
        }
        Route::EvacuateCrashedActualLrp => {
            let request: EvacuateCrashedActualLrpRequest = intake::parse(&call.body)?;
            (request.actual_lrp_key, request.actual_lrp_instance_key, Evacuated::Crashed(request.error_message))
        }
        Route::EvacuateStoppedActualLrp => {
            let request: EvacuateStoppedActualLrpRequest = intake::parse(&call.body)?;
            (request.actual_lrp_key, request.actual_lrp_instance_key, Evacuated::Stopped)
        }
        _ => {
            let mut request: EvacuateRunningActualLrpRequest = intake::parse(&call.body)?;
            let (key, by) = (request.actual_lrp_key.take(), request.actual_lrp_instance_key.take());
            let oldest = call.route == Route::EvacuateRunningActualLrpR0;
            (key, by, Evacuated::Running(convert::report_of_evacuation(request, oldest)))
        }
    };
    Ok(Evacuate { key: convert::lrp_key(key).map_err(id)?, by: convert::instance_key(by).map_err(id)?, what })
}

async fn remove(app: &App, call: Call) -> Result<Answer, Failure> {
    let parsed = intake::parse::<RemoveEvacuatingActualLrpRequest>(&call.body).and_then(|request| {
        let key = convert::lrp_key(request.actual_lrp_key).map_err(|error| errors::of_id(&error))?;
        let by = convert::instance_key(request.actual_lrp_instance_key).map_err(|error| errors::of_id(&error))?;
        Ok(RemoveEvacuating { key, by })
    });
    let command = match parsed {
        Ok(command) => Command::RemoveEvacuating(command),
        Err(error) => return Ok(failed::<RemoveEvacuatingActualLrpResponse>(error)),
    };
    match app.writer.submit(command, call.trace).await {
        Ok(_) => Ok(message(RemoveEvacuatingActualLrpResponse::default())),
        Err(error) => write_failure(&error).map(failed::<RemoveEvacuatingActualLrpResponse>),
    }
}
