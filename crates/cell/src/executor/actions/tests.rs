//! What each tree of actions does and says, and when.

use std::sync::atomic::Ordering;
use std::time::Duration;

use api::models;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use tokio::time::Instant;

use super::scripted::{
    Scripted, attempt, codependent, download, parallel, progress, quiet, run, run_as, serial, timeout, upload,
};
use super::{Cancel, Purpose, Step, Tree};

/// Plays a tree, cancels it after a while if asked to, and tells what happened when.
async fn play(purpose: Purpose, tree: &models::Action, cancel_after_ms: Option<u64>, before: Duration) -> String {
    let ground = Scripted { before, ..Scripted::new() };
    let (output, carry) = ground.output();
    let cancel = Cancel::new();
    let step = Step::root("a");
    let outcome = tokio::select! {
        biased;
        () = carry => unreachable!("the output lives as long as the tree"),
        () = async {
            tokio::time::sleep(Duration::from_millis(cancel_after_ms.unwrap_or(u64::MAX / 4_000_000))).await;
            cancel.cancel();
            std::future::pending::<()>().await;
        } => unreachable!("it never ends"),
        outcome = async {
            let outcome = Tree { ground: &ground, purpose }.perform(&step, tree, output.clone(), &cancel).await;
            // What was written last is carried on before the story ends.
            tokio::task::yield_now().await;
            outcome
        } => outcome,
    };
    let end = match outcome {
        Ok(()) => "succeeds".to_owned(),
        Err(failure) => format!("fails: {failure}"),
    };
    ground.tell(&end);
    let story = ground.story.lock().unwrap();
    story.iter().map(|line| format!("{line}\n")).collect()
}

async fn check(tree: &models::Action, expected: &Expect) {
    expected.assert_eq(&play(Purpose::Work, tree, None, Duration::ZERO).await);
}

async fn check_cancelled(tree: &models::Action, after_ms: u64, expected: &Expect) {
    expected.assert_eq(&play(Purpose::Work, tree, Some(after_ms), Duration::ZERO).await);
}

