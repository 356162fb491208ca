//! What old clients send, as the newest revision understands it.

use std::collections::BTreeSet;

use prost::Message;

use super::*;
use crate::models::{DedicatedDevice, DesireLrpRequest, DesireTaskRequest, SharedDevice, VolumeMount};
use crate::revision::volume_mounts::Retired;

/// A timeout of a client that knows only nanoseconds.
fn old_timeout(ns: i64, inner: Action) -> Action {
    let timeout = TimeoutAction { action: Some(Box::new(inner)), deprecated_timeout_ns: ns, ..Default::default() };
    Action { timeout_action: Some(Box::new(timeout)), ..Default::default() }
}

/// A mount of before `desire.r2`, as bytes.
pub(super) fn old_mount(driver: &str, retired: &Retired) -> Vec<u8> {
    let known = VolumeMount { driver: driver.into(), container_dir: "/data".into(), ..Default::default() };
    [known.encode_to_vec(), retired.encode_to_vec()].concat()
}

/// The bytes of a message with more elements in one of its lists, inside field 1 of a request.
pub(super) fn request(message: &impl Message, list: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = message.encode_to_vec();
    elements.iter().for_each(|element| prost::encoding::bytes::encode(list, element, &mut bytes));
    let mut request = Vec::new();
    prost::encoding::bytes::encode(1, &bytes, &mut request);
    request
}

fn retired(volume_id: &str, mode: i32, config: &[u8]) -> Retired {
    Retired { volume_id: volume_id.into(), mode, config: config.into() }
}

const MOUNTS_OF_LRP: u32 = 25;
const MOUNTS_OF_TASK: u32 = 18;

