//! The rows of a tab, in their order and after the filter: references only, since a screen shows few of them.

use std::sync::Arc;

use super::picture::{Happening, Instance, Picture, Place};
use super::summary::{AppRow, CellRow, Summary};
use super::view::{Chosen, Focus, Tab, View};

/// What a row is about, whatever its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RowId {
    Name(Arc<str>),
    Instance(Arc<str>, Place),
}

pub(super) struct InstanceRow<'a> {
    pub(super) guid: &'a Arc<str>,
    pub(super) place: Place,
    pub(super) instance: &'a Instance,
    /// Its definition is worth telling, since others of the app have another.
    pub(super) is_one_of_two: bool,
}

pub(super) enum Listing<'a> {
    Apps(Vec<&'a AppRow>),
    Cells(Vec<&'a CellRow>),
    Instances(Vec<InstanceRow<'a>>),
    /// The newest first.
    Events(Vec<&'a Happening>),
    /// Not rows, but a text of its own; see `server.rs`.
    Server(usize),
}

impl<'a> Listing<'a> {
    pub(super) fn of(picture: &'a Picture, summary: &'a Summary, view: &View) -> Self {
        let filter = view.filter.to_ascii_lowercase();
        let passes = |texts: &[&str]| filter.is_empty() || texts.iter().any(|text| contains(text, &filter));
        match view.tab {
            Tab::Apps => {
                let app = |at: usize| &summary.apps[at];
                let shown = |app: &&AppRow| passes(&[&app.guid, &app.domain, app.trouble.as_deref().unwrap_or("")]);
                if view.by_name {
                    Self::Apps(summary.apps.iter().filter(shown).collect())
                } else {
                    Self::Apps(summary.by_trouble.iter().map(|at| app(*at)).filter(shown).collect())
                }
            }
            Tab::Cells => {
                let zone = |row: &'a CellRow| row.cell.as_ref().map_or("", |cell| &cell.zone);
                let shown = |row: &&'a CellRow| passes(&[&row.id, zone(row), row.condition()]);
                Self::Cells(summary.cells.iter().filter(shown).collect())
            }
            Tab::Instances => {
                let all = instances(picture, view.focus.as_ref());
                let shown = |row: &InstanceRow<'_>| {
                    let Instance { state, cell_id, instance_guid, address, trouble, .. } = row.instance;
                    passes(&[row.guid, state.word(), cell_id, instance_guid, address, trouble])
                };
                Self::Instances(all.filter(shown).collect())
            }
            Tab::Events => {
                let shown = |event: &&Happening| passes(&[event.kind, &event.what, &event.detail]);
                Self::Events(picture.events.iter().rev().filter(shown).collect())
            }
            Tab::Server => Self::Server(super::server::lines(&picture.server, view.size.columns, 0).len()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Apps(rows) => rows.len(),
            Self::Cells(rows) => rows.len(),
            Self::Instances(rows) => rows.len(),
            Self::Events(rows) => rows.len(),
            Self::Server(lines) => *lines,
        }
    }

    /// What the row there is about; a row that has no name is only a place.
    pub(super) fn id(&self, at: usize) -> Option<RowId> {
        match self {
            Self::Apps(rows) => rows.get(at).map(|row| RowId::Name(row.guid.clone())),
            Self::Cells(rows) => rows.get(at).map(|row| RowId::Name(row.id.clone())),
            Self::Instances(rows) => rows.get(at).map(|row| RowId::Instance(row.guid.clone(), row.place)),
            Self::Events(_) | Self::Server(_) => None,
        }
    }

    /// Where the chosen row is now.
    pub(super) fn find(&self, chosen: &Chosen) -> usize {
        let found = match (self, &chosen.id) {
            (Self::Apps(rows), Some(RowId::Name(name))) => rows.iter().position(|row| row.guid == *name),
            (Self::Cells(rows), Some(RowId::Name(name))) => rows.iter().position(|row| row.id == *name),
            (Self::Instances(rows), Some(RowId::Instance(guid, place))) => {
                rows.iter().position(|row| row.guid == guid && row.place == *place)
            }
            _ => None,
        };
        found.unwrap_or(chosen.at).min(self.len().saturating_sub(1))
    }
}

fn instances<'a>(picture: &'a Picture, focus: Option<&Focus>) -> Box<dyn Iterator<Item = InstanceRow<'a>> + 'a> {
    let of = |(guid, app): (&'a Arc<str>, &'a super::picture::App)| {
        let is_one_of_two = app.has_two_definitions();
        let row = move |(place, instance): (&Place, &'a Instance)| InstanceRow {
            guid,
            place: *place,
            instance,
            is_one_of_two,
        };
        app.instances.iter().map(row)
    };
    match focus.cloned() {
        None => Box::new(picture.apps.iter().flat_map(of)),
        Some(Focus::App(guid)) => Box::new(picture.apps.get_key_value(&guid).into_iter().flat_map(of)),
        Some(Focus::Cell(id)) => {
            Box::new(picture.apps.iter().flat_map(of).filter(move |row| row.instance.cell_id == id))
        }
    }
}

/// `needle` is in lower case.
fn contains(text: &str, needle: &str) -> bool {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    text.windows(needle.len()).any(|window| window.eq_ignore_ascii_case(needle))
}
