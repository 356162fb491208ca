//! Leases: what etcd takes away by itself when it does not hear from us.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tonic::Status;

use super::Shared;
use super::links::{Link, Trouble};
use super::proto::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest};
use crate::error::StoreError;

/// How long a lease that is not needed any more is tried to be given back. It ends by itself anyway.
const REVOKE_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) id: i64,
    pub(super) ttl: Duration,
}

pub(super) fn seconds(ttl: Duration) -> i64 {
    let whole = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(whole).unwrap_or(i64::MAX)
}

fn duration(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

impl Shared {
    /// A lease of which nobody knows ends by itself, so asking twice does no harm.
    pub(super) async fn grant(&self, doing: &str, ttl: Duration, patience: Duration) -> Result<Granted, StoreError> {
        let asked = LeaseGrantRequest { ttl: seconds(ttl), id: 0 };
        let granted = self.links.call(doing, patience, |link| async move { link.lease().lease_grant(asked).await });
        granted.await.map(|granted| Granted { id: granted.id, ttl: duration(granted.ttl) })
    }

    pub(super) async fn revoke(&self, id: i64) -> Result<(), StoreError> {
        let asked = LeaseRevokeRequest { id };
        let doing = "giving a lease back";
        let revoked =
            self.links.call(doing, REVOKE_PATIENCE, |link| async move { link.lease().lease_revoke(asked).await });
        match revoked.await {
            // It has ended already.
            Err(StoreError::Unexpected { why, .. }) if why.contains("lease not found") => Ok(()),
            other => other.map(|_| ()),
        }
    }

    pub(super) fn revoke_later(self: &Arc<Self>, id: i64) {
        let shared = self.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { shared.revoke(id).await });
        }
    }

    /// Asks once for the lease to go on: for how long, and in which term of etcd's leader. `None` when it has ended.
    pub(super) async fn renew(
        &self,
        id: i64,
        doing: &str,
        limit: Duration,
    ) -> Result<Option<(Duration, u64)>, Trouble> {
        let renewed = self.links.ask_within(limit, doing, |link| renewed(link, id)).await?;
        let raft_term = renewed.header.map_or(0, |header| header.raft_term);
        Ok((renewed.ttl > 0).then(|| (duration(renewed.ttl), raft_term)))
    }
}

async fn renewed(link: Link, id: i64) -> Result<tonic::Response<LeaseKeepAliveResponse>, Status> {
    let asked = stream::iter([LeaseKeepAliveRequest { id }]);
    let mut answers = link.lease().lease_keep_alive(asked).await?.into_inner();
    match answers.message().await? {
        Some(answer) => Ok(tonic::Response::new(answer)),
        None => Err(Status::unavailable("the connection ended before the lease was renewed")),
    }
}
