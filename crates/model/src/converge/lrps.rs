//! The LRP pass: create what is missing, retire what is extra, replace what is lost.
//!
//! Differences from Diego, each a repair of something its operators met: indices are compared, not counted, so rows {0, 5}
//! for two wanted instances are mended; a suspect beyond the wanted number goes, instead of staying for ever; when the
//! suspect's cell is back while its replacement runs, the replacement stays, always, instead of whichever job came first;
//! an index beyond the wanted number is never started again, not even while its domain is stale.

use std::collections::BTreeSet;

use crate::converge::Cells;
use crate::{
    ActualLrp, ActualLrpKey, ActualState, CellId, DesiredLrp, Domain, DomainName, InstanceKey, MetricTag,
    NANOS_PER_SECOND, Nanos, Packed, ProcessGuid, Slot, crash,
};

/// An unclaimed instance older than this is auctioned again.
pub const STALE_UNCLAIMED_NS: Nanos = 30 * NANOS_PER_SECOND;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    PruneDomain {
        name: DomainName,
        seen_expires_ns: Nanos,
    },
    DropEvacuating {
        key: ActualLrpKey,
        held_by: InstanceKey,
    },
    /// No row for a wanted index.
    Create {
        key: ActualLrpKey,
    },
    AuctionAgain {
        key: ActualLrpKey,
    },
    RestartCrashed {
        key: ActualLrpKey,
    },
    LoseCell {
        key: ActualLrpKey,
        held_by: InstanceKey,
    },
    PromoteSuspect {
        key: ActualLrpKey,
        held_by: InstanceKey,
    },
    RetireSuspect {
        key: ActualLrpKey,
        held_by: InstanceKey,
    },
    /// Not wanted, and on its way out anyway: it goes now.
    StopLeaving {
        key: ActualLrpKey,
        held_by: InstanceKey,
    },
    /// Not wanted: removed if no cell has it, otherwise its cell is asked to stop it.
    Retire {
        key: ActualLrpKey,
    },
    /// The cell holds other internal routes or metric tags than the desired LRP says.
    UpdateInstance {
        key: ActualLrpKey,
        routes: bool,
        tags: bool,
    },
}

impl Decision {
    /// Whose instances it is about; `None` for a domain.
    pub fn process_guid(&self) -> Option<&ProcessGuid> {
        match self {
            Self::PruneDomain { .. } => None,
            Self::DropEvacuating { key, .. }
            | Self::RetireSuspect { key, .. }
            | Self::StopLeaving { key, .. }
            | Self::Retire { key }
            | Self::Create { key }
            | Self::AuctionAgain { key }
            | Self::RestartCrashed { key }
            | Self::LoseCell { key, .. }
            | Self::PromoteSuspect { key, .. }
            | Self::UpdateInstance { key, .. } => Some(&key.process_guid),
        }
    }

