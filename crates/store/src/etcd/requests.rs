//! The requests that the store makes, put together in one place.

use bytes::Bytes;

use super::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use super::proto::request_op::Request;
use super::proto::response_op::Response;
use super::proto::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse, RequestOp, ResponseOp,
};
use crate::error::StoreError;

/// An empty `to` asks for the one key `from`.
pub(super) fn range(from: Bytes, to: Bytes, limit: i64) -> RangeRequest {
    RangeRequest { key: from, range_end: to, limit, revision: 0 }
}

pub(super) fn read(key: Bytes) -> RequestOp {
    RequestOp { request: Some(Request::RequestRange(range(key, Bytes::new(), 1))) }
}

/// A lease of 0 is none.
pub(super) fn put(key: Bytes, value: Bytes, lease: i64) -> RequestOp {
    RequestOp { request: Some(Request::RequestPut(PutRequest { key, value, lease })) }
}

pub(super) fn delete(key: Bytes) -> RequestOp {
    RequestOp { request: Some(Request::RequestDeleteRange(DeleteRangeRequest { key, range_end: Bytes::new() })) }
}

fn equal(key: Bytes, target: CompareTarget, value: TargetUnion) -> Compare {
    Compare { result: CompareResult::Equal.into(), target: target.into(), key, target_union: Some(value) }
}

pub(super) fn is_absent(key: Bytes) -> Compare {
    equal(key, CompareTarget::Version, TargetUnion::Version(0))
}

pub(super) fn was_created_at(key: Bytes, revision: i64) -> Compare {
    equal(key, CompareTarget::Create, TargetUnion::CreateRevision(revision))
}

pub(super) fn was_changed_at(key: Bytes, revision: i64) -> Compare {
    equal(key, CompareTarget::Mod, TargetUnion::ModRevision(revision))
}

pub(super) fn has_value(key: Bytes, value: Bytes) -> Compare {
    equal(key, CompareTarget::Value, TargetUnion::Value(value))
}

pub(super) fn has_lease(key: Bytes, lease: i64) -> Compare {
    equal(key, CompareTarget::Lease, TargetUnion::Lease(lease))
}

/// What one of the reads in a transaction found.
pub(super) fn found(responses: &[ResponseOp], at: usize) -> Option<&KeyValue> {
    match responses.get(at)?.response.as_ref()? {
        Response::ResponseRange(RangeResponse { kvs, .. }) => kvs.first(),
        Response::ResponsePut(_) | Response::ResponseDeleteRange(_) => None,
    }
}

/// The revision that is stored; 0 where there is none.
pub(super) fn number_of(stored: Option<&KeyValue>) -> Result<u64, StoreError> {
    let Some(stored) = stored else { return Ok(0) };
    let number = std::str::from_utf8(&stored.value).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| StoreError::Unexpected {
        doing: "reading the revision".to_owned(),
        why: format!("what lies under {} is not a number", String::from_utf8_lossy(&stored.key)),
    })
}
