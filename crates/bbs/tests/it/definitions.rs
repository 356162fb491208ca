//! New definitions of desired LRPs: what is replaced, what is refused, which definition each instance names, and when the one
//! before is forgotten.

use api::models::{DesiredLrp, DesiredLrpUpdate, EnvironmentVariable, UpdateDesiredLrpRequest};
use api::{Route, encode};
use expect_test::expect;

use crate::assembled::Assembled;
use crate::harness::verdict;
use crate::script::{Show, check};
use crate::{raw, samples};

fn variable(value: &str) -> EnvironmentVariable {
    EnvironmentVariable { name: "STAGE".into(), value: value.into() }
}

fn first() -> DesiredLrp {
    DesiredLrp {
        annotation: "note".into(),
        routes: Some(samples::routes(&[("tcp", "[1]")])),
        memory_mb: 128,
        ports: vec![8080],
        environment_variables: vec![variable("old")],
        log_guid: "log".into(),
        placement_tags: vec!["ssd".into()],
        image_username: "u".into(),
        image_password: "s".into(),
        ..samples::lrp("p", 2)
    }
}

fn second() -> DesiredLrp {
    DesiredLrp {
        memory_mb: 256,
        disk_mb: 7,
        ports: vec![9090],
        environment_variables: vec![variable("new")],
        metric_tags: [("source_id".to_owned(), samples::tag("new"))].into(),
        update_strategy: 1,
        ..samples::lrp("p", 2)
    }
}

#[tokio::test]
async fn a_definition_is_replaced_whole_and_the_mutable_parts_have_fields_of_their_own() {
    let world = Assembled::new().await;
    let client = world.client();
    client.desire_lrp(first()).await.unwrap();
    let ignored = DesiredLrp {
        instances: 50,
        annotation: "ignored".into(),
        routes: Some(samples::routes(&[("ignored", "[2]")])),
        ..second()
    };
    let update = DesiredLrpUpdate { desired_lrp: Some(ignored), ..samples::redefinition("v2") };
    client.update_desired_lrp("p", update).await.unwrap();
    let after = client.desired_lrp_by_process_guid("p").await.unwrap();
    let expected = DesiredLrp {
        annotation: "note".into(),
        routes: Some(samples::routes(&[("tcp", "[1]")])),
        metrics_guid: "new".into(),
        modification_tag: after.modification_tag.clone(),
        definition_identifier: "v2".into(),
        definition_number: 2,
        previous_definition_number: 1,
        rollout: after.rollout.clone(),
        ..second()
    };
    assert_eq!(after, expected);
    assert_eq!(after.rollout.map(|rollout| rollout.phase).as_deref(), Some("rolling"));
    assert_eq!(after.modification_tag.unwrap().index, 1);
}

#[tokio::test]
async fn what_the_update_names_itself_counts() {
    let world = Assembled::new().await;
    let client = world.client();
    client.desire_lrp(first()).await.unwrap();
    let update = DesiredLrpUpdate {
        desired_lrp: Some(second()),
        instances: Some(3),
        annotation: Some("other".into()),
        metric_tags: [("tag".to_owned(), samples::tag("x"))].into(),
        image_username: Some("v".into()),
        image_password: Some("t".into()),
        ..samples::redefinition("v2")
    };
    client.update_desired_lrp("p", update).await.unwrap();
    let after = client.desired_lrp_by_process_guid("p").await.unwrap();
    let expected = DesiredLrp {
        instances: 3,
        annotation: "other".into(),
        routes: Some(samples::routes(&[("tcp", "[1]")])),
        metric_tags: [("tag".to_owned(), samples::tag("x"))].into(),
        image_username: "v".into(),
        image_password: "t".into(),
        modification_tag: after.modification_tag.clone(),
        definition_identifier: "v2".into(),
        definition_number: 2,
        previous_definition_number: 1,
        rollout: after.rollout.clone(),
        ..second()
    };
    assert_eq!(after, expected);
}

#[tokio::test]
async fn the_json_of_the_command_line_is_enough() {
    let world = Assembled::new().await;
    let client = world.client();
    client.desire_lrp(first()).await.unwrap();
    let json = r#"{
        "desired_lrp": {
            "rootfs": "preloaded:cflinuxfs4",
            "action": {"run": {"path": "/bin/server", "user": "vcap"}},
            "metric_tags": {"source_id": {"static": "app"}},
            "memory_mb": 512
        },
        "update_identifier": "v2"
    }"#;
    let update: DesiredLrpUpdate = api::json::from_str(json).unwrap();
    client.update_desired_lrp("p", update).await.unwrap();
    let after = client.desired_lrp_by_process_guid("p").await.unwrap();
    assert_eq!((after.memory_mb, after.instances, after.domain.as_str()), (512, 2, samples::DOMAIN));
}

