//! Valid messages for the tests to break, and the one function through which they ask.

use super::{Validate, check};
use crate::models::{
    Action, ActualLrpInstanceKey, ActualLrpKey, ActualLrpNetInfo, DesiredLrp, MetricTagValue, RunAction, TaskDefinition,
};

/// The text of the refusal, or nothing.
pub(super) fn verdict<M: Validate>(message: &M) -> String {
    check(message).map_or_else(|invalid| invalid.to_string(), |()| String::new())
}

pub(super) fn key() -> ActualLrpKey {
    ActualLrpKey { process_guid: "process".into(), index: 0, domain: "cf-apps".into() }
}

pub(super) fn instance_key() -> ActualLrpInstanceKey {
    ActualLrpInstanceKey { instance_guid: "instance".into(), cell_id: "cell-1".into() }
}

pub(super) fn net_info() -> ActualLrpNetInfo {
    ActualLrpNetInfo { address: "10.0.0.1".into(), ..Default::default() }
}

pub(super) fn run() -> Action {
    let run = RunAction { path: "/bin/server".into(), user: "vcap".into(), ..Default::default() };
    Action { run_action: Some(run), ..Default::default() }
}

pub(super) fn desired_lrp() -> DesiredLrp {
    DesiredLrp {
        process_guid: "process".into(),
        domain: "cf-apps".into(),
        root_fs: "preloaded:cflinuxfs4".into(),
        instances: 1,
        action: Some(run()),
        metric_tags: [("source_id".to_owned(), MetricTagValue { r#static: "app".into(), dynamic: 0 })].into(),
        ..Default::default()
    }
}

pub(super) fn task_definition() -> TaskDefinition {
    TaskDefinition { root_fs: "docker:///busybox".into(), action: Some(run()), ..Default::default() }
}
