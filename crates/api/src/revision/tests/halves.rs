//! The two halves of a desired LRP.

use std::collections::BTreeSet;

use prost::Message;

use super::*;
use crate::Wire;
use crate::models::{CreateDesiredLrpRequest, ImmutableDesiredLrp, MutableDesiredLrp, ProtoRoutes};

/// What a client would do with an LRP to create it in halves.
pub(super) fn halves_of(lrp: DesiredLrp) -> CreateDesiredLrpRequest {
    let mutable = MutableDesiredLrp {
        process_guid: lrp.process_guid.clone(),
        instances: lrp.instances,
        routes: lrp.routes.clone(),
        annotation: lrp.annotation.clone(),
    };
    CreateDesiredLrpRequest { mutable_desired_lrp: Some(mutable), immutable_desired_lrp: Some(immutable_half(lrp)) }
}

#[test]
fn every_field_of_the_whole_is_in_one_half_and_the_guid_in_both() {
    let numbers = |message: &crate::wire::Layout| message.0.iter().map(|(number, _)| *number).collect::<BTreeSet<_>>();
    let (whole, rest) = (numbers(DesiredLrp::layout()), numbers(ImmutableDesiredLrp::layout()));
    let missing: Vec<_> = whole.difference(&rest).copied().collect();
    let (mutable, by_the_server) = ([4, 15, 19], [100, 101, 102, 103, 104, 105]);
    assert_eq!(missing, [&mutable[..], &by_the_server].concat(), "instances, routes and annotation, and definitions");
    assert_eq!(rest.difference(&whole).count(), 0);
}

/// The numbers are the same, so whoever has the bytes of a whole LRP can read them as the immutable half.
#[test]
fn a_whole_lrp_can_be_read_as_its_immutable_half() {
    let lrp = DesiredLrp { process_guid: "p".into(), instances: 3, annotation: "a".into(), ..worked_example() };
    let read = ImmutableDesiredLrp::decode(lrp.encode_to_vec().as_slice()).unwrap();
    assert_eq!(read, immutable_half(lrp));
}

#[test]
fn the_numbers_of_the_mutable_half() {
    let routes = ProtoRoutes { routes: [("r".to_owned(), b"1".to_vec())].into() };
    let (process_guid, annotation) = ("p".to_owned(), "a".to_owned());
    let mutable = MutableDesiredLrp { process_guid, instances: 2, routes: Some(routes), annotation };
    assert_eq!(mutable.encode_to_vec(), b"\x0a\x01p\x10\x02\x1a\x08\x0a\x06\x0a\x01r\x12\x011\x22\x01a");
}
