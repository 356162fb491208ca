//! The right to hold auctions: one auctioneer at a time has it, and the port is open only while it does.
//!
//! Two auctioneers at once would do no lasting harm, because an instance can be claimed only once; but each would promise
//! the room that the other has given away. Who gives the right is the caller's business.

/// Lets one auctioneer of several be the active one.
pub trait Lock: Send + Sync {
    /// Waits until the right is ours.
    fn acquire(&self) -> impl Future<Output = ()> + Send;

    /// Waits until the right is ours no longer, and says why. Called after [`Lock::acquire`] has ended. Giving the right
    /// back when the program ends is left to whoever made the lock.
    fn lost(&self) -> impl Future<Output = String> + Send;
}

/// For an auctioneer that has no rival.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysMine;

impl Lock for AlwaysMine {
    async fn acquire(&self) {}

    async fn lost(&self) -> String {
        std::future::pending().await
    }
}
