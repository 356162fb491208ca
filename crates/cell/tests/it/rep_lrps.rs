//! The life of an instance, as the state server hears of it.

use api::models::error::Type;
use api::models::{self, MetricTagValue, ProtoRoutes, metric_tag_value::DynamicValue};
use cell::executor::{Ending, Executor, State};
use expect_test::expect;

use crate::rep_board::Reply;
use crate::rep_world::{World, instance, lrp, until, work};

const FIRST: &str = "00000000-0000-4000-8000-0000";

#[tokio::test]
async fn an_instance_is_claimed_and_fetched_and_started_and_named_in_the_state() {
    let world = World::new().await;
    {
        let mut script = world.board.script.lock().unwrap();
        script.desired.ports = vec![8080];
        let routes = br#"[{"hostname":"a.internal"}]"#.to_vec();
        script.desired.routes = Some(ProtoRoutes { routes: [("internal-router".to_owned(), routes)].into() });
        let tag = |tag: MetricTagValue| tag;
        script.desired.metric_tags = [
            ("index".to_owned(), tag(MetricTagValue { dynamic: DynamicValue::Index.into(), ..Default::default() })),
            ("kind".to_owned(), tag(MetricTagValue { r#static: "web".into(), ..Default::default() })),
        ]
        .into();
    }
    assert_eq!(world.lrps(&[64]).await, r#"{"LRPs":null,"Tasks":null}"#);
    world.board.hears("start").await;
    expect![[r#"
        [
            "claim app/0 00000000-0000-4000-8000-0000 (trace-7)",
            "desired app of 00000000-0000-4000-8000-0000 (trace-7)",
        ]
    "#]]
    .assert_debug_eq(&world.board.log()[..2].to_vec());
    let start = world.board.log().into_iter().find(|line| line.starts_with("start")).unwrap();
    expect![[r#"start app/0 00000000-0000-4000-8000-0000 ports [8080] routes ["a.internal"] tags {"index": "0", "kind": "web"} Some(true) zone "z1" definition 1 (trace-7)"#]]
        .assert_eq(&start);
    let (status, state) = world.network("GET", "/state", "").await;
    assert_eq!(status, 200);
    let url = format!("http://{}", world.ready.network);
    expect![[r#"{"rep_url":"URL","cell_id":"cell-1","cell_index":0,"RootFSProviders":{"docker":{"type":"arbitrary"},"preloaded":{"set":{"cflinuxfs4":{}},"type":"fixed_set"},"preloaded+layer":{"set":{"cflinuxfs4":{}},"type":"fixed_set"}},"AvailableResources":{"MemoryMB":960,"DiskMB":2047,"Containers":9},"TotalResources":{"MemoryMB":1024,"DiskMB":2048,"Containers":10},"LRPs":[{"instance_guid":"00000000-0000-4000-8000-0000","process_guid":"app","index":0,"domain":"d","PlacementTags":null,"VolumeDrivers":[],"RootFs":"preloaded:cflinuxfs4","MemoryMB":64,"DiskMB":1,"MaxPids":100,"state":"RUNNING"}],"Tasks":[],"StartingContainerCount":0,"Zone":"z1","Evacuating":false,"VolumeDrivers":[],"PlacementTags":[],"OptionalPlacementTags":[],"ProxyMemoryAllocationMB":0}"#]]
        .assert_eq(&state.replace(&url, "URL"));
}

/// The refusal, and whether the container may stay.
async fn check_claim(refusal: Type, stays: bool) {
    let world = World::new().await;
    world.board.replies("claim", &[Reply::Error(refusal)]);
    world.lrps(&[64]).await;
    world.board.hears("claim").await;
    match stays {
        // The next look claims again.
        true => drop(world.board.hears("start").await),
        false => world.is_empty().await,
    }
    assert_eq!(world.board.count("desired") > 0, stays, "{refusal:?}");
}

#[tokio::test]
async fn an_instance_that_cannot_be_claimed_goes_and_other_trouble_is_waited_out() {
    check_claim(Type::ActualLrpCannotBeClaimed, false).await;
    check_claim(Type::ResourceNotFound, false).await;
    check_claim(Type::UnknownError, true).await;
    check_claim(Type::Deadlock, true).await;
}

#[tokio::test]
async fn an_instance_whose_app_is_gone_is_given_back() {
    let world = World::new().await;
    world.board.replies("desired", &[Reply::Error(Type::ResourceNotFound)]);
    world.lrps(&[64]).await;
    assert_eq!(world.board.hears("remove").await, format!("remove app/0 {FIRST} (trace-7)"));
    world.is_empty().await;
    assert!(world.executor.runs().is_empty());
}

#[tokio::test]
async fn an_instance_that_another_replaced_is_stopped_and_removed() {
    let world = World::new().await;
    world.board.always("start", Some(Reply::Error(Type::ActualLrpCannotBeStarted)));
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    assert_eq!(world.board.hears("remove").await, format!("remove app/0 {FIRST} (trace-7)"));
    world.is_empty().await;
}

#[tokio::test]
async fn a_crash_is_told_with_its_reason() {
    let world = World::new().await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    let ending = Ending { failed: true, reason: "Exited with status 7".into(), ..Ending::default() };
    world.executor.end(&instance(FIRST), ending);
    assert_eq!(world.board.hears("crash").await, format!("crash app/0 {FIRST}: Exited with status 7 (trace-7)"));
    world.is_empty().await;
}

#[tokio::test]
async fn the_state_server_hears_when_an_instance_becomes_routable_and_when_it_is_not() {
    let world = World::new().await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    for (routable, told) in [(false, "Some(false)"), (true, "Some(true)")] {
        world.executor.set_routable(&instance(FIRST), routable);
        while !world.board.hears("start").await.contains(told) {}
    }
}

#[tokio::test]
async fn a_stop_ends_with_a_record_that_is_removed() {
    let world = World::new().await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    let path = format!("/v1/lrps/app/instances/{FIRST}/stop");
    assert_eq!(world.network("POST", &path, "").await.0, 202);
    world.board.hears("remove").await;
    world.is_empty().await;
    assert_eq!(world.network("POST", &path, "").await.0, 500);
}

#[tokio::test]
async fn new_routes_and_tags_reach_the_state_server() {
    let world = World::new().await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    for (version, body, told) in [
        (
            "v2",
            r#"{"internal_routes":[{"hostname":"b.internal"}],"metric_tags":null}"#,
            r#"routes ["b.internal"] tags {}"#,
        ),
        ("v2", r#"{"internal_routes":null,"metric_tags":{"a":"1"}}"#, r#"routes ["b.internal"] tags {"a": "1"}"#),
        ("v1", r#"{"internal_routes":[],"metric_tags":null}"#, r#"routes [] tags {"a": "1"}"#),
    ] {
        let path = format!("/{version}/lrps/app/instances/{FIRST}");
        assert_eq!(world.network("PUT", &path, body).await.0, 202);
        while !world.board.hears("start").await.contains(told) {}
    }
    assert_eq!(world.network("PUT", "/v2/lrps/app/instances/other", "{}").await.0, 500);
    assert_eq!(world.network("PUT", &format!("/v2/lrps/app/instances/{FIRST}"), "[").await.0, 400);
}

#[tokio::test]
async fn the_largest_are_accepted_first_and_the_rest_is_listed() {
    let world = World::new().await;
    let refused = world.lrps(&[100, 800, 200, 20]).await;
    assert!(refused.contains(r#""index":0"#) && refused.matches("process_guid").count() == 1, "{refused}");
    let lrps = [lrp(9, 1).replace("cflinuxfs4", "windows"), lrp(8, 1)];
    let (status, refused) = world.network("POST", "/work", &work(&lrps, &[])).await;
    assert_eq!(status, 200);
    assert!(refused.contains("preloaded:windows") && !refused.contains(r#""index":8"#), "{refused}");
    until("all of them run", || {
        let all = world.executor.list();
        all.len() == 4 && all.iter().all(|container| container.state == State::Running)
    })
    .await;
}

/// How often everything was compared so far.
async fn comparisons(world: &World) -> u32 {
    let metrics = world.admin("GET", "/metrics").await.1;
    let count = metrics.lines().find_map(|line| line.strip_prefix("corkboard_cell_syncs_total "));
    count.unwrap().parse().unwrap()
}

async fn until_compared(world: &World, times: u32) {
    let compared = async {
        while comparisons(world).await < times {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    crate::rep_world::patiently(compared).await.expect("everything is compared from time to time");
}

#[tokio::test]
async fn an_instance_whose_record_says_all_is_not_told_again_and_one_that_differs_is() {
    let world = World::new().await;
    // One that finds the container would rightly look at it.
    until_compared(&world, 1).await;
    world.lrps(&[64]).await;
    world.board.hears("start").await;
    assert_eq!(world.board.count("claim"), 1, "on its way from reserved to running nothing else is due");
    let container = world.only();
    let record = models::ActualLrp {
        actual_lrp_key: Some(models::ActualLrpKey { process_guid: "app".into(), index: 0, domain: "d".into() }),
        actual_lrp_instance_key: Some(models::ActualLrpInstanceKey {
            instance_guid: FIRST.into(),
            cell_id: "cell-1".into(),
        }),
        actual_lrp_net_info: Some(models::ActualLrpNetInfo {
            address: container.address.clone(),
            instance_address: container.instance_address.clone(),
            preferred_address: models::actual_lrp_net_info::PreferredAddress::Host.into(),
            ..Default::default()
        }),
        state: "RUNNING".into(),
        routable: Some(true),
        availability_zone: "z1".into(),
        ..Default::default()
    };
    world.board.script.lock().unwrap().lrps = vec![record];
    // The one that goes on may have listed the records before.
    let begun = comparisons(&world).await;
    until_compared(&world, begun + 2).await;
    let told = world.board.count("start");
    until_compared(&world, begun + 4).await;
    assert_eq!(world.board.count("start"), told);
    world.board.script.lock().unwrap().lrps[0].routable = Some(false);
    until("it is told again", || world.board.count("start") > told).await;
}