#[tokio::test(start_paused = true)]
async fn a_process_succeeds_or_fails_by_its_status() {
    check(
        &run_as("500:0", "", &["hello"]),
        &expect![[r#"
        0      a starts
        0      APP OUT hello
        500    APP OUT Exit status 0
        500    succeeds
    "#]],
    )
    .await;
    check(
        &run_as("500:3", "SRC", &[]),
        &expect![[r#"
        0      a starts
        500    SRC OUT Exit status 3
        500    fails: SRC: Exited with status 3
    "#]],
    )
    .await;
    check(
        &run("1:137:oom"),
        &expect![[r#"
        0      a starts
        1      APP OUT Exit status 137 (out of memory)
        1      fails: APP: Exited with status 137 (out of memory)
    "#]],
    )
    .await;
    check(
        &run("nowhere"),
        &expect![[r#"
        0      APP OUT failed-creating-process: nowhere: no such file
        0      fails: nowhere: no such file
    "#]],
    )
    .await;
    check(
        &quiet("1:1", "unheard"),
        &expect![[r#"
        0      a starts
        1      fails: APP: Exited with status 1
    "#]],
    )
    .await;
    check(
        &models::Action::default(),
        &expect![[r#"
        0      fails: the action is empty
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_process_has_its_grace_time() {
    check_cancelled(
        &run("9000:0"),
        1_000,
        &expect![[r#"
        0      a starts
        1000   APP OUT Exit status 143
        1000   fails: cancelled
    "#]],
    )
    .await;
    check_cancelled(
        &run("60000:0:stubborn"),
        1_000,
        &expect![[r#"
        0      a starts
        11000  APP OUT Exit status 137 (exceeded 10s graceful shutdown interval)
        11000  fails: exceeded graceful shutdown interval
    "#]],
    )
    .await;
    check_cancelled(
        &run("5000:0:stubborn"),
        1_000,
        &expect![[r#"
        0      a starts
        5000   APP OUT Exit status 0
        5000   fails: cancelled
    "#]],
    )
    .await;
    check_cancelled(
        &run("60000:0:immortal"),
        1_000,
        &expect![[r#"
        0      a starts
        12000  fails: process did not exit
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_ran_before_the_cell_has_its_grace_time_too() {
    let story = play(Purpose::Work, &serial([run("60000:0:stubborn")]), Some(0), Duration::from_secs(1)).await;
    expect![[r#"
        0      a.0 starts
        10000  APP OUT Exit status 137 (exceeded 10s graceful shutdown interval)
        10000  fails: exceeded graceful shutdown interval
    "#]]
    .assert_eq(&story);
}

#[tokio::test(start_paused = true)]
async fn serial_stops_at_the_first_failure() {
    check(
        &serial([run("100:0"), run("100:0")]),
        &expect![[r#"
        0      a.0 starts
        100    a.1 starts
        100    APP OUT Exit status 0
        200    APP OUT Exit status 0
        200    succeeds
    "#]],
    )
    .await;
    check(
        &serial([run("100:0"), run("100:2"), run("100:0")]),
        &expect![[r#"
        0      a.0 starts
        100    a.1 starts
        100    APP OUT Exit status 0
        200    APP OUT Exit status 2
        200    fails: APP: Exited with status 2
    "#]],
    )
    .await;
    check_cancelled(
        &serial([run("100:0"), run("9000:0"), run("100:0")]),
        200,
        &expect![[r#"
        0      a.0 starts
        100    a.1 starts
        100    APP OUT Exit status 0
        200    APP OUT Exit status 143
        200    fails: cancelled
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn parallel_lets_all_end() {
    check(
        &parallel([run("100:0"), run("200:0")]),
        &expect![[r#"
        0      a.0 starts
        0      a.1 starts
        100    PAR OUT Exit status 0
        200    PAR OUT Exit status 0
        200    succeeds
    "#]],
    )
    .await;
    check(
        &parallel([run("100:1"), run_as("200:2", "B", &[]), run("300:0")]),
        &expect![[r#"
        0      a.0 starts
        0      a.1 starts
        0      a.2 starts
        100    PAR OUT Exit status 1
        200    B OUT Exit status 2
        300    PAR OUT Exit status 0
        300    fails: PAR: Exited with status 1; B: Exited with status 2
    "#]],
    )
    .await;
    check_cancelled(
        &parallel([run("100:1"), run("9000:0")]),
        200,
        &expect![[r#"
        0      a.0 starts
        0      a.1 starts
        100    PAR OUT Exit status 1
        200    PAR OUT Exit status 143
        200    fails: PAR: Exited with status 1
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn codependent_ends_with_the_first() {
    check(
        &codependent([run("100:1"), run("9000:0")]),
        &expect![[r#"
        0      a.0 starts
        0      a.1 starts
        100    APP OUT Exit status 1
        100    APP OUT Exit status 143
        100    fails: APP: Exited with status 1
    "#]],
    )
    .await;
    check(
        &codependent([run("100:0"), run("9000:0")]),
        &expect![[r#"
        0      a.0 starts
        0      a.1 starts
        100    APP OUT Exit status 0
        100    APP OUT Exit status 143
        100    fails: Codependent step exited
    "#]],
    )
    .await;
    check(
        &codependent([run("100:1"), run("9000:0:stubborn")]),
        &expect![[r#"
        0      a.0 starts
        0      a.1 starts
        100    APP OUT Exit status 1
        9000   APP OUT Exit status 0
        9000   fails: APP: Exited with status 1
    "#]],
    )
    .await;
    check_cancelled(
        &codependent([run("9000:0"), run("9000:0")]),
        100,
        &expect![[r#"
        0      a.0 starts
        0      a.1 starts
        100    APP OUT Exit status 143
        100    APP OUT Exit status 143
        100    fails: 
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn try_never_fails() {
    check(
        &attempt(run("100:1")),
        &expect![[r#"
        0      a.0 starts
        100    TRY OUT Exit status 1
        100    succeeds
    "#]],
    )
    .await;
    check_cancelled(
        &attempt(run("9000:0")),
        100,
        &expect![[r#"
        0      a.0 starts
        100    TRY OUT Exit status 143
        100    succeeds
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn timeout_cancels_what_takes_too_long() {
    check(
        &timeout(1_000, run("100:0")),
        &expect![[r#"
        0      a.0 starts
        100    APP OUT Exit status 0
        100    succeeds
    "#]],
    )
    .await;
    check(
        &timeout(1_000, run("100:1")),
        &expect![[r#"
        0      a.0 starts
        100    APP OUT Exit status 1
        100    fails: APP: Exited with status 1
    "#]],
    )
    .await;
    check(
        &timeout(1_500, run("9000:0")),
        &expect![[r#"
        0      a.0 starts
        1500   APP OUT Exit status 143
        1500   fails: exceeded 1.5s timeout
    "#]],
    )
    .await;
    check(
        &timeout(90_000, progress(run("100000:0:stubborn"))),
        &expect![[r#"
        0      a.0.0 starts
        0      NEWS OUT here we go
        100000 APP OUT Exit status 0
        100000 NEWS ERR alas
        100000 fails: exceeded 1m30s timeout
    "#]],
    )
    .await;
    check(
        &timeout(500, timeout(100, run("9000:0"))),
        &expect![[r#"
        0      a.0.0 starts
        100    APP OUT Exit status 143
        100    fails: exceeded 100ms timeout
    "#]],
    )
    .await;
    let resumed = play(Purpose::Work, &timeout(1_000, run("9000:0")), None, Duration::from_millis(700)).await;
    expect![[r#"
        0      a.0 starts
        300    APP OUT Exit status 143
        300    fails: exceeded 1s timeout
    "#]]
    .assert_eq(&resumed);
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_under_its_own_source() {
    check(
        &progress(run("100:0")),
        &expect![[r#"
        0      a.0 starts
        0      NEWS OUT here we go
        100    APP OUT Exit status 0
        100    NEWS OUT well done
        100    succeeds
    "#]],
    )
    .await;
    check(
        &progress(run("100:1")),
        &expect![[r#"
        0      a.0 starts
        0      NEWS OUT here we go
        100    APP OUT Exit status 1
        100    NEWS ERR alas: APP: Exited with status 1
        100    fails: APP: Exited with status 1
    "#]],
    )
    .await;
    check(
        &progress(parallel([run("100:1")])),
        &expect![[r#"
        0      a.0.0 starts
        0      NEWS OUT here we go
        100    PAR OUT Exit status 1
        100    NEWS ERR alas
        100    fails: PAR: Exited with status 1
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn files_are_fetched_and_sent() {
    check(
        &download("there", "droplet"),
        &expect![[r#"
        0      a fetches
        0      APP OUT Downloading droplet...
        100    APP OUT Downloaded droplet (1.5K)
        100    succeeds
    "#]],
    )
    .await;
    check(
        &download("cached", "droplet"),
        &expect![[r#"
        0      a fetches
        0      APP OUT Downloading droplet...
        100    APP OUT Downloaded droplet
        100    succeeds
    "#]],
    )
    .await;
    check(
        &download("missing", "droplet"),
        &expect![[r#"
        0      a fetches
        0      APP OUT Downloading droplet...
        100    APP ERR Downloading droplet failed
        100    fails: Downloading droplet failed
    "#]],
    )
    .await;
    check(
        &download("missing", ""),
        &expect![[r#"
        0      a fetches
        100    APP ERR Downloading failed
        100    fails: Downloading failed
    "#]],
    )
    .await;
    check(
        &download("damaged", "droplet"),
        &expect![[r#"
        0      a fetches
        0      APP OUT Downloading droplet...
        100    APP ERR Copying droplet into the container failed: no space left
        100    fails: Copying droplet into the container failed: no space left
    "#]],
    )
    .await;
    check_cancelled(
        &download("there", ""),
        50,
        &expect![[r#"
        0      a fetches
        50     fails: cancelled
    "#]],
    )
    .await;
    check(
        &upload("there", "result"),
        &expect![[r#"
        0      a sends
        0      APP OUT Uploading result...
        100    APP OUT Uploaded result (10B)
        100    succeeds
    "#]],
    )
    .await;
    check(
        &upload("missing", "result"),
        &expect![[r#"
        0      a sends
        0      APP OUT Uploading result...
        100    APP ERR Failed to upload payload for result
        100    fails: Failed to upload payload
    "#]],
    )
    .await;
    check_cancelled(
        &upload("there", ""),
        50,
        &expect![[r#"
        0      a sends
        50     fails: cancelled
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_check_fails_with_what_was_written() {
    let tree = parallel([run_as("10:1", "", &["port is closed"]), run("10:2"), run_as("10:0", "", &["fine"])]);
    expect![[r#"
        0      a.0 starts
        0      a.1 starts
        0      a.2 starts
        10     fails: port is closed; Failed to invoke process: Exited with status 2
    "#]]
    .assert_eq(&play(Purpose::Check, &tree, None, Duration::ZERO).await);
}

/// Any tree of processes, each of which ends by itself or when it is asked to, sooner or later.
fn any_tree() -> impl Strategy<Value = models::Action> {
    let process = (0..20_000u32, 0..2u8, prop::sample::select(vec!["", ":stubborn"]));
    let process = process.prop_map(|(ms, status, manners)| run(&format!("{ms}:{status}{manners}")));
    process.prop_recursive(4, 24, 4, |below| {
        let several = prop::collection::vec(below.clone(), 1..4);
        prop_oneof![
            several.clone().prop_map(serial),
            several.clone().prop_map(parallel),
            several.prop_map(codependent),
            below.clone().prop_map(attempt),
            below.clone().prop_map(progress),
            (0..30_000i64, below).prop_map(|(ms, below)| timeout(ms, below)),
        ]
    })
}

proptest! {
    /// However a tree looks and whenever it is cancelled: nothing starts after that, it ends within its grace time, and when
    /// it has ended nothing runs.
    #[test]
    fn a_tree_that_ended_has_left_nothing(tree in any_tree(), cancel_ms in 0..60_000u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let ground = Scripted::new();
            let (output, _carry) = ground.output();
            let (cancel, step, began) = (Cancel::new(), Step::root("a"), Instant::now());
            let cancelled = began + Duration::from_millis(cancel_ms);
            let mut tree = Tree { ground: &ground, purpose: Purpose::Work }.perform(&step, &tree, output, &cancel);
            tokio::select! {
                _ = &mut tree => return,
                () = tokio::time::sleep_until(cancelled) => cancel.cancel(),
            }
            let _ = tree.await;
            assert!(cancelled.elapsed() <= Duration::from_secs(10));
            assert!(ground.last_start.lock().unwrap().is_none_or(|last| last <= cancelled));
            assert_eq!(ground.alive.load(Ordering::Relaxed), 0);
        });
    }
}