#[tokio::test]
async fn definitions_that_make_no_sense_are_refused_and_change_nothing() {
    let world = Assembled::new().await;
    let client = world.client();
    client.desire_lrp(first()).await.unwrap();
    let before = client.desired_lrp_by_process_guid("p").await.unwrap();
    let with = |change: fn(&mut DesiredLrp)| {
        let mut update = DesiredLrpUpdate { desired_lrp: Some(second()), ..samples::redefinition("v2") };
        update.desired_lrp.iter_mut().for_each(change);
        update
    };
    for (update, text) in [
        (DesiredLrpUpdate { update_identifier: None, ..with(|_| {}) }, "Invalid field: update_identifier"),
        (DesiredLrpUpdate { desired_lrp: None, ..with(|_| {}) }, "Invalid field: desired_lrp"),
        (
            DesiredLrpUpdate { update_identifier: Some(String::new()), ..with(|_| {}) },
            "Invalid field: update_identifier",
        ),
        (with(|lrp| lrp.root_fs.clear()), "Invalid field: desired_lrp, Invalid field: rootfs, Invalid field: rootfs"),
        (with(|lrp| lrp.process_guid = "q".into()), "Invalid field: process_guid"),
        (
            with(|lrp| lrp.domain = "other".into()),
            "the domain of a desired LRP cannot be changed; nothing was changed. Leave it out of the new definition",
        ),
    ] {
        assert_eq!(verdict(client.update_desired_lrp("p", update).await), format!("InvalidRequest: {text}"));
    }
    let update = samples::redefinition("v2");
    assert!(verdict(client.update_desired_lrp("unknown", update).await).starts_with("ResourceNotFound"));
    assert_eq!(client.desired_lrp_by_process_guid("p").await.unwrap(), before);
}

#[tokio::test]
async fn before_the_first_update_nothing_tells_of_definitions() {
    let world = Assembled::new().await;
    let client = world.client();
    client.desire_lrp(first()).await.unwrap();
    client.start_actual_lrp(samples::start("p", 0, "a")).await.unwrap();
    let lrp = client.desired_lrp_by_process_guid("p").await.unwrap();
    let plain = DesiredLrp { modification_tag: lrp.modification_tag.clone(), metrics_guid: "app".into(), ..first() };
    assert_eq!(lrp, plain, "no field beyond Diego's");
    let rows = client.actual_lrps(Default::default()).await.unwrap();
    assert!(rows.iter().all(|row| row.definition_number == 0 && !row.leaving), "{rows:?}");

    let update = Some(DesiredLrpUpdate { desired_lrp: Some(second()), ..samples::redefinition("v2") });
    let request = encode(UpdateDesiredLrpRequest { process_guid: "p".into(), update });
    let answer = raw::post(world.api, Route::UpdateDesiredLrp.path(), &request).await;
    assert!(answer.body.is_empty(), "as any update is answered: {:?}", answer.body);
}

