//! Convergence: compares all that is wanted with all that is, and plans repairs.
//!
//! A pass takes no hint. Planning is pure and works on a snapshot; carrying out goes through the same writer as every other
//! change, and every decision names what it saw, so that a decision overtaken by events does nothing.

pub mod lrps;
pub mod tasks;

use std::collections::HashSet;

use crate::CellId;

/// What is known about cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cells {
    /// Nobody has been heard yet, or everybody fell silent at once. Silence alone withdraws nothing: decisions that need to
    /// know which cells live are left to a later pass.
    Unknown,
    /// Others may be there that had no time yet to be heard. Nobody is missed but those who were heard and fell silent since.
    Heard {
        live: HashSet<CellId>,
        gone: HashSet<CellId>,
    },
    Live(HashSet<CellId>),
}

impl Cells {
    pub fn is_missing(&self, cell: &CellId) -> bool {
        match self {
            Self::Unknown => false,
            Self::Heard { gone, .. } => gone.contains(cell),
            Self::Live(live) => !live.contains(cell),
        }
    }

    pub fn is_live(&self, cell: &CellId) -> bool {
        match self {
            Self::Unknown => false,
            Self::Heard { live, .. } | Self::Live(live) => live.contains(cell),
        }
    }
}