    /// Whether it may end a container or forget one that runs.
    pub fn stops_something(&self) -> bool {
        match self {
            Self::DropEvacuating { .. }
            | Self::RetireSuspect { .. }
            | Self::StopLeaving { .. }
            | Self::Retire { .. } => true,
            Self::PruneDomain { .. }
            | Self::Create { .. }
            | Self::AuctionAgain { .. }
            | Self::RestartCrashed { .. }
            | Self::LoseCell { .. }
            | Self::PromoteSuspect { .. }
            | Self::UpdateInstance { .. } => false,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub decisions: Vec<Decision>,
    pub metrics: Metrics,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    pub fresh_domains: Vec<DomainName>,
    pub unclaimed: usize,
    pub claimed: usize,
    pub running: usize,
    pub crashed: usize,
    pub missing: usize,
    pub extra: usize,
    pub suspect_running: usize,
    pub suspect_claimed: usize,
    pub desired_instances: i64,
    pub crashing_desired: usize,
    pub missing_cells: BTreeSet<CellId>,
}

/// Where the pass reads from.
pub trait State {
    /// Domains, expired ones included.
    fn domains(&self) -> impl Iterator<Item = &Domain>;
    /// Every process that is desired or has rows, with its slots in index order.
    fn processes(&self) -> impl Iterator<Item = Process<'_>>;
}

#[derive(Clone, Debug)]
pub struct Process<'a> {
    pub desired: Option<&'a DesiredLrp>,
    pub slots: Vec<(i32, &'a Slot)>,
}

/// The host names in the value of the internal router, or `None` when it is not of the known shape.
pub type Hostnames<'a> = dyn Fn(&DesiredLrp) -> Option<BTreeSet<String>> + 'a;

pub fn plan(state: &impl State, cells: &Cells, hostnames: &Hostnames<'_>, now_ns: Nanos) -> Plan {
    let mut plan = Plan::default();
    let mut fresh = BTreeSet::new();
    for domain in state.domains() {
        if domain.is_fresh(now_ns) {
            fresh.insert(domain.name.clone());
        } else {
            let (name, seen_expires_ns) = (domain.name.clone(), domain.expires_ns);
            plan.decisions.push(Decision::PruneDomain { name, seen_expires_ns });
        }
    }
    let pass = Pass { cells, hostnames, fresh: &fresh, now_ns };
    for process in state.processes() {
        pass.process(&process, &mut plan);
    }
    plan.metrics.fresh_domains = fresh.into_iter().collect();
    plan
}

struct Pass<'a> {
    cells: &'a Cells,
    hostnames: &'a Hostnames<'a>,
    fresh: &'a BTreeSet<DomainName>,
    now_ns: Nanos,
}

impl Pass<'_> {
    fn process(&self, process: &Process<'_>, plan: &mut Plan) {
        let wanted = process.desired.map_or(0, |desired| desired.instances.max(0));
        plan.metrics.desired_instances += i64::from(wanted);
        let mut have = 0;
        let mut crashing = false;
        let (mut hostnames, mut former_hostnames) = (None, None);
        let former =
            process.desired.and_then(|desired| desired.previous.as_ref()).filter(|former| former.routes.is_some());
        for (index, slot) in &process.slots {
            count_states(slot, &mut plan.metrics);
            if process.desired.is_some() {
                self.count_missing_cells(slot, &mut plan.metrics);
            }
            crashing |= slot.ordinary.as_ref().is_some_and(|row| row.state == ActualState::Crashed);
            if slot.ordinary.is_some() && *index < wanted {
                have += 1;
            }
            self.evacuating(slot, plan);
            match process.desired {
                Some(desired) if *index < wanted => {
                    self.wanted(slot, plan);
                    let has = |number| slot.ordinary.as_ref().is_some_and(|row| row.definition == number);
                    let names = match former.filter(|former| has(former.number)) {
                        Some(former) => {
                            former_hostnames.get_or_insert_with(|| (self.hostnames)(&desired.using(former)))
                        }
                        None => hostnames.get_or_insert_with(|| (self.hostnames)(desired)),
                    };
                    updates(desired, slot, names.as_ref(), plan);
                }
                desired => self.unwanted(slot, desired, plan),
            }
        }
        if crashing && process.desired.is_some() {
            plan.metrics.crashing_desired += 1;
        }
        if let Some(desired) = process.desired.filter(|_| have < wanted) {
            let missing = |index: &i32| !process.slots.iter().any(|(at, slot)| at == index && slot.ordinary.is_some());
            for index in (0..wanted).filter(missing) {
                plan.metrics.missing += 1;
                plan.decisions.push(Decision::Create { key: desired.key(index) });
            }
        }
    }

    /// A draining cell that has gone is no surprise, so evacuating rows do not count.
    fn count_missing_cells(&self, slot: &Slot, metrics: &mut Metrics) {
        for cell in [&slot.ordinary, &slot.suspect].into_iter().flatten().filter_map(|row| row.cell_id()) {
            if self.cells.is_missing(cell) && !metrics.missing_cells.contains(cell) {
                metrics.missing_cells.insert(cell.clone());
            }
        }
    }

    fn evacuating(&self, slot: &Slot, plan: &mut Plan) {
        let is_replaced = slot.ordinary.as_ref().is_some_and(|row| row.state == ActualState::Running);
        // Nobody told the cell of a row that leaves to drain, so its silence alone does not end a route.
        if let Some((row, held_by)) = held(slot.evacuating.as_deref())
            && self.cells.is_missing(&held_by.cell_id)
            && (!row.leaving || is_replaced)
        {
            plan.decisions.push(Decision::DropEvacuating { key: row.key.clone(), held_by: held_by.clone() });
        }
    }

    /// What becomes of a suspect that may still be wanted.
    fn suspect(&self, slot: &Slot) -> Option<Decision> {
        let (row, held_by) = held(slot.suspect.as_deref())?;
        let (key, held_by) = (row.key.clone(), held_by.clone());
        let replacement_runs = slot.ordinary.as_ref().is_some_and(|row| {
            row.state == ActualState::Running && !row.cell_id().is_some_and(|cell| self.cells.is_missing(cell))
        });
        if replacement_runs {
            Some(Decision::RetireSuspect { key, held_by })
        } else if self.cells.is_live(&held_by.cell_id) {
            Some(Decision::PromoteSuspect { key, held_by })
        } else {
            None
        }
    }