#[tokio::test]
async fn an_index_keeps_its_definition_until_a_rollout_reaches_it() {
    let script = "
        desire p 2
        claim p/0 a
        start p/0 a
        claim p/1 b
        start p/1 b
        redefine p v2
        definitions p
        redefine p v3
        redefine p v2
        scale p 3
        crash p/0 a
        definitions p
        claim p/0 c
        start p/0 c of 1
        evacuate-running p/1 b
        claim p/1 d
        start p/1 d of 1
        definitions p
    ";
    check(Show::Answers, script, expect![[r#"
        desire p 2: ok
            then auction p [0, 1]
        claim p/0 a: ok
        start p/0 a: ok
        claim p/1 b: ok
        start p/1 b: ok
        redefine p v2: ok
        definitions p:
            in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [] in flight
            p/0 RUNNING Ordinary names 1
            p/1 RUNNING Ordinary names 1
        redefine p v3: ResourceConflict: the update to the definition "v2" is not finished, because instances still have the first definition; nothing was changed. See how far it is with `corkboard rollout status p`, or take it back with `corkboard rollout cancel p`
        redefine p v2: ok
        scale p 3: ok
            then auction p [2]
        crash p/0 a: ok
            then auction p [0]
        definitions p:
            in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [] in flight
            p/0 UNCLAIMED Ordinary names 1
            p/1 RUNNING Ordinary names 1
            p/2 UNCLAIMED Ordinary names 2
        claim p/0 c: ok
        start p/0 c of 1: ok
        evacuate-running p/1 b: keep, ok
            then auction p [1]
        claim p/1 d: ok
        start p/1 d of 1: ok
        definitions p:
            in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [] in flight
            p/0 RUNNING Ordinary names 1
            p/1 RUNNING Ordinary names 1
            p/2 UNCLAIMED Ordinary names 2
    "#]]).await;
}

#[tokio::test]
async fn the_end_of_an_update_is_announced_with_the_change_that_ends_it() {
    let script = "
        desire p 1
        start p/0 a
        trace t1 redefine p v2
        roll
        claim p/0 b
        start p/0 b of 2
        advance 10
        roll
        definitions p
        tag p
    ";
    check(
        Show::Events,
        script,
        expect![[r#"
            desire p 1: ok
                group    desired_lrp_created p x1
                group    actual_lrp_created p/0 UNCLAIMED
                instance desired_lrp_created p x1
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            start p/0 a: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 RUNNING a@cell-a
                instance actual_lrp_instance_changed p/0 a@cell-a: UNCLAIMED -> RUNNING
            trace t1 redefine p v2: ok
                group    desired_lrp_changed p x1 -> p x1 (trace t1)
                instance desired_lrp_changed p x1 -> p x1 (trace t1)
            roll
                group    desired_lrp_changed p x1 -> p x1
                group    actual_lrp_created [- | p/0 RUNNING a@cell-a evacuating]
                group    actual_lrp_changed p/0 RUNNING a@cell-a -> p/0 UNCLAIMED
                instance desired_lrp_changed p x1 -> p x1
                instance actual_lrp_instance_changed p/0 a@cell-a: RUNNING -> RUNNING evacuating
                instance actual_lrp_instance_created p/0 UNCLAIMED
                then auction p [0]
            claim p/0 b: ok
                group    actual_lrp_changed p/0 UNCLAIMED -> p/0 CLAIMED b@cell-b
                instance actual_lrp_instance_changed p/0 b@cell-b: UNCLAIMED -> CLAIMED
            start p/0 b of 2: ok
                group    actual_lrp_changed p/0 CLAIMED b@cell-b -> p/0 RUNNING b@cell-b
                instance actual_lrp_instance_changed p/0 b@cell-b: CLAIMED -> RUNNING
            advance 10
            roll
                group    desired_lrp_changed p x1 -> p x1
                group    actual_lrp_removed [- | p/0 RUNNING a@cell-a evacuating]
                group    desired_lrp_changed p x1 -> p x1
                instance desired_lrp_changed p x1 -> p x1
                instance actual_lrp_instance_removed p/0 RUNNING a@cell-a evacuating
                instance desired_lrp_changed p x1 -> p x1
                then stop p/0 a@cell-a
            definitions p:
                in use 2 "v2"; Done 1 to 2, [] in flight
                p/0 RUNNING Ordinary names 2
            tag p: 4
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_update_ends_at_once_when_no_instance_runs_the_definition_before() {
    let script = "
        desire p 0
        redefine p v2
        roll
        definitions p
        redefine p v3 2
        roll
        definitions p
        redefine p v4 0
        roll
        definitions p
    ";
    check(
        Show::Answers,
        script,
        expect![[r#"
            desire p 0: ok
            redefine p v2: ok
            roll
            definitions p:
                in use 2 "v2"; Done 1 to 2, [] in flight
            redefine p v3 2: ok
                then auction p [0, 1]
            roll
            definitions p:
                in use 3 "v3"; Done 2 to 3, [] in flight
                p/0 UNCLAIMED Ordinary names 3
                p/1 UNCLAIMED Ordinary names 3
            redefine p v4 0: ok
            roll
            definitions p:
                in use 4 "v4"; Done 3 to 4, [] in flight
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_instance_that_cannot_be_placed_does_not_hold_the_next_update_up() {
    let script = "
        desire p 1
        redefine p v2
        roll
        definitions p
        fail p/0 no-room
        redefine p v3
        advance 300
        roll
        definitions p
        fail p/0 no-room
        redefine p v3
        claim p/0 a
        start p/0 a of 1
        advance 10
        roll
        definitions p
        redefine p v3
    ";
    check(Show::Answers, script, expect![[r#"
        desire p 1: ok
            then auction p [0]
        redefine p v2: ok
        roll
            then auction p [0]
        definitions p:
            in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
            p/0 UNCLAIMED Ordinary names 2
        fail p/0 no-room: ok
        redefine p v3: ResourceConflict: the update to the definition "v2" is not finished, because instances still have the first definition; nothing was changed. See how far it is with `corkboard rollout status p`, or take it back with `corkboard rollout cancel p`
        advance 300
        roll
            then auction p [0]
        definitions p:
            in use 1 "", previous Definition(2 "v2"); Rolling back 2 to 1, [0] in flight because instance 0 was not healthy in time; no cell takes it: no-room
            p/0 UNCLAIMED Ordinary names 1
        fail p/0 no-room: ok
        redefine p v3: ResourceConflict: the last update of p is being taken back already; nothing was changed. Wait until that is done: `corkboard rollout status p`
        claim p/0 a: ok
        start p/0 a of 1: ok
        advance 10
        roll
        definitions p:
            in use 1 ""; Done back 2 to 1, [] in flight because instance 0 was not healthy in time; no cell takes it: no-room
            p/0 RUNNING Ordinary names 1
        redefine p v3: ok
    "#]]).await;
}

#[tokio::test]
async fn a_container_keeps_its_definition_while_its_cell_is_silent() {
    let script = "
        desire p 1
        hear cell-a cell-b
        start p/0 a
        redefine p v2
        lose cell-a
        converge
        roll
        definitions p
        hear cell-a
        converge
        definitions p
        lose cell-a
        converge
        claim p/0 b
        start p/0 b of 1
        definitions p
        roll
        definitions p
    ";
    check(
        Show::Answers,
        script,
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            hear cell-a cell-b
            start p/0 a: ok
            redefine p v2: ok
            lose cell-a
            converge: ok
                then auction p [0]
            roll
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [] in flight
                p/0 UNCLAIMED Ordinary names 1
                p/0 RUNNING Suspect names 1
            hear cell-a
            converge: ok
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [] in flight
                p/0 RUNNING Ordinary names 1
            lose cell-a
            converge: ok
                then auction p [0]
            claim p/0 b: ok
            start p/0 b of 1: ok
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [] in flight
                p/0 RUNNING Ordinary names 1
            roll
                then auction p [0]
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [0] in flight
                p/0 UNCLAIMED Ordinary names 2
                p/0 RUNNING Evacuating names 1 and leaves
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_container_that_nobody_knew_names_the_definition_in_use() {
    let script = "
        desire p 1
        start p/0 a
        redefine p v2
        start p/7 x
        definitions p
    ";
    check(
        Show::Answers,
        script,
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            start p/0 a: ok
            redefine p v2: ok
            start p/7 x: ok
            definitions p:
                in use 2 "v2", previous Definition(1 ""); Rolling 1 to 2, [] in flight
                p/0 RUNNING Ordinary names 1
                p/7 RUNNING Ordinary names 2
        "#]],
    )
    .await;
}

#[tokio::test]
async fn containers_from_an_earlier_life_do_not_pass_for_instances_of_a_later_definition() {
    let script = "
        desire p 1
        redefine p v2
        start p/0 a
        unwant p
        definitions p
        desire p 1
        definitions p
        desire q 1
        start q/0 b
        redefine q v2
        crash q/0 b
        claim q/0 c
        unwant q
        desire q 2
        definitions q
    ";
    check(
        Show::Answers,
        script,
        expect![[r#"
            desire p 1: ok
                then auction p [0]
            redefine p v2: ok
            start p/0 a: ok
            unwant p: ok
                then stop p/0 a@cell-a
            definitions p:
                p/0 RUNNING Ordinary names 2
            desire p 1: ok
            definitions p:
                in use 3 ""
                p/0 RUNNING Ordinary names 2
            desire q 1: ok
                then auction q [0]
            start q/0 b: ok
            redefine q v2: ok
            crash q/0 b: ok
                then auction q [0]
            claim q/0 c: ok
            unwant q: ok
                then stop q/0 c@cell-c
            desire q 2: ok
                then auction q [1]
            definitions q:
                in use 1 ""
                q/0 CLAIMED Ordinary names 1
                q/1 UNCLAIMED Ordinary names 1
        "#]],
    )
    .await;
}
