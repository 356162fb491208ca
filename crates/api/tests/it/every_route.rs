//! Every route that is not an older revision has a method, and every method goes to its own route.

use std::collections::BTreeSet;

use api::client::Subscription;
use api::models::{
    ActualLrPsRequest, ActualLrpGroupsRequest, ActualLrpInstanceKey, ActualLrpKey, CompleteTaskRequest,
    DesiredLrPsRequest, DesiredLrp, DesiredLrpUpdate, EvacuateRunningActualLrpRequest, StartActualLrpRequest,
    TaskDefinition, TasksRequest,
};
use api::{Route, routes};

use crate::server::{Server, answer};

#[tokio::test]
async fn methods_reach_all_routes_that_are_not_outdated() {
    // Without a protobuf type the empty body counts as an empty success for calls and as an empty stream for events.
    let server = Server::start(vec![answer("200 OK", "", b"")]).await;
    let client = &server.client();
    let key = ActualLrpKey::default;
    let instance = ActualLrpInstanceKey::default;
    let evacuating = EvacuateRunningActualLrpRequest::default;
    let everything = Subscription::default;

    client.ping().await.unwrap();
    client.domains().await.unwrap();
    client.upsert_domain("d", 1).await.unwrap();
    client.cells().await.unwrap();

    client.actual_lrps(ActualLrPsRequest::default()).await.unwrap();
    client.actual_lrps_by_process_guids(vec!["g".into()]).await.unwrap();
    client.actual_lrp_groups(ActualLrpGroupsRequest::default()).await.unwrap();
    client.actual_lrp_groups_by_process_guid("g").await.unwrap();
    client.actual_lrp_group_by_process_guid_and_index("g", 0).await.unwrap();
    client.claim_actual_lrp("g", 0, instance()).await.unwrap();
    client.start_actual_lrp(StartActualLrpRequest::default()).await.unwrap();
    client.crash_actual_lrp(key(), instance(), "e").await.unwrap();
    client.fail_actual_lrp(key(), "e").await.unwrap();
    client.remove_actual_lrp("g", 0, None).await.unwrap();
    client.retire_actual_lrp(key()).await.unwrap();

    client.remove_evacuating_actual_lrp(key(), instance()).await.unwrap();
    client.evacuate_claimed_actual_lrp(key(), instance()).await.outcome.unwrap();
    client.evacuate_crashed_actual_lrp(key(), instance(), "e").await.outcome.unwrap();
    client.evacuate_stopped_actual_lrp(key(), instance()).await.outcome.unwrap();
    client.evacuate_running_actual_lrp(evacuating()).await.outcome.unwrap();

    client.desired_lrp_scheduling_infos(DesiredLrPsRequest::default()).await.unwrap();
    client.desired_lrp_scheduling_info_by_process_guid("g").await.unwrap();
    client.desired_lrp_routing_infos(DesiredLrPsRequest::default()).await.unwrap();
    client.desired_lrps(DesiredLrPsRequest::default()).await.unwrap();
    client.desired_lrp_by_process_guid("g").await.unwrap();
    client.desire_lrp(DesiredLrp::default()).await.unwrap();
    client.update_desired_lrp("g", DesiredLrpUpdate::default()).await.unwrap();
    client.remove_desired_lrp("g").await.unwrap();
    client.desired_lrp_definitions("g").await.unwrap();
    client.cancel_update("g").await.unwrap();
    client.pause_update("g").await.unwrap();
    client.resume_update("g").await.unwrap();
    client.rollback_desired_lrp("g", None, None).await.unwrap();

    client.tasks(TasksRequest::default()).await.unwrap();
    client.task_by_guid("t").await.unwrap();
    client.desire_task("t", "d", TaskDefinition::default()).await.unwrap();
    client.start_task("t", "c").await.unwrap();
    client.cancel_task("t").await.unwrap();
    client.fail_task("t", "r").await.unwrap();
    client.reject_task("t", "r").await.unwrap();
    client.complete_task(CompleteTaskRequest::default()).await.unwrap();
    client.resolving_task("t").await.unwrap();
    client.delete_task("t").await.unwrap();

    client.subscribe_to_events(everything()).await.unwrap();
    client.subscribe_to_instance_events(everything()).await.unwrap();
    client.subscribe_to_task_events(everything()).await.unwrap();

    // Older revisions of the same have no method.
    let line = |route: &Route| format!("{} {} HTTP/1.1", routes::Method::as_str(route.method()), route.path());
    let seen: BTreeSet<String> = server.requests().iter().map(|request| request.line().to_owned()).collect();
    assert_eq!(server.requests().len(), seen.len(), "no method was called twice");
    let all: BTreeSet<String> = Route::ALL.iter().map(line).collect();
    assert!(seen.is_subset(&all), "{seen:?}");
    let missing: Vec<String> =
        Route::ALL.iter().filter(|route| wants_method(**route)).map(line).filter(|line| !seen.contains(line)).collect();
    assert!(missing.is_empty(), "a route has no method: {missing:?}");
}

/// Older revisions are for clients of others, and we have no use for halves of a record.
fn wants_method(route: Route) -> bool {
    let halves = [Route::MutableDesiredLrps, Route::ImmutableDesiredLrps, Route::CreateDesiredLrp];
    !route.deprecated() && !halves.contains(&route)
}
