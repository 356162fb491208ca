//! A state server in miniature: it makes histories for the properties, with listings and events that belong together.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

pub(super) const PROCESSES: [&str; 2] = ["p", "q"];
const INDICES: i32 = 3;

/// What happens to one process, or to one index of it.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    Desire {
        process: usize,
        hostnames: usize,
        instances: i32,
    },
    Undesire {
        process: usize,
    },
    Start {
        process: usize,
        index: i32,
    },
    Crash {
        process: usize,
        index: i32,
    },
    Evacuate {
        process: usize,
        index: i32,
    },
    EndEvacuation {
        process: usize,
        index: i32,
    },
    Hide {
        process: usize,
        index: i32,
    },
    Remove {
        process: usize,
        index: i32,
    },
    /// A new definition, with routes of its own.
    Redefine {
        process: usize,
        hostnames: usize,
    },
    /// An instance of the other definition is started beside the one that runs.
    Roll {
        process: usize,
        index: i32,
    },
    /// The one that was about to leave stays.
    TakeBack {
        process: usize,
        index: i32,
    },
    /// The two definitions change places.
    Turn {
        process: usize,
    },
    /// No instance has the former definition any more.
    Complete {
        process: usize,
    },
}

pub(super) fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let (process, index) = (0..PROCESSES.len(), 0..INDICES);
    let place = (process.clone(), index);
    let deed = prop_oneof![
        3 => (process.clone(), 0..4_usize, 0..4).prop_map(|(process, hostnames, instances)| Deed::Desire { process, hostnames, instances }),
        1 => process.clone().prop_map(|process| Deed::Undesire { process }),
        2 => (process.clone(), 0..4_usize).prop_map(|(process, hostnames)| Deed::Redefine { process, hostnames }),
        1 => process.clone().prop_map(|process| Deed::Turn { process }),
        1 => process.prop_map(|process| Deed::Complete { process }),
        3 => place.clone().prop_map(|(process, index)| Deed::Roll { process, index }),
        1 => place.clone().prop_map(|(process, index)| Deed::TakeBack { process, index }),
        4 => place.clone().prop_map(|(process, index)| Deed::Start { process, index }),
        1 => place.clone().prop_map(|(process, index)| Deed::Crash { process, index }),
        2 => place.clone().prop_map(|(process, index)| Deed::Evacuate { process, index }),
        1 => place.clone().prop_map(|(process, index)| Deed::EndEvacuation { process, index }),
        1 => place.clone().prop_map(|(process, index)| Deed::Hide { process, index }),
        1 => place.prop_map(|(process, index)| Deed::Remove { process, index }),
    ];
    proptest::collection::vec(deed, 1..40)
}

/// Which record an event is about. Events of different records may be exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Desired(String),
    Actual(String, i32),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    desired: BTreeMap<usize, DesiredLrp>,
    ordinary: BTreeMap<(usize, i32), ActualLrp>,
    evacuating: BTreeMap<(usize, i32), ActualLrp>,
    drawn: u32,
    pub(super) events: Vec<(Record, EventPayload)>,
}

impl Server {
    pub(super) fn after(deeds: &[Deed]) -> Self {
        let mut server = Self::default();
        deeds.iter().for_each(|deed| server.perform(deed));
        server
    }

    pub(super) fn listing(&self) -> Listing {
        let desired: Vec<_> = self.desired.values().cloned().collect();
        let actual: Vec<_> = self.ordinary.values().chain(self.evacuating.values()).cloned().collect();
        listing(&desired, &actual, &["cf-apps"])
    }

    fn draw(&mut self) -> u32 {
        self.drawn += 1;
        self.drawn
    }

    fn fresh_tag(&mut self) -> Option<ModificationTag> {
        Some(ModificationTag { epoch: format!("e{}", self.draw()), index: 0 })
    }

    pub(super) fn perform(&mut self, deed: &Deed) {
        match *deed {
            Deed::Desire { process, hostnames, instances } => self.desire(process, hostnames, instances),
            Deed::Undesire { process } => {
                if let Some(lrp) = self.desired.remove(&process) {
                    self.tell_desired(process, unwanted(lrp));
                }
            }
            Deed::Start { process, index } => self.start(process, index),
            Deed::Crash { process, index } => self.alter((process, index), |lrp| ActualLrp {
                state: "CRASHED".into(),
                actual_lrp_instance_key: None,
                actual_lrp_net_info: None,
                routable: None,
                ..lrp
            }),
            Deed::Hide { process, index } => {
                self.alter((process, index), |lrp| ActualLrp { routable: Some(lrp.routable == Some(false)), ..lrp });
            }
            Deed::Evacuate { process, index } => self.evacuate((process, index)),
            Deed::EndEvacuation { process, index } => {
                if let Some(lrp) = self.evacuating.remove(&(process, index)) {
                    self.tell((process, index), removed(lrp));
                }
            }
            Deed::Remove { process, index } => {
                if let Some(lrp) = self.ordinary.remove(&(process, index)) {
                    self.tell((process, index), removed(lrp));
                }
            }
            Deed::Redefine { process, hostnames } => self.change_desired(process, |old| {
                let new = desired("", hostnames_of(hostnames), 0, 0);
                old.previous_routes = (new.routes != old.routes).then(|| old.routes.clone().unwrap());
                old.previous_definition_number = old.definition_number.max(1);
                (old.definition_number, old.routes) = (old.previous_definition_number + 1, new.routes);
            }),
            Deed::Turn { process } => self.change_desired(process, |lrp| {
                let previous = std::mem::replace(&mut lrp.previous_definition_number, lrp.definition_number.max(1));
                lrp.definition_number = previous;
                if let (Some(previous), Some(routes)) = (&mut lrp.previous_routes, &mut lrp.routes) {
                    std::mem::swap(previous, routes);
                }
            }),
            Deed::Complete { process } => self.change_desired(process, |lrp| {
                lrp.previous_definition_number = 0;
                lrp.previous_routes = None;
            }),
            Deed::Roll { process, index } => self.roll((process, index)),
            Deed::TakeBack { process, index } => self.take_back((process, index)),
        }
    }

