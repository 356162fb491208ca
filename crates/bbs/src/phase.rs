//! Where the server is in its life, for everybody who asks: clients that get a 503, the health port, the status page.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

use crate::http::App;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Waiting for the store, which somebody else may hold.
    Waiting,
    /// Reading the records.
    Loading,
    Serving,
    /// Finishing what was begun.
    Stopping,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Waiting, Self::Loading, Self::Serving, Self::Stopping];
}

/// How far something long has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    /// 0 while it is not known.
    pub total: u64,
    pub eta_s: u64,
}

#[derive(Debug, Default)]
pub struct Phase {
    stage: AtomicU8,
    done: AtomicU64,
    app: ArcSwapOption<App>,
}

impl Phase {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    pub fn stage(&self) -> Stage {
        Stage::ALL[usize::from(self.stage.load(Ordering::Acquire)).min(3)]
    }

    pub fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// The server is ready: requests find their handlers from now on.
    pub fn serve(&self, app: Arc<App>) {
        self.app.store(Some(app));
        self.enter(Stage::Serving);
    }

    /// No new request reaches a handler from now on.
    pub fn stop(&self) {
        self.enter(Stage::Stopping);
        self.app.store(None);
    }

    pub fn app(&self) -> Option<Arc<App>> {
        self.app.load_full()
    }

    pub fn loaded(&self, records: u64) {
        self.done.store(records, Ordering::Relaxed);
    }

    pub fn progress(&self) -> Progress {
        Progress { done: self.done.load(Ordering::Relaxed), ..Progress::default() }
    }

    pub fn name(&self) -> &'static str {
        match self.stage() {
            Stage::Waiting => "waiting",
            Stage::Loading => "loading",
            Stage::Serving => "serving",
            Stage::Stopping => "stopping",
        }
    }

    pub fn explain(&self) -> &'static str {
        match self.stage() {
            Stage::Waiting => "the server waits for its store; nothing was changed, try again",
            Stage::Loading => {
                "the server reads its records and will answer in a moment; nothing was changed, try again"
            }
            Stage::Serving => "the server answers",
            Stage::Stopping => "the server is stopping; nothing was changed, try again or try another node",
        }
    }
}
