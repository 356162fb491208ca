//! Actual LRPs: lists, and the life cycle calls of cells and auctioneers.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::models::{
    ActualLrPsByProcessGuidsRequest, ActualLrPsByProcessGuidsResponse, ActualLrPsRequest, ActualLrPsResponse,
    ActualLrpLifecycleResponse, ClaimActualLrpRequest, CrashActualLrpRequest, Error, FailActualLrpRequest,
    RemoveActualLrpRequest, RetireActualLrpRequest, StartActualLrpRequest,
};
use api::{Route, convert};
use model::{ActualLrp, ActualLrpKey, CellId, DefinitionNumber, DomainName, ProcessGuid};

use super::lists::{List, concat, is_in};
use super::{Answer, App, Body, Call, Failure, errors, failed, intake, message, write_failure};
use crate::board::{Board, SlotEntry};
use crate::commands::{Claim, Command, Crash, Done, Fail, Remove, RetireUnheld, Start};

/// How often a cell is asked to stop an instance before the caller is told that it does not answer.
const STOP_ATTEMPTS_MAX: usize = 5;

pub(super) fn read(app: &App, call: &Call) -> Answer {
    let board = app.board.load_full();
    if call.route == Route::ActualLrpsByProcessGuids {
        return match intake::parse::<ActualLrPsByProcessGuidsRequest>(&call.body) {
            Ok(request) => of_processes(&board, &request.process_guids),
            Err(error) => failed::<ActualLrPsByProcessGuidsResponse>(error),
        };
    }
    match intake::decode::<ActualLrPsRequest>(&call.body) {
        Ok(request) => list(&board, &request),
        Err(error) => failed::<ActualLrPsResponse>(error),
    }
}

fn of_processes(board: &Board, guids: &[String]) -> Answer {
    let guids: BTreeSet<_> = guids.iter().filter_map(|guid| ProcessGuid::parse(guid).ok()).collect();
    let items = guids.iter().flat_map(|guid| board.slots_of(guid)).flat_map(|(_, entry)| entry.rows());
    Answer::Body(Body::full(concat(items.map(|(_, item)| item))))
}

/// Empty filters restrict nothing. The most selective one chooses where to look, the others decide what to show.
fn list(board: &Arc<Board>, request: &ActualLrPsRequest) -> Answer {
    let filter = match Filter::of(request) {
        Some(filter) => filter,
        // An id that no record can have matches no record.
        None => return message(ActualLrPsResponse::default()),
    };
    match &filter {
        Filter { process_guid: Some(guid), .. } => matching(board.slots_of(guid).map(|(_, entry)| entry), &filter),
        Filter { cell_id: Some(cell), .. } => matching(board.slots_on(cell), &filter),
        Filter { index: Some(_), .. } => matching(board.slots.values(), &filter),
        Filter { domain, .. } => Answer::Body(Body::list(List::actual(board.clone(), domain.clone()))),
    }
}

fn matching<'a>(entries: impl Iterator<Item = &'a Arc<SlotEntry>>, filter: &Filter) -> Answer {
    let items = entries.flat_map(|entry| entry.rows()).filter(|(row, _)| filter.shows(row)).map(|(_, item)| item);
    Answer::Body(Body::full(concat(items)))
}

struct Filter {
    domain: Option<DomainName>,
    cell_id: Option<CellId>,
    process_guid: Option<ProcessGuid>,
    index: Option<i32>,
}

impl Filter {
    fn of(request: &ActualLrPsRequest) -> Option<Self> {
        let given = |text: &str| !text.is_empty();
        Some(Self {
            domain: given(&request.domain).then(|| DomainName::parse(&request.domain)).transpose().ok()?,
            cell_id: given(&request.cell_id).then(|| CellId::parse(&request.cell_id)).transpose().ok()?,
            process_guid: given(&request.process_guid)
                .then(|| ProcessGuid::parse(&request.process_guid))
                .transpose()
                .ok()?,
            index: request.index,
        })
    }

    fn shows(&self, row: &ActualLrp) -> bool {
        is_in(row, self.domain.as_ref())
            && self.cell_id.as_ref().is_none_or(|cell| row.cell_id() == Some(cell))
            && self.process_guid.as_ref().is_none_or(|guid| row.key.process_guid == *guid)
            && self.index.is_none_or(|index| row.key.index == index)
    }
}

pub(super) async fn change(app: &App, call: Call) -> Result<Answer, Failure> {
    if call.route == Route::RetireActualLrp {
        return retire(app, call).await;
    }
    let command = match command(&call) {
        Ok(command) => command,
        Err(error) => return Ok(failed::<ActualLrpLifecycleResponse>(error)),
    };
    let settled = match &command {
        Command::Start(start) => start.changes_nothing(&app.board.load()),
        Command::Claim(claim) => claim.changes_nothing(&app.board.load()),
        _ => false,
    };
    if settled {
        return app.proven(message(ActualLrpLifecycleResponse::default()));
    }
    submit(app, command, call.trace).await
}

