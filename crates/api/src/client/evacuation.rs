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

    pub async fn evacuate_running_actual_lrp(&self, request: EvacuateRunningActualLrpRequest) -> Evacuation {
        self.evacuate(Route::EvacuateRunningActualLrp, request, true).await
    }

    /// For servers before `evacuate_running.r1`, which answer that with 404.
    pub async fn evacuate_running_actual_lrp_r0(&self, request: EvacuateRunningActualLrpRequest) -> Evacuation {
        self.evacuate(Route::EvacuateRunningActualLrpR0, request, true).await
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
            Ok(mut answer) => {
                let outcome = answer.take_error().map_or(Ok(()), |error| Err(ClientError::Bbs { route, error }));
                Evacuation { keep_container: answer.keep_container, outcome }
            }
            Err(error) => Evacuation { keep_container: keep_without_answer, outcome: Err(error) },
        }
    }
}