    /// An index that should have an instance.
    fn wanted(&self, slot: &Slot, plan: &mut Plan) {
        let suspect = self.suspect(slot);
        // The promoted suspect takes the place of the ordinary row, so nothing is left to decide about that one.
        let promoted = matches!(suspect, Some(Decision::PromoteSuspect { .. }));
        plan.decisions.extend(suspect);
        let Some(row) = slot.ordinary.as_deref().filter(|_| !promoted) else { return };
        let key = || row.key.clone();
        match row.state {
            ActualState::Unclaimed => {
                if row.since_ns < self.now_ns.saturating_sub(STALE_UNCLAIMED_NS) {
                    plan.decisions.push(Decision::AuctionAgain { key: key() });
                }
            }
            ActualState::Crashed => {
                if crash::is_due(row, self.now_ns) {
                    plan.decisions.push(Decision::RestartCrashed { key: key() });
                }
            }
            ActualState::Claimed | ActualState::Running => {
                if let Some(held_by) = row.instance.clone().filter(|by| self.cells.is_missing(&by.cell_id)) {
                    plan.decisions.push(Decision::LoseCell { key: key(), held_by });
                }
            }
        }
    }

    /// An index nobody wants. Only a fresh domain proves that it is not merely an owner who has yet to speak.
    fn unwanted(&self, slot: &Slot, desired: Option<&DesiredLrp>, plan: &mut Plan) {
        let is_fresh =
            |row: &ActualLrp| self.fresh.contains(desired.map_or(&row.key.domain, |desired| &desired.domain));
        if let Some(row) = slot.ordinary.as_deref().filter(|row| is_fresh(row)) {
            plan.metrics.extra += 1;
            plan.decisions.push(Decision::Retire { key: row.key.clone() });
        }
        if let Some((row, held_by)) = held(slot.leaving().map(|row| &**row)).filter(|(row, _)| is_fresh(row)) {
            plan.decisions.push(Decision::StopLeaving { key: row.key.clone(), held_by: held_by.clone() });
        }
        match held(slot.suspect.as_deref()) {
            Some((row, held_by)) if is_fresh(row) => {
                plan.decisions.push(Decision::RetireSuspect { key: row.key.clone(), held_by: held_by.clone() });
            }
            _ => plan.decisions.extend(self.suspect(slot)),
        }
    }
}

fn count_states(slot: &Slot, metrics: &mut Metrics) {
    if let Some(row) = &slot.ordinary {
        match row.state {
            ActualState::Unclaimed => metrics.unclaimed += 1,
            ActualState::Claimed => metrics.claimed += 1,
            ActualState::Running => metrics.running += 1,
            ActualState::Crashed => metrics.crashed += 1,
        }
    }
    if let Some(row) = &slot.suspect {
        match row.state {
            ActualState::Running => metrics.suspect_running += 1,
            _ => metrics.suspect_claimed += 1,
        }
    }
}

fn held(row: Option<&ActualLrp>) -> Option<(&ActualLrp, &InstanceKey)> {
    row.and_then(|row| row.instance.as_ref().map(|held_by| (row, held_by)))
}

fn updates(desired: &DesiredLrp, slot: &Slot, hostnames: Option<&BTreeSet<String>>, plan: &mut Plan) {
    let Some((row, held_by)) = held(slot.ordinary.as_deref()).filter(|(row, _)| row.state == ActualState::Running)
    else {
        return;
    };
    let routes = hostnames.is_some_and(|wanted| {
        !row.internal_routes.iter().all(|hostname| wanted.contains(hostname))
            || !wanted.iter().all(|hostname| row.internal_routes.contains(hostname))
    });
    let tags = row.metric_tags.as_ref().is_some_and(|reported| tags_differ(desired, row, held_by, reported));
    if routes || tags {
        plan.decisions.push(Decision::UpdateInstance { key: row.key.clone(), routes, tags });
    }
}

fn tags_differ(desired: &DesiredLrp, row: &ActualLrp, held_by: &InstanceKey, reported: &Packed<String>) -> bool {
    // Both are in key order, so one walk over the two is enough.
    let mut reported = reported.iter();
    let all_match = desired.metric_tags.iter().all(|(name, tag)| {
        reported.next().is_some_and(|(reported_name, value)| {
            name == reported_name
                && match tag {
                    MetricTag::Static(text) => value == text,
                    dynamic => value == dynamic.resolve(row.key.index, held_by),
                }
        })
    });
    !all_match || reported.next().is_some()
}

#[cfg(test)]
mod tests;
