//! Desired LRPs: what a client wants to run, its updates, and the requests about it.
//!
//! The order below looks redundant because Diego checks the object twice, once whole and once as the part that it
//! stores separately: an empty domain, oversized files and a bad log rate are reported by both passes. The texts are
//! compared by test suites, so both passes are kept.
//!
//! Not checked, as in Diego: network, placement tags, certificate properties, CPU weight, ports and update strategy.

use super::action::required_action;
use super::cached_dependency::cached_dependencies;
use super::image::image_layers;
use super::metric_tags::metric_tags;
use super::rootfs::has_scheme;
use super::routes::routes_length;
use super::security_group::egress_rules;
use super::sidecar::sidecars;
use super::volume::mounted_files;
use super::{Findings, Validate};
use crate::models::{
    Action, DesireLrpRequest, DesiredLrPsRequest, DesiredLrp, DesiredLrpByProcessGuidRequest, DesiredLrpUpdate,
    EnvironmentVariable, RemoveDesiredLrpRequest, UpdateDesiredLrpRequest,
};

/// Also the limit of a task's annotation.
pub const ANNOTATION_BYTES_MAX: usize = 10 * 1024;

/// Every instance is a record of its own; a request for billions would exhaust the server before anything else failed.
pub const INSTANCES_MAX: i32 = 100_000;

/// What a client may call a definition: printable ASCII, because it is quoted in messages and compared by people.
const UPDATE_IDENTIFIER_BYTES_MAX: usize = 255;

/// Minus one means "no limit".
pub(super) const LOG_RATE_BYTES_PER_SECOND_MIN: i64 = -1;

impl Validate for DesiredLrp {
    fn findings(&self, found: &mut Findings) {
        whole(self, found);
        stored_part(self, found);
        found.stored_name(&self.process_guid);
        found.stored_name(&self.domain);
    }
}

fn whole(lrp: &DesiredLrp, found: &mut Findings) {
    mounted_files(&lrp.volume_mounted_files, found);
    found.not_empty("domain", &lrp.domain);
    found.not_empty("rootfs", &lrp.root_fs);
    if !has_scheme(&lrp.root_fs) {
        found.field("rootfs");
    }
    instances(lrp.instances, found);
    found.not_negative("memory_mb", lrp.memory_mb);
    found.not_negative("disk_mb", lrp.disk_mb);
    log_rate(lrp, "log_rate_limit_bytes_per_second", found);
    found.at_most("annotation", lrp.annotation.len(), ANNOTATION_BYTES_MAX);
    found.not_negative("max_pids", lrp.max_pids);
    routes_length(lrp.routes.as_ref(), found);
    if lrp.metric_tags.is_empty() {
        found.field("metric_tags");
    }
    metric_tags(&lrp.metric_tags, &lrp.metrics_guid, found);
}

fn stored_part(lrp: &DesiredLrp, found: &mut Findings) {
    found.not_empty("domain", &lrp.domain);
    found.guid("process_guid", &lrp.process_guid);
    mounted_files(&lrp.volume_mounted_files, found);
    optional_action("setup", lrp.setup.as_ref(), found);
    required_action(lrp.action.as_ref(), found);
    optional_action("monitor", lrp.monitor.as_ref(), found);
    for variable in &lrp.environment_variables {
        variable.findings(found);
    }
    egress_rules(&lrp.egress_rules, found);
    cached_dependencies(&lrp.cached_dependencies, found);
    image_layers(&lrp.image_layers, &lrp.legacy_download_user, found);
    sidecars(&lrp.sidecars, found);
    for mount in &lrp.volume_mounts {
        mount.findings(found);
    }
    found.credential_pair(!lrp.image_username.is_empty(), !lrp.image_password.is_empty());
    if let Some(definition) = &lrp.check_definition {
        found.under("check_definition", |found| definition.findings(found));
    }
    log_rate(lrp, "log_rate_limit", found);
}

fn log_rate(lrp: &DesiredLrp, name: &str, found: &mut Findings) {
    if lrp.log_rate_limit.as_ref().is_some_and(|limit| limit.bytes_per_second < LOG_RATE_BYTES_PER_SECOND_MIN) {
        found.field(name);
    }
}

fn optional_action(name: &str, action: Option<&Action>, found: &mut Findings) {
    if let Some(action) = action {
        found.under(name, |found| action.findings(found));
    }
}