async fn submit(app: &App, command: Command, trace: Arc<str>) -> Result<Answer, Failure> {
    let started = match &command {
        Command::Start(start) => Some((start.key.clone(), start.by.cell_id.clone())),
        _ => None,
    };
    match app.writer.submit(command, trace).await {
        Ok(done) => {
            if let (Done::StartedOther { wanted }, Some((key, cell))) = (done, started) {
                app.metrics.rollouts.not_honoured.inc();
                tracing::warn!(
                    process_guid = %key.process_guid, index = key.index, %cell, %wanted,
                    "a cell that knows no definitions started an instance with the definition in use, although the update had \
                     not come to this index; the instance serves, and an update that is taken back replaces it once more"
                );
            }
            Ok(message(ActualLrpLifecycleResponse::default()))
        }
        Err(error) => write_failure(&error).map(failed::<ActualLrpLifecycleResponse>),
    }
}

fn command(call: &Call) -> Result<Command, Error> {
    let id = |error: &model::IdError| errors::of_id(error);
    Ok(match call.route {
        Route::ClaimActualLrp => {
            let request: ClaimActualLrpRequest = intake::parse(&call.body)?;
            Command::Claim(Claim {
                process_guid: ProcessGuid::parse(&request.process_guid).map_err(|error| id(&error))?,
                index: request.index,
                by: convert::instance_key(request.actual_lrp_instance_key).map_err(|error| id(&error))?,
            })
        }
        Route::StartActualLrp | Route::StartActualLrpR0 => {
            let mut request: StartActualLrpRequest = intake::parse(&call.body)?;
            Command::Start(Box::new(Start {
                key: convert::lrp_key(request.actual_lrp_key.take()).map_err(|error| id(&error))?,
                by: convert::instance_key(request.actual_lrp_instance_key.take()).map_err(|error| id(&error))?,
                definition: (request.definition_number > 0).then_some(DefinitionNumber(request.definition_number)),
                report: convert::report_of_start(request, call.route == Route::StartActualLrpR0),
            }))
        }
        Route::CrashActualLrp => {
            let request: CrashActualLrpRequest = intake::parse(&call.body)?;
            Command::Crash(Crash {
                key: convert::lrp_key(request.actual_lrp_key).map_err(|error| id(&error))?,
                by: convert::instance_key(request.actual_lrp_instance_key).map_err(|error| id(&error))?,
                reason: request.error_message,
            })
        }
        Route::FailActualLrp => {
            let request: FailActualLrpRequest = intake::parse(&call.body)?;
            Command::Fail(Fail {
                key: convert::lrp_key(request.actual_lrp_key).map_err(|error| id(&error))?,
                reason: request.error_message,
            })
        }
        _ => {
            let request: RemoveActualLrpRequest = intake::parse(&call.body)?;
            Command::Remove(Remove {
                process_guid: ProcessGuid::parse(&request.process_guid).map_err(|error| id(&error))?,
                index: request.index,
                by: convert::opt_instance_key(request.actual_lrp_instance_key).map_err(|error| id(&error))?,
            })
        }
    })
}

/// Stops an instance without changing how many are wanted.
///
/// A cell that has it is asked to stop it; the row goes, and its removal is announced, when the cell says that it is gone.
async fn retire(app: &App, call: Call) -> Result<Answer, Failure> {
    let key = match intake::parse::<RetireActualLrpRequest>(&call.body)
        .and_then(|request| convert::lrp_key(request.actual_lrp_key).map_err(|error| errors::of_id(&error)))
    {
        Ok(key) => key,
        Err(error) => return Ok(failed::<ActualLrpLifecycleResponse>(error)),
    };
    let slot = app.board.load().slot(&key.process_guid, key.index);
    let Some(row) = slot.ordinary else {
        return app.proven(failed::<ActualLrpLifecycleResponse>(api::errors::resource_not_found()));
    };
    let Some(instance) = &row.instance else {
        return submit(app, Command::RetireUnheld(RetireUnheld { key, gone: None }), call.trace).await;
    };
    let now_ns = app.clock.uptime_ns();
    match app.registry.get(&instance.cell_id, now_ns) {
        Some(cell) => stop(app, &cell, &row, &key, &call.trace).await,
        None if app.registry.is_listening(now_ns) => {
            let message = "this server has just become master and has not heard from the cell of this instance yet; nothing \
                           was changed, try again";
            Err(Failure::Unavailable { code: "cells-unknown", message: message.to_owned() })
        }
        None => {
            let gone = Some(instance.clone());
            submit(app, Command::RetireUnheld(RetireUnheld { key, gone }), call.trace).await
        }
    }
}

async fn stop(
    app: &App,
    cell: &model::Cell,
    row: &ActualLrp,
    key: &ActualLrpKey,
    trace: &str,
) -> Result<Answer, Failure> {
    let Some(instance) = &row.instance else { return Ok(message(ActualLrpLifecycleResponse::default())) };
    let mut attempt = 1;
    loop {
        match app.cells.stop(cell, key, instance, trace).await {
            Ok(()) => return Ok(message(ActualLrpLifecycleResponse::default())),
            Err(error) if attempt == STOP_ATTEMPTS_MAX => {
                return Ok(failed::<ActualLrpLifecycleResponse>(api::errors::unknown(error.to_string())));
            }
            Err(_) => attempt += 1,
        }
    }
}
