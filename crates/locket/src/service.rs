//! Locket's service over a keeper: messages in, messages and codes out.

use std::sync::Arc;

use api::locket::proto::locket_server::Locket;
use api::locket::proto::{
    self, FetchAllRequest, FetchAllResponse, FetchRequest, FetchResponse, LockRequest, LockResponse, ReleaseRequest,
    ReleaseResponse,
};
use tonic::{Request, Response, Status};

use crate::book::{Refusal, Resource};
use crate::keeper::Keeper;

#[derive(Clone, Debug)]
pub(crate) struct Counter(pub(crate) Arc<dyn Keeper>);

fn answer<T>(outcome: Result<T, Refusal>) -> Result<Response<T>, Status> {
    outcome.map(Response::new).map_err(|refusal| Status::new(refusal.code(), refusal.to_string()))
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
impl Locket for Counter {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let LockRequest { resource, ttl_in_seconds } = request.into_inner();
        answer(self.0.lock(resource, ttl_in_seconds).await.map(|()| LockResponse {}))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        answer(self.0.release(request.into_inner().resource).await.map(|()| ReleaseResponse {}))
    }

    async fn fetch(&self, request: Request<FetchRequest>) -> Result<Response<FetchResponse>, Status> {
        let found = self.0.fetch(request.into_inner().key).await;
        answer(found.map(|resource| FetchResponse { resource: Some(wire(resource)) }))
    }

    async fn fetch_all(&self, request: Request<FetchAllRequest>) -> Result<Response<FetchAllResponse>, Status> {
        let all = self.0.fetch_all(request.into_inner().type_code).await;
        answer(all.map(|all| FetchAllResponse { resources: all.into_iter().map(wire).collect() }))
    }
}
