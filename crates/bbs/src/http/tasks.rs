//! Tasks: lists, look-ups, and their life cycle.

use api::convert::{self, Item};
use api::models::{
    self, CompleteTaskRequest, DesireTaskRequest, Error, FailTaskRequest, RejectTaskRequest, StartTaskRequest,
    StartTaskResponse, TaskByGuidRequest, TaskGuidRequest, TaskLifecycleResponse, TaskResponse, TasksRequest,
    TasksResponse,
};
use api::{Response, Route, revision, validate};
use bytes::{BufMut, BytesMut};
use model::task::Ending;
use model::{CellId, DomainName, TaskGuid};

use super::{Answer, App, Body, Call, Failure, errors, failed, intake, message, write_failure};
use crate::board::{Board, TaskEntry};
use crate::commands::{Command, DesireTask, Done, MoveTask, TaskCall};

pub(super) fn read(app: &App, call: &Call) -> Answer {
    let board = app.board.load_full();
    let shape: Shape = match call.route {
        Route::TasksR2 | Route::TaskByGuidR2 => Some(revision::task_v3_to_v2),
        Route::TasksR1 | Route::TaskByGuidR1 => Some(revision::task_v3_to_v1),
        Route::TasksR0 | Route::TaskByGuidR0 => Some(revision::task_v3_to_v0),
        _ => None,
    };
    match call.route {
        Route::Tasks | Route::TasksR2 | Route::TasksR1 | Route::TasksR0 => list(&board, call, shape),
        _ => get(&board, call, shape),
    }
}

fn get(board: &Board, call: &Call, shape: Shape) -> Answer {
    let request: TaskByGuidRequest = match intake::parse(&call.body) {
        Ok(request) => request,
        Err(error) => return failed::<TaskResponse>(error),
    };
    match board.tasks.get(request.task_guid.as_str()) {
        Some(entry) => Answer::Body(Body::full(shown(entry, shape).framed().clone())),
        None => failed::<TaskResponse>(api::errors::resource_not_found()),
    }
}

fn list(board: &Board, call: &Call, shape: Shape) -> Answer {
    let request: TasksRequest = match intake::decode(&call.body) {
        Ok(request) => request,
        Err(error) => return failed::<TasksResponse>(error),
    };
    let entries: Vec<_> = match CellId::parse(&request.cell_id) {
        Ok(cell) => board.tasks_on(&cell).collect(),
        Err(model::IdError::Empty { .. }) => board.tasks.values().collect(),
        Err(_) => Vec::new(),
    };
    let mut buf = BytesMut::new();
    for entry in entries {
        if request.domain.is_empty() || entry.task.domain.as_str() == request.domain {
            buf.put_slice(shown(entry, shape).framed());
        }
    }
    Answer::Body(Body::full(buf.freeze()))
}

/// How an older revision shows a task. `None`: as it is.
type Shape = Option<fn(models::Task) -> models::Task>;

fn shown(entry: &TaskEntry, shape: Shape) -> Item {
    match shape {
        None => entry.item.clone(),
        Some(shape) => Item::of(&shape(convert::task(&entry.task))),
    }
}

pub(super) async fn change(app: &App, call: Call) -> Result<Answer, Failure> {
    let starts = call.route == Route::StartTask;
    let command = match command(&call) {
        Ok(command) => command,
        Err(error) if starts => return Ok(failed::<StartTaskResponse>(error)),
        Err(error) => return Ok(failed::<TaskLifecycleResponse>(error)),
    };
    let counted = Counted::of(&command);
    match app.writer.submit(command, call.trace).await {
        Ok(Done::TaskStarted { should_start }) => {
            counted.count(app, should_start);
            Ok(message(StartTaskResponse { error: None, should_start }))
        }
        Ok(_) => {
            counted.count(app, true);
            Ok(message(TaskLifecycleResponse::default()))
        }
        Err(error) if starts => write_failure(&error).map(|error| message(StartTaskResponse::failed(error))),
        Err(error) => write_failure(&error).map(failed::<TaskLifecycleResponse>),
    }
}

