//! Actual LRPs: lists, and the steps of their life. Evacuation has its own file.

use super::{Client, ClientError};
use crate::models::{
    ActualLrPsByProcessGuidsRequest, ActualLrPsByProcessGuidsResponse, ActualLrPsRequest, ActualLrPsResponse,
    ActualLrp, ActualLrpGroup, ActualLrpGroupByProcessGuidAndIndexRequest, ActualLrpGroupResponse,
    ActualLrpGroupsByProcessGuidRequest, ActualLrpGroupsRequest, ActualLrpGroupsResponse, ActualLrpInstanceKey,
    ActualLrpKey, ActualLrpLifecycleResponse, ClaimActualLrpRequest, CrashActualLrpRequest, FailActualLrpRequest,
    RemoveActualLrpRequest, RetireActualLrpRequest, StartActualLrpRequest,
};
use crate::routes::Route;
use crate::wire::Wire;

impl Client {
    /// All records that match; an empty filter matches all. Evacuating and suspect records are entries of their own.
    pub async fn actual_lrps(&self, filter: ActualLrPsRequest) -> Result<Vec<ActualLrp>, ClientError> {
        let answer: ActualLrPsResponse = self.call(Route::ActualLrps, filter).await?;
        Ok(answer.actual_lrps)
    }

    pub async fn actual_lrps_by_process_guids(
        &self,
        process_guids: Vec<String>,
    ) -> Result<Vec<ActualLrp>, ClientError> {
        let request = ActualLrPsByProcessGuidsRequest { process_guids };
        let answer: ActualLrPsByProcessGuidsResponse = self.call(Route::ActualLrpsByProcessGuids, request).await?;
        Ok(answer.actual_lrps)
    }

    /// Deprecated: groups hide suspect records.
    pub async fn actual_lrp_groups(&self, filter: ActualLrpGroupsRequest) -> Result<Vec<ActualLrpGroup>, ClientError> {
        let answer: ActualLrpGroupsResponse = self.call(Route::ActualLrpGroups, filter).await?;
        Ok(answer.actual_lrp_groups)
    }

    /// Deprecated: groups hide suspect records.
    pub async fn actual_lrp_groups_by_process_guid(
        &self,
        process_guid: &str,
    ) -> Result<Vec<ActualLrpGroup>, ClientError> {
        let request = ActualLrpGroupsByProcessGuidRequest { process_guid: process_guid.to_owned() };
        let answer: ActualLrpGroupsResponse = self.call(Route::ActualLrpGroupsByProcessGuid, request).await?;
        Ok(answer.actual_lrp_groups)
    }

    /// Deprecated: groups hide suspect records.
    pub async fn actual_lrp_group_by_process_guid_and_index(
        &self,
        process_guid: &str,
        index: i32,
    ) -> Result<ActualLrpGroup, ClientError> {
        let request = ActualLrpGroupByProcessGuidAndIndexRequest { process_guid: process_guid.to_owned(), index };
        let answer: ActualLrpGroupResponse = self.call(Route::ActualLrpGroupByProcessGuidAndIndex, request).await?;
        Ok(answer.actual_lrp_group.unwrap_or_default())
    }

    pub async fn claim_actual_lrp(
        &self,
        process_guid: &str,
        index: i32,
        instance_key: ActualLrpInstanceKey,
    ) -> Result<(), ClientError> {
        let process_guid = process_guid.to_owned();
        let request = ClaimActualLrpRequest { process_guid, index, actual_lrp_instance_key: Some(instance_key) };
        self.actual_lrp_step(Route::ClaimActualLrp, request).await
    }

    /// Also the heartbeat of a running container: repeating it changes nothing.
    ///
    /// A server that does not know this revision and says 404 is called with the one before, which knows no internal routes and
    /// no metric tags.
    pub async fn start_actual_lrp(&self, request: StartActualLrpRequest) -> Result<(), ClientError> {
        match self.actual_lrp_step(Route::StartActualLrp, request.clone()).await {
            Err(ClientError::Status { status: 404, .. }) => {
                let older = StartActualLrpRequest {
                    actual_lrp_key: request.actual_lrp_key,
                    actual_lrp_instance_key: request.actual_lrp_instance_key,
                    actual_lrp_net_info: request.actual_lrp_net_info,
                    ..Default::default()
                };
                self.actual_lrp_step(Route::StartActualLrpR0, older).await
            }
            outcome => outcome,
        }
    }

    pub async fn crash_actual_lrp(
        &self,
        key: ActualLrpKey,
        instance_key: ActualLrpInstanceKey,
        error_message: &str,
    ) -> Result<(), ClientError> {
        let request = CrashActualLrpRequest {
            actual_lrp_key: Some(key),
            actual_lrp_instance_key: Some(instance_key),
            error_message: error_message.to_owned(),
        };
        self.actual_lrp_step(Route::CrashActualLrp, request).await
    }

    /// Records why an unclaimed LRP could not be placed.
    pub async fn fail_actual_lrp(&self, key: ActualLrpKey, error_message: &str) -> Result<(), ClientError> {
        let request = FailActualLrpRequest { actual_lrp_key: Some(key), error_message: error_message.to_owned() };
        self.actual_lrp_step(Route::FailActualLrp, request).await
    }

    /// Removes the record. With an instance key, only if that instance holds it.
    pub async fn remove_actual_lrp(
        &self,
        process_guid: &str,
        index: i32,
        instance_key: Option<ActualLrpInstanceKey>,
    ) -> Result<(), ClientError> {
        let process_guid = process_guid.to_owned();
        let request = RemoveActualLrpRequest { process_guid, index, actual_lrp_instance_key: instance_key };
        self.actual_lrp_step(Route::RemoveActualLrp, request).await
    }

    /// Stops the instance through its cell, or removes the record when there is nothing to stop.
    pub async fn retire_actual_lrp(&self, key: ActualLrpKey) -> Result<(), ClientError> {
        self.actual_lrp_step(Route::RetireActualLrp, RetireActualLrpRequest { actual_lrp_key: Some(key) }).await
    }

    async fn actual_lrp_step(&self, route: Route, request: impl Wire) -> Result<(), ClientError> {
        let _: ActualLrpLifecycleResponse = self.call(route, request).await?;
        Ok(())
    }
}
