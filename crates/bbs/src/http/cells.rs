//! The cells that are heard.

use api::convert::cell_to_wire;
use api::models::CellsResponse;

use super::{Answer, App, message};

pub(super) fn handle(app: &App) -> Answer {
    let live = app.registry.live(app.clock.uptime_ns());
    let cells = live.iter().map(|cell| cell_to_wire(cell)).collect();
    message(CellsResponse { error: None, cells })
}
