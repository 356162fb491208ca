//! Messages that use everything a conversion touches, and requests as clients of long ago made them.

use api::models::image_layer::{DigestAlgorithm, MediaType, Type};
use api::models::{
    Action, CachedDependency, CodependentAction, DesiredLrp, EmitProgressAction, ImageLayer, ParallelAction,
    SerialAction, SharedDevice, TaskDefinition, TimeoutAction, TryAction, VolumeMount,
};
use api::{Wire, encode};

use crate::samples::{lrp, run, task};

fn timeout(timeout_ms: i64, deprecated_timeout_ns: i64, inner: Action) -> Action {
    let action = Some(Box::new(inner));
    let timeout = TimeoutAction { action, timeout_ms, deprecated_timeout_ns, ..Default::default() };
    Action { timeout_action: Some(Box::new(timeout)), ..Default::default() }
}

fn attempt(inner: Action) -> Action {
    let attempt = TryAction { action: Some(Box::new(inner)), ..Default::default() };
    Action { try_action: Some(Box::new(attempt)), ..Default::default() }
}

/// Every kind of action around others, with timeouts in each and one within another.
fn tree(timeout: impl Fn(i64, Action) -> Action) -> Action {
    let progress = EmitProgressAction { action: Some(Box::new(timeout(1, run()))), ..Default::default() };
    let progress = Action { emit_progress_action: Some(Box::new(progress)), ..Default::default() };
    let parallel = ParallelAction { actions: vec![timeout(2, run()), run()], ..Default::default() };
    let parallel = Action { parallel_action: Some(parallel), ..Default::default() };
    let codependent = CodependentAction { actions: vec![attempt(timeout(3, run()))], ..Default::default() };
    let codependent = Action { codependent_action: Some(codependent), ..Default::default() };
    let serial = SerialAction { actions: vec![progress, parallel, codependent], ..Default::default() };
    let serial = Action { serial_action: Some(serial), ..Default::default() };
    attempt(timeout(4, timeout(5, serial)))
}

fn in_ms(seconds: i64, inner: Action) -> Action {
    timeout(seconds * 1000, 0, inner)
}

fn in_ns(seconds: i64, inner: Action) -> Action {
    timeout(0, seconds * 1_000_000_000, inner)
}

fn layer(name: &str, kind: Type, digest: Option<(DigestAlgorithm, &str)>) -> ImageLayer {
    ImageLayer {
        name: name.into(),
        url: format!("http://{name}"),
        destination_path: format!("/{name}"),
        layer_type: kind.into(),
        media_type: MediaType::Tgz.into(),
        digest_algorithm: digest.map_or(0, |(algorithm, _)| algorithm.into()),
        digest_value: digest.map_or(String::new(), |(_, value)| value.into()),
    }
}

/// Two that are shared, one of them with a digest, and one that is exclusive.
pub(crate) fn layers() -> Vec<ImageLayer> {
    vec![
        layer("s", Type::Shared, None),
        layer("s2", Type::Shared, Some((DigestAlgorithm::Sha256, "abc"))),
        layer("e", Type::Exclusive, Some((DigestAlgorithm::Sha512, "def"))),
    ]
}

fn dependencies() -> Vec<CachedDependency> {
    vec![CachedDependency {
        name: "c".into(),
        from: "http://c".into(),
        to: "/c".into(),
        cache_key: "key".into(),
        log_source: "log".into(),
        checksum_algorithm: "md5".into(),
        checksum_value: "123".into(),
    }]
}

fn mount() -> VolumeMount {
    VolumeMount {
        driver: "nfs".into(),
        container_dir: "/data".into(),
        mode: "rw".into(),
        shared: Some(SharedDevice { volume_id: "v".into(), mount_config: "{}".into() }),
        dedicated: None,
    }
}

pub(super) fn everything(process_guid: &str) -> DesiredLrp {
    DesiredLrp {
        setup: Some(tree(in_ms)),
        action: Some(in_ms(6, run())),
        monitor: Some(attempt(in_ms(7, run()))),
        start_timeout_ms: 61_999,
        legacy_download_user: "vcap".into(),
        image_layers: layers(),
        cached_dependencies: dependencies(),
        volume_mounts: vec![mount()],
        ..lrp(process_guid, 1)
    }
}

pub(super) fn everything_in_a_task() -> TaskDefinition {
    TaskDefinition {
        action: Some(tree(in_ms)),
        legacy_download_user: "vcap".into(),
        image_layers: layers(),
        cached_dependencies: dependencies(),
        volume_mounts: vec![mount()],
        ..task()
    }
}

/// An LRP of a client that knows neither milliseconds nor metric tags.
pub(super) fn old_lrp(process_guid: &str) -> DesiredLrp {
    DesiredLrp {
        setup: Some(tree(in_ns)),
        action: Some(in_ns(6, run())),
        monitor: Some(attempt(in_ns(7, run()))),
        deprecated_start_timeout_s: 61,
        legacy_download_user: "vcap".into(),
        cached_dependencies: dependencies(),
        metrics_guid: "metrics".into(),
        metric_tags: [].into(),
        ..lrp(process_guid, 1)
    }
}

/// As [`old_lrp`], of a client that knows milliseconds.
pub(super) fn less_old_lrp(process_guid: &str) -> DesiredLrp {
    DesiredLrp {
        setup: Some(tree(in_ms)),
        action: Some(in_ms(6, run())),
        monitor: None,
        deprecated_start_timeout_s: 0,
        start_timeout_ms: 61_000,
        ..old_lrp(process_guid)
    }
}

pub(super) fn old_task() -> TaskDefinition {
    let action = Some(tree(in_ns));
    TaskDefinition { action, legacy_download_user: "vcap".into(), cached_dependencies: dependencies(), ..task() }
}

pub(super) fn less_old_task() -> TaskDefinition {
    TaskDefinition { action: Some(tree(in_ms)), ..old_task() }
}

/// Field numbers of the lists of volume mounts.
pub(super) const MOUNTS_OF_LRP: u8 = 25;
pub(super) const MOUNTS_OF_TASK: u8 = 18;

/// The message in field 1 of a request, with two mounts in the form that is retired: one to read, one to write.
pub(super) fn with_retired_mounts(message: impl Wire, list: u8) -> Vec<u8> {
    let mut bytes = encode(message).to_vec();
    let of_mode = |mode: &[u8]| [b"\x0a\x03nfs\x12\x02id\x1a\x05/data", mode, b"\x2a\x02{}"].concat();
    for mode in [&b""[..], b"\x20\x01"] {
        bytes.extend(delimited(list, &of_mode(mode)));
    }
    delimited(1, &bytes)
}

/// A field of the kind that has a length. Numbers from 16 on need two bytes.
fn delimited(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(u64::from(number) << 3 | 2, &mut bytes);
    varint(content.len() as u64, &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

fn varint(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
}
