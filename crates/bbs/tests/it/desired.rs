//! Desired LRPs as they are read back: revisions, derived views, and what an update leaves alone.

use api::models::{
    CachedDependency, DesiredLrPsRequest, DesiredLrPsResponse, DesiredLrp, DesiredLrpByProcessGuidRequest,
    DesiredLrpResponse, DesiredLrpUpdate, MetricTagValue, SharedDevice, TaskByGuidRequest, TaskDefinition,
    TaskResponse, TasksRequest, TasksResponse, UpdateDesiredLrpRequest, VolumeMount,
};
use api::{Route, encode};

use crate::harness::{Server, verdict};
use crate::revisions::samples::layers;
use crate::{raw, samples};

fn whole() -> DesiredLrp {
    DesiredLrp {
        log_guid: "log".into(),
        annotation: "note".into(),
        memory_mb: 128,
        disk_mb: 256,
        max_pids: 7,
        ports: vec![8080, 2222],
        legacy_download_user: "vcap".into(),
        image_layers: layers(),
        cached_dependencies: vec![CachedDependency {
            name: "c".into(),
            from: "http://c".into(),
            to: "/c".into(),
            ..Default::default()
        }],
        placement_tags: vec!["ssd".into()],
        volume_mounts: vec![mount("nfs"), mount("smb"), mount("nfs")],
        routes: Some(samples::routes(&[("cf-router", " [ { \"hostnames\" : [ \"<a&b>\" ] } ] ")])),
        ..samples::lrp("p", 2)
    }
}

fn mount(driver: &str) -> VolumeMount {
    VolumeMount {
        driver: driver.into(),
        container_dir: "/data".into(),
        mode: "rw".into(),
        shared: Some(SharedDevice { volume_id: "v".into(), mount_config: String::new() }),
        ..Default::default()
    }
}

