//! Evacuation: what a cell reports about its instances while it is being drained.

use super::actual_lrp::{creatable, instance};
use super::{Findings, Validate};
use crate::models::{
    EvacuateClaimedActualLrpRequest, EvacuateCrashedActualLrpRequest, EvacuateRunningActualLrpRequest,
    EvacuateStoppedActualLrpRequest, RemoveEvacuatingActualLrpRequest,
};

impl Validate for EvacuateClaimedActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        instance(self.actual_lrp_key.as_ref(), self.actual_lrp_instance_key.as_ref(), found);
    }
}

impl Validate for EvacuateStoppedActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        instance(self.actual_lrp_key.as_ref(), self.actual_lrp_instance_key.as_ref(), found);
    }
}

impl Validate for RemoveEvacuatingActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        instance(self.actual_lrp_key.as_ref(), self.actual_lrp_instance_key.as_ref(), found);
    }
}

impl Validate for EvacuateCrashedActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        instance(self.actual_lrp_key.as_ref(), self.actual_lrp_instance_key.as_ref(), found);
        found.not_empty("error_message", &self.error_message);
    }
}

impl Validate for EvacuateRunningActualLrpRequest {
    fn findings(&self, found: &mut Findings) {
        instance(self.actual_lrp_key.as_ref(), self.actual_lrp_instance_key.as_ref(), found);
        found.present("actual_lrp_net_info", self.actual_lrp_net_info.as_ref());
        creatable(self.actual_lrp_key.as_ref(), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ActualLrpKey;
    use crate::validate::samples::{instance_key, key, net_info, verdict};

    const NO_INSTANCE: &str = "Invalid field: actual_lrp_key, Invalid field: actual_lrp_instance_key";

    #[test]
    fn absent_parts_are_reported_by_their_field_names() {
        assert_eq!(verdict(&EvacuateClaimedActualLrpRequest::default()), NO_INSTANCE);
        assert_eq!(verdict(&EvacuateStoppedActualLrpRequest::default()), NO_INSTANCE);
        assert_eq!(verdict(&RemoveEvacuatingActualLrpRequest::default()), NO_INSTANCE);
        let crashed = EvacuateCrashedActualLrpRequest::default();
        assert_eq!(verdict(&crashed), format!("{NO_INSTANCE}, Invalid field: error_message"));
        let running = EvacuateRunningActualLrpRequest::default();
        assert_eq!(verdict(&running), format!("{NO_INSTANCE}, Invalid field: actual_lrp_net_info"));
    }

    #[test]
    fn whole_requests_pass() {
        let (actual_lrp_key, actual_lrp_instance_key) = (Some(key()), Some(instance_key()));
        let claimed = EvacuateClaimedActualLrpRequest {
            actual_lrp_key: actual_lrp_key.clone(),
            actual_lrp_instance_key: actual_lrp_instance_key.clone(),
        };
        assert_eq!(verdict(&claimed), "");
        let stopped = EvacuateStoppedActualLrpRequest {
            actual_lrp_key: actual_lrp_key.clone(),
            actual_lrp_instance_key: actual_lrp_instance_key.clone(),
        };
        assert_eq!(verdict(&stopped), "");
        let remove = RemoveEvacuatingActualLrpRequest {
            actual_lrp_key: actual_lrp_key.clone(),
            actual_lrp_instance_key: actual_lrp_instance_key.clone(),
        };
        assert_eq!(verdict(&remove), "");
        let crashed = EvacuateCrashedActualLrpRequest {
            actual_lrp_key: actual_lrp_key.clone(),
            actual_lrp_instance_key: actual_lrp_instance_key.clone(),
            error_message: "exit 1".into(),
        };
        assert_eq!(verdict(&crashed), "");
        let running = EvacuateRunningActualLrpRequest {
            actual_lrp_key,
            actual_lrp_instance_key,
            actual_lrp_net_info: Some(net_info()),
            ..Default::default()
        };
        assert_eq!(verdict(&running), "");
        let long_key = ActualLrpKey { domain: "d".repeat(256), ..key() };
        let running = EvacuateRunningActualLrpRequest { actual_lrp_key: Some(long_key), ..running };
        assert_eq!(verdict(&running), "the request received is invalid");
    }
}
