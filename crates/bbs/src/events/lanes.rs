//! Where in the ring the events of single cells are, for the cells that somebody listens to.
//!
//! Every cell of a cluster has a listener of its own, a thousand of them. If each woke up for every commit and looked at every
//! event, most of what a busy server does would be that, and a listener whose turn comes late would be cut off although nothing
//! of its cell had left the ring. So a listener wakes up for its own cell, and finds its events by their positions.
//!
//! A lane exists while somebody listens to its cell, and holds no more positions than the ring holds events.

use std::collections::{HashMap, VecDeque};

use model::CellId;
use model::event::Event;
use tokio::sync::watch;

use super::Ended;

#[derive(Debug, Default)]
pub(super) struct Lanes(HashMap<CellId, Lane>);

#[derive(Debug)]
struct Lane {
    /// From this position on everything about the cell is in the lane.
    from: u64,
    positions: VecDeque<u64>,
    /// The last position that has left the ring.
    gone: Option<u64>,
    /// Whether there is something that nobody was woken for.
    is_fresh: bool,
    end: watch::Sender<Option<u64>>,
}

impl Lanes {
    /// A listener to a cell who begins at `next`. `find` looks for the cell's events in a part of the ring, which ends at `end`.
    pub(super) fn listen(
        &mut self,
        cell: &CellId,
        (next, end): (u64, u64),
        find: impl Fn(std::ops::Range<u64>) -> Vec<u64>,
    ) -> watch::Receiver<Option<u64>> {
        let lane = self.0.entry(cell.clone()).or_insert_with(|| Lane {
            from: end,
            positions: VecDeque::new(),
            gone: None,
            is_fresh: false,
            end: watch::Sender::new(Some(end)),
        });
        for at in find(next..lane.from).into_iter().rev() {
            lane.positions.push_front(at);
        }
        lane.from = lane.from.min(next);
        lane.end.subscribe()
    }

    /// An event is in the ring, whose first position is `first` by now.
    pub(super) fn add(&mut self, at: u64, event: &Event, first: u64) {
        match event {
            Event::Task(_) => {}
            Event::Desired(_) => self.0.values_mut().for_each(|lane| lane.add(at, first)),
            Event::Group(event) => self.add_to(event.cells(), at, first),
            Event::Instance(event) => self.add_to(event.cell(), at, first),
        }
    }

    fn add_to<'a>(&mut self, cells: impl IntoIterator<Item = &'a CellId>, at: u64, first: u64) {
        for cell in cells {
            if let Some(lane) = self.0.get_mut(cell) {
                lane.add(at, first);
            }
        }
    }

    /// Wakes those for whom there is something, and forgets the lanes that nobody listens to any more.
    pub(super) fn wake(&mut self, end: u64) {
        self.0.retain(|_, lane| {
            if std::mem::take(&mut lane.is_fresh) {
                lane.end.send_if_modified(|known| known.as_mut().map(|known| *known = end).is_some());
            }
            lane.end.receiver_count() > 0
        });
    }

    pub(super) fn close(&mut self) {
        for lane in self.0.values_mut() {
            lane.end.send_replace(None);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn listeners(&self) -> usize {
        self.0.values().map(|lane| lane.end.receiver_count()).sum()
    }

    /// The positions of a cell's events from `next` on.
    pub(super) fn after(
        &mut self,
        cell: &CellId,
        next: u64,
        first: u64,
    ) -> Result<impl Iterator<Item = u64> + use<'_>, Ended> {
        let lane = self.0.get_mut(cell);
        let lane = lane.map(|lane| {
            lane.prune(first);
            &*lane
        });
        if lane.and_then(|lane| lane.gone).is_some_and(|gone| gone >= next) {
            return Err(Ended::FellBehind);
        }
        let seen = move |lane: &Lane| lane.positions.partition_point(|at| *at < next);
        Ok(lane.into_iter().flat_map(move |lane| lane.positions.range(seen(lane)..).copied()))
    }
}

impl Lane {
    fn add(&mut self, at: u64, first: u64) {
        self.prune(first);
        self.positions.push_back(at);
        self.is_fresh = true;
    }

    fn prune(&mut self, first: u64) {
        while let Some(gone) = self.positions.pop_front_if(|at| *at < first) {
            self.gone = Some(gone);
        }
    }
}
