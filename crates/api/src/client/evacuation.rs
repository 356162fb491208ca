//! Evacuation: a cell that is going down hands over its instances.
//!
//! Every answer says whether the cell must keep the container, also an answer that reports an error. So these methods
//! return both, and when no answer came they assume what is safe: a container that may still serve traffic is kept.

use super::{Client, ClientError};
use crate::encode;
use crate::models::{
    ActualLrpInstanceKey, ActualLrpKey, EvacuateClaimedActualLrpRequest, EvacuateCrashedActualLrpRequest,
    EvacuateRunningActualLrpRequest, EvacuateStoppedActualLrpRequest, EvacuationResponse,
    RemoveEvacuatingActualLrpRequest, RemoveEvacuatingActualLrpResponse,
};
use crate::routes::Route;
use crate::wire::{Response, Wire};

/// What became of an evacuation step.
#[derive(Debug)]
#[must_use = "the cell must know whether to keep the container"]
pub struct Evacuation {
    /// Valid whether the step succeeded or not.
    pub keep_container: bool,
    pub outcome: Result<(), ClientError>,
}

impl Client {
    pub async fn evacuate_claimed_actual_lrp(&self, key: ActualLrpKey, instance: ActualLrpInstanceKey) -> Evacuation {
        let request =
            EvacuateClaimedActualLrpRequest { actual_lrp_key: Some(key), actual_lrp_instance_key: Some(instance) };
        self.evacuate(Route::EvacuateClaimedActualLrp, request, true).await
    }

    /// A server that does not know this revision and says 404 is called with the one before, which knows no internal routes and
    /// no metric tags.
    pub async fn evacuate_running_actual_lrp(&self, request: EvacuateRunningActualLrpRequest) -> Evacuation {
        let evacuation = self.evacuate(Route::EvacuateRunningActualLrp, request.clone(), true).await;
        if !matches!(evacuation.outcome, Err(ClientError::Status { status: 404, .. })) {
            return evacuation;
        }
        let older = EvacuateRunningActualLrpRequest {
            actual_lrp_key: request.actual_lrp_key,
            actual_lrp_instance_key: request.actual_lrp_instance_key,
            actual_lrp_net_info: request.actual_lrp_net_info,
            ..Default::default()
        };
        self.evacuate(Route::EvacuateRunningActualLrpR0, older, true).await
    }

    pub async fn evacuate_stopped_actual_lrp(&self, key: ActualLrpKey, instance: ActualLrpInstanceKey) -> Evacuation {
        let request =
            EvacuateStoppedActualLrpRequest { actual_lrp_key: Some(key), actual_lrp_instance_key: Some(instance) };
        self.evacuate(Route::EvacuateStoppedActualLrp, request, false).await
    }

    pub async fn evacuate_crashed_actual_lrp(
        &self,
        key: ActualLrpKey,
        instance: ActualLrpInstanceKey,
        error_message: &str,
    ) -> Evacuation {
        let request = EvacuateCrashedActualLrpRequest {
            actual_lrp_key: Some(key),
            actual_lrp_instance_key: Some(instance),
            error_message: error_message.to_owned(),
        };
        self.evacuate(Route::EvacuateCrashedActualLrp, request, false).await
    }

    pub async fn remove_evacuating_actual_lrp(
        &self,
        key: ActualLrpKey,
        instance: ActualLrpInstanceKey,
    ) -> Result<(), ClientError> {
        let request =
            RemoveEvacuatingActualLrpRequest { actual_lrp_key: Some(key), actual_lrp_instance_key: Some(instance) };
        let _: RemoveEvacuatingActualLrpResponse = self.call(Route::RemoveEvacuatingActualLrp, request).await?;
        Ok(())
    }

    async fn evacuate(&self, route: Route, request: impl Wire, keep_without_answer: bool) -> Evacuation {
        match self.exchange::<EvacuationResponse>(route, encode(request)).await {
            Ok((mut answer, attempts)) => {
                let refused = |error| ClientError::Bbs { route, error, attempts: Box::new(attempts) };
                let outcome = answer.take_error().map_or(Ok(()), |error| Err(refused(error)));
                Evacuation { keep_container: answer.keep_container, outcome }
            }
            Err(error) => Evacuation { keep_container: keep_without_answer, outcome: Err(error) },
        }
    }
}
