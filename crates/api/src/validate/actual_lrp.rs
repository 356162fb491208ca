//! Actual LRPs: the three keys that identify an instance, queries, and the life-cycle calls of cells and auctioneers.
//!
//! What looks like an oversight is Diego's behaviour and is relied upon: a claim does not check its index, a removal
//! does not look into the instance key, and a crash may come without a message.

use super::{Findings, Validate};
use crate::models::{
    ActualLrPsByProcessGuidsRequest, ActualLrPsRequest, ActualLrpGroupByProcessGuidAndIndexRequest,
    ActualLrpGroupsByProcessGuidRequest, ActualLrpGroupsRequest, ActualLrpInstanceKey, ActualLrpKey, ActualLrpNetInfo,
    ClaimActualLrpRequest, CrashActualLrpRequest, EventsByCellId, FailActualLrpRequest, RemoveActualLrpRequest,
    RetireActualLrpRequest, StartActualLrpRequest,
};

impl Validate for ActualLrpKey {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("process_guid", &self.process_guid);
        found.not_negative("index", self.index);
        found.not_empty("domain", &self.domain);
    }
}

impl Validate for ActualLrpInstanceKey {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("cell_id", &self.cell_id);
        found.not_empty("instance_guid", &self.instance_guid);
    }
}

impl Validate for ActualLrpNetInfo {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("address", &self.address);
    }
}

/// The pair that names one running instance; shared with evacuation.
pub(super) fn instance(key: Option<&ActualLrpKey>, instance_key: Option<&ActualLrpInstanceKey>, found: &mut Findings) {
    found.present("actual_lrp_key", key);
    found.present("actual_lrp_instance_key", instance_key);
}

/// Start and evacuation create the record that they do not find. Other calls may ask for a key that cannot exist.
pub(super) fn creatable(key: Option<&ActualLrpKey>, found: &mut Findings) {
    if let Some(key) = key {
        found.stored_name(&key.process_guid);
        found.stored_name(&key.domain);
    }
}

impl Validate for ActualLrPsRequest {
    fn findings(&self, _: &mut Findings) {}
}

impl Validate for ActualLrpGroupsRequest {
    fn findings(&self, _: &mut Findings) {}
}

impl Validate for EventsByCellId {
    fn findings(&self, _: &mut Findings) {}
}

impl Validate for ActualLrPsByProcessGuidsRequest {
    fn findings(&self, found: &mut Findings) {
        if self.process_guids.is_empty() {
            found.text("process_guids must not be empty");
        }
    }
}

impl Validate for ActualLrpGroupsByProcessGuidRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("process_guid", &self.process_guid);
    }
}

impl Validate for ActualLrpGroupByProcessGuidAndIndexRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("process_guid", &self.process_guid);
        found.not_negative("index", self.index);
    }
}

impl Validate for ClaimActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("process_guid", &self.process_guid);
        found.present("actual_lrp_instance_key", self.actual_lrp_instance_key.as_ref());
    }
}

impl Validate for StartActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        instance(self.actual_lrp_key.as_ref(), self.actual_lrp_instance_key.as_ref(), found);
        found.present("actual_lrp_net_info", self.actual_lrp_net_info.as_ref());
        creatable(self.actual_lrp_key.as_ref(), found);
    }
}

impl Validate for CrashActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        instance(self.actual_lrp_key.as_ref(), self.actual_lrp_instance_key.as_ref(), found);
    }
}

impl Validate for FailActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        found.present("actual_lrp_key", self.actual_lrp_key.as_ref());
        found.not_empty("error_message", &self.error_message);
    }
}

impl Validate for RetireActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        found.present("actual_lrp_key", self.actual_lrp_key.as_ref());
    }
}