impl Validate for EnvironmentVariable {
    fn findings(&self, found: &mut Findings) {
        if self.name.is_empty() {
            found.text("invalid field: name cannot be blank");
        }
    }
}

impl Validate for DesiredLrpUpdate {
    fn findings(&self, found: &mut Findings) {
        instances(self.instances.unwrap_or_default(), found);
        found.at_most("annotation", self.annotation.as_ref().map_or(0, String::len), ANNOTATION_BYTES_MAX);
        routes_length(self.routes.as_ref(), found);
        metric_tags(&self.metric_tags, "", found);
        // Presence counts here, not content: two empty texts take the credentials away.
        found.credential_pair(self.image_username.is_some(), self.image_password.is_some());
        if let Some(terms) = &self.rollout {
            found.under("rollout", |found| terms.findings(found));
            if self.desired_lrp.is_none() {
                found.field("desired_lrp");
            }
        }
        match (&self.desired_lrp, &self.update_identifier) {
            (Some(lrp), Some(identifier)) => {
                found.under("desired_lrp", |found| as_if_desired(lrp).findings(found));
                update_identifier(identifier, found);
            }
            (Some(_), None) => found.field("update_identifier"),
            (None, Some(_)) => found.field("desired_lrp"),
            (None, None) => {}
        }
    }
}

/// A definition obeys the rules of a new LRP, but for what an update does not take from it.
fn as_if_desired(definition: &DesiredLrp) -> DesiredLrp {
    let known = |name: &String| if name.is_empty() { "known-from-the-record".to_owned() } else { name.clone() };
    DesiredLrp {
        process_guid: known(&definition.process_guid),
        domain: known(&definition.domain),
        instances: 0,
        routes: None,
        annotation: String::new(),
        ..definition.clone()
    }
}

fn update_identifier(identifier: &str, found: &mut Findings) {
    let printable = identifier.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if identifier.is_empty() || identifier.len() > UPDATE_IDENTIFIER_BYTES_MAX || !printable {
        found.field("update_identifier");
    }
}

impl Validate for DesireLrpRequest {
    fn findings(&self, found: &mut Findings) {
        found.present("desired_lrp", self.desired_lrp.as_ref());
    }
}

impl Validate for UpdateDesiredLrpRequest {
    /// Diego's own server accepts a request without an update and then stops on it.
    fn findings(&self, found: &mut Findings) {
        found.not_empty("process_guid", &self.process_guid);
        found.present("update", self.update.as_ref());
        let definition = self.update.as_ref().and_then(|update| update.desired_lrp.as_ref());
        if definition.is_some_and(|lrp| !lrp.process_guid.is_empty() && lrp.process_guid != self.process_guid) {
            found.field("process_guid");
        }
    }
}

impl Validate for RemoveDesiredLrpRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("process_guid", &self.process_guid);
    }
}

impl Validate for DesiredLrpByProcessGuidRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("process_guid", &self.process_guid);
    }
}

impl Validate for DesiredLrPsRequest {
    fn findings(&self, _: &mut Findings) {}
}

