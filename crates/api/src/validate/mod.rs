//! Request validation: whether a decoded request may be acted upon, and what to tell the caller if not.
//!
//! Promise: [`check`] never panics, needs no more stack or answer than its named limits allow, and refuses with the
//! texts that Diego's own server uses, in its order and with its duplicates. Where that server would stop on a
//! request (an action without a kind inside another, an update without content, a metric tag without a value, `null`
//! as a route) the request is refused here.
//!
//! The HTTP edge calls [`check`] right after decoding, and [`compact_routes`] before routes are stored. Nothing below
//! the edge validates again. There is one file per subject; requests live beside the objects they carry.
//!
//! Not done: no rule looks at stored state, so "exists" and "not found" are decided elsewhere; and no rule repairs a
//! request, so defaults for older clients must be filled in before.
//!
//! When you add a request: implement [`Validate`] in the file of its subject and add it to `every_request` below.

mod action;
mod actual_lrp;
mod cached_dependency;
mod check_definition;
mod create_desired_lrp;
mod desired_lrp;
mod destination;
mod domain;
mod evacuation;
mod findings;
mod image;
mod metric_tags;
mod rollout;
mod rootfs;
mod routes;
#[cfg(test)]
mod samples;
mod security_group;
mod sidecar;
mod task;
mod volume;

pub use action::ACTION_DEPTH_MAX;
pub use desired_lrp::{ANNOTATION_BYTES_MAX, INSTANCES_MAX};
pub use findings::{FINDINGS_MAX, Findings, Invalid, STORED_NAME_BYTES_MAX};
pub use routes::{ROUTE_JSON_DEPTH_MAX, ROUTES_BYTES_MAX, compact_routes, routes_are_json};
pub use volume::MOUNTED_FILES_BYTES_MAX;

/// A message with rules.
pub trait Validate {
    /// Reports everything that is wrong, in the order of the rules.
    fn findings(&self, found: &mut Findings);
}

/// Accepts the message, or says everything that is wrong with it.
pub fn check<M: Validate>(message: &M) -> Result<(), Invalid> {
    let mut found = Findings::default();
    message.findings(&mut found);
    found.into_result()
}

#[cfg(test)]
mod tests {
    use super::samples::{desired_lrp, run, task_definition, verdict};
    use super::*;
    use crate::models::*;
    use proptest::prelude::*;
    use prost::Message;

    #[test]
    fn an_empty_desired_lrp() {
        let request = DesireLrpRequest { desired_lrp: Some(DesiredLrp::default()) };
        let expected = "Invalid field: domain, Invalid field: rootfs, Invalid field: rootfs, \
                        Invalid field: metric_tags, Invalid field: domain, Invalid field: process_guid, \
                        invalid action type";
        assert_eq!(verdict(&request), expected);
    }

    #[test]
    fn a_start_with_empty_keys() {
        let request = StartActualLrpRequest {
            actual_lrp_key: Some(ActualLrpKey::default()),
            actual_lrp_instance_key: Some(ActualLrpInstanceKey::default()),
            actual_lrp_net_info: Some(ActualLrpNetInfo::default()),
            ..Default::default()
        };
        let expected = "Invalid field: process_guid, Invalid field: domain, Invalid field: cell_id, \
                        Invalid field: instance_guid, Invalid field: address";
        assert_eq!(verdict(&request), expected);
    }

    #[test]
    fn a_bad_egress_rule() {
        let lrp = DesiredLrp { egress_rules: vec![SecurityGroupRule::default()], ..desired_lrp() };
        let expected = "Invalid field: egress_rules, Invalid field: protocol, \
                        Invalid field: destinations [ Must have at least 1 destination ]";
        assert_eq!(verdict(&DesireLrpRequest { desired_lrp: Some(lrp) }), expected);
    }

    #[test]
    fn a_metric_tag_entry_without_a_value_is_refused_from_the_wire() {
        let mut bytes = desired_lrp().encode_to_vec();
        // Field 35, one map entry that holds only the key "t".
        bytes.extend([0x9a, 0x02, 0x03, 0x0a, 0x01, b't']);
        let lrp = DesiredLrp::decode(bytes.as_slice()).expect("the message decodes");
        assert_eq!(verdict(&lrp), "Invalid field: metric_tags, Invalid field: static, Invalid field: dynamic");
    }

    #[test]
    fn a_flood_of_bad_destinations_gets_a_short_answer() {
        let destinations = vec![",".repeat(1_000_000)];
        let rule = SecurityGroupRule { protocol: "all".into(), destinations, ..Default::default() };
        let text = verdict(&rule);
        assert!(text.len() < 20_000, "{} bytes", text.len());
        assert!(text.ends_with("Invalid IP, and 999001 more ]"));
    }

    /// Decodes the bytes as `M` and, if they are an `M`, asks for a verdict that must be the same twice.
    fn judge<M: Message + Default + Validate>(bytes: &[u8]) {
        if let Ok(message) = M::decode(bytes) {
            assert_eq!(verdict(&message), verdict(&message));
        }
    }

