//! Desired LRPs: lists and look-ups in every view and revision, and the calls that change what is wanted.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::convert::desired_lrp as intake_lrp;
use api::models::{
    ActualLrpInstanceKey, CreateDesiredLrpRequest, CreateDesiredLrpRequest09, DesireLrpRequest, DesiredLrPsRequest,
    DesiredLrPsResponse, DesiredLrpByProcessGuidRequest, DesiredLrpLifecycleResponse, DesiredLrpResponse, Error,
    ListDesiredLrPsRequest09, ListImmutableDesiredLrPsRequest, ListMutableDesiredLrPsRequest, RemoveDesiredLrpRequest,
    UpdateDesiredLrpRequest,
};
use api::{Response, Route, revision, validate};
use bytes::BytesMut;
use model::{DomainName, ProcessGuid};

use super::lists::{List, View};
use super::{Answer, App, Body, Call, Failure, errors, failed, intake, message, write_failure};
use crate::board::{Board, DesiredEntry};
use crate::commands::{Command, DesireLrp, RemoveLrp, UpdateLrp};

pub(super) fn read(app: &App, call: &Call) -> Answer {
    let board = app.board.load_full();
    match call.route {
        Route::DesiredLrps | Route::DesiredLrps09 => list(board, call, View::Newest),
        Route::DesiredLrpsR2 => list(board, call, View::R2),
        Route::DesiredLrpsR1 => list(board, call, View::R1),
        Route::DesiredLrpsR0 => list(board, call, View::R0),
        Route::DesiredLrpSchedulingInfos => list(board, call, View::Scheduling),
        Route::DesiredLrpRoutingInfos => list(board, call, View::Routing),
        Route::MutableDesiredLrps => list(board, call, View::Mutable),
        Route::ImmutableDesiredLrps => list(board, call, View::Immutable),
        Route::DesiredLrpByProcessGuidR2 => get(&board, call, View::R2),
        Route::DesiredLrpByProcessGuidR1 => get(&board, call, View::R1),
        Route::DesiredLrpByProcessGuidR0 => get(&board, call, View::R0),
        Route::DesiredLrpSchedulingInfoByProcessGuid => get(&board, call, View::Scheduling),
        _ => get(&board, call, View::Newest),
    }
}

/// What each call honours is part of the protocol: app guids only where whole LRPs are listed, domains not for routing, and
/// nothing but domains in the oldest revisions.
fn filter(call: &Call) -> Result<DesiredLrPsRequest, Error> {
    let (domain, process_guids) = match call.route {
        Route::MutableDesiredLrps => {
            let request: ListMutableDesiredLrPsRequest = intake::decode(&call.body)?;
            (request.domain, request.process_guids)
        }
        Route::ImmutableDesiredLrps => {
            let request: ListImmutableDesiredLrPsRequest = intake::decode(&call.body)?;
            (request.domain, request.process_guids)
        }
        Route::DesiredLrps09 => {
            let request: ListDesiredLrPsRequest09 = intake::decode(&call.body)?;
            (request.domain, request.process_guids)
        }
        route => {
            let request: DesiredLrPsRequest = intake::decode(&call.body)?;
            match route {
                Route::DesiredLrpRoutingInfos => (String::new(), request.process_guids),
                Route::DesiredLrpSchedulingInfos => (request.domain, request.process_guids),
                Route::DesiredLrpsR1 | Route::DesiredLrpsR0 => (request.domain, Vec::new()),
                _ => return Ok(request),
            }
        }
    };
    Ok(DesiredLrPsRequest { domain, process_guids, app_guids: Vec::new() })
}

/// The answers of all views carry their error in the same place, so one type reports it.
fn list(board: Arc<Board>, call: &Call, view: View) -> Answer {
    let request = match filter(call) {
        Ok(request) => request,
        Err(error) => return failed::<DesiredLrPsResponse>(error),
    };
    let domain = match request.domain.as_str() {
        "" => None,
        domain => match DomainName::parse(domain) {
            Ok(domain) => Some(domain),
            Err(_) => return message(DesiredLrPsResponse::default()),
        },
    };
    if request.process_guids.is_empty() && request.app_guids.is_empty() {
        return Answer::Body(List::desired(board, view, domain).into_body());
    }
    selected(&board, &request, domain.as_ref(), view)
}

fn selected(board: &Board, request: &DesiredLrPsRequest, domain: Option<&DomainName>, view: View) -> Answer {
    let mut guids: BTreeSet<ProcessGuid> =
        request.process_guids.iter().filter_map(|guid| ProcessGuid::parse(guid).ok()).collect();
    let of_app = |guid: &ProcessGuid| {
        request.app_guids.is_empty() || request.app_guids.iter().any(|app| guid.as_str().starts_with(app.as_str()))
    };
    if request.process_guids.is_empty() {
        for app in &request.app_guids {
            let from = ProcessGuid::parse(app).ok();
            let start = from.as_ref().map_or(std::ops::Bound::Unbounded, std::ops::Bound::Included);
            let range = board.desired.range::<_, ProcessGuid>((start, std::ops::Bound::Unbounded));
            guids.extend(
                range.map(|(guid, _)| guid).take_while(|guid| guid.as_str().starts_with(app.as_str())).cloned(),
            );
        }
    }
    let mut buf = BytesMut::new();
    for entry in guids.iter().filter(|guid| of_app(guid)).filter_map(|guid| board.desired.get(guid)) {
        if domain.is_none_or(|domain| entry.lrp.domain == *domain) {
            view.put(entry, &mut buf);
        }
    }
    Answer::Body(Body::full(buf.freeze()))
}

