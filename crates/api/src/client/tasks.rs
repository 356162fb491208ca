//! Tasks: lists, and the steps of their life.

use super::{Client, ClientError};
use crate::models::{
    CompleteTaskRequest, DesireTaskRequest, FailTaskRequest, RejectTaskRequest, StartTaskRequest, StartTaskResponse,
    Task, TaskByGuidRequest, TaskDefinition, TaskGuidRequest, TaskLifecycleResponse, TaskResponse, TasksRequest,
    TasksResponse,
};
use crate::routes::Route;
use crate::wire::Wire;

impl Client {
    pub async fn tasks(&self, filter: TasksRequest) -> Result<Vec<Task>, ClientError> {
        let answer: TasksResponse = self.call(Route::Tasks, filter).await?;
        Ok(answer.tasks)
    }

    pub async fn task_by_guid(&self, task_guid: &str) -> Result<Task, ClientError> {
        let request = TaskByGuidRequest { task_guid: task_guid.to_owned() };
        let answer: TaskResponse = self.call(Route::TaskByGuid, request).await?;
        Ok(answer.task.unwrap_or_default())
    }

    pub async fn desire_task(
        &self,
        task_guid: &str,
        domain: &str,
        definition: TaskDefinition,
    ) -> Result<(), ClientError> {
        let request = DesireTaskRequest {
            task_definition: Some(definition),
            task_guid: task_guid.to_owned(),
            domain: domain.to_owned(),
        };
        self.task_step(Route::DesireTask, request).await
    }

    /// True when this call made the task run on the cell; false when it was running there already.
    pub async fn start_task(&self, task_guid: &str, cell_id: &str) -> Result<bool, ClientError> {
        let request = StartTaskRequest { task_guid: task_guid.to_owned(), cell_id: cell_id.to_owned() };
        let answer: StartTaskResponse = self.call(Route::StartTask, request).await?;
        Ok(answer.should_start)
    }

    pub async fn cancel_task(&self, task_guid: &str) -> Result<(), ClientError> {
        self.task_step(Route::CancelTask, TaskGuidRequest { task_guid: task_guid.to_owned() }).await
    }

    /// Deprecated: a cell rejects a task instead.
    pub async fn fail_task(&self, task_guid: &str, failure_reason: &str) -> Result<(), ClientError> {
        let request = FailTaskRequest { task_guid: task_guid.to_owned(), failure_reason: failure_reason.to_owned() };
        self.task_step(Route::FailTask, request).await
    }

    pub async fn reject_task(&self, task_guid: &str, rejection_reason: &str) -> Result<(), ClientError> {
        let request =
            RejectTaskRequest { task_guid: task_guid.to_owned(), rejection_reason: rejection_reason.to_owned() };
        self.task_step(Route::RejectTask, request).await
    }

    pub async fn complete_task(&self, request: CompleteTaskRequest) -> Result<(), ClientError> {
        self.task_step(Route::CompleteTask, request).await
    }

    /// Announces that the completion is being delivered to whoever wanted the task.
    pub async fn resolving_task(&self, task_guid: &str) -> Result<(), ClientError> {
        self.task_step(Route::ResolvingTask, TaskGuidRequest { task_guid: task_guid.to_owned() }).await
    }

    /// The task must be resolving.
    pub async fn delete_task(&self, task_guid: &str) -> Result<(), ClientError> {
        self.task_step(Route::DeleteTask, TaskGuidRequest { task_guid: task_guid.to_owned() }).await
    }

    async fn task_step(&self, route: Route, request: impl Wire) -> Result<(), ClientError> {
        let _: TaskLifecycleResponse = self.call(route, request).await?;
        Ok(())
    }
}
