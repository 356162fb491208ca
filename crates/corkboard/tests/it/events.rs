//! `lrp-events` and `task-events` against a real server, to the orderly end of the stream.

use expect_test::{Expect, expect};
use rustix::process::Signal;

use crate::mask::masked;
use crate::program::{Background, LRP, Server, TASK};

const PROBE_LRP: &str = r#"{"process_guid":"probe","domain":"demo","rootfs":"preloaded:cflinuxfs4","instances":0,"action":{"run":{"path":"/bin/sh","user":"vcap"}},"metric_tags":{"source_id":{"static":"probe"}}}"#;

/// Follows events from a moment at which the subscription is known to exist: when the first of the probes has come through.
fn follow(server: &Server, command: &[&str], probe: impl Fn(usize) + Sync) -> Background {
    let mut stream = Background::start(&mut server.command(command));
    let is_open = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !is_open.load(std::sync::atomic::Ordering::Relaxed) {
                probe(number);
                number += 1;
            }
        });
        let first = stream.line();
        is_open.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(first.is_some(), "the stream ended before the first event");
    });
    stream
}

/// Stops the server, which ends the stream in order, and compares what came after the probes.
fn check(mut server: Server, mut stream: Background, expected: &Expect) {
    server.process.signal(Signal::TERM);
    let mut lines: Vec<String> = std::iter::from_fn(|| stream.line()).filter(|line| !line.contains("probe")).collect();
    // Two streams have no order between them.
    lines.sort();
    expected.assert_eq(&masked(&lines.join("\n")));
    assert_eq!(stream.wait().code(), Some(0), "the end of a stream is no failure");
    assert_eq!(server.process.wait().code(), Some(0));
}

fn must(server: &Server, args: &[&str]) {
    let outcome = server.call(args);
    assert_eq!(outcome.code, 0, "{args:?}: {outcome:?}");
}

fn types(stream: &mut Background, last: &str) {
    let mark = format!("{{\"type\":\"{last}\"");
    stream.lines_until(|line| line.starts_with(&mark) && !line.contains("probe"));
}

