//! Desired LRPs: lists, the two derived views, and changes.

use super::{Client, ClientError};
use crate::models::{
    ActualLrpInstanceKey, DesireLrpRequest, DesiredLrPsRequest, DesiredLrPsResponse, DesiredLrp,
    DesiredLrpByProcessGuidRequest, DesiredLrpLifecycleResponse, DesiredLrpResponse, DesiredLrpSchedulingInfo,
    DesiredLrpSchedulingInfoByProcessGuidResponse, DesiredLrpSchedulingInfosResponse, DesiredLrpUpdate,
    RemoveDesiredLrpRequest, UpdateDesiredLrpRequest,
};
use crate::routes::Route;
use crate::wire::Wire;

impl Client {
    pub async fn desired_lrps(&self, filter: DesiredLrPsRequest) -> Result<Vec<DesiredLrp>, ClientError> {
        let answer: DesiredLrPsResponse = self.call(Route::DesiredLrps, filter).await?;
        Ok(answer.desired_lrps)
    }

    pub async fn desired_lrp_by_process_guid(&self, process_guid: &str) -> Result<DesiredLrp, ClientError> {
        let request = DesiredLrpByProcessGuidRequest { process_guid: process_guid.to_owned(), ..Default::default() };
        let answer: DesiredLrpResponse = self.call(Route::DesiredLrpByProcessGuid, request).await?;
        Ok(answer.desired_lrp.unwrap_or_default())
    }

    /// The record as an instance is to see it: during an update some have the definition before.
    pub async fn desired_lrp_of_instance(
        &self,
        process_guid: &str,
        instance: ActualLrpInstanceKey,
    ) -> Result<DesiredLrp, ClientError> {
        let process_guid = process_guid.to_owned();
        let request = DesiredLrpByProcessGuidRequest { process_guid, actual_lrp_instance_key: Some(instance) };
        let answer: DesiredLrpResponse = self.call(Route::DesiredLrpByProcessGuid, request).await?;
        Ok(answer.desired_lrp.unwrap_or_default())
    }

    /// What placement needs to know. The filter by app guids has no effect here.
    pub async fn desired_lrp_scheduling_infos(
        &self,
        filter: DesiredLrPsRequest,
    ) -> Result<Vec<DesiredLrpSchedulingInfo>, ClientError> {
        let answer: DesiredLrpSchedulingInfosResponse = self.call(Route::DesiredLrpSchedulingInfos, filter).await?;
        Ok(answer.desired_lrp_scheduling_infos)
    }

    pub async fn desired_lrp_scheduling_info_by_process_guid(
        &self,
        process_guid: &str,
    ) -> Result<DesiredLrpSchedulingInfo, ClientError> {
        let request = DesiredLrpByProcessGuidRequest { process_guid: process_guid.to_owned(), ..Default::default() };
        let route = Route::DesiredLrpSchedulingInfoByProcessGuid;
        let answer: DesiredLrpSchedulingInfoByProcessGuidResponse = self.call(route, request).await?;
        Ok(answer.desired_lrp_scheduling_info.unwrap_or_default())
    }

    /// What routing needs to know, as desired LRPs with the other fields empty. Only the filter by process guids has
    /// an effect.
    pub async fn desired_lrp_routing_infos(&self, filter: DesiredLrPsRequest) -> Result<Vec<DesiredLrp>, ClientError> {
        let answer: DesiredLrPsResponse = self.call(Route::DesiredLrpRoutingInfos, filter).await?;
        Ok(answer.desired_lrps)
    }

    pub async fn desire_lrp(&self, desired_lrp: DesiredLrp) -> Result<(), ClientError> {
        self.desired_lrp_step(Route::DesireDesiredLrp, DesireLrpRequest { desired_lrp: Some(desired_lrp) }).await
    }

    pub async fn update_desired_lrp(&self, process_guid: &str, update: DesiredLrpUpdate) -> Result<(), ClientError> {
        let request = UpdateDesiredLrpRequest { process_guid: process_guid.to_owned(), update: Some(update) };
        self.desired_lrp_step(Route::UpdateDesiredLrp, request).await
    }

    pub async fn remove_desired_lrp(&self, process_guid: &str) -> Result<(), ClientError> {
        let request = RemoveDesiredLrpRequest { process_guid: process_guid.to_owned() };
        self.desired_lrp_step(Route::RemoveDesiredLrp, request).await
    }

    async fn desired_lrp_step(&self, route: Route, request: impl Wire) -> Result<(), ClientError> {
        let _: DesiredLrpLifecycleResponse = self.call(route, request).await?;
        Ok(())
    }
}