impl Validate for RemoveActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("process_guid", &self.process_guid);
        found.not_negative("index", self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::samples::{instance_key, key, net_info, verdict};

    const KEY_EMPTY: &str = "Invalid field: process_guid, Invalid field: domain";
    const INSTANCE_KEY_EMPTY: &str = "Invalid field: cell_id, Invalid field: instance_guid";

    #[test]
    fn the_keys_report_in_their_own_order() {
        assert_eq!(verdict(&ActualLrpKey::default()), KEY_EMPTY);
        assert_eq!(verdict(&key()), "");
        assert_eq!(verdict(&ActualLrpKey { index: -1, ..key() }), "Invalid field: index");
        let bad = ActualLrpKey { index: -1, ..Default::default() };
        assert_eq!(verdict(&bad), "Invalid field: process_guid, Invalid field: index, Invalid field: domain");
        assert_eq!(verdict(&ActualLrpInstanceKey::default()), INSTANCE_KEY_EMPTY);
        assert_eq!(verdict(&instance_key()), "");
        assert_eq!(verdict(&ActualLrpNetInfo::default()), "Invalid field: address");
        assert_eq!(verdict(&net_info()), "");
    }

    #[test]
    fn only_a_request_that_may_create_a_record_is_refused_for_the_length_of_its_key() {
        let long = || "k".repeat(256);
        for long_key in [ActualLrpKey { domain: long(), ..key() }, ActualLrpKey { process_guid: long(), ..key() }] {
            let start = StartActualLrpRequest {
                actual_lrp_key: Some(long_key.clone()),
                actual_lrp_instance_key: Some(instance_key()),
                actual_lrp_net_info: Some(net_info()),
                ..Default::default()
            };
            assert_eq!(verdict(&start), "the request received is invalid");
            assert_eq!(verdict(&RetireActualLrpRequest { actual_lrp_key: Some(long_key) }), "");
        }
    }

    #[test]
    fn queries() {
        assert_eq!(verdict(&ActualLrPsRequest { index: Some(-1), ..Default::default() }), "");
        assert_eq!(verdict(&ActualLrpGroupsRequest::default()), "");
        assert_eq!(verdict(&EventsByCellId::default()), "");
        let empty = ActualLrPsByProcessGuidsRequest::default();
        assert_eq!(verdict(&empty), "process_guids must not be empty");
        assert_eq!(verdict(&ActualLrPsByProcessGuidsRequest { process_guids: vec![String::new()] }), "");
        assert_eq!(verdict(&ActualLrpGroupsByProcessGuidRequest::default()), "Invalid field: process_guid");
        assert_eq!(verdict(&ActualLrpGroupsByProcessGuidRequest { process_guid: "p".into() }), "");
        let by_index = ActualLrpGroupByProcessGuidAndIndexRequest { process_guid: String::new(), index: -1 };
        assert_eq!(verdict(&by_index), "Invalid field: process_guid, Invalid field: index");
        let by_index = ActualLrpGroupByProcessGuidAndIndexRequest { process_guid: "p".into(), index: 0 };
        assert_eq!(verdict(&by_index), "");
    }

    #[test]
    fn claim_checks_the_instance_key_but_not_the_index() {
        let both = "Invalid field: process_guid, Invalid field: actual_lrp_instance_key";
        assert_eq!(verdict(&ClaimActualLrpRequest::default()), both);
        let claim = |actual_lrp_instance_key| {
            verdict(&ClaimActualLrpRequest { process_guid: "p".into(), index: -1, actual_lrp_instance_key })
        };
        assert_eq!(claim(Some(ActualLrpInstanceKey::default())), INSTANCE_KEY_EMPTY);
        assert_eq!(claim(Some(instance_key())), "");
    }

    #[test]
    fn start_needs_all_three_parts() {
        let absent = "Invalid field: actual_lrp_key, Invalid field: actual_lrp_instance_key, \
                      Invalid field: actual_lrp_net_info";
        assert_eq!(verdict(&StartActualLrpRequest::default()), absent);
        let good = StartActualLrpRequest {
            actual_lrp_key: Some(key()),
            actual_lrp_instance_key: Some(instance_key()),
            actual_lrp_net_info: Some(net_info()),
            ..Default::default()
        };
        assert_eq!(verdict(&good), "");
    }

    #[test]
    fn crash_may_come_without_a_message_but_fail_may_not() {
        let absent = "Invalid field: actual_lrp_key, Invalid field: actual_lrp_instance_key";
        assert_eq!(verdict(&CrashActualLrpRequest::default()), absent);
        let crash = CrashActualLrpRequest {
            actual_lrp_key: Some(key()),
            actual_lrp_instance_key: Some(instance_key()),
            error_message: String::new(),
        };
        assert_eq!(verdict(&crash), "");
        let fail = FailActualLrpRequest::default();
        assert_eq!(verdict(&fail), "Invalid field: actual_lrp_key, Invalid field: error_message");
        let fail = FailActualLrpRequest { actual_lrp_key: Some(key()), error_message: "no cell".into() };
        assert_eq!(verdict(&fail), "");
    }

    #[test]
    fn retire_and_remove() {
        assert_eq!(verdict(&RetireActualLrpRequest::default()), "Invalid field: actual_lrp_key");
        let empty = RetireActualLrpRequest { actual_lrp_key: Some(ActualLrpKey::default()) };
        assert_eq!(verdict(&empty), KEY_EMPTY);
        assert_eq!(verdict(&RetireActualLrpRequest { actual_lrp_key: Some(key()) }), "");
        let remove = |process_guid: &str, index| {
            let actual_lrp_instance_key = Some(ActualLrpInstanceKey::default());
            let process_guid = process_guid.into();
            verdict(&RemoveActualLrpRequest { process_guid, index, actual_lrp_instance_key })
        };
        assert_eq!(remove("", -1), "Invalid field: process_guid, Invalid field: index");
        assert_eq!(remove("p", 0), "");
    }
}