#[test]
fn timeouts_in_nanoseconds_are_found_however_deep_they_are() {
    let tree = || {
        let deep = old_timeout(7_000_000, attempt(old_timeout(8_999_999, run("a"))));
        let lists = serial(vec![emit_progress(old_timeout(1_000_000, run("b"))), attempt(deep)]);
        Some(old_timeout(5_000_000_000, lists))
    };
    let lrp = DesiredLrp { setup: tree(), action: tree(), monitor: tree(), ..Default::default() };
    let read = desire_lrp_r0(&request(&lrp, MOUNTS_OF_LRP, &[])).unwrap().desired_lrp.unwrap();
    let definition = TaskDefinition { action: tree(), ..Default::default() };
    let task = desire_task_r0(&request(&definition, MOUNTS_OF_TASK, &[])).unwrap().task_definition.unwrap();
    let actions: BTreeSet<_> =
        [&read.setup, &read.action, &read.monitor, &task.action].map(|action| show(action.as_ref().unwrap())).into();
    expect!["timeout(5000ms 5000000000ns serial[emit_progress(timeout(1ms 1000000ns run(b))), try(timeout(7ms 7000000ns try(timeout(8ms 8999999ns run(a)))))])"].assert_eq(&actions.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_time_is_never_lost_on_the_way_up() {
    let both = |ns, ms| {
        let mut action = old_timeout(ns, run("a"));
        action.timeout_action.as_mut().unwrap().timeout_ms = ms;
        let lrp = DesiredLrp { action: Some(action), ..Default::default() };
        let read = desire_lrp_r0(&request(&lrp, MOUNTS_OF_LRP, &[])).unwrap().desired_lrp.unwrap();
        read.action.unwrap().timeout_action.unwrap().timeout_ms
    };
    for (ns, ms, expected) in [
        (0, 0, 0),
        (0, 9, 9),
        (1, 0, 1),
        (999_999, 0, 1),
        (1_999_999, 9, 1),
        (-1, 9, 0),
        (i64::MAX, 0, 9_223_372_036_854),
    ] {
        assert_eq!(both(ns, ms), expected, "{ns} ns and {ms} ms");
    }
    let start = |deprecated_start_timeout_s, start_timeout_ms| {
        let lrp = DesiredLrp { deprecated_start_timeout_s, start_timeout_ms, ..Default::default() };
        desire_lrp_r0(&request(&lrp, MOUNTS_OF_LRP, &[])).unwrap().desired_lrp.unwrap().start_timeout_ms
    };
    assert_eq!((start(0, 0), start(0, 1500), start(60, 1500)), (0, 1500, 60_000));
    assert_eq!(start(u32::MAX, 0), 4_294_967_295_000, "beyond 49 days it would wrap around in 32 bits");
}

#[test]
fn the_first_revision_knows_milliseconds() {
    let lrp =
        DesiredLrp { action: Some(old_timeout(5, run("a"))), deprecated_start_timeout_s: 5, ..Default::default() };
    let read = desire_lrp_r1(&request(&lrp, MOUNTS_OF_LRP, &[])).unwrap().desired_lrp.unwrap();
    assert_eq!(read, lrp);
}

#[test]
fn older_mounts_are_rebuilt_and_newer_ones_kept() {
    let newer = |shared: bool| VolumeMount {
        driver: "smb".into(),
        mode: if shared { "rw".into() } else { String::new() },
        shared: shared.then(|| SharedDevice { volume_id: "v".into(), mount_config: "c".into() }),
        dedicated: (!shared).then(DedicatedDevice::default),
        ..Default::default()
    };
    let elements = [
        old_mount("nfs", &retired("one", 0, b"{}")),
        newer(true).encode_to_vec(),
        old_mount("nfs", &retired("two", 1, b"caf\xe9")),
        newer(false).encode_to_vec(),
        old_mount("nfs", &retired("", 7, b"")),
    ];
    let rebuilt = |mode: &str, volume_id: &str, mount_config: &str| VolumeMount {
        driver: "nfs".into(),
        container_dir: "/data".into(),
        mode: mode.into(),
        shared: Some(SharedDevice { volume_id: volume_id.into(), mount_config: mount_config.into() }),
        dedicated: None,
    };
    let expected = [
        rebuilt("r", "one", "{}"),
        newer(true),
        rebuilt("rw", "two", "caf\u{fffd}"),
        newer(false),
        rebuilt("rw", "", ""),
    ];
    let lrp = request(&DesiredLrp::default(), MOUNTS_OF_LRP, &elements);
    let definition = request(&TaskDefinition::default(), MOUNTS_OF_TASK, &elements);
    for (of_lrp, of_task) in [
        (desire_lrp_r0(&lrp).unwrap(), desire_task_r0(&definition).unwrap()),
        (desire_lrp_r1(&lrp).unwrap(), desire_task_r1(&definition).unwrap()),
    ] {
        assert_eq!(of_lrp.desired_lrp.unwrap().volume_mounts, expected);
        assert_eq!(of_task.task_definition.unwrap().volume_mounts, expected);
    }
}

#[test]
fn what_cannot_be_read_is_refused_also_in_a_retired_field() {
    // The volume id as a number, and a mount that is broken off.
    for mount in [vec![0x10, 1], vec![0x12, 9, b'x']] {
        let lrp = request(&DesiredLrp::default(), MOUNTS_OF_LRP, std::slice::from_ref(&mount));
        assert_eq!(desire_lrp_r0(&lrp).unwrap_err().message, "DesireLRPRequest");
        let task = request(&TaskDefinition::default(), MOUNTS_OF_TASK, &[mount]);
        assert_eq!(desire_task_r1(&task).unwrap_err().message, "DesireTaskRequest");
    }
    assert_eq!(desire_lrp_r0(&[]).unwrap(), DesireLrpRequest::default());
    assert_eq!(desire_task_r0(&[]).unwrap(), DesireTaskRequest::default());
}

#[test]
fn the_source_of_metrics_gets_the_best_name_there_is() {
    let named = |metrics_guid: &str, log_guid: &str, process_guid: &str, tag: &str| {
        let (metrics_guid, log_guid, process_guid) = (metrics_guid.into(), log_guid.into(), process_guid.into());
        let mut lrp = DesiredLrp { metrics_guid, log_guid, process_guid, ..Default::default() };
        if !tag.is_empty() {
            lrp.metric_tags.insert(tag.to_owned(), Default::default());
        }
        name_metrics_source(&mut lrp);
        lrp.metric_tags
            .into_iter()
            .map(|(name, value)| format!("{name}={}", value.r#static))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(named("m", "l", "p", ""), "source_id=m");
    assert_eq!(named("", "l", "p", ""), "source_id=l");
    assert_eq!(named("", "", "p", ""), "source_id=p");
    assert_eq!(named("", "", "", ""), "");
    assert_eq!(named("m", "l", "p", "other"), "other=", "a client that knows tags");
}