    fn desire(&mut self, process: usize, hostnames: usize, instances: i32) {
        let new = desired(PROCESSES[process], hostnames_of(hostnames), instances, 0);
        if self.desired.contains_key(&process) {
            self.change_desired(process, |old| (old.routes, old.instances) = (new.routes, new.instances));
        } else {
            let new = DesiredLrp { modification_tag: self.fresh_tag(), ..new };
            self.desired.insert(process, new.clone());
            self.tell_desired(process, wanted(new));
        }
    }

    fn change_desired(&mut self, process: usize, change: impl FnOnce(&mut DesiredLrp)) {
        let Some(lrp) = self.desired.get_mut(&process) else { return };
        let before = lrp.clone();
        change(lrp);
        lrp.modification_tag.as_mut().unwrap().index += 1;
        let event = updated(before, lrp.clone());
        self.tell_desired(process, event);
    }

    fn roll(&mut self, place: (usize, i32)) {
        let Some(before) = self.ordinary.get(&place).filter(|lrp| lrp.state == "RUNNING").cloned() else { return };
        if self.evacuating.contains_key(&place) {
            return;
        }
        let leaving = later(ActualLrp { presence: Presence::Evacuating as i32, leaving: true, ..before.clone() });
        let vacant = ActualLrp { modification_tag: self.fresh_tag(), ..unclaimed(PROCESSES[place.0], place.1) };
        self.tell(place, changed(&before, &leaving));
        self.tell(place, created(vacant.clone()));
        self.evacuating.insert(place, leaving);
        self.ordinary.insert(place, vacant);
    }

    fn take_back(&mut self, place: (usize, i32)) {
        let Some(leaving) = self.evacuating.get(&place).filter(|lrp| lrp.leaving).cloned() else { return };
        let stays = later(ActualLrp { presence: Presence::Ordinary as i32, leaving: false, ..leaving.clone() });
        self.tell(place, created(stays.clone()));
        for gone in [self.ordinary.insert(place, stays), self.evacuating.remove(&place)].into_iter().flatten() {
            self.tell(place, removed(gone));
        }
    }

    fn start(&mut self, process: usize, index: i32) {
        let place = (process, index);
        if self.ordinary.get(&place).is_some_and(|lrp| lrp.state == "RUNNING") {
            return;
        }
        let before = self.ordinary.get(&place).cloned().unwrap_or_else(|| {
            let tag = self.fresh_tag();
            let lrp = ActualLrp { modification_tag: tag, ..unclaimed(PROCESSES[process], index) };
            self.tell(place, created(lrp.clone()));
            lrp
        });
        let instance = format!("i{}", self.draw());
        let mut after = later(ActualLrp {
            modification_tag: before.modification_tag.clone(),
            definition_number: self.desired.get(&process).map_or(0, |lrp| lrp.definition_number),
            since: i64::from(self.drawn),
            ..running(PROCESSES[process], index, &instance)
        });
        // Each start gets a port of its own, as on a cell that does not reuse them at once.
        after.actual_lrp_net_info.as_mut().unwrap().ports[0].host_port = 1000 + self.drawn;
        self.tell(place, changed(&before, &after));
        self.ordinary.insert(place, after);
        // A replacement ends the evacuation; the successor of an instance that leaves has to prove itself first.
        if !self.evacuating.get(&place).is_some_and(|lrp| lrp.leaving) {
            self.perform(&Deed::EndEvacuation { process, index });
        }
    }

    fn alter(&mut self, place: (usize, i32), change: impl FnOnce(ActualLrp) -> ActualLrp) {
        let Some(before) = self.ordinary.get(&place).filter(|lrp| lrp.state == "RUNNING").cloned() else { return };
        let after = later(change(before.clone()));
        self.tell(place, changed(&before, &after));
        self.ordinary.insert(place, after);
    }

    fn evacuate(&mut self, place: (usize, i32)) {
        let Some(before) = self.ordinary.get(&place).filter(|lrp| lrp.state == "RUNNING").cloned() else { return };
        self.perform(&Deed::EndEvacuation { process: place.0, index: place.1 });
        let leaving = ActualLrp { modification_tag: self.fresh_tag(), ..evacuating(before.clone()) };
        self.tell(place, changed(&before, &leaving));
        self.evacuating.insert(place, leaving);
        let vacant = ActualLrp { modification_tag: self.fresh_tag(), ..unclaimed(PROCESSES[place.0], place.1) };
        self.tell(place, created(vacant.clone()));
        self.ordinary.insert(place, vacant);
    }

    fn tell(&mut self, (process, index): (usize, i32), event: EventPayload) {
        self.events.push((Record::Actual(PROCESSES[process].to_owned(), index), event));
    }

    fn tell_desired(&mut self, process: usize, event: EventPayload) {
        self.events.push((Record::Desired(PROCESSES[process].to_owned()), event));
    }
}

fn hostnames_of(number: usize) -> &'static [&'static str] {
    [&["x.com"][..], &["y.com"], &["x.com", "y.com"], &[]][number]
}