#[tokio::test]
async fn the_newest_revision_gives_back_what_was_wanted() {
    let server = Server::start().await;
    let client = server.client();
    client.desire_lrp(whole()).await.unwrap();
    let mut read = client.desired_lrp_by_process_guid("p").await.unwrap();
    assert_eq!(client.desired_lrps(Default::default()).await.unwrap(), std::slice::from_ref(&read));
    let tag = read.modification_tag.take().unwrap();
    assert!(!tag.epoch.is_empty() && tag.index == 0);
    // The value is stored compact and safe to embed in HTML, as Diego stores it.
    let router = read.routes.as_mut().unwrap().routes.remove("cf-router").unwrap();
    assert_eq!(router, br#"[{"hostnames":["\u003ca\u0026b\u003e"]}]"#);
    assert_eq!(read.metrics_guid, "app", "from the source id");
    let expected = DesiredLrp { metrics_guid: "app".into(), routes: Some(samples::routes(&[])), ..whole() };
    assert_eq!(read, expected);
}

#[tokio::test]
async fn the_second_revision_shows_layers_as_downloads() {
    let server = Server::start().await;
    let client = server.client();
    client.desire_lrp(whole()).await.unwrap();
    client.desire_lrp(samples::lrp("plain", 1)).await.unwrap();
    let by_guid =
        |guid: &str| DesiredLrpByProcessGuidRequest { actual_lrp_instance_key: None, process_guid: guid.to_owned() };
    let read: DesiredLrpResponse = client.call(Route::DesiredLrpByProcessGuidR2, by_guid("p")).await.unwrap();
    let read = read.desired_lrp.unwrap();
    let list: DesiredLrPsResponse = client.call(Route::DesiredLrpsR2, DesiredLrPsRequest::default()).await.unwrap();
    let list = list.desired_lrps;
    assert_eq!(list[0], read);
    assert_eq!(list[1], client.desired_lrp_by_process_guid("plain").await.unwrap(), "nothing to convert");
    assert!(read.image_layers.is_empty());
    let names: Vec<_> = read.cached_dependencies.iter().map(|d| (d.name.as_str(), d.cache_key.as_str())).collect();
    assert_eq!(names, [("s", "http://s"), ("s2", "sha256:abc"), ("c", "")]);
    let parallel = read.setup.unwrap().parallel_action.expect("there was no setup, so the downloads are all of it");
    let download = parallel.actions[0].download_action.as_ref().unwrap();
    assert_eq!((download.cache_key.as_str(), download.user.as_str()), ("sha512:def", "vcap"));
    assert_eq!(read.metrics_guid, "app");
}

#[tokio::test]
async fn tasks_are_converted_the_same_way() {
    let server = Server::start().await;
    let client = server.client();
    let definition = TaskDefinition { image_layers: layers(), legacy_download_user: "vcap".into(), ..samples::task() };
    client.desire_task("t", "d", definition.clone()).await.unwrap();
    let newest = client.task_by_guid("t").await.unwrap();
    assert_eq!(newest.task_definition.as_ref(), Some(&definition));
    assert_eq!(client.tasks(Default::default()).await.unwrap(), std::slice::from_ref(&newest));
    let by_guid = TaskByGuidRequest { task_guid: "t".to_owned() };
    let older: TaskResponse = client.call(Route::TaskByGuidR2, by_guid).await.unwrap();
    let older = older.task.unwrap();
    let list: TasksResponse = client.call(Route::TasksR2, TasksRequest::default()).await.unwrap();
    assert_eq!(list.tasks, std::slice::from_ref(&older));
    let shown = older.task_definition.unwrap();
    assert!(shown.image_layers.is_empty() && shown.cached_dependencies.len() == 2);
    let serial = shown.action.unwrap().serial_action.unwrap();
    assert!(serial.actions[0].parallel_action.is_some());
    assert_eq!(serial.actions[1].run_action, samples::run().run_action);
    assert_eq!(
        verdict(client.task_by_guid("nobody").await),
        "ResourceNotFound: the requested resource could not be found"
    );
}

#[tokio::test]
async fn the_derived_views_hold_their_part_and_no_more() {
    let server = Server::start().await;
    let client = server.client();
    client.desire_lrp(whole()).await.unwrap();
    let read = client.desired_lrp_by_process_guid("p").await.unwrap();

    let routing = client.desired_lrp_routing_infos(Default::default()).await.unwrap().remove(0);
    let expected = DesiredLrp {
        process_guid: "p".into(),
        domain: samples::DOMAIN.into(),
        log_guid: "log".into(),
        instances: 2,
        routes: read.routes.clone(),
        modification_tag: read.modification_tag.clone(),
        metric_tags: read.metric_tags.clone(),
        ..Default::default()
    };
    assert_eq!(routing, expected);

    let info = client.desired_lrp_scheduling_info_by_process_guid("p").await.unwrap();
    assert_eq!(client.desired_lrp_scheduling_infos(Default::default()).await.unwrap(), std::slice::from_ref(&info));
    let key = info.desired_lrp_key.unwrap();
    assert_eq!((key.process_guid.as_str(), key.domain.as_str(), key.log_guid.as_str()), ("p", samples::DOMAIN, "log"));
    let resource = info.desired_lrp_resource.unwrap();
    assert_eq!((resource.memory_mb, resource.disk_mb, resource.max_pids), (128, 256, 7));
    assert_eq!(resource.root_fs, "preloaded:cflinuxfs4");
    assert_eq!((info.annotation.as_str(), info.instances), ("note", 2));
    assert_eq!((info.routes, info.modification_tag), (read.routes, read.modification_tag));
    assert_eq!(info.volume_placement.unwrap().driver_names, ["nfs", "smb", "nfs"]);
    assert_eq!(info.placement_tags, ["ssd"]);
    let absent = "ResourceNotFound: the requested resource could not be found";
    assert_eq!(verdict(client.desired_lrp_scheduling_info_by_process_guid("q").await), absent);
    assert_eq!(verdict(client.desired_lrp_by_process_guid("q").await), absent);
    let request = DesiredLrpByProcessGuidRequest { actual_lrp_instance_key: None, process_guid: "q".to_owned() };
    let older = client.call::<DesiredLrpResponse>(Route::DesiredLrpByProcessGuidR2, request);
    assert_eq!(verdict(older.await), absent);
}

#[tokio::test]
async fn metrics_guid_and_source_id_complete_each_other() {
    let server = Server::start().await;
    let client = server.client();
    let only_other = [("other".to_owned(), samples::tag("x"))];
    let lrp = DesiredLrp {
        metric_tags: [("source_id".to_owned(), samples::tag("m")), only_other[0].clone()].into(),
        metrics_guid: "m".into(),
        ..samples::lrp("p", 0)
    };
    client.desire_lrp(lrp).await.unwrap();
    // An update replaces the tags as a whole, so the source id is gone and is shown from the metrics guid.
    let update = DesiredLrpUpdate { metric_tags: only_other.into(), ..Default::default() };
    client.update_desired_lrp("p", update).await.unwrap();
    let read = client.desired_lrp_by_process_guid("p").await.unwrap();
    assert_eq!(read.metric_tags.get("source_id"), Some(&samples::tag("m")));
    let routing = client.desired_lrp_routing_infos(Default::default()).await.unwrap().remove(0);
    assert_eq!(routing.metric_tags.get("source_id"), None, "the rule is not for this view");
    let mismatch = DesiredLrp { metrics_guid: "n".into(), ..samples::lrp("q", 0) };
    assert_eq!(
        verdict(client.desire_lrp(mismatch).await),
        "InvalidRequest: Invalid field: metric_tags, Invalid field: source_id should match metrics_guid"
    );
    let empty = DesiredLrp {
        metric_tags: [("source_id".to_owned(), MetricTagValue::default())].into(),
        ..samples::lrp("q", 0)
    };
    assert!(verdict(client.desire_lrp(empty).await).starts_with("InvalidRequest: Invalid field: metric_tags"));
}

#[tokio::test]
async fn an_update_changes_what_it_names() {
    let server = Server::start().await;
    let client = server.client();
    client.desire_lrp(whole()).await.unwrap();
    let before = client.desired_lrp_by_process_guid("p").await.unwrap();
    let update = DesiredLrpUpdate { annotation: Some(String::new()), instances: Some(0), ..Default::default() };
    client.update_desired_lrp("p", update).await.unwrap();
    let after = client.desired_lrp_by_process_guid("p").await.unwrap();
    let tag = after.modification_tag.clone().unwrap();
    assert_eq!(tag.epoch, before.modification_tag.as_ref().unwrap().epoch);
    assert_eq!(tag.index, 1);
    assert_eq!(
        after,
        DesiredLrp { annotation: String::new(), instances: 0, modification_tag: Some(tag), ..before.clone() }
    );
    let routes = DesiredLrpUpdate { routes: Some(samples::routes(&[("tcp", "[1, 2]")])), ..Default::default() };
    client.update_desired_lrp("p", routes).await.unwrap();
    let after = client.desired_lrp_by_process_guid("p").await.unwrap();
    assert_eq!(after.routes, Some(samples::routes(&[("tcp", "[1,2]")])), "routes are replaced, not merged");
    let credentials =
        DesiredLrpUpdate { image_username: Some("u".into()), image_password: Some("s".into()), ..Default::default() };
    client.update_desired_lrp("p", credentials).await.unwrap();
    let after = client.desired_lrp_by_process_guid("p").await.unwrap();
    assert_eq!((after.image_username.as_str(), after.image_password.as_str()), ("u", "s"));
    assert_eq!(after.image_layers, before.image_layers, "the large part is still there");
}

#[tokio::test]
async fn updates_that_make_no_sense_are_refused_and_change_nothing() {
    let server = Server::start().await;
    let client = server.client();
    client.desire_lrp(whole()).await.unwrap();
    let before = client.desired_lrp_by_process_guid("p").await.unwrap();
    for (update, text) in [
        (DesiredLrpUpdate { instances: Some(-1), ..Default::default() }, "Invalid field: instances"),
        (DesiredLrpUpdate { annotation: Some("x".repeat(10_241)), ..Default::default() }, "Invalid field: annotation"),
        (DesiredLrpUpdate { image_username: Some("u".into()), ..Default::default() }, "Invalid field: image_password"),
        (
            DesiredLrpUpdate { routes: Some(samples::routes(&[("r", "no json")])), ..Default::default() },
            "the request received is invalid",
        ),
    ] {
        assert_eq!(verdict(client.update_desired_lrp("p", update).await), format!("InvalidRequest: {text}"));
    }
    let without = UpdateDesiredLrpRequest { process_guid: "p".into(), update: None };
    let reply = raw::post(server.ready.api, Route::UpdateDesiredLrp.path(), &encode(without)).await;
    assert_eq!(reply.body[..4], [0x0a, 25, 0x08, 0x04], "an InvalidRequest: {:?}", reply.body);
    assert_eq!(client.desired_lrp_by_process_guid("p").await.unwrap(), before);
}

#[tokio::test]
async fn long_reasons_are_cut_where_they_are_kept() {
    let server = Server::start().await;
    let client = server.client();
    client.desire_lrp(samples::lrp("p", 1)).await.unwrap();
    let cut = format!("{}(truncated)", "x".repeat(1013));
    for (length, kept) in [(1023, "x".repeat(1023)), (1024, cut.clone()), (9000, cut)] {
        client.fail_actual_lrp(samples::key("p", 0), &"x".repeat(length)).await.unwrap();
        assert_eq!(client.actual_lrps(Default::default()).await.unwrap()[0].placement_error, kept);
    }
}
