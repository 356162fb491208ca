//! The section about a whole cluster: a pure function of what was measured, so that no number is typed by hand.

use super::{Measured, SECTION};
use crate::process::Machine;

pub(super) fn section(_machine: &Machine, measured: &Measured) -> String {
    format!("{SECTION}\n\n{measured:#?}\n")
}
