//! One emitter at a time, where one speaks for the whole cluster.
//!
//! The lock is a value that the caller brings: Locket in a cluster, nothing in a single process or on a cell.

use std::fmt;

use api::registry::bus::BoxFuture;

pub trait Lock: Send {
    /// Waits until the lock is held, however long.
    fn acquire(&mut self) -> BoxFuture<'_, Held>;
}

/// A lock that is held; dropping it gives it back.
pub struct Held(BoxFuture<'static, ()>);

impl Held {
    /// Held until this future ends.
    pub fn until(lost: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(lost))
    }

    /// Returns when the lock is lost.
    pub async fn lost(self) {
        self.0.await;
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// There is nobody to agree with.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Lock for Alone {
    fn acquire(&mut self) -> BoxFuture<'_, Held> {
        Box::pin(std::future::ready(Held::until(std::future::pending())))
    }
}
