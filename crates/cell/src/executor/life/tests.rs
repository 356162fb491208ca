//! Whole lives of containers under a clock that the tests move: what is told when, and what ends them.

use api::models;
use expect_test::{Expect, expect};
use tokio::time::Instant;

use super::super::actions::scripted::{Scripted, run, run_as};
use super::super::health::Probe;
use super::super::{Later, LogConfig};
use super::*;

/// When a port is well, as spans of milliseconds from the beginning.
struct Spans {
    began: Instant,
    /// By port.
    well: Vec<(u16, std::ops::Range<u128>)>,
}

impl Prober for Spans {
    fn probe<'a>(&'a self, probe: &'a Probe) -> Later<'a, Result<(), String>> {
        Box::pin(async move {
            let now = self.began.elapsed().as_millis();
            match self.well.iter().any(|(port, span)| *port == probe.port && span.contains(&now)) {
                true => Ok(()),
                false => Err(format!("port {} is closed", probe.port)),
            }
        })
    }
}

struct Hears<'a>(&'a Scripted);

impl Witness for Hears<'_> {
    fn running(&self) {
        self.0.tell("=> running");
    }

    fn routable(&self, is_routable: bool) {
        self.0.tell(if is_routable { "=> routable" } else { "=> not routable" });
    }
}

fn spec(action: models::Action) -> RunSpec {
    RunSpec {
        env: Vec::new(),
        setup: None,
        action: Some(action),
        monitor: None,
        check_definition: None,
        sidecars: Vec::new(),
        start_timeout_ms: 0,
        ports: Vec::new(),
        privileged: false,
        cpu_weight: 0,
        log: LogConfig::default(),
        cached_dependencies: Vec::new(),
        image_layers: Vec::new(),
        legacy_download_user: String::new(),
        egress_rules: Vec::new(),
        volume_mounts: Vec::new(),
        volume_mounted_files: Vec::new(),
        image_username: String::new(),
        image_password: String::new(),
        result_file: String::new(),
    }
}

fn tcp(port: u32) -> models::Check {
    let tcp_check = models::TcpCheck { port, connect_timeout_ms: 0, interval_ms: 1_000 };
    models::Check { tcp_check: Some(tcp_check), http_check: None }
}

fn checks(checks: &[models::Check], readiness: &[models::Check]) -> Option<models::CheckDefinition> {
    let log_source = String::new();
    Some(models::CheckDefinition { checks: checks.to_vec(), log_source, readiness_checks: readiness.to_vec() })
}

/// Lives a life and tells what happened when.
async fn check(spec: &RunSpec, well: &[(u16, std::ops::Range<u128>)], stop_ms: Option<u64>, expected: &Expect) {
    expected.assert_eq(&play(spec, well, stop_ms, false).await);
}

async fn play(spec: &RunSpec, well: &[(u16, std::ops::Range<u128>)], stop_ms: Option<u64>, is_running: bool) -> String {
    let ground = Scripted::new();
    let (output, carry) = ground.output();
    let prober = Spans { began: Instant::now(), well: well.to_vec() };
    let times = CheckTimes { healthy_interval: Duration::from_secs(30), ..CheckTimes::default() };
    let started = ground.started.subscribe();
    let witness = Hears(&ground);
    let life = Life { spec, ground: &ground, prober: &prober, witness: &witness, times, output, is_running, started };
    let cancel = Cancel::new();
    let outcome = tokio::select! {
        biased;
        () = carry => unreachable!("the output lives as long as the life"),
        () = async {
            tokio::time::sleep(Duration::from_millis(stop_ms.unwrap_or(10_000_000))).await;
            cancel.cancel();
            std::future::pending::<()>().await;
        } => unreachable!("it never ends"),
        outcome = async {
            let outcome = life.live(&cancel).await;
            tokio::task::yield_now().await;
            outcome
        } => outcome,
    };
    ground.tell(&match outcome {
        Ok(()) => "ends well".to_owned(),
        Err(failure) => format!("ends: {failure}"),
    });
    ground.story.lock().unwrap().iter().map(|line| format!("{line}\n")).collect()
}

