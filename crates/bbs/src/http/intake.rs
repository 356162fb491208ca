//! From bytes to a request that can be trusted: bounded, decoded, validated.

use api::Wire;
use api::models::Error;
use api::validate::Validate;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::{Response, StatusCode};
use tokio::time::timeout;

use super::{Body, text};
use crate::config::Limits;

/// Reads the whole body, within the limits.
pub(super) async fn read_body(mut body: Incoming, limits: &Limits) -> Result<Bytes, Box<Response<Body>>> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > limits.body_bytes_max as u64 {
        return Err(too_large());
    }
    let read = async {
        let mut first: Option<Bytes> = None;
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Err(broken()) };
            let Ok(data) = frame.into_data() else { continue };
            if first.as_ref().map_or(0, Bytes::len) + rest.len() + data.len() > limits.body_bytes_max {
                return Err(too_large());
            }
            match &first {
                None => first = Some(data),
                Some(_) => rest.extend_from_slice(&data),
            }
        }
        Ok(match first {
            None => Bytes::new(),
            Some(first) if rest.is_empty() => first,
            Some(first) => [&first[..], &rest[..]].concat().into(),
        })
    };
    match timeout(limits.body_timeout, read).await {
        Ok(result) => result,
        Err(_) => Err(Box::new(text(StatusCode::REQUEST_TIMEOUT, "the request body did not arrive in time\n"))),
    }
}

fn too_large() -> Box<Response<Body>> {
    Box::new(text(StatusCode::PAYLOAD_TOO_LARGE, "the request body is larger than this server accepts\n"))
}

fn broken() -> Box<Response<Body>> {
    Box::new(text(StatusCode::BAD_REQUEST, "the request body broke off\n"))
}

/// Decodes and validates.
pub(super) fn parse<M: Wire + Validate>(body: &Bytes) -> Result<M, Error> {
    let message: M = decode(body)?;
    api::validate::check(&message)?;
    Ok(message)
}

/// For requests that have no rules.
pub(super) fn decode<M: Wire>(body: &Bytes) -> Result<M, Error> {
    api::decode(body).map_err(|_| api::errors::invalid_request_body())
}
