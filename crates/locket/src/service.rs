//! Locket's service over the book: messages in, messages and codes out.
//!
//! The book is a value behind a mutex that is held for one call and never across a wait. Whoever puts the book somewhere else
//! changes this file and [`crate::book`], and nothing that clients see.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::locket::proto::locket_server::Locket;
use api::locket::proto::{
    self, FetchAllRequest, FetchAllResponse, FetchRequest, FetchResponse, LockRequest, LockResponse, ReleaseRequest,
    ReleaseResponse,
};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::book::{Book, Refusal, Resource};

/// Nobody sees what has expired anyway; this is for memory and for the log.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The book with the clock that it is kept by. Clones share it, so it can outlive a server.
#[derive(Clone, Debug)]
pub struct Desk {
    book: Arc<Mutex<Book>>,
    opened: Instant,
}

impl Default for Desk {
    fn default() -> Self {
        Self { book: Arc::default(), opened: Instant::now() }
    }
}

impl Desk {
    /// The book without what has expired, and what time it is in it.
    fn book(&self) -> (MutexGuard<'_, Book>, u64) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        for gone in book.expire(now_ns) {
            tracing::info!(key = gone.key, owner = gone.owner, kind = gone.kind.name(), "expired");
        }
        (book, now_ns)
    }

    /// Forgets what has expired when nobody asks for anything, for ever.
    pub(crate) async fn sweep(self) {
        loop {
            drop(self.book());
            tokio::time::sleep(SWEEP_EVERY).await;
        }
    }
}

fn status(refusal: &Refusal) -> Status {
    Status::new(refusal.code(), refusal.to_string())
}

fn wire(resource: Resource) -> proto::Resource {
    proto::Resource {
        key: resource.key,
        owner: resource.owner,
        value: resource.value,
        r#type: resource.kind.name().to_owned(),
        type_code: resource.kind.code().into(),
    }
}

#[tonic::async_trait]
impl Locket for Desk {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let LockRequest { resource, ttl_in_seconds } = request.into_inner();
        let (mut book, now_ns) = self.book();
        match book.lock(resource, ttl_in_seconds, now_ns) {
            Ok(()) => Ok(Response::new(LockResponse {})),
            Err(refusal) => Err(status(&refusal)),
        }
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        let (mut book, now_ns) = self.book();
        match book.release(request.into_inner().resource.as_ref(), now_ns) {
            Ok(()) => Ok(Response::new(ReleaseResponse {})),
            Err(refusal) => Err(status(&refusal)),
        }
    }

    async fn fetch(&self, request: Request<FetchRequest>) -> Result<Response<FetchResponse>, Status> {
        let (mut book, now_ns) = self.book();
        match book.fetch(&request.into_inner().key, now_ns) {
            Ok(resource) => Ok(Response::new(FetchResponse { resource: Some(wire(resource)) })),
            Err(refusal) => Err(status(&refusal)),
        }
    }

    async fn fetch_all(&self, request: Request<FetchAllRequest>) -> Result<Response<FetchAllResponse>, Status> {
        let (mut book, now_ns) = self.book();
        let all = book.fetch_all(request.into_inner().type_code, now_ns);
        drop(book);
        match all {
            Ok(all) => Ok(Response::new(FetchAllResponse { resources: all.into_iter().map(wire).collect() })),
            Err(refusal) => Err(status(&refusal)),
        }
    }
}
