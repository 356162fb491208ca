//! The older, grouped view of actual LRPs.

use api::models::{
    ActualLrpGroupByProcessGuidAndIndexRequest, ActualLrpGroupResponse, ActualLrpGroupsByProcessGuidRequest,
    ActualLrpGroupsRequest, ActualLrpGroupsResponse,
};
use api::{Route, convert};
use model::event::Group;
use model::{ActualLrp, CellId, DomainName, ProcessGuid, Slot};

use super::{Answer, App, Call, failed, intake, message};

pub(super) fn read(app: &App, call: &Call) -> Answer {
    let board = app.board.load_full();
    match call.route {
        Route::ActualLrpGroups => match intake::decode::<ActualLrpGroupsRequest>(&call.body) {
            Err(error) => failed::<ActualLrpGroupsResponse>(error),
            Ok(request) => {
                let given = |text: &str| !text.is_empty();
                let domain = given(&request.domain).then(|| DomainName::parse(&request.domain)).transpose();
                let cell = given(&request.cell_id).then(|| CellId::parse(&request.cell_id)).transpose();
                // An id that no record can have matches no record.
                let (Ok(domain), Ok(cell)) = (domain, cell) else {
                    return message(ActualLrpGroupsResponse::default());
                };
                let shows = |row: &ActualLrp| {
                    domain.as_ref().is_none_or(|domain| row.key.domain == *domain)
                        && cell.as_ref().is_none_or(|cell| row.cell_id() == Some(cell))
                };
                match &cell {
                    Some(cell) => groups(board.slots_on(cell).map(|entry| &entry.slot), shows),
                    None => groups(board.slots.values().map(|entry| &entry.slot), shows),
                }
            }
        },
        Route::ActualLrpGroupsByProcessGuid => match intake::parse::<ActualLrpGroupsByProcessGuidRequest>(&call.body) {
            Err(error) => failed::<ActualLrpGroupsResponse>(error),
            Ok(request) => match ProcessGuid::parse(&request.process_guid) {
                Ok(guid) => groups(board.slots_of(&guid).map(|(_, entry)| &entry.slot), |_| true),
                Err(_) => message(ActualLrpGroupsResponse::default()),
            },
        },
        _ => match intake::parse::<ActualLrpGroupByProcessGuidAndIndexRequest>(&call.body) {
            Err(error) => failed::<ActualLrpGroupResponse>(error),
            Ok(request) => {
                let guid = ProcessGuid::parse(&request.process_guid).ok();
                match guid.as_ref().and_then(|guid| board.slot_entry(guid, request.index)) {
                    Some(entry) => message(ActualLrpGroupResponse {
                        error: None,
                        actual_lrp_group: Some(convert::group(&Group::of(&entry.slot))),
                    }),
                    None => failed::<ActualLrpGroupResponse>(api::errors::resource_not_found()),
                }
            }
        },
    }
}

/// Groups are made of the rows that pass the filter, as if the others did not exist.
fn groups<'a>(slots: impl Iterator<Item = &'a Slot>, shows: impl Fn(&ActualLrp) -> bool) -> Answer {
    let shown = slots.filter_map(|slot| {
        let keep = |row: &Option<std::sync::Arc<ActualLrp>>| row.clone().filter(|row| shows(row));
        let slot =
            Slot { ordinary: keep(&slot.ordinary), evacuating: keep(&slot.evacuating), suspect: keep(&slot.suspect) };
        (!slot.is_empty()).then(|| convert::group(&Group::of(&slot)))
    });
    message(ActualLrpGroupsResponse { error: None, actual_lrp_groups: shown.collect() })
}