#[tokio::test(start_paused = true)]
async fn without_checks_it_runs_when_its_process_does() {
    check(
        &RunSpec { setup: Some(run("100:0")), ..spec(run("500:0")) },
        &[],
        None,
        &expect![[r#"
        0      setup starts
        100    => running
        100    action starts
        100    APP OUT Exit status 0
        600    APP OUT Exit status 0
        600    ends well
    "#]],
    )
    .await;
    check(
        &RunSpec { setup: Some(run("100:1")), ..spec(run("500:0")) },
        &[],
        None,
        &expect![[r#"
        0      setup starts
        100    APP OUT Exit status 1
        100    ends: APP: Exited with status 1
    "#]],
    )
    .await;
    check(
        &spec(run("nowhere")),
        &[],
        None,
        &expect![[r#"
        0      APP OUT failed-creating-process: nowhere: no such file
        0      ends: nowhere: no such file
    "#]],
    )
    .await;
    check(
        &spec(run("9000:0")),
        &[],
        Some(1_000),
        &expect![[r#"
        0      action starts
        0      => running
        1000   APP OUT Exit status 143
        1000   ends: cancelled
    "#]],
    )
    .await;
    check(
        &RunSpec { action: None, ..spec(run("1:0")) },
        &[],
        None,
        &expect![[r#"
        0      ends: container cannot have empty action
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn checks_say_when_it_runs_and_when_it_is_over() {
    let watched = RunSpec { check_definition: checks(&[tcp(1), tcp(2)], &[]), ..spec(run("99000:0")) };
    check(
        &watched,
        &[(1, 400..9_000), (2, 1_200..5_500)],
        None,
        &expect![[r#"
        0      action starts
        0      APP OUT Starting health monitoring of container
        1500   => running
        1500   APP OUT Container became healthy
        5500   HEALTH ERR Liveness check unsuccessful: port 2 is closed
        5500   APP ERR Container became unhealthy
        5500   APP OUT Exit status 143
        5500   ends: Instance became unhealthy: Liveness check unsuccessful: port 2 is closed
    "#]],
    )
    .await;
    check(
        &watched,
        &[(1, 0..99_000), (2, 0..99_000)],
        Some(2_000),
        &expect![[r#"
        0      action starts
        0      => running
        0      APP OUT Starting health monitoring of container
        0      APP OUT Container became healthy
        2000   APP OUT Exit status 143
        2000   ends: 
    "#]],
    )
    .await;
    let in_time = RunSpec { start_timeout_ms: 2_200, ..watched.clone() };
    check(&in_time, &[(1, 0..99_000)], None, &expect![[r#"
        0      action starts
        0      APP OUT Starting health monitoring of container
        2200   HEALTH ERR Timed out after 2.2s (5 attempts) waiting for startup check to succeed: port 2 is closed
        2200   APP ERR Failed after 2.2s: startup health check never passed.
        2200   APP OUT Exit status 143
        2200   ends: Instance never healthy after 2.2s: Timed out after 2.2s (5 attempts) waiting for startup check to succeed: port 2 is closed
    "#]]).await;
    let brief = RunSpec { action: Some(run("3000:0")), ..watched };
    check(
        &brief,
        &[(1, 0..99_000), (2, 0..99_000)],
        None,
        &expect![[r#"
        0      action starts
        0      => running
        0      APP OUT Starting health monitoring of container
        0      APP OUT Container became healthy
        3000   APP OUT Exit status 0
        3000   ends: 
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_monitor_is_run_again_and_again() {
    let monitor = Some(run_as("10:0", "", &["fine"]));
    check(
        &RunSpec { monitor, ..spec(run("40000:7")) },
        &[],
        None,
        &expect![[r#"
        0      action starts
        0      APP OUT Starting health monitoring of container
        500    monitor-0 starts
        510    => running
        510    APP OUT Container became healthy
        30510  monitor-1 starts
        40000  APP OUT Exit status 7
        40000  ends: APP: Exited with status 7
    "#]],
    )
    .await;
    let monitor = Some(run_as("10:1", "", &["port 8080 is closed"]));
    let hopeless = RunSpec { monitor, start_timeout_ms: 1_000, ..spec(run("40000:0")) };
    check(
        &hopeless,
        &[],
        None,
        &expect![[r#"
        0      action starts
        0      APP OUT Starting health monitoring of container
        500    monitor-0 starts
        1010   monitor-1 starts
        1020   APP ERR port 8080 is closed
        1020   APP ERR Failed after 1.02s: startup health check never passed.
        1020   APP OUT Exit status 143
        1020   ends: Instance never healthy after 1.02s: port 8080 is closed
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn readiness_comes_and_goes() {
    let ready = RunSpec { check_definition: checks(&[], &[tcp(1)]), ..spec(run("8000:1")) };
    check(
        &ready,
        &[(1, 1_000..2_500), (1, 5_000..99_000)],
        None,
        &expect![[r#"
        0      action starts
        0      => running
        0      HEALTH OUT Starting readiness health monitoring of container
        1000   => routable
        1000   HEALTH OUT Container passed the readiness health check and receives requests
        3000   => not routable
        3000   HEALTH OUT Container failed the readiness health check and receives no requests
        5000   => routable
        5000   HEALTH OUT Container passed the readiness health check and receives requests
        8000   APP OUT Exit status 1
        8000   ends: APP: Exited with status 1
    "#]],
    )
    .await;
    let both = RunSpec { check_definition: checks(&[tcp(1)], &[tcp(2)]), ..spec(run("99000:1")) };
    check(
        &both,
        &[(1, 2_000..4_000), (2, 0..99_000)],
        None,
        &expect![[r#"
        0      action starts
        0      APP OUT Starting health monitoring of container
        2000   => running
        2000   => routable
        2000   APP OUT Container became healthy
        2000   HEALTH OUT Starting readiness health monitoring of container
        2000   HEALTH OUT Container passed the readiness health check and receives requests
        4000   HEALTH ERR Liveness check unsuccessful: port 1 is closed
        4000   APP ERR Container became unhealthy
        4000   APP OUT Exit status 143
        4000   ends: Instance became unhealthy: Liveness check unsuccessful: port 1 is closed
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn sidecars_live_and_die_with_it() {
    let sidecar = |script| models::Sidecar { action: Some(run_as(script, "SIDE", &[])), ..Default::default() };
    let with = |script| RunSpec { sidecars: vec![sidecar(script)], ..spec(run("5000:0")) };
    check(
        &with("1000:1"),
        &[],
        None,
        &expect![[r#"
        0      action starts
        0      sidecar-0 starts
        0      => running
        1000   SIDE OUT Exit status 1
        1000   APP OUT Exit status 143
        1000   ends: SIDE: Exited with status 1
    "#]],
    )
    .await;
    check(
        &with("9000:0"),
        &[],
        None,
        &expect![[r#"
        0      action starts
        0      sidecar-0 starts
        0      => running
        5000   APP OUT Exit status 0
        5000   SIDE OUT Exit status 143
        5000   ends: 
    "#]],
    )
    .await;
    check(
        &with("9000:0:stubborn"),
        &[],
        Some(1_000),
        &expect![[r#"
        0      action starts
        0      sidecar-0 starts
        0      => running
        1000   APP OUT Exit status 143
        9000   SIDE OUT Exit status 0
        9000   ends: 
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_ran_before_the_cell_does_not_begin_again() {
    let watched = RunSpec { check_definition: checks(&[tcp(1)], &[]), ..spec(run("99000:0")) };
    expect![[r#"
        0      action starts
        4000   HEALTH ERR Liveness check unsuccessful: port 1 is closed
        4000   APP ERR Container became unhealthy
        4000   APP OUT Exit status 143
        4000   ends: Instance became unhealthy: Liveness check unsuccessful: port 1 is closed
    "#]]
    .assert_eq(&play(&watched, &[(1, 0..3_500)], None, true).await);
}
