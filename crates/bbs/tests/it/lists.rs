//! Filters: every list with each of them, alone and combined. An empty filter restricts nothing.

use api::Route;
use api::client::Client;
use api::models::{
    ActualLrPsRequest, ActualLrpGroupsRequest, DesiredLrPsRequest, DesiredLrPsResponse, TasksRequest, TasksResponse,
};
use expect_test::expect;

use crate::assembled::Assembled;
use crate::harness::verdict;
use crate::{narrate, samples};

/// Two domains, two cells, an evacuating record, tasks in two states.
async fn furnished() -> (Assembled, Client) {
    let world = Assembled::new().await;
    let client = world.client();
    Box::pin(furnish(&client)).await;
    (world, client)
}

async fn furnish(client: &Client) {
    for (guid, domain, instances) in [("app-1", "d1", 2), ("app-2", "d2", 1), ("other", "d1", 1)] {
        client
            .desire_lrp(api::models::DesiredLrp { domain: domain.into(), ..samples::lrp(guid, instances) })
            .await
            .unwrap();
    }
    for (guid, index, domain, by) in
        [("app-1", 0, "d1", "a@c1"), ("app-1", 1, "d1", "b@c2"), ("app-2", 0, "d2", "c@c1")]
    {
        let mut start = samples::start(guid, index, by);
        start.actual_lrp_key.as_mut().unwrap().domain = domain.into();
        client.start_actual_lrp(start).await.unwrap();
    }
    let mut evacuate = samples::evacuate_running("app-1", 1, "b@c2");
    evacuate.actual_lrp_key.as_mut().unwrap().domain = "d1".into();
    client.evacuate_running_actual_lrp(evacuate).await.outcome.unwrap();
    for (guid, domain) in [("t1", "d1"), ("t2", "d2"), ("t3", "d1")] {
        client.desire_task(guid, domain, samples::task()).await.unwrap();
    }
    client.start_task("t1", "c1").await.unwrap();
    client.start_task("t2", "c1").await.unwrap();
}

fn long() -> String {
    "x".repeat(256)
}

