//! The cells that are heard.

use api::convert::cell_to_wire;
use api::models::CellsResponse;

use super::{Answer, App, Failure, message};

#[expect(clippy::unnecessary_wraps, reason = "all handlers have the same shape")]
pub(super) fn handle(app: &App) -> Result<Answer, Failure> {
    let live = app.registry.live(app.clock.now_ns());
    let cells = live.iter().map(|cell| cell_to_wire(cell)).collect();
    Ok(message(CellsResponse { error: None, cells }))
}
