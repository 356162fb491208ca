//! Volume mounts as they were before `desire.r2`: a volume id, a mode by number and a configuration in bytes, in fields whose
//! numbers are retired today. Decoding drops them like everything unknown, so they are read from the request a second time.

use prost::Message;

use crate::models::{SharedDevice, VolumeMount};

/// The mode by number; everything else is read and write.
const READ_ONLY: i32 = 0;

/// The retired fields of a mount. The configuration may hold a password, so this is never printed.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(super) struct Retired {
    #[prost(bytes = "vec", tag = "2")]
    pub(super) volume_id: Vec<u8>,
    #[prost(int32, tag = "4")]
    pub(super) mode: i32,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) config: Vec<u8>,
}

/// As much of `DesireLRPRequest` as leads to its mounts.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(super) struct LrpRequest {
    #[prost(message, optional, tag = "1")]
    lrp: Option<Lrp>,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct Lrp {
    #[prost(message, repeated, tag = "25")]
    mounts: Vec<Retired>,
}

/// As much of `DesireTaskRequest` as leads to its mounts.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(super) struct TaskRequest {
    #[prost(message, optional, tag = "1")]
    definition: Option<Definition>,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct Definition {
    #[prost(message, repeated, tag = "18")]
    mounts: Vec<Retired>,
}

pub(super) fn of_lrp(body: &[u8]) -> Result<Vec<Retired>, prost::DecodeError> {
    Ok(LrpRequest::decode(body)?.lrp.unwrap_or_default().mounts)
}

pub(super) fn of_task(body: &[u8]) -> Result<Vec<Retired>, prost::DecodeError> {
    Ok(TaskRequest::decode(body)?.definition.unwrap_or_default().mounts)
}

/// Rebuilds the mounts that are in the older form. Both lists were read from the same bytes, so they are in the same order.
pub(super) fn rebuild(mounts: &mut [VolumeMount], retired: Vec<Retired>) {
    let is_older = |mount: &VolumeMount| mount.mode.is_empty() && mount.shared.is_none() && mount.dedicated.is_none();
    for (mount, retired) in mounts.iter_mut().zip(retired).filter(|(mount, _)| is_older(mount)) {
        mount.mode = if retired.mode == READ_ONLY { "r" } else { "rw" }.to_owned();
        mount.shared = Some(SharedDevice { volume_id: text(&retired.volume_id), mount_config: text(&retired.config) });
    }
}

/// Text is made valid in the same way as everywhere else; see the module `decode`.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
