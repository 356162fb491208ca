//! Asking something to end, and hearing of it.
//!
//! Cancelling a token cancels everything that was derived from it and nothing above it. It cannot be taken back. Whoever is
//! cancelled still has to end by itself: an app has its grace time, so that dropping its future would be wrong.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub(crate) struct Cancel {
    own: Arc<watch::Sender<bool>>,
    above: Option<Arc<Cancel>>,
}

impl Cancel {
    pub(crate) fn new() -> Self {
        Self { own: Arc::new(watch::Sender::new(false)), above: None }
    }

    pub(crate) fn below(&self) -> Self {
        Self { own: Arc::new(watch::Sender::new(false)), above: Some(Arc::new(self.clone())) }
    }

    pub(crate) fn cancel(&self) {
        self.own.send_replace(true);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        *self.own.borrow() || self.above.as_ref().is_some_and(|above| above.is_cancelled())
    }

    pub(crate) fn cancelled(&self) -> BoxFuture<'_, ()> {
        async {
            let mut own = self.own.subscribe();
            let own = async {
                if own.wait_for(|cancelled| *cancelled).await.is_err() {
                    // The sender lives as long as `self`.
                    std::future::pending::<()>().await;
                }
            };
            match &self.above {
                None => own.await,
                Some(above) => tokio::select! {
                    () = own => {}
                    () = above.cancelled() => {}
                },
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_reaches_what_is_below_and_nothing_above() {
        let root = Cancel::new();
        let (left, right) = (root.below(), root.below());
        let leaf = left.below();
        left.cancel();
        leaf.cancelled().await;
        assert!(left.is_cancelled() && leaf.is_cancelled());
        assert!(!root.is_cancelled() && !right.is_cancelled());
        root.cancel();
        right.cancelled().await;
    }
}
