//! The auction floor: all candidates, by zone, and the choice among them.
//!
//! An instance goes to the zone that has fewest instances of its app; zones with equally few are looked at together, and
//! the next group only when none of the cells before has room. A task looks at all zones at once. Among equal scores the
//! first cell wins; the order of zones and cells is drawn from the seed.

use std::ops::Range;

use api::rep::{Lrp, Task};
use model::CellId;

use super::candidate::{Amounts, Candidate, task_cost};
use super::filter::Filter;
use super::reason::{Reason, Shortage};
use super::shuffle::Seeds;
use super::spread::Spread;
use super::{Offer, Settings, Start};

#[derive(Debug)]
pub(super) struct Floor<'c, 's> {
    settings: &'c Settings,
    /// Cells of one zone stand together.
    cells: Vec<Candidate<'c>>,
    zones: Vec<Range<usize>>,
    filter: Filter<'c, 's>,
    spread: Spread<'s>,
    /// Containers that are starting in the whole cluster.
    in_flight: u64,
}

impl<'c, 's> Floor<'c, 's> {
    pub(super) fn open(offers: &'c [Offer], starts: &'s [Start], settings: &'c Settings, seed: u64) -> Self {
        let by_zone = by_zone(offers, settings, seed);
        let mut filter = Filter::default();
        let mut spread = Spread::new(starts, offers.len(), by_zone.len());
        let mut cells = Vec::with_capacity(offers.len());
        let mut zones = Vec::with_capacity(by_zone.len());
        for (zone, members) in by_zone.into_iter().enumerate() {
            let first = cells.len();
            for (rank, offer) in members.into_iter().enumerate() {
                spread.count(cells.len(), zone, offer);
                let index_score = rank as f64 * settings.bin_pack_first_fit_weight;
                cells.push(Candidate::new(&offer.cell, &offer.state, filter.profile(&offer.state), index_score));
            }
            zones.push(first..cells.len());
        }
        let starting = offers.iter().map(|offer| u64::try_from(offer.state.starting_container_count).unwrap_or(0));
        let in_flight = starting.fold(0, u64::saturating_add);
        Self { settings, cells, zones, filter, spread, in_flight }
    }

    /// Chooses a cell, and remembers the choice.
    pub(super) fn decide(&mut self, start: &'s Start) -> Result<&'c CellId, Reason> {
        if self.cells.is_empty() {
            return Err(Reason::NoCells);
        }
        let limit = self.settings.starting_container_count_max;
        if limit > 0 && self.in_flight >= limit {
            return Err(Reason::InFlight);
        }
        let chosen = match start {
            Start::Lrp(lrp) => self.decide_lrp(lrp)?,
            Start::Task(task) => self.decide_task(task)?,
        };
        self.in_flight = self.in_flight.saturating_add(1);
        Ok(self.cells[chosen].id)
    }

    fn decide_lrp(&mut self, lrp: &'s Lrp) -> Result<usize, Reason> {
        let Self { settings, cells, zones, filter, spread, .. } = self;
        let welcome = filter.welcome(&lrp.needs)?;
        let order = spread.zones(&lrp.process_guid);
        let (zone, chosen, cost) = spread.with_cells(&lrp.process_guid, |same| {
            let mut search = Search::default();
            for group in order.chunk_by(|(count, _), (next, _)| count == next) {
                for (_, zone) in group {
                    for at in zones[*zone].clone().filter(|at| welcome[cells[*at].profile]) {
                        let cost = cells[at].lrp_cost(&lrp.needs);
                        search.look((*zone, at), &cells[at], cost, |cell, cost| {
                            cell.lrp_score(cost, same[at], settings.starting_container_weight)
                        });
                    }
                }
                if search.best.is_some() {
                    break;
                }
            }
            search.end()
        })?;
        cells[chosen].take(&cost);
        spread.add(&lrp.process_guid, chosen, zone);
        Ok(chosen)
    }

    fn decide_task(&mut self, task: &'s Task) -> Result<usize, Reason> {
        let Self { settings, cells, filter, .. } = self;
        let welcome = filter.welcome(&task.needs)?;
        let mut search = Search::default();
        for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| welcome[cell.profile]) {
            let weight = settings.starting_container_weight;
            search.look((0, at), cell, task_cost(&task.needs), |cell, cost| cell.task_score(cost, weight));
        }
        let (_, chosen, cost) = search.end()?;
        cells[chosen].take(&cost);
        cells[chosen].count_task();
        Ok(chosen)
    }
}

/// Zones in the order of the seed, and in each its cells in the order of the seed, or of their index where they are to be
/// filled in order. The order in which the cells answered plays no part.
fn by_zone<'a>(offers: &'a [Offer], settings: &Settings, seed: u64) -> Vec<Vec<&'a Offer>> {
    let mut sorted: Vec<&Offer> = offers.iter().collect();
    sorted.sort_by_key(|offer| &offer.cell);
    Seeds::new(seed).shuffle(&mut sorted);
    let mut zones: Vec<Vec<&Offer>> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for offer in sorted {
        let zone = *known.entry(&offer.state.zone).or_insert_with(|| {
            zones.push(Vec::new());
            zones.len() - 1
        });
        zones[zone].push(offer);
    }
    if settings.bin_pack_first_fit_weight > 0.0 {
        for zone in &mut zones {
            zone.sort_by_key(|offer| offer.state.cell_index);
        }
    }
    zones
}

/// The best cell so far, or what all cells so far lack.
struct Search {
    best: Option<Best>,
    shortage: Shortage,
}

struct Best {
    score: f64,
    zone: usize,
    cell: usize,
    cost: Amounts,
}

impl Default for Search {
    fn default() -> Self {
        Self { best: None, shortage: Shortage::ALL }
    }
}

impl Search {
    fn look(
        &mut self,
        (zone, at): (usize, usize),
        cell: &Candidate<'_>,
        cost: Amounts,
        score: impl FnOnce(&Candidate<'_>, &Amounts) -> f64,
    ) {
        let short = cell.shortage(&cost);
        if short != Shortage::NONE {
            self.shortage = self.shortage.and(short);
            return;
        }
        let score = score(cell, &cost);
        if self.best.as_ref().is_none_or(|best| score < best.score) {
            self.best = Some(Best { score, zone, cell: at, cost });
        }
    }

    fn end(self) -> Result<(usize, usize, Amounts), Reason> {
        let Some(best) = self.best else { return Err(Reason::Resources(self.shortage)) };
        Ok((best.zone, best.cell, best.cost))
    }
}
