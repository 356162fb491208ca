//! Whether endpoints may be forgotten by age.
//!
//! An endpoint that is no longer registered is gone, if everybody else still is. If nobody is heard at all, because the bus is
//! away or every emitter is, then age says nothing about endpoints and all about us: nothing is forgotten until somebody
//! speaks again, and then everything is given its full time anew.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Silence {
    limit: Duration,
    connected: bool,
    heard: Instant,
}

impl Silence {
    /// Half of the time in which an endpoint is forgotten: long enough for several registrations, and well before the end.
    pub fn new(prune_threshold: Duration, connected: bool, now: Instant) -> Self {
        Self { limit: prune_threshold / 2, connected, heard: now }
    }

    pub fn connected(&mut self, connected: bool) {
        self.connected = connected;
    }

    /// Notes a registration. True if it ends a silence: then everything should be taken for heard.
    pub fn heard(&mut self, now: Instant) -> bool {
        let ended = self.lasts(now);
        // A message is a proof of its own, also if the news of the connection comes later.
        self.connected = true;
        self.heard = now;
        ended
    }

    pub fn lasts(&self, now: Instant) -> bool {
        !self.connected || now.saturating_duration_since(self.heard) > self.limit
    }
}
