//! Stand-in.
use std::sync::Arc;
use std::time::Duration;

use store::{Store, Version};
use tokio::sync::watch;

use crate::board::Board;
use crate::keys::open::Unlocked;
use crate::phase::Phase;

pub struct Followed {
    pub board: Board,
    pub version: Version,
}
#[derive(Debug)]
pub struct Warm(watch::Sender<u64>);
impl Warm {
    pub fn new() -> Arc<Warm> {
        Arc::new(Warm(watch::Sender::new(0)))
    }
    pub fn control_changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
    pub async fn take_at(&self, _revision: u64, _limit: Duration) -> Option<Followed> {
        None
    }
    pub fn is_warm(&self) -> bool {
        false
    }
}
pub async fn follow(_s: Arc<dyn Store>, _u: Unlocked, _p: Arc<Phase>, _w: Arc<Warm>, _until: watch::Receiver<bool>) {}
