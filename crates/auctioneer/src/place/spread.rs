//! How the instances of each app are spread over cells and zones, as far as the batch makes it matter.

use std::collections::HashMap;

use super::{Offer, Start};

#[derive(Debug)]
pub(super) struct Spread<'a> {
    apps: HashMap<&'a str, App>,
    /// The counts of the app that was asked for last, by cell: looking at all cells must not cost a search for each.
    by_cell: Vec<u32>,
    zones: usize,
}

#[derive(Debug, Default)]
struct App {
    /// Cells that have any.
    cells: HashMap<usize, u32>,
    zones: Vec<u32>,
}

impl<'a> Spread<'a> {
    /// Apps of which nothing is to be placed are not counted.
    pub(super) fn new(starts: &'a [Start], cells: usize, zones: usize) -> Self {
        let apps = starts.iter().filter_map(|start| match start {
            Start::Lrp(lrp) => Some((lrp.process_guid.as_str(), App { cells: HashMap::new(), zones: vec![0; zones] })),
            Start::Task(_) => None,
        });
        Self { apps: apps.collect(), by_cell: vec![0; cells], zones }
    }

    /// Counts what a cell has already, whatever its state.
    pub(super) fn count(&mut self, cell: usize, zone: usize, offer: &Offer) {
        for lrp in &offer.state.lrps {
            self.add(&lrp.process_guid, cell, zone);
        }
    }

    pub(super) fn add(&mut self, process_guid: &str, cell: usize, zone: usize) {
        if let Some(app) = self.apps.get_mut(process_guid) {
            *app.cells.entry(cell).or_default() += 1;
            app.zones[zone] += 1;
        }
    }

    /// The zones, those with fewest instances first, each with its number of instances.
    pub(super) fn zones(&self, process_guid: &str) -> Vec<(u32, usize)> {
        let count = |zone| self.apps.get(process_guid).map_or(0, |app| app.zones[zone]);
        let mut zones: Vec<_> = (0..self.zones).map(|zone| (count(zone), zone)).collect();
        zones.sort_unstable();
        zones
    }

    /// Gives the number of instances on each cell to `look`.
    pub(super) fn with_cells<T>(&mut self, process_guid: &str, look: impl FnOnce(&[u32]) -> T) -> T {
        let cells = self.apps.get(process_guid).map(|app| &app.cells);
        for (cell, count) in cells.into_iter().flatten() {
            self.by_cell[*cell] = *count;
        }
        let seen = look(&self.by_cell);
        for cell in cells.into_iter().flatten().map(|(cell, _)| cell) {
            self.by_cell[*cell] = 0;
        }
        seen
    }
}