/// What the metrics of a cell say about a call once it succeeded.
enum Counted {
    Nothing,
    Started(CellId),
    Ended { cell: CellId, failed: bool },
}

impl Counted {
    fn of(command: &Command) -> Self {
        match command {
            Command::MoveTask(MoveTask { call: TaskCall::Start { cell }, .. }) => Self::Started(cell.clone()),
            Command::MoveTask(MoveTask { call: TaskCall::Complete { cell, ending }, .. }) => {
                Self::Ended { cell: cell.clone(), failed: ending.failed }
            }
            _ => Self::Nothing,
        }
    }

    fn count(self, app: &App, changed: bool) {
        match self {
            Self::Started(cell) if changed => app.metrics.tasks_started.inc(&cell),
            Self::Ended { cell, failed: true } => app.metrics.tasks_failed.inc(&cell),
            Self::Ended { cell, failed: false } => app.metrics.tasks_succeeded.inc(&cell),
            Self::Started(_) | Self::Nothing => {}
        }
    }
}

fn guid(text: &str) -> Result<TaskGuid, Error> {
    TaskGuid::parse(text).map_err(|error| errors::of_id(&error))
}

fn cell(text: &str) -> Result<CellId, Error> {
    CellId::parse(text).map_err(|error| errors::of_id(&error))
}

/// Every way to desire a task, as the newest revision says it.
fn wanted(call: &Call) -> Result<DesireTaskRequest, Error> {
    let unreadable = |_| api::errors::invalid_request_body();
    let request = match call.route {
        Route::DesireTaskR1 => revision::desire_task_r1(&call.body).map_err(unreadable)?,
        Route::DesireTaskR0 => revision::desire_task_r0(&call.body).map_err(unreadable)?,
        _ => intake::decode(&call.body)?,
    };
    validate::check(&request)?;
    Ok(request)
}

fn command(call: &Call) -> Result<Command, Error> {
    let (guid, call) = match call.route {
        Route::DesireTask | Route::DesireTaskR1 | Route::DesireTaskR0 => {
            let request = wanted(call)?;
            return Ok(Command::DesireTask(Box::new(DesireTask {
                guid: guid(&request.task_guid)?,
                domain: DomainName::parse(&request.domain).map_err(|error| errors::of_id(&error))?,
                definition: convert::task_definition(&request.task_definition.unwrap_or_default()),
            })));
        }
        Route::StartTask => {
            let request: StartTaskRequest = intake::parse(&call.body)?;
            (guid(&request.task_guid)?, TaskCall::Start { cell: cell(&request.cell_id)? })
        }
        Route::CompleteTask => {
            let request: CompleteTaskRequest = intake::parse(&call.body)?;
            let ending =
                Ending { failed: request.failed, failure_reason: request.failure_reason, result: request.result };
            (guid(&request.task_guid)?, TaskCall::Complete { cell: cell(&request.cell_id)?, ending })
        }
        Route::FailTask => {
            let request: FailTaskRequest = intake::parse(&call.body)?;
            (guid(&request.task_guid)?, TaskCall::Fail { reason: request.failure_reason })
        }
        Route::RejectTask => {
            let request: RejectTaskRequest = intake::parse(&call.body)?;
            (guid(&request.task_guid)?, TaskCall::Reject { reason: request.rejection_reason })
        }
        route => {
            let request: TaskGuidRequest = intake::parse(&call.body)?;
            let call = match route {
                Route::CancelTask => TaskCall::Cancel,
                Route::ResolvingTask => TaskCall::Resolve,
                _ => TaskCall::Delete,
            };
            (guid(&request.task_guid)?, call)
        }
    };
    Ok(Command::MoveTask(MoveTask { guid, call }))
}
