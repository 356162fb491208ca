//! Tasks: their definition and the calls of their life.
//!
//! Not checked, as in Diego: environment, volume mounts, metric tags, network, files and the callback URL.

use super::action::required_action;
use super::cached_dependency::cached_dependencies;
use super::desired_lrp::{ANNOTATION_BYTES_MAX, LOG_RATE_BYTES_PER_SECOND_MIN};
use super::image::image_layers;
use super::rootfs::has_scheme;
use super::security_group::egress_rules_in_brief;
use super::{Findings, Validate};
use crate::models::{
    CompleteTaskRequest, DesireTaskRequest, FailTaskRequest, RejectTaskRequest, StartTaskRequest, TaskByGuidRequest,
    TaskDefinition, TaskGuidRequest, TasksRequest,
};

impl Validate for TaskDefinition {
    fn findings(&self, found: &mut Findings) {
        if !has_scheme(&self.root_fs) {
            found.field("rootfs");
        }
        required_action(self.action.as_ref(), found);
        found.not_negative("memory_mb", self.memory_mb);
        found.not_negative("disk_mb", self.disk_mb);
        if self.log_rate_limit.as_ref().is_some_and(|limit| limit.bytes_per_second < LOG_RATE_BYTES_PER_SECOND_MIN) {
            found.field("log_rate_limit");
        }
        found.not_negative("max_pids", self.max_pids);
        found.at_most("annotation", self.annotation.len(), ANNOTATION_BYTES_MAX);
        egress_rules_in_brief(&self.egress_rules, found);
        found.credential_pair(!self.image_username.is_empty(), !self.image_password.is_empty());
        cached_dependencies(&self.cached_dependencies, found);
        image_layers(&self.image_layers, &self.legacy_download_user, found);
    }
}

impl Validate for DesireTaskRequest {
    fn findings(&self, found: &mut Findings) {
        found.guid("task_guid", &self.task_guid);
        found.not_empty("domain", &self.domain);
        found.present("task_definition", self.task_definition.as_ref());
        found.stored_name(&self.task_guid);
        found.stored_name(&self.domain);
    }
}

impl Validate for StartTaskRequest {
    fn findings(&self, found: &mut Findings) {
        found.guid("task_guid", &self.task_guid);
        found.not_empty("cell_id", &self.cell_id);
    }
}

impl Validate for CompleteTaskRequest {
    fn findings(&self, found: &mut Findings) {
        found.guid("task_guid", &self.task_guid);
        found.not_empty("cell_id", &self.cell_id);
    }
}

impl Validate for FailTaskRequest {
    fn findings(&self, found: &mut Findings) {
        found.guid("task_guid", &self.task_guid);
        found.not_empty("failure_reason", &self.failure_reason);
    }
}

impl Validate for RejectTaskRequest {
    /// The missing rejection reason is reported under the name of the older request, as Diego does.
    fn findings(&self, found: &mut Findings) {
        found.guid("task_guid", &self.task_guid);
        found.not_empty("failure_reason", &self.rejection_reason);
    }
}

impl Validate for TaskByGuidRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("task_guid", &self.task_guid);
    }
}

impl Validate for TaskGuidRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("task_guid", &self.task_guid);
    }
}

impl Validate for TasksRequest {
    fn findings(&self, _: &mut Findings) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{
        Action, CachedDependency, EnvironmentVariable, ImageLayer, LogRateLimit, MetricTagValue, SecurityGroupRule,
        VolumeMount,
    };
    use crate::validate::samples::{task_definition, verdict};

    fn changed(change: impl FnOnce(&mut TaskDefinition)) -> String {
        let mut definition = task_definition();
        change(&mut definition);
        verdict(&definition)
    }

    #[test]
    fn desire() {
        let empty = "Invalid field: task_guid, Invalid field: domain, Invalid field: task_definition";
        assert_eq!(verdict(&DesireTaskRequest::default()), empty);
        let desire = |task_guid: &str, domain: &str| {
            let task_definition = Some(task_definition());
            verdict(&DesireTaskRequest { task_definition, task_guid: task_guid.into(), domain: domain.into() })
        };
        assert_eq!(desire("task-1", "cf-tasks"), "");
        assert_eq!(desire("task 1", "cf-tasks"), "Invalid field: task_guid");
        assert_eq!(desire(&"t".repeat(255), &"d".repeat(255)), "");
        assert_eq!(desire(&"t".repeat(256), "cf-tasks"), "the request received is invalid");
        assert_eq!(desire("task-1", &"d".repeat(256)), "the request received is invalid");
    }