fn get(board: &Board, call: &Call, view: View) -> Answer {
    let request: DesiredLrpByProcessGuidRequest = match intake::parse(&call.body) {
        Ok(request) => request,
        Err(error) => return failed::<DesiredLrpResponse>(error),
    };
    match board.desired.get(request.process_guid.as_str()) {
        Some(entry) => match defined_for(board, entry, request.actual_lrp_instance_key) {
            Some(lrp) => one(&DesiredEntry::new(lrp), view),
            None => one(entry, view),
        },
        None => failed::<DesiredLrpResponse>(api::errors::resource_not_found()),
    }
}

/// The record with the definition that the row of an instance names; `None` where that is the one in use.
fn defined_for(
    board: &Board,
    entry: &DesiredEntry,
    instance: Option<ActualLrpInstanceKey>,
) -> Option<Arc<model::DesiredLrp>> {
    let (previous, instance) = (entry.lrp.previous.as_ref()?, api::convert::instance_key(instance).ok()?);
    let mut rows = board.slots_of(&entry.lrp.process_guid).flat_map(|(_, entry)| entry.slot.rows());
    let row = rows.find(|row| row.is_held_by(&instance))?;
    (row.definition == previous.number).then(|| entry.lrp.as_defined(row.definition))
}

/// A single record stands in the same field as the records of a list.
fn one(entry: &DesiredEntry, view: View) -> Answer {
    let mut buf = BytesMut::new();
    view.put(entry, &mut buf);
    Answer::Body(Body::full(buf.freeze()))
}

pub(super) async fn change(app: &App, call: Call) -> Result<Answer, Failure> {
    let command = match command(app, &call) {
        Ok(command) => command,
        Err(error) => return Ok(message(DesiredLrpLifecycleResponse::failed(error))),
    };
    match app.writer.submit(command, call.trace).await {
        Ok(_) => Ok(message(DesiredLrpLifecycleResponse::default())),
        Err(error) => write_failure(&error).map(failed::<DesiredLrpLifecycleResponse>),
    }
}

fn command(app: &App, call: &Call) -> Result<Command, Error> {
    Ok(match call.route {
        Route::DesireDesiredLrp
        | Route::DesireDesiredLrpR1
        | Route::DesireDesiredLrpR0
        | Route::CreateDesiredLrp
        | Route::CreateDesiredLrp09 => {
            let request = wanted(call)?;
            validate::check(&request)?;
            let wire = request.desired_lrp.unwrap_or_default();
            let lrp = intake_lrp::desire(wire, app.clock.fresh_id()).map_err(of_intake)?;
            Command::DesireLrp(Box::new(DesireLrp { lrp }))
        }
        Route::UpdateDesiredLrp => {
            let request: UpdateDesiredLrpRequest = intake::parse(&call.body)?;
            let update = intake_lrp::update(request.update.unwrap_or_default()).map_err(of_intake)?;
            let process_guid = ProcessGuid::parse(&request.process_guid).map_err(|error| errors::of_id(&error))?;
            Command::UpdateLrp(Box::new(UpdateLrp { process_guid, update }))
        }
        _ => {
            let request: RemoveDesiredLrpRequest = intake::parse(&call.body)?;
            let process_guid = ProcessGuid::parse(&request.process_guid).map_err(|error| errors::of_id(&error))?;
            Command::RemoveLrp(RemoveLrp { process_guid })
        }
    })
}

/// Every way to desire an LRP, as the newest revision says it.
fn wanted(call: &Call) -> Result<DesireLrpRequest, Error> {
    let unreadable = |_| api::errors::invalid_request_body();
    let mut request = match call.route {
        Route::DesireDesiredLrpR1 => revision::desire_lrp_r1(&call.body).map_err(unreadable)?,
        Route::DesireDesiredLrpR0 => revision::desire_lrp_r0(&call.body).map_err(unreadable)?,
        Route::CreateDesiredLrp => {
            let halves: CreateDesiredLrpRequest = intake::parse(&call.body)?;
            DesireLrpRequest { desired_lrp: Some(revision::joined(halves)) }
        }
        Route::CreateDesiredLrp09 => {
            let request: CreateDesiredLrpRequest09 = intake::decode(&call.body)?;
            DesireLrpRequest { desired_lrp: request.desired_lrp }
        }
        _ => intake::decode(&call.body)?,
    };
    if let Some(lrp) = &mut request.desired_lrp {
        revision::name_metrics_source(lrp);
    }
    Ok(request)
}

fn of_intake(error: intake_lrp::IntakeError) -> Error {
    match error {
        intake_lrp::IntakeError::Id(error) => errors::of_id(&error),
        intake_lrp::IntakeError::Invalid(error) => error.into(),
    }
}
