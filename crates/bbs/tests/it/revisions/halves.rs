//! Desired LRPs in two halves, and whole as they were before they were split.

use api::models::{
    CreateDesiredLrpRequest, CreateDesiredLrpRequest09, DesiredLrp, DesiredLrpUpdate, ImmutableDesiredLrp,
    ListDesiredLrPsRequest09, ListDesiredLrPsResponse09, ListImmutableDesiredLrPsRequest,
    ListImmutableDesiredLrPsResponse, ListMutableDesiredLrPsRequest, ListMutableDesiredLrPsResponse, MutableDesiredLrp,
};
use api::{Route, encode, revision};

use super::{ask, refusal, samples};
use crate::assembled::Assembled;
use crate::raw;
use crate::samples::{lrp, routes};

async fn mutable(world: &Assembled, domain: &str, process_guids: &[&str]) -> Vec<MutableDesiredLrp> {
    let process_guids = process_guids.iter().map(ToString::to_string).collect();
    let request = ListMutableDesiredLrPsRequest { domain: domain.into(), process_guids };
    ask::<ListMutableDesiredLrPsResponse>(world, Route::MutableDesiredLrps, request).await.mutable_desired_lrps
}

async fn immutable(world: &Assembled, domain: &str, process_guids: &[&str]) -> Vec<ImmutableDesiredLrp> {
    let process_guids = process_guids.iter().map(ToString::to_string).collect();
    let request = ListImmutableDesiredLrPsRequest { domain: domain.into(), process_guids };
    ask::<ListImmutableDesiredLrPsResponse>(world, Route::ImmutableDesiredLrps, request).await.immutable_desired_lrps
}

async fn whole(world: &Assembled, domain: &str, process_guids: &[&str]) -> Vec<DesiredLrp> {
    let process_guids = process_guids.iter().map(ToString::to_string).collect();
    let request = ListDesiredLrPsRequest09 { domain: domain.into(), process_guids };
    ask::<ListDesiredLrPsResponse09>(world, Route::DesiredLrps09, request).await.desired_lrps
}

fn halves(lrp: DesiredLrp) -> CreateDesiredLrpRequest {
    let mutable = MutableDesiredLrp {
        process_guid: lrp.process_guid.clone(),
        instances: lrp.instances,
        routes: lrp.routes.clone(),
        annotation: lrp.annotation.clone(),
    };
    CreateDesiredLrpRequest {
        mutable_desired_lrp: Some(mutable),
        immutable_desired_lrp: Some(revision::immutable_half(lrp)),
    }
}

fn rich(process_guid: &str) -> DesiredLrp {
    let routes = Some(routes(&[("cf-router", "[1, 2]")]));
    DesiredLrp { annotation: "note".into(), routes, ..samples::everything(process_guid) }
}

#[tokio::test]
async fn what_was_created_in_halves_is_an_lrp_like_any_other() {
    let world = Assembled::new().await;
    let client = world.client();
    let reply = raw::call(world.api, Route::CreateDesiredLrp, &encode(halves(rich("halves")))).await;
    assert_eq!(reply.body, b"", "a success");
    client.desire_lrp(rich("whole")).await.unwrap();
    let neutral = |lrp: DesiredLrp| DesiredLrp { process_guid: String::new(), modification_tag: None, ..lrp };
    let [of_halves, of_whole] = ["halves", "whole"].map(|guid| client.desired_lrp_by_process_guid(guid));
    assert_eq!(neutral(of_halves.await.unwrap()), neutral(of_whole.await.unwrap()));
    assert_eq!(client.actual_lrps(Default::default()).await.unwrap().len(), 2, "each has its instance");
    let again = refusal(&world, Route::CreateDesiredLrp, &encode(halves(rich("whole")))).await;
    assert_eq!(again, "the requested resource already exists");
}