    #[test]
    fn definitions() {
        assert_eq!(changed(|_| {}), "");
        assert_eq!(verdict(&TaskDefinition::default()), "Invalid field: rootfs, invalid action type");
        assert_eq!(changed(|task| task.root_fs = "no-scheme".into()), "Invalid field: rootfs");
        let inner = "Invalid field: action, Invalid field: inner-action";
        assert_eq!(changed(|task| task.action = Some(Action::default())), inner);
        assert_eq!(changed(|task| task.annotation = "a".repeat(ANNOTATION_BYTES_MAX)), "");
        let rate = |bytes_per_second| changed(|task| task.log_rate_limit = Some(LogRateLimit { bytes_per_second }));
        assert_eq!(rate(-1), "");
        assert_eq!(rate(-2), "Invalid field: log_rate_limit");
        assert_eq!(changed(|task| task.image_password = "secret".into()), "Invalid field: image_username");
    }

    #[test]
    fn some_parts_are_not_looked_at() {
        let text = changed(|task| {
            task.environment_variables = vec![EnvironmentVariable::default()];
            task.volume_mounts = vec![VolumeMount::default()];
            task.metric_tags = [("tag".to_owned(), MetricTagValue::default())].into();
            task.completion_callback_url = "not a url".into();
        });
        assert_eq!(text, "");
    }

    #[test]
    fn everything_wrong_is_reported_in_the_known_order() {
        let definition = TaskDefinition {
            memory_mb: -1,
            disk_mb: -1,
            log_rate_limit: Some(LogRateLimit { bytes_per_second: -2 }),
            max_pids: -1,
            annotation: "a".repeat(ANNOTATION_BYTES_MAX + 1),
            egress_rules: vec![SecurityGroupRule::default(), SecurityGroupRule::default()],
            image_username: "me".into(),
            cached_dependencies: vec![CachedDependency::default()],
            image_layers: vec![ImageLayer { layer_type: 2, media_type: 1, ..Default::default() }],
            ..Default::default()
        };
        let expected = [
            "Invalid field: rootfs",
            "invalid action type",
            "Invalid field: memory_mb",
            "Invalid field: disk_mb",
            "Invalid field: log_rate_limit",
            "Invalid field: max_pids",
            "Invalid field: annotation",
            "Invalid field: egress_rules",
            "Invalid field: egress_rules",
            "Invalid field: image_password",
            "Invalid field: cached_dependency",
            "Invalid field: from",
            "Invalid field: to",
            "Invalid field: image_layer",
            "Invalid field: url",
            "Invalid field: destination_path",
            "Invalid field: digest_algorithm",
            "Invalid field: digest_value",
            "Invalid field: legacy_download_user",
        ];
        assert_eq!(verdict(&definition), expected.join(", "));
    }

    #[test]
    fn life_cycle() {
        let cell = "Invalid field: task_guid, Invalid field: cell_id";
        assert_eq!(verdict(&StartTaskRequest::default()), cell);
        assert_eq!(verdict(&StartTaskRequest { task_guid: "t".into(), cell_id: "c".into() }), "");
        assert_eq!(verdict(&CompleteTaskRequest::default()), cell);
        let complete = CompleteTaskRequest { task_guid: "t".into(), cell_id: "c".into(), ..Default::default() };
        assert_eq!(verdict(&complete), "");
        let reason = "Invalid field: task_guid, Invalid field: failure_reason";
        assert_eq!(verdict(&FailTaskRequest::default()), reason);
        assert_eq!(verdict(&FailTaskRequest { task_guid: "t".into(), failure_reason: "r".into() }), "");
        assert_eq!(verdict(&RejectTaskRequest::default()), reason);
        assert_eq!(verdict(&RejectTaskRequest { task_guid: "t".into(), rejection_reason: "r".into() }), "");
    }

    #[test]
    fn lookups_do_not_apply_the_pattern() {
        assert_eq!(verdict(&TaskByGuidRequest::default()), "Invalid field: task_guid");
        assert_eq!(verdict(&TaskByGuidRequest { task_guid: "not a guid".into() }), "");
        assert_eq!(verdict(&TaskGuidRequest::default()), "Invalid field: task_guid");
        assert_eq!(verdict(&TaskGuidRequest { task_guid: "not a guid".into() }), "");
        assert_eq!(verdict(&TasksRequest::default()), "");
    }
}
