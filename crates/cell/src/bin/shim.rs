//! The parent of one process of a cell; see `corkboard_cell::executor::process::shim`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(folder) => corkboard_cell::executor::shim(Path::new(&folder)),
        None => ExitCode::FAILURE,
    }
}
