//! What the operator looks at: the tab, the chosen row, the filter, and what each key does to them.
//!
//! Nothing here knows of a terminal: keys come in as values, so that tests press them too.

use std::sync::Arc;

use super::frame::Size;
use super::listing::{Listing, RowId};
use super::picture::Picture;
use super::screens;
use super::summary::Summary;

/// More than a name is long.
const FILTER_CHARS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Apps,
    Cells,
    Instances,
    Events,
    Server,
}

impl Tab {
    /// When you add one: its rows in `listing.rs`, and how they look in `screens.rs`.
    pub(super) const ALL: [Self; 5] = [Self::Apps, Self::Cells, Self::Instances, Self::Events, Self::Server];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Apps => "Apps",
            Self::Cells => "Cells",
            Self::Instances => "Instances",
            Self::Events => "Events",
            Self::Server => "Server",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    NextTab,
    PreviousTab,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Quit,
}

/// Whose instances are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    App(Arc<str>),
    Cell(Arc<str>),
}

/// The chosen row of a tab. It keeps its record while rows move, and its place when the record goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) at: usize,
    pub(super) id: Option<RowId>,
}

#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) tab: Tab,
    pub(super) filter: String,
    pub(super) is_typing: bool,
    /// Instead of those in trouble first.
    pub(super) by_name: bool,
    pub(super) focus: Option<Focus>,
    pub(super) size: Size,
    chosen: [Chosen; Tab::ALL.len()],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    On,
    Home,
}

impl View {
    pub(super) fn new(filter: String, app: Option<&str>, size: Size) -> Self {
        let focus = app.map(|guid| Focus::App(guid.into()));
        let tab = if focus.is_some() { Tab::Instances } else { Tab::Apps };
        Self { tab, filter, is_typing: false, by_name: false, focus, size, chosen: Default::default() }
    }

    /// The same, looking at another tab.
    pub(super) fn turned_to(&self, tab: Tab) -> Self {
        Self { tab, ..self.clone() }
    }

    pub(super) fn chosen(&self) -> &Chosen {
        &self.chosen[self.tab as usize]
    }

    pub(super) fn press(&mut self, key: Key, picture: &Picture, summary: &Summary) -> Goes {
        let page = screens::page_rows(self.size);
        if key == Key::Quit {
            return Goes::Home;
        }
        if self.is_typing && self.type_filter(key) {
            return Goes::On;
        }
        match key {
            Key::Char('q') => return Goes::Home,
            Key::Char('/') => self.is_typing = true,
            Key::Char('s') => self.by_name = !self.by_name,
            Key::Char(digit @ '1'..='5') => self.go_to(Tab::ALL[digit as usize - '1' as usize]),
            Key::NextTab => self.turn(1),
            Key::PreviousTab => self.turn(Tab::ALL.len() - 1),
            Key::Escape => self.step_back(),
            Key::Enter => self.look_into(picture, summary),
            Key::Up | Key::Char('k') => self.walk(picture, summary, |at, _| at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.walk(picture, summary, |at, _| at + 1),
            Key::PageUp => self.walk(picture, summary, |at, _| at.saturating_sub(page)),
            Key::PageDown | Key::Char(' ') => self.walk(picture, summary, |at, _| at + page),
            Key::First | Key::Char('g') => self.walk(picture, summary, |_, _| 0),
            Key::Last | Key::Char('G') => self.walk(picture, summary, |_, last| last),
            Key::Char(_) | Key::Backspace | Key::Quit => {}
        }
        Goes::On
    }

    /// True when the key was for the filter.
    fn type_filter(&mut self, key: Key) -> bool {
        match key {
            Key::Char(c) if self.filter.chars().count() < FILTER_CHARS_MAX => self.filter.push(c),
            Key::Char(_) => {}
            Key::Backspace if self.filter.is_empty() => self.is_typing = false,
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            _ => return false,
        }
        true
    }

    fn turn(&mut self, by: usize) {
        self.go_to(Tab::ALL[(self.tab as usize + by) % Tab::ALL.len()]);
    }

    fn go_to(&mut self, tab: Tab) {
        self.tab = tab;
    }

    fn step_back(&mut self) {
        if !self.filter.is_empty() {
            self.filter.clear();
        } else if self.tab == Tab::Instances {
            let from = self.focus.take();
            self.go_to(if matches!(from, Some(Focus::Cell(_))) { Tab::Cells } else { Tab::Apps });
        }
    }

    fn look_into(&mut self, picture: &Picture, summary: &Summary) {
        let listing = Listing::of(picture, summary, self);
        let id = listing.id(listing.find(self.chosen()));
        let focus = match (self.tab, id) {
            (Tab::Apps, Some(RowId::Name(guid))) => Focus::App(guid),
            (Tab::Cells, Some(RowId::Name(cell))) => Focus::Cell(cell),
            _ => return,
        };
        self.focus = Some(focus);
        // The filter found the app; its instances are another list.
        self.filter.clear();
        self.go_to(Tab::Instances);
        self.chosen[Tab::Instances as usize] = Chosen::default();
    }

    fn walk(&mut self, picture: &Picture, summary: &Summary, to: impl Fn(usize, usize) -> usize) {
        let listing = Listing::of(picture, summary, self);
        let last = listing.len().saturating_sub(1);
        let at = to(listing.find(self.chosen()), last).min(last);
        let id = listing.id(at);
        self.chosen[self.tab as usize] = Chosen { at, id };
    }
}