    fn every_request(bytes: &[u8]) {
        for judge in [
            judge::<UpsertDomainRequest>,
            judge::<ActualLrPsRequest>,
            judge::<ActualLrPsByProcessGuidsRequest>,
            judge::<ActualLrpGroupsRequest>,
            judge::<ActualLrpGroupsByProcessGuidRequest>,
            judge::<ActualLrpGroupByProcessGuidAndIndexRequest>,
            judge::<EventsByCellId>,
            judge::<ClaimActualLrpRequest>,
            judge::<StartActualLrpRequest>,
            judge::<CrashActualLrpRequest>,
            judge::<FailActualLrpRequest>,
            judge::<RetireActualLrpRequest>,
            judge::<RemoveActualLrpRequest>,
            judge::<RemoveEvacuatingActualLrpRequest>,
            judge::<EvacuateClaimedActualLrpRequest>,
            judge::<EvacuateStoppedActualLrpRequest>,
            judge::<EvacuateCrashedActualLrpRequest>,
            judge::<EvacuateRunningActualLrpRequest>,
            judge::<DesiredLrPsRequest>,
            judge::<DesiredLrpByProcessGuidRequest>,
            judge::<RemoveDesiredLrpRequest>,
            judge::<DesireLrpRequest>,
            judge::<CreateDesiredLrpRequest>,
            judge::<CreateDesiredLrpRequest09>,
            judge::<ListMutableDesiredLrPsRequest>,
            judge::<ListImmutableDesiredLrPsRequest>,
            judge::<ListDesiredLrPsRequest09>,
            judge::<UpdateDesiredLrpRequest>,
            judge::<DesireTaskRequest>,
            judge::<StartTaskRequest>,
            judge::<CompleteTaskRequest>,
            judge::<FailTaskRequest>,
            judge::<RejectTaskRequest>,
            judge::<TaskByGuidRequest>,
            judge::<TaskGuidRequest>,
            judge::<TasksRequest>,
        ] {
            judge(bytes);
        }
        if let Ok(routes) = ProtoRoutes::decode(bytes) {
            assert_eq!(routes_are_json(&routes), compact_routes(routes).is_ok());
        }
    }

    /// A request that uses every nested object, so that changed bytes reach every rule.
    fn rich_requests() -> [Vec<u8>; 2] {
        let group = ParallelAction { actions: vec![run(), run()], ..Default::default() };
        let layer = ImageLayer { url: "u".into(), layer_type: 2, digest_value: "d".into(), ..Default::default() };
        let rule = SecurityGroupRule {
            protocol: "tcp".into(),
            destinations: vec!["1.2.3.4-1.2.3.5,10.0.0.0/8,::1".into()],
            port_range: Some(PortRange { start: 1, end: 2 }),
            ..Default::default()
        };
        let lrp = DesiredLrp {
            setup: Some(Action { parallel_action: Some(group), ..Default::default() }),
            routes: Some(ProtoRoutes { routes: [("r".to_owned(), "{}".into())].into() }),
            egress_rules: vec![rule.clone()],
            image_layers: vec![layer.clone()],
            volume_mounts: vec![VolumeMount { shared: Some(SharedDevice::default()), ..Default::default() }],
            sidecars: vec![Sidecar { action: Some(run()), ..Default::default() }],
            check_definition: Some(CheckDefinition { checks: vec![Check::default()], ..Default::default() }),
            ..desired_lrp()
        };
        let task_definition =
            Some(TaskDefinition { egress_rules: vec![rule], image_layers: vec![layer], ..task_definition() });
        let task = DesireTaskRequest { task_definition, task_guid: "t".into(), domain: "d".into() };
        [DesireLrpRequest { desired_lrp: Some(lrp) }.encode_to_vec(), task.encode_to_vec()]
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            every_request(&bytes);
        }

        #[test]
        fn damaged_requests_never_panic(
            which in 0_usize..2,
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            length in any::<prop::sample::Index>(),
            truncate in any::<bool>(),
        ) {
            let mut bytes = rich_requests()[which].clone();
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if truncate {
                bytes.truncate(length.index(bytes.len()));
            }
            every_request(&bytes);
        }

        #[test]
        fn texts_of_any_kind_never_panic(text in any::<String>(), bits in "[-/,:.%@\\[\\]#?0-9a-f]{0,40}") {
            for text in [&text, &bits] {
                let rule = SecurityGroupRule { destinations: vec![text.clone()], ..Default::default() };
                prop_assert!(check(&rule).is_err());
                for root_fs in [text.clone(), format!("docker://{text}")] {
                    let refused = verdict(&DesiredLrp { root_fs, ..desired_lrp() });
                    prop_assert!(refused.is_empty() || refused.starts_with("Invalid field: rootfs"));
                }
            }
        }
    }
}