#[tokio::test]
async fn each_list_shows_its_half() {
    let world = Assembled::new().await;
    let client = world.client();
    client.desire_lrp(rich("p")).await.unwrap();
    let read = client.desired_lrp_by_process_guid("p").await.unwrap();
    let expected = MutableDesiredLrp {
        process_guid: "p".into(),
        instances: 1,
        routes: Some(routes(&[("cf-router", "[1,2]")])),
        annotation: "note".into(),
    };
    assert_eq!(mutable(&world, "", &[]).await, std::slice::from_ref(&expected));
    assert_eq!(immutable(&world, "", &[]).await, [revision::immutable_half(read.clone())]);
    assert_eq!(whole(&world, "", &[]).await, std::slice::from_ref(&read));

    let update = DesiredLrpUpdate { instances: Some(3), annotation: Some(String::new()), ..Default::default() };
    client.update_desired_lrp("p", update).await.unwrap();
    let changed = MutableDesiredLrp { instances: 3, annotation: String::new(), ..expected };
    assert_eq!(mutable(&world, "", &["p"]).await, [changed]);
    let tag = immutable(&world, "", &["p"]).await.remove(0).modification_tag.unwrap();
    assert_eq!((tag.epoch, tag.index), (read.modification_tag.unwrap().epoch, 1), "it counts changes of both halves");

    // An LRP without routes still has the field, as everywhere.
    client.desire_lrp(lrp("bare", 0)).await.unwrap();
    let request = encode(ListMutableDesiredLrPsRequest { process_guids: vec!["bare".into()], ..Default::default() });
    let reply = raw::call(world.api, Route::MutableDesiredLrps, &request).await;
    assert_eq!(reply.body, b"\x12\x08\x0a\x04bare\x1a\x00");
}

#[tokio::test]
async fn lists_filter_by_domain_and_process() {
    let world = Assembled::new().await;
    for (guid, domain) in [("a", "d1"), ("b", "d2"), ("c", "d1")] {
        world.client().desire_lrp(DesiredLrp { domain: domain.into(), ..lrp(guid, 0) }).await.unwrap();
    }
    let long = "x".repeat(256);
    for (domain, guids, expected) in [
        ("", &[][..], "a b c"),
        ("d1", &[], "a c"),
        ("", &["b", "c", "nobody"], "b c"),
        ("d1", &["b", "c"], "c"),
        ("nowhere", &[], ""),
        (&long, &[], ""),
    ] {
        let mutable: Vec<_> = mutable(&world, domain, guids).await.into_iter().map(|lrp| lrp.process_guid).collect();
        let rest: Vec<_> = immutable(&world, domain, guids).await.into_iter().map(|lrp| lrp.process_guid).collect();
        let whole: Vec<_> = whole(&world, domain, guids).await.into_iter().map(|lrp| lrp.process_guid).collect();
        assert_eq!([mutable.join(" "), rest.join(" "), whole.join(" ")], [expected; 3], "{domain:?} {guids:?}");
    }
}

#[tokio::test]
async fn halves_that_do_not_fit_are_refused() {
    let world = Assembled::new().await;
    let of = |change: fn(&mut MutableDesiredLrp, &mut ImmutableDesiredLrp)| {
        let mut request = halves(rich("p"));
        change(request.mutable_desired_lrp.as_mut().unwrap(), request.immutable_desired_lrp.as_mut().unwrap());
        encode(request)
    };
    let only = |mutable: bool| {
        let CreateDesiredLrpRequest { mutable_desired_lrp, immutable_desired_lrp } = halves(rich("p"));
        let request = CreateDesiredLrpRequest {
            mutable_desired_lrp: mutable_desired_lrp.filter(|_| mutable),
            immutable_desired_lrp: immutable_desired_lrp.filter(|_| !mutable),
        };
        encode(request)
    };
    for (request, expected) in [
        (of(|mutable, _| mutable.process_guid = "q".into()), "Invalid field: process_guid"),
        (of(|mutable, _| mutable.instances = -1), "Invalid field: instances"),
        (of(|mutable, _| mutable.annotation = "x".repeat(10_241)), "Invalid field: annotation"),
        (of(|mutable, _| mutable.routes = Some(routes(&[("r", "no json")]))), "the request received is invalid"),
        (of(|_, immutable| immutable.root_fs = "no-scheme".into()), "Invalid field: rootfs"),
        (of(|_, immutable| immutable.action = None), "invalid action type"),
        (only(true), "Invalid field: immutable_desired_lrp"),
        (only(false), "Invalid field: mutable_desired_lrp"),
    ] {
        assert_eq!(refusal(&world, Route::CreateDesiredLrp, &request).await, expected);
    }
    assert_eq!(refusal(&world, Route::CreateDesiredLrp09, b"").await, "Invalid field: desired_lrp");
    assert_eq!(mutable(&world, "", &[]).await, []);
}

#[tokio::test]
async fn before_the_split_it_was_created_whole() {
    let world = Assembled::new().await;
    let request = CreateDesiredLrpRequest09 { desired_lrp: Some(rich("p")) };
    let reply = raw::call(world.api, Route::CreateDesiredLrp09, &encode(request)).await;
    assert_eq!(reply.body, b"", "a success");
    assert_eq!(whole(&world, "", &[]).await, [world.client().desired_lrp_by_process_guid("p").await.unwrap()]);
}
