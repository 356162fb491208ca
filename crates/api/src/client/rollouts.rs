//! Updates of desired LRPs that are under way, and the definitions that one can go back to.

use super::{Client, ClientError};
use crate::models::{
    DesiredLrp, DesiredLrpByProcessGuidRequest, DesiredLrpDefinitionsResponse, DesiredLrpLifecycleResponse,
    RollbackDesiredLrpRequest, RolloutTerms, SteerUpdateRequest,
};
use crate::routes::Route;

impl Client {
    /// The definition in use, the previous one during an update, and former ones, the latest first.
    pub async fn desired_lrp_definitions(&self, process_guid: &str) -> Result<Vec<DesiredLrp>, ClientError> {
        let request = DesiredLrpByProcessGuidRequest { process_guid: process_guid.to_owned(), ..Default::default() };
        let answer: DesiredLrpDefinitionsResponse = self.call(Route::DesiredLrpDefinitions, request).await?;
        Ok(answer.definitions)
    }

    /// Takes the update back that is under way.
    pub async fn cancel_update(&self, process_guid: &str) -> Result<(), ClientError> {
        self.steer_update(Route::CancelUpdate, process_guid).await
    }

    pub async fn pause_update(&self, process_guid: &str) -> Result<(), ClientError> {
        self.steer_update(Route::PauseUpdate, process_guid).await
    }

    /// Goes on after a pause, after the canaries, or after a failure.
    pub async fn resume_update(&self, process_guid: &str) -> Result<(), ClientError> {
        self.steer_update(Route::ResumeUpdate, process_guid).await
    }

    /// Goes to a former definition; without a name, to the latest.
    pub async fn rollback_desired_lrp(
        &self,
        process_guid: &str,
        definition_identifier: Option<String>,
        rollout: Option<RolloutTerms>,
    ) -> Result<(), ClientError> {
        let process_guid = process_guid.to_owned();
        let request = RollbackDesiredLrpRequest { process_guid, definition_identifier, rollout };
        let _: DesiredLrpLifecycleResponse = self.call(Route::RollbackDesiredLrp, request).await?;
        Ok(())
    }

    async fn steer_update(&self, route: Route, process_guid: &str) -> Result<(), ClientError> {
        let request = SteerUpdateRequest { process_guid: process_guid.to_owned() };
        let _: DesiredLrpLifecycleResponse = self.call(route, request).await?;
        Ok(())
    }
}
