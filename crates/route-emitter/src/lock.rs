//! One emitter at a time, where one speaks for the whole cluster.
//!
//! The lock is a value that the caller brings: Locket in a cluster, nothing in a single process or on a cell.

use api::registry::bus::BoxFuture;

pub trait Lock: Send {
    /// Waits until the lock is held, however long. The future it gives ends when the lock is lost; dropping it gives the
    /// lock back.
    fn acquire(&mut self) -> BoxFuture<'_, BoxFuture<'static, ()>>;
}

/// There is nobody to agree with.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Lock for Alone {
    fn acquire(&mut self) -> BoxFuture<'_, BoxFuture<'static, ()>> {
        Box::pin(std::future::ready(Box::pin(std::future::pending()) as BoxFuture<'static, ()>))
    }
}