fn instances(wanted: i32, found: &mut Findings) {
    if !(0..=INSTANCES_MAX).contains(&wanted) {
        found.field("instances");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{
        CachedDependency, Check, CheckDefinition, File, ImageLayer, LogRateLimit, MetricTagValue, ProtoRoutes,
        SecurityGroupRule, Sidecar, VolumeMount,
    };
    use crate::validate::ROUTES_BYTES_MAX;
    use crate::validate::samples::{desired_lrp, verdict};

    fn changed(change: impl FnOnce(&mut DesiredLrp)) -> String {
        let mut lrp = desired_lrp();
        change(&mut lrp);
        verdict(&DesireLrpRequest { desired_lrp: Some(lrp) })
    }

    fn routes_of(length: usize) -> Option<ProtoRoutes> {
        let value = || vec![b'1'; length / 2].into_iter().collect();
        Some(ProtoRoutes { routes: [("a".repeat(1_000), value()), ("b".repeat(1_000), value())].into() })
    }

    #[test]
    fn a_usual_lrp_passes() {
        assert_eq!(changed(|_| {}), "");
        assert_eq!(verdict(&DesireLrpRequest::default()), "Invalid field: desired_lrp");
    }

    #[test]
    fn single_values() {
        let files = "Invalid field: volumeMountedFiles, Invalid field: volumeMountedFiles";
        let big_file = File { path: "p".into(), content: "x".repeat(1024 * 1024 + 1) };
        assert_eq!(changed(|lrp| lrp.volume_mounted_files = vec![big_file]), files);
        assert_eq!(changed(|lrp| lrp.domain.clear()), "Invalid field: domain, Invalid field: domain");
        assert_eq!(changed(|lrp| lrp.root_fs.clear()), "Invalid field: rootfs, Invalid field: rootfs");
        assert_eq!(changed(|lrp| lrp.root_fs = "cflinuxfs4".into()), "Invalid field: rootfs");
        assert_eq!(changed(|lrp| lrp.instances = -1), "Invalid field: instances");
        assert_eq!(changed(|lrp| lrp.instances = INSTANCES_MAX + 1), "Invalid field: instances");
        assert_eq!(changed(|lrp| lrp.instances = INSTANCES_MAX), "");
        assert_eq!(changed(|lrp| lrp.memory_mb = -1), "Invalid field: memory_mb");
        assert_eq!(changed(|lrp| lrp.disk_mb = -1), "Invalid field: disk_mb");
        assert_eq!(changed(|lrp| lrp.max_pids = -1), "Invalid field: max_pids");
        assert_eq!(changed(|lrp| lrp.process_guid = "a b".into()), "Invalid field: process_guid");
        assert_eq!(changed(|lrp| lrp.image_username = "me".into()), "Invalid field: image_password");
        assert_eq!(changed(|lrp| lrp.image_password = "secret".into()), "Invalid field: image_username");
    }

    #[test]
    fn limits_are_inclusive() {
        assert_eq!(changed(|lrp| lrp.annotation = "a".repeat(ANNOTATION_BYTES_MAX)), "");
        assert_eq!(changed(|lrp| lrp.annotation = "a".repeat(ANNOTATION_BYTES_MAX + 1)), "Invalid field: annotation");
        assert_eq!(changed(|lrp| lrp.routes = routes_of(ROUTES_BYTES_MAX)), "");
        assert_eq!(changed(|lrp| lrp.routes = routes_of(ROUTES_BYTES_MAX + 2)), "Invalid field: routes");
        let rate = |bytes_per_second| changed(|lrp| lrp.log_rate_limit = Some(LogRateLimit { bytes_per_second }));
        assert_eq!(rate(-1), "");
        assert_eq!(rate(-2), "Invalid field: log_rate_limit_bytes_per_second, Invalid field: log_rate_limit");
        assert_eq!(changed(|lrp| lrp.process_guid = "g".repeat(255)), "");
        assert_eq!(changed(|lrp| lrp.process_guid = "g".repeat(256)), "the request received is invalid");
        assert_eq!(changed(|lrp| lrp.domain = "d".repeat(256)), "the request received is invalid");
    }

    #[test]
    fn metric_tags_are_required_and_checked() {
        assert_eq!(changed(|lrp| lrp.metric_tags.clear()), "Invalid field: metric_tags");
        let without_tags = changed(|lrp| {
            lrp.metric_tags.clear();
            lrp.metrics_guid = "guid".into();
        });
        assert_eq!(without_tags, "Invalid field: metric_tags");
        let empty_tag = changed(|lrp| drop(lrp.metric_tags.insert("t".into(), MetricTagValue::default())));
        assert_eq!(empty_tag, "Invalid field: metric_tags, Invalid field: static, Invalid field: dynamic");
        let mismatch = "Invalid field: metric_tags, Invalid field: source_id should match metrics_guid";
        assert_eq!(changed(|lrp| lrp.metrics_guid = "other".into()), mismatch);
    }

    #[test]
    fn nested_objects_follow_their_heading() {
        let empty = || Some(Action::default());
        assert_eq!(changed(|lrp| lrp.setup = empty()), "Invalid field: setup, Invalid field: inner-action");
        assert_eq!(changed(|lrp| lrp.action = empty()), "Invalid field: action, Invalid field: inner-action");
        assert_eq!(changed(|lrp| lrp.action = None), "invalid action type");
        assert_eq!(changed(|lrp| lrp.monitor = empty()), "Invalid field: monitor, Invalid field: inner-action");
        let unnamed = || EnvironmentVariable { name: String::new(), value: "v".into() };
        let blank = "invalid field: name cannot be blank";
        assert_eq!(changed(|lrp| lrp.environment_variables = vec![unnamed(), unnamed()]), format!("{blank}, {blank}"));
        let check = "Invalid field: check_definition, Invalid field: port";
        let definition = CheckDefinition { checks: vec![Check::default()], ..Default::default() };
        assert_eq!(changed(|lrp| lrp.check_definition = Some(definition)), check);
        assert_eq!(changed(|lrp| lrp.check_definition = Some(CheckDefinition::default())), "");
    }

    #[test]
    fn everything_wrong_is_reported_in_the_known_order() {
        let lrp = DesiredLrp {
            volume_mounted_files: vec![File { path: "p".into(), content: "x".repeat(1024 * 1024 + 1) }],
            instances: -1,
            memory_mb: -1,
            disk_mb: -1,
            log_rate_limit: Some(LogRateLimit { bytes_per_second: -2 }),
            annotation: "a".repeat(ANNOTATION_BYTES_MAX + 1),
            max_pids: -1,
            routes: routes_of(ROUTES_BYTES_MAX + 2),
            metrics_guid: "guid".into(),
            metric_tags: [("tag".to_owned(), MetricTagValue::default())].into(),
            setup: Some(Action::default()),
            monitor: Some(Action::default()),
            environment_variables: vec![EnvironmentVariable::default()],
            egress_rules: vec![SecurityGroupRule::default()],
            cached_dependencies: vec![CachedDependency::default()],
            image_layers: vec![ImageLayer { layer_type: 2, media_type: 1, ..Default::default() }],
            sidecars: vec![Sidecar::default()],
            volume_mounts: vec![VolumeMount::default()],
            image_username: "me".into(),
            check_definition: Some(CheckDefinition { checks: vec![Check::default()], ..Default::default() }),
            ..Default::default()
        };
        let expected = [
            "Invalid field: volumeMountedFiles",
            "Invalid field: domain",
            "Invalid field: rootfs",
            "Invalid field: rootfs",
            "Invalid field: instances",
            "Invalid field: memory_mb",
            "Invalid field: disk_mb",
            "Invalid field: log_rate_limit_bytes_per_second",
            "Invalid field: annotation",
            "Invalid field: max_pids",
            "Invalid field: routes",
            "Invalid field: metric_tags",
            "Invalid field: static",
            "Invalid field: dynamic",
            "Invalid field: source_id should match metrics_guid",
            "Invalid field: domain",
            "Invalid field: process_guid",
            "Invalid field: volumeMountedFiles",
            "Invalid field: setup",
            "Invalid field: inner-action",
            "invalid action type",
            "Invalid field: monitor",
            "Invalid field: inner-action",
            "invalid field: name cannot be blank",
            "Invalid field: egress_rules",
            "Invalid field: protocol",
            "Invalid field: destinations [ Must have at least 1 destination ]",
            "Invalid field: cached_dependency",
            "Invalid field: from",
            "Invalid field: to",
            "Invalid field: image_layer",
            "Invalid field: url",
            "Invalid field: destination_path",
            "Invalid field: digest_algorithm",
            "Invalid field: digest_value",
            "Invalid field: legacy_download_user",
            "Invalid field: sidecars",
            "invalid action type",
            "invalid volume_mount driver",
            "invalid volume_mount mode",
            "Invalid field: image_password",
            "Invalid field: check_definition",
            "Invalid field: port",
            "Invalid field: log_rate_limit",
        ];
        assert_eq!(verdict(&lrp), expected.join(", "));
    }

    #[test]
    fn updates() {
        let text = |update: DesiredLrpUpdate| {
            verdict(&UpdateDesiredLrpRequest { process_guid: "p".into(), update: Some(update) })
        };
        assert_eq!(text(DesiredLrpUpdate::default()), "");
        let absent = "Invalid field: process_guid, Invalid field: update";
        assert_eq!(verdict(&UpdateDesiredLrpRequest::default()), absent);
        let pair = |image_username: Option<&str>, image_password: Option<&str>| {
            let [image_username, image_password] = [image_username, image_password].map(|text| text.map(str::to_owned));
            text(DesiredLrpUpdate { image_username, image_password, ..Default::default() })
        };
        assert_eq!(pair(Some(""), None), "Invalid field: image_password");
        assert_eq!(pair(None, Some("secret")), "Invalid field: image_username");
        assert_eq!(pair(Some(""), Some("")), "");
        // An update has no metrics_guid, so its tags need not hold a source_id.
        let tags =
            |r#static: &str| [("tag".to_owned(), MetricTagValue { r#static: r#static.into(), dynamic: 0 })].into();
        assert_eq!(text(DesiredLrpUpdate { metric_tags: tags("x"), ..Default::default() }), "");
        let all = DesiredLrpUpdate {
            instances: Some(-1),
            annotation: Some("a".repeat(ANNOTATION_BYTES_MAX + 1)),
            routes: routes_of(ROUTES_BYTES_MAX + 2),
            metric_tags: tags(""),
            ..Default::default()
        };
        let expected = "Invalid field: instances, Invalid field: annotation, Invalid field: routes, \
                        Invalid field: metric_tags, Invalid field: static, Invalid field: dynamic";
        assert_eq!(text(all), expected);
    }

    #[test]
    fn definitions_in_updates() {
        let text = |lrp: Option<DesiredLrp>, identifier: Option<&str>| {
            let update_identifier = identifier.map(str::to_owned);
            let update = DesiredLrpUpdate { desired_lrp: lrp, update_identifier, ..Default::default() };
            verdict(&UpdateDesiredLrpRequest { process_guid: "process".into(), update: Some(update) })
        };
        let with = |change: fn(&mut DesiredLrp)| {
            let mut lrp = desired_lrp();
            change(&mut lrp);
            text(Some(lrp), Some("v2"))
        };
        assert_eq!(with(|_| {}), "");
        assert_eq!(text(Some(desired_lrp()), None), "Invalid field: update_identifier");
        assert_eq!(text(None, Some("v2")), "Invalid field: desired_lrp");
        let longest = "i".repeat(UPDATE_IDENTIFIER_BYTES_MAX);
        for good in ["v", "~ v 2 !", &longest] {
            assert_eq!(text(Some(desired_lrp()), Some(good)), "", "{good:?}");
        }
        for bad in ["", "v\n2", "v\u{7f}", "\0", "é", &format!("{longest}i")] {
            assert_eq!(text(Some(desired_lrp()), Some(bad)), "Invalid field: update_identifier", "{bad:?}");
        }
        // The process keeps its name, and the update has fields of its own for its mutable parts.
        assert_eq!(with(|lrp| lrp.process_guid.clear()), "");
        assert_eq!(with(|lrp| lrp.process_guid = "other".into()), "Invalid field: process_guid");
        assert_eq!(with(|lrp| lrp.domain.clear()), "");
        assert_eq!(with(|lrp| lrp.instances = -1), "");
        assert_eq!(with(|lrp| lrp.annotation = "a".repeat(ANNOTATION_BYTES_MAX + 1)), "");
        assert_eq!(with(|lrp| lrp.routes = routes_of(ROUTES_BYTES_MAX + 2)), "");
        assert_eq!(with(|lrp| lrp.memory_mb = -1), "Invalid field: desired_lrp, Invalid field: memory_mb");
        assert_eq!(with(|lrp| lrp.metric_tags.clear()), "Invalid field: desired_lrp, Invalid field: metric_tags");
        assert_eq!(with(|lrp| lrp.action = None), "Invalid field: desired_lrp, invalid action type");
        assert_eq!(with(|lrp| lrp.domain = "d".repeat(256)), "the request received is invalid");
    }

    #[test]
    fn other_requests() {
        assert_eq!(verdict(&RemoveDesiredLrpRequest::default()), "Invalid field: process_guid");
        assert_eq!(verdict(&RemoveDesiredLrpRequest { process_guid: "any text".into() }), "");
        assert_eq!(verdict(&DesiredLrpByProcessGuidRequest::default()), "Invalid field: process_guid");
        assert_eq!(
            verdict(&DesiredLrpByProcessGuidRequest { actual_lrp_instance_key: None, process_guid: "p".into() }),
            ""
        );
        assert_eq!(verdict(&DesiredLrPsRequest::default()), "");
    }
}