#[test]
fn lrp_events_with_groups() {
    let server = Server::plain();
    must(&server, &["create-desired-lrp", PROBE_LRP]);
    let probe =
        |number: usize| must(&server, &["update-desired-lrp", "probe", &format!("{{\"annotation\":\"{number}\"}}")]);
    let stream = follow(&server, &["lrp-events"], probe);
    let one = LRP.replace("\"instances\":2", "\"instances\":1");
    must(&server, &["create-desired-lrp", &one]);
    must(&server, &["delete-desired-lrp", "hello"]);
    check(
        server,
        stream,
        &expect![[r#"
        {"type":"actual_lrp_created","data":{"actual_lrp_group":{"instance":{"process_guid":"hello","index":0,"domain":"demo","instance_guid":"","cell_id":"","address":"","ports":null,"preferred_address":"UNKNOWN","crash_count":0,"state":"UNCLAIMED","since":…,"modification_tag":{"epoch":…,"index":0},"presence":"ORDINARY","OptionalRoutable":{"routable":false},"availability_zone":""}}}}
        {"type":"actual_lrp_instance_created","data":{"actual_lrp":{"process_guid":"hello","index":0,"domain":"demo","instance_guid":"","cell_id":"","address":"","ports":null,"preferred_address":"UNKNOWN","crash_count":0,"state":"UNCLAIMED","since":…,"modification_tag":{"epoch":…,"index":0},"presence":"ORDINARY","OptionalRoutable":{"routable":false},"availability_zone":""},"trace_id":…}}
        {"type":"actual_lrp_instance_removed","data":{"actual_lrp":{"process_guid":"hello","index":0,"domain":"demo","instance_guid":"","cell_id":"","address":"","ports":null,"preferred_address":"UNKNOWN","crash_count":0,"state":"UNCLAIMED","since":…,"modification_tag":{"epoch":…,"index":0},"presence":"ORDINARY","OptionalRoutable":{"routable":false},"availability_zone":""},"trace_id":…}}
        {"type":"actual_lrp_removed","data":{"actual_lrp_group":{"instance":{"process_guid":"hello","index":0,"domain":"demo","instance_guid":"","cell_id":"","address":"","ports":null,"preferred_address":"UNKNOWN","crash_count":0,"state":"UNCLAIMED","since":…,"modification_tag":{"epoch":…,"index":0},"presence":"ORDINARY","OptionalRoutable":{"routable":false},"availability_zone":""}}}}
        {"type":"desired_lrp_created","data":{"desired_lrp":{"process_guid":"hello","domain":"demo","rootfs":"preloaded:cflinuxfs4","instances":1,"env":null,"action":{"run":{"path":"/bin/sh","user":"vcap","suppress_log_output":false,"volume_mounted_files":null}},"start_timeout_ms":0,"disk_mb":0,"memory_mb":64,"cpu_weight":0,"privileged":false,"routes":{"cf-router":[{"hostnames":["a.example"],"port":8080}]},"log_source":"","log_guid":"","metrics_guid":"","annotation":"","modification_tag":{"epoch":…,"index":0},"max_pids":0,"metric_tags":{"source_id":{"static":"hello"}},"volume_mounted_files":null,"update_strategy":0},"trace_id":…}}
        {"type":"desired_lrp_removed","data":{"desired_lrp":{"process_guid":"hello","domain":"demo","rootfs":"preloaded:cflinuxfs4","instances":1,"env":null,"action":{"run":{"path":"/bin/sh","user":"vcap","suppress_log_output":false,"volume_mounted_files":null}},"start_timeout_ms":0,"disk_mb":0,"memory_mb":64,"cpu_weight":0,"privileged":false,"routes":{"cf-router":[{"hostnames":["a.example"],"port":8080}]},"log_source":"","log_guid":"","metrics_guid":"","annotation":"","modification_tag":{"epoch":…,"index":0},"max_pids":0,"metric_tags":{"source_id":{"static":"hello"}},"volume_mounted_files":null,"update_strategy":0},"trace_id":…}}"#]],
    );
}

#[test]
fn lrp_events_without_groups_come_at_once() {
    let server = Server::plain();
    must(&server, &["create-desired-lrp", PROBE_LRP]);
    let probe =
        |number: usize| must(&server, &["update-desired-lrp", "probe", &format!("{{\"annotation\":\"{number}\"}}")]);
    let mut stream = follow(&server, &["lrp-events", "-x"], probe);
    must(&server, &["create-desired-lrp", LRP]);
    // Seen while the server runs: nothing waits in a buffer for the end.
    types(&mut stream, "actual_lrp_instance_created");
}

#[test]
fn task_events() {
    let server = Server::plain();
    let probe = |number: usize| must(&server, &["create-task", &TASK.replace("once", &format!("probe-{number}"))]);
    let stream = follow(&server, &["task-events"], probe);
    must(&server, &["create-task", TASK]);
    must(&server, &["cancel-task", "once"]);
    must(&server, &["delete-task", "once"]);
    check(
        server,
        stream,
        &expect![[r#"
        {"type":"task_changed","data":{"before":{"rootfs":"preloaded:cflinuxfs4","action":{"run":{"path":"/bin/true","user":"vcap","suppress_log_output":false,"volume_mounted_files":null}},"disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"log_source":"","log_guid":"","metrics_guid":"","result_file":"","max_pids":0,"image_username":"","image_password":"","volume_mounted_files":null,"task_guid":"once","domain":"demo","created_at":…,"updated_at":…,"first_completed_at":0,"state":"Pending","cell_id":"","result":"","failed":false,"failure_reason":"","rejection_count":0,"rejection_reason":""},"after":{"rootfs":"preloaded:cflinuxfs4","action":{"run":{"path":"/bin/true","user":"vcap","suppress_log_output":false,"volume_mounted_files":null}},"disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"log_source":"","log_guid":"","metrics_guid":"","result_file":"","max_pids":0,"image_username":"","image_password":"","volume_mounted_files":null,"task_guid":"once","domain":"demo","created_at":…,"updated_at":…,"first_completed_at":…,"state":"Completed","cell_id":"","result":"","failed":true,"failure_reason":"task was cancelled","rejection_count":0,"rejection_reason":""}}}
        {"type":"task_changed","data":{"before":{"rootfs":"preloaded:cflinuxfs4","action":{"run":{"path":"/bin/true","user":"vcap","suppress_log_output":false,"volume_mounted_files":null}},"disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"log_source":"","log_guid":"","metrics_guid":"","result_file":"","max_pids":0,"image_username":"","image_password":"","volume_mounted_files":null,"task_guid":"once","domain":"demo","created_at":…,"updated_at":…,"first_completed_at":…,"state":"Completed","cell_id":"","result":"","failed":true,"failure_reason":"task was cancelled","rejection_count":0,"rejection_reason":""},"after":{"rootfs":"preloaded:cflinuxfs4","action":{"run":{"path":"/bin/true","user":"vcap","suppress_log_output":false,"volume_mounted_files":null}},"disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"log_source":"","log_guid":"","metrics_guid":"","result_file":"","max_pids":0,"image_username":"","image_password":"","volume_mounted_files":null,"task_guid":"once","domain":"demo","created_at":…,"updated_at":…,"first_completed_at":…,"state":"Resolving","cell_id":"","result":"","failed":true,"failure_reason":"task was cancelled","rejection_count":0,"rejection_reason":""}}}
        {"type":"task_created","data":{"task":{"rootfs":"preloaded:cflinuxfs4","action":{"run":{"path":"/bin/true","user":"vcap","suppress_log_output":false,"volume_mounted_files":null}},"disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"log_source":"","log_guid":"","metrics_guid":"","result_file":"","max_pids":0,"image_username":"","image_password":"","volume_mounted_files":null,"task_guid":"once","domain":"demo","created_at":…,"updated_at":…,"first_completed_at":0,"state":"Pending","cell_id":"","result":"","failed":false,"failure_reason":"","rejection_count":0,"rejection_reason":""}}}
        {"type":"task_removed","data":{"task":{"rootfs":"preloaded:cflinuxfs4","action":{"run":{"path":"/bin/true","user":"vcap","suppress_log_output":false,"volume_mounted_files":null}},"disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"log_source":"","log_guid":"","metrics_guid":"","result_file":"","max_pids":0,"image_username":"","image_password":"","volume_mounted_files":null,"task_guid":"once","domain":"demo","created_at":…,"updated_at":…,"first_completed_at":…,"state":"Resolving","cell_id":"","result":"","failed":true,"failure_reason":"task was cancelled","rejection_count":0,"rejection_reason":""}}}"#]],
    );
}
