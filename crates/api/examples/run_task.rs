//! Desires a task, waits to be told that it has ended, fetches its result and deletes it.
//!
//! `cargo run -p corkboard-api --example run_task -- my-task`. The server must be able to reach this machine, and its callbacks
//! must carry the guid only, as they do unless configured otherwise. Who is told fetches the task and deletes it; deleting is
//! what ends the reports, so a program that dies in between is told again.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

mod from_environment;

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use corkboard_api::client::{Client, ClientError, Repeat, Retry};
use corkboard_api::models::error::Type;
use corkboard_api::models::{Action, RunAction, TaskDefinition};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A guid has at most 255 bytes.
const REPORT_BYTES_MAX: usize = 1024;
/// Reports that nobody has looked at yet; beyond them the server is told to come back later.
const REPORTS_MAX: usize = 16;

#[derive(serde::Deserialize)]
struct Report {
    task_guid: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let guid = std::env::args().nth(1).ok_or("which guid should the task have? give it as the argument")?;
    let client = from_environment::client("run-task")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let callback = format!("http://{}/ended", listener.local_addr()?);
    let (told, mut reports) = mpsc::channel(REPORTS_MAX);
    tokio::spawn(listen(listener, told));
    desire(&client, &guid, callback).await?;
    while let Some(report) = reports.recv().await {
        if report.task_guid == guid {
            break;
        }
    }
    let task = client.task_by_guid(&guid).await?;
    if task.failed {
        println!("{guid} failed: {}", task.failure_reason);
    } else {
        println!("{guid} says: {}", task.result);
    }
    delete(&client, &guid).await?;
    Ok(())
}

/// A task that exists is ours if our own request may have arrived before.
async fn desire(client: &Client, guid: &str, completion_callback_url: String) -> Result<(), ClientError> {
    let run = RunAction { path: "/bin/date".into(), user: "vcap".into(), ..Default::default() };
    let definition = TaskDefinition {
        root_fs: "preloaded:cflinuxfs4".into(),
        action: Some(Action { run_action: Some(run), ..Default::default() }),
        memory_mb: 64,
        disk_mb: 64,
        completion_callback_url,
        ..Default::default()
    };
    match client.desire_task(guid, "examples", definition.clone()).await {
        Err(error) if error.may_have_been_carried_out() => {
            match client.desire_task(guid, "examples", definition).await {
                Err(error) if error.is(Type::ResourceExists) => Ok(()),
                outcome => outcome,
            }
        }
        outcome => outcome,
    }
}

/// A task that is gone is what we want, whoever deleted it: so the request may be repeated.
async fn delete(client: &Client, guid: &str) -> Result<(), ClientError> {
    let client = client.with_retry(Retry { repeat: Repeat::Always, ..Retry::default() });
    match client.delete_task(guid).await {
        Err(error) if error.is(Type::ResourceNotFound) => Ok(()),
        outcome => outcome,
    }
}

async fn listen(listener: TcpListener, told: mpsc::Sender<Report>) {
    while let Ok((stream, _)) = listener.accept().await {
        let told = told.clone();
        let service = service_fn(move |request| {
            let told = told.clone();
            async move { Ok::<_, Infallible>(take(request, &told).await) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn take(request: Request<Incoming>, told: &mpsc::Sender<Report>) -> Response<Full<Bytes>> {
    let body = Limited::new(request.into_body(), REPORT_BYTES_MAX).collect().await;
    let report = body.ok().and_then(|body| serde_json::from_slice::<Report>(&body.to_bytes()).ok());
    let status = match report.map(|report| told.try_send(report)) {
        Some(Ok(())) => StatusCode::OK,
        Some(Err(_)) => StatusCode::SERVICE_UNAVAILABLE,
        None => StatusCode::BAD_REQUEST,
    };
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}