#[tokio::test]
async fn actual_lrps() {
    let (_world, client) = furnished().await;
    let mut found = String::new();
    let filters: [(&str, &str, &str, Option<i32>); 14] = [
        ("", "", "", None),
        ("d1", "", "", None),
        ("", "c1", "", None),
        ("", "", "app-1", None),
        ("", "", "", Some(0)),
        ("", "", "", Some(1)),
        ("d1", "c1", "", None),
        ("d1", "", "app-2", None),
        ("", "c2", "app-1", Some(1)),
        ("", "c2", "app-1", Some(0)),
        ("d2", "c1", "app-2", Some(0)),
        ("nowhere", "", "", None),
        ("", "", "app", None),
        ("", "", "", Some(-1)),
    ];
    for (domain, cell_id, process_guid, index) in filters {
        let filter = ActualLrPsRequest {
            domain: domain.into(),
            cell_id: cell_id.into(),
            process_guid: process_guid.into(),
            index,
        };
        let rows = client.actual_lrps(filter).await.unwrap();
        let rows: Vec<_> = rows.iter().map(narrate::row).collect();
        found += &format!("{domain:?} {cell_id:?} {process_guid:?} {index:?}: {}\n", rows.join(", "));
    }
    expect![[r#"
        "" "" "" None: app-1/0 RUNNING a@c1, app-1/1 UNCLAIMED, app-1/1 RUNNING b@c2 evacuating, app-2/0 RUNNING c@c1, other/0 UNCLAIMED
        "d1" "" "" None: app-1/0 RUNNING a@c1, app-1/1 UNCLAIMED, app-1/1 RUNNING b@c2 evacuating, other/0 UNCLAIMED
        "" "c1" "" None: app-1/0 RUNNING a@c1, app-2/0 RUNNING c@c1
        "" "" "app-1" None: app-1/0 RUNNING a@c1, app-1/1 UNCLAIMED, app-1/1 RUNNING b@c2 evacuating
        "" "" "" Some(0): app-1/0 RUNNING a@c1, app-2/0 RUNNING c@c1, other/0 UNCLAIMED
        "" "" "" Some(1): app-1/1 UNCLAIMED, app-1/1 RUNNING b@c2 evacuating
        "d1" "c1" "" None: app-1/0 RUNNING a@c1
        "d1" "" "app-2" None: 
        "" "c2" "app-1" Some(1): app-1/1 RUNNING b@c2 evacuating
        "" "c2" "app-1" Some(0): 
        "d2" "c1" "app-2" Some(0): app-2/0 RUNNING c@c1
        "nowhere" "" "" None: 
        "" "" "app" None: 
        "" "" "" Some(-1): 
    "#]].assert_eq(&found);
    for filter in [
        ActualLrPsRequest { domain: long(), ..Default::default() },
        ActualLrPsRequest { cell_id: long(), ..Default::default() },
        ActualLrPsRequest { process_guid: long(), ..Default::default() },
    ] {
        assert_eq!(client.actual_lrps(filter).await.unwrap(), [], "an id that no record can have matches none");
    }
}

#[tokio::test]
async fn actual_lrps_of_processes() {
    let (_world, client) = furnished().await;
    let mut found = String::new();
    for guids in [vec!["app-1"], vec!["app-2", "app-1", "app-2"], vec!["nobody", "other"], vec!["nobody"], vec![]] {
        let rows = client.actual_lrps_by_process_guids(guids.iter().map(ToString::to_string).collect()).await;
        let rows = match rows {
            Ok(rows) => rows.iter().map(narrate::row).collect::<Vec<_>>().join(", "),
            error => verdict(error),
        };
        found += &format!("{guids:?}: {rows}\n");
    }
    expect![[r#"
        ["app-1"]: app-1/0 RUNNING a@c1, app-1/1 UNCLAIMED, app-1/1 RUNNING b@c2 evacuating
        ["app-2", "app-1", "app-2"]: app-1/0 RUNNING a@c1, app-1/1 UNCLAIMED, app-1/1 RUNNING b@c2 evacuating, app-2/0 RUNNING c@c1
        ["nobody", "other"]: other/0 UNCLAIMED
        ["nobody"]: 
        []: InvalidRequest: process_guids must not be empty
    "#]].assert_eq(&found);
}

#[tokio::test]
async fn groups() {
    let (_world, client) = furnished().await;
    let group = |group: &api::models::ActualLrpGroup| {
        let slot = |row: Option<&api::models::ActualLrp>| row.map_or("-".into(), narrate::row);
        format!("[{} | {}]", slot(group.instance.as_ref()), slot(group.evacuating.as_ref()))
    };
    let mut found = String::new();
    for (domain, cell_id) in [("", ""), ("d1", ""), ("", "c1"), ("", "c2"), ("d1", "c1"), ("d2", "c2"), ("no", "")] {
        let filter = ActualLrpGroupsRequest { domain: domain.into(), cell_id: cell_id.into() };
        let groups = client.actual_lrp_groups(filter).await.unwrap();
        found += &format!("{domain:?} {cell_id:?}: {}\n", groups.iter().map(group).collect::<Vec<_>>().join(", "));
    }
    for guid in ["app-1", "nobody"] {
        let groups = client.actual_lrp_groups_by_process_guid(guid).await.unwrap();
        found += &format!("{guid}: {}\n", groups.iter().map(group).collect::<Vec<_>>().join(", "));
    }
    for (guid, index) in [("app-1", 1), ("app-1", 2), ("nobody", 0)] {
        let shown = match client.actual_lrp_group_by_process_guid_and_index(guid, index).await {
            Ok(shown) => group(&shown),
            error => verdict(error),
        };
        found += &format!("{guid}/{index}: {shown}\n");
    }
    expect![[r#"
        "" "": [app-1/0 RUNNING a@c1 | -], [app-1/1 UNCLAIMED | app-1/1 RUNNING b@c2 evacuating], [app-2/0 RUNNING c@c1 | -], [other/0 UNCLAIMED | -]
        "d1" "": [app-1/0 RUNNING a@c1 | -], [app-1/1 UNCLAIMED | app-1/1 RUNNING b@c2 evacuating], [other/0 UNCLAIMED | -]
        "" "c1": [app-1/0 RUNNING a@c1 | -], [app-2/0 RUNNING c@c1 | -]
        "" "c2": [- | app-1/1 RUNNING b@c2 evacuating]
        "d1" "c1": [app-1/0 RUNNING a@c1 | -]
        "d2" "c2": 
        "no" "": 
        app-1: [app-1/0 RUNNING a@c1 | -], [app-1/1 UNCLAIMED | app-1/1 RUNNING b@c2 evacuating]
        nobody: 
        app-1/1: [app-1/1 UNCLAIMED | app-1/1 RUNNING b@c2 evacuating]
        app-1/2: ResourceNotFound: the requested resource could not be found
        nobody/0: ResourceNotFound: the requested resource could not be found
    "#]].assert_eq(&found);
    for filter in [
        ActualLrpGroupsRequest { domain: long(), ..Default::default() },
        ActualLrpGroupsRequest { cell_id: long(), ..Default::default() },
    ] {
        assert_eq!(client.actual_lrp_groups(filter).await.unwrap(), [], "an id that no record can have matches none");
    }
}

#[tokio::test]
async fn desired_lrps() {
    let (_world, client) = furnished().await;
    let mut found = String::new();
    let filters: [(&str, &[&str], &[&str]); 11] = [
        ("", &[], &[]),
        ("d1", &[], &[]),
        ("", &["other", "app-2", "nobody"], &[]),
        ("d1", &["other", "app-2"], &[]),
        ("", &[], &["app"]),
        ("", &[], &["app-2", "oth"]),
        ("", &[], &["app", "app-1", "app"]),
        ("d2", &[], &["app"]),
        ("", &["other", "app-1"], &["app"]),
        ("", &["nobody"], &[]),
        ("nowhere", &[], &[]),
    ];
    let strings = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (domain, guids, apps) in filters {
        let filter =
            || DesiredLrPsRequest { domain: domain.into(), process_guids: strings(guids), app_guids: strings(apps) };
        let names = |lrps: Vec<api::models::DesiredLrp>| {
            lrps.into_iter().map(|lrp| lrp.process_guid).collect::<Vec<_>>().join(" ")
        };
        let r3 = names(client.desired_lrps(filter()).await.unwrap());
        let r2: DesiredLrPsResponse = client.call(Route::DesiredLrpsR2, filter()).await.unwrap();
        let r2 = names(r2.desired_lrps);
        assert_eq!(r2, r3, "both revisions honour the same filters");
        let routing = names(client.desired_lrp_routing_infos(filter()).await.unwrap());
        let scheduling = client.desired_lrp_scheduling_infos(filter()).await.unwrap();
        let scheduling: Vec<_> =
            scheduling.into_iter().map(|info| info.desired_lrp_key.unwrap().process_guid).collect();
        found += &format!(
            "{domain:?} {guids:?} {apps:?}\n    whole: {r3}\n    scheduling: {}\n    routing: {routing}\n",
            scheduling.join(" ")
        );
    }
    expect![[r#"
        "" [] []
            whole: app-1 app-2 other
            scheduling: app-1 app-2 other
            routing: app-1 app-2 other
        "d1" [] []
            whole: app-1 other
            scheduling: app-1 other
            routing: app-1 app-2 other
        "" ["other", "app-2", "nobody"] []
            whole: app-2 other
            scheduling: app-2 other
            routing: app-2 other
        "d1" ["other", "app-2"] []
            whole: other
            scheduling: other
            routing: app-2 other
        "" [] ["app"]
            whole: app-1 app-2
            scheduling: app-1 app-2 other
            routing: app-1 app-2 other
        "" [] ["app-2", "oth"]
            whole: app-2 other
            scheduling: app-1 app-2 other
            routing: app-1 app-2 other
        "" [] ["app", "app-1", "app"]
            whole: app-1 app-2
            scheduling: app-1 app-2 other
            routing: app-1 app-2 other
        "d2" [] ["app"]
            whole: app-2
            scheduling: app-2
            routing: app-1 app-2 other
        "" ["other", "app-1"] ["app"]
            whole: app-1
            scheduling: app-1 other
            routing: app-1 other
        "" ["nobody"] []
            whole: 
            scheduling: 
            routing: 
        "nowhere" [] []
            whole: 
            scheduling: 
            routing: app-1 app-2 other
    "#]]
    .assert_eq(&found);
}

#[tokio::test]
async fn tasks() {
    let (_world, client) = furnished().await;
    let mut found = String::new();
    for (domain, cell_id) in [("", ""), ("d1", ""), ("", "c1"), ("d1", "c1"), ("d1", "c2"), ("no", "")] {
        let filter = || TasksRequest { domain: domain.into(), cell_id: cell_id.into() };
        let tasks: Vec<_> = client.tasks(filter()).await.unwrap().iter().map(narrate::task).collect();
        let older: TasksResponse = client.call(Route::TasksR2, filter()).await.unwrap();
        let older: Vec<_> = older.tasks.iter().map(narrate::task).collect();
        assert_eq!(older, tasks);
        found += &format!("{domain:?} {cell_id:?}: {}\n", tasks.join(", "));
    }
    expect![[r#"
        "" "": t1 Running on c1, t2 Running on c1, t3 Pending
        "d1" "": t1 Running on c1, t3 Pending
        "" "c1": t1 Running on c1, t2 Running on c1
        "d1" "c1": t1 Running on c1
        "d1" "c2": 
        "no" "": 
    "#]]
    .assert_eq(&found);
    for filter in
        [TasksRequest { domain: long(), ..Default::default() }, TasksRequest { cell_id: long(), ..Default::default() }]
    {
        assert_eq!(client.tasks(filter).await.unwrap(), []);
    }
}
