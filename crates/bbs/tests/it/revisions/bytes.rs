//! Requests and answers of every older revision, as they travel. The golden files are the contract with clients that nobody
//! can change any more: a difference in them is a broken client.

use std::fmt::Write;

use api::models::{
    DesireTaskRequest, DesiredLrPsRequest, DesiredLrpByProcessGuidRequest, TaskByGuidRequest, TasksRequest,
};
use api::{Route, encode};
use expect_test::expect_file;

use super::samples;
use crate::assembled::Assembled;
use crate::raw;

const HEX_COLUMNS: usize = 32;

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(HEX_COLUMNS) {
        let line: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "    {}", line.join(" ")).unwrap();
    }
    text
}

/// Makes the call and compares it with its file. `then` is a call whose answer shows what the first one did.
async fn check(world: &Assembled, route: Route, request: &[u8], then: Option<(Route, &[u8])>) -> Vec<u8> {
    let answer = raw::call(world.api, route, request).await.body;
    let mut text = format!("{route}\nrequest\n{}answer\n{}", hex(request), hex(&answer));
    if let Some((route, request)) = then {
        let shown = raw::call(world.api, route, request).await.body;
        write!(text, "then {route}\nanswer\n{}", hex(&shown)).unwrap();
    }
    expect_file![format!("{}.golden", route.name())].assert_eq(&text);
    answer
}

#[tokio::test]
async fn desired_lrps() {
    let world = Assembled::new().await;
    world.client().desire_lrp(samples::everything("p")).await.unwrap();
    let list = encode(DesiredLrPsRequest { domain: crate::samples::DOMAIN.into(), ..Default::default() });
    let get = encode(DesiredLrpByProcessGuidRequest { actual_lrp_instance_key: None, process_guid: "p".into() });
    for (of_list, of_get) in [
        (Route::DesiredLrpsR2, Route::DesiredLrpByProcessGuidR2),
        (Route::DesiredLrpsR1, Route::DesiredLrpByProcessGuidR1),
        (Route::DesiredLrpsR0, Route::DesiredLrpByProcessGuidR0),
    ] {
        let listed = check(&world, of_list, &list, None).await;
        assert_eq!(check(&world, of_get, &get, None).await, listed, "one record stands where a list has its records");
    }
}

#[tokio::test]
async fn tasks() {
    let world = Assembled::new().await;
    world.client().desire_task("t", "d", samples::everything_in_a_task()).await.unwrap();
    let list = encode(TasksRequest { domain: "d".into(), ..Default::default() });
    let get = encode(TaskByGuidRequest { task_guid: "t".into() });
    for (of_list, of_get) in [
        (Route::TasksR2, Route::TaskByGuidR2),
        (Route::TasksR1, Route::TaskByGuidR1),
        (Route::TasksR0, Route::TaskByGuidR0),
    ] {
        let listed = check(&world, of_list, &list, None).await;
        assert_eq!(check(&world, of_get, &get, None).await, listed);
    }
}

#[tokio::test]
async fn desire() {
    let world = Assembled::new().await;
    for (route, lrp) in
        [(Route::DesireDesiredLrpR1, samples::less_old_lrp("p1")), (Route::DesireDesiredLrpR0, samples::old_lrp("p0"))]
    {
        let get = encode(DesiredLrpByProcessGuidRequest {
            actual_lrp_instance_key: None,
            process_guid: lrp.process_guid.clone(),
        });
        let request = samples::with_retired_mounts(lrp, samples::MOUNTS_OF_LRP);
        let answer = check(&world, route, &request, Some((Route::DesiredLrpByProcessGuid, &get))).await;
        assert_eq!(answer, b"", "a success");
    }
    for (route, task_guid, definition) in
        [(Route::DesireTaskR1, "t1", samples::less_old_task()), (Route::DesireTaskR0, "t0", samples::old_task())]
    {
        let names = DesireTaskRequest { task_guid: task_guid.into(), domain: "d".into(), task_definition: None };
        let definition = samples::with_retired_mounts(definition, samples::MOUNTS_OF_TASK);
        let request = [definition, encode(names).to_vec()].concat();
        let get = encode(TaskByGuidRequest { task_guid: task_guid.into() });
        assert_eq!(check(&world, route, &request, Some((Route::TaskByGuid, &get))).await, b"");
    }
}
