//! A played state server: writes down what a cell tells it, and answers as it is told to, or as the rules of one index say.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use api::models::{self, error::Type};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::rep_slot::Index;
use crate::rep_world::patiently;

/// What the next call of a route gets instead of success.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    Error(Type),
    /// Of an evacuation.
    Keep(bool),
    /// Carried out, and the connection ends before the answer.
    HangUp,
    Status(u16),
}

#[derive(Default)]
pub(crate) struct Script {
    log: Vec<String>,
    read_up_to: usize,
    replies: HashMap<&'static str, VecDeque<Reply>>,
    /// For every call of the route that has no reply of its own.
    always: HashMap<&'static str, Reply>,
    pub(crate) lrps: Vec<models::ActualLrp>,
    pub(crate) tasks: Vec<models::Task>,
    pub(crate) desired: models::DesiredLrp,
    pub(crate) definition: models::TaskDefinition,
    /// The rows of one index. When they are there, they are what is listed, and calls do to them what a state server does.
    pub(crate) index: Option<Index>,
    /// How often records were listed.
    pub(crate) lists: usize,
    /// From which trouble is drawn for half of all calls, while it is there.
    pub(crate) trouble: Option<u64>,
    /// Tasks that were granted.
    started: Vec<String>,
}

pub(crate) struct Board {
    pub(crate) address: SocketAddr,
    pub(crate) script: Arc<Mutex<Script>>,
    told: Arc<Notify>,
    serving: Mutex<JoinSet<()>>,
}

impl Board {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let desired = models::DesiredLrp { process_guid: "app".into(), domain: "d".into(), ..Default::default() };
        let script = Script { desired, ..Default::default() };
        let board =
            Self { address, script: Arc::new(Mutex::new(script)), told: Arc::default(), serving: Mutex::default() };
        board.serve(listener);
        board
    }

    fn serve(&self, listener: TcpListener) {
        let (script, told) = (self.script.clone(), self.told.clone());
        self.serving.lock().unwrap().spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, told) = (script.clone(), told.clone());
                connections.spawn(async move {
                    let service = service_fn(|request| answer(request, script.clone(), told.clone()));
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    }

    /// From now on connections are refused, and those that are open end.
    pub(crate) async fn away(&self) {
        let mut serving = std::mem::take(&mut *self.serving.lock().unwrap());
        serving.shutdown().await;
    }

    pub(crate) fn back(&self) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        self.serve(socket.listen(64).unwrap());
    }

    pub(crate) fn replies(&self, route: &'static str, replies: &[Reply]) {
        self.script.lock().unwrap().replies.entry(route).or_default().extend(replies);
    }

    pub(crate) fn always(&self, route: &'static str, reply: Option<Reply>) {
        let always = &mut self.script.lock().unwrap().always;
        match reply {
            Some(reply) => always.insert(route, reply),
            None => always.remove(route),
        };
    }

    /// The next line that begins like this; lines before it are passed over.
    pub(crate) async fn hears(&self, beginning: &str) -> String {
        let found = async {
            loop {
                let told = self.told.notified();
                {
                    let mut script = self.script.lock().unwrap();
                    let at = script.log[script.read_up_to..].iter().position(|line| line.starts_with(beginning));
                    if let Some(at) = at {
                        script.read_up_to += at + 1;
                        return script.log[script.read_up_to - 1].clone();
                    }
                }
                told.await;
            }
        };
        let patience = patiently(found).await;
        patience.unwrap_or_else(|| panic!("never heard {beginning:?} in {:#?}", self.log()))
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.script.lock().unwrap().log.clone()
    }

    pub(crate) fn count(&self, beginning: &str) -> usize {
        self.log().iter().filter(|line| line.starts_with(beginning)).count()
    }
}

type Answered = Result<hyper::Response<Full<Bytes>>, std::io::Error>;

async fn answer(request: hyper::Request<Incoming>, script: Arc<Mutex<Script>>, told: Arc<Notify>) -> Answered {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let trace = head.headers.get(api::client::TRACE_HEADER).and_then(|trace| trace.to_str().ok()).unwrap_or_default();
    let answer = {
        let mut script = script.lock().unwrap();
        let answer = script.answer(head.uri.path(), &body);
        if let (Some(line), false) = (script.log.last_mut(), trace.is_empty()) {
            line.push_str(&format!(" ({trace})"));
        }
        answer
    };
    told.notify_one();
    match answer {
        Ok(body) => {
            Ok(hyper::Response::builder().header("content-type", api::client::PROTOBUF).body(Full::new(body)).unwrap())
        }
        Err(0) => Err(std::io::Error::other("hung up")),
        Err(status) => Ok(hyper::Response::builder().status(status).body(Full::default()).unwrap()),
    }
}

impl Script {
    fn answer(&mut self, path: &str, body: &Bytes) -> Result<Bytes, u16> {
        match path {
            "/v1/actual_lrps/list" => {
                let reply = self.reply("list", String::new())?;
                self.lists += 1;
                let actual_lrps = self.index.as_ref().map_or(self.lrps.clone(), Index::list);
                Ok(api::encode(models::ActualLrPsResponse { actual_lrps, error: reply.0 }))
            }
            "/v1/tasks/list.r3" => Ok(api::encode(models::TasksResponse { tasks: self.tasks.clone(), error: None })),
            "/v1/desired_lrps/get_by_process_guid.r3" => {
                let request: models::DesiredLrpByProcessGuidRequest = api::decode(body).unwrap();
                let instance = request.actual_lrp_instance_key.unwrap_or_default().instance_guid;
                let (error, _) = self.reply("desired", format!("desired {} of {instance}", request.process_guid))?;
                let desired_lrp = error.is_none().then(|| self.desired.clone());
                Ok(api::encode(models::DesiredLrpResponse { desired_lrp, error }))
            }
            "/v1/tasks/get_by_task_guid.r3" => {
                let request: models::TaskByGuidRequest = api::decode(body).unwrap();
                let (error, _) = self.reply("task", format!("task {}", request.task_guid))?;
                let task_definition = Some(self.definition.clone());
                let task = models::Task { task_guid: request.task_guid, task_definition, ..Default::default() };
                Ok(api::encode(models::TaskResponse { task: Some(task), error }))
            }
            "/v1/tasks/start" => {
                let request: models::StartTaskRequest = api::decode(body).unwrap();
                let should_start = !self.started.contains(&request.task_guid);
                let line = format!("start_task {} on {}", request.task_guid, request.cell_id);
                self.started.push(request.task_guid);
                let (error, _) = self.reply("start_task", line)?;
                Ok(api::encode(models::StartTaskResponse { error, should_start }))
            }
            "/v1/tasks/complete" => {
                let request: models::CompleteTaskRequest = api::decode(body).unwrap();
                let models::CompleteTaskRequest { task_guid, failed, failure_reason, result, .. } = request;
                let (error, _) =
                    self.reply("complete", format!("complete {task_guid} {failed} {failure_reason:?} {result:?}"))?;
                Ok(api::encode(models::TaskLifecycleResponse { error }))
            }
            "/v1/tasks/reject" => {
                let request: models::RejectTaskRequest = api::decode(body).unwrap();
                let line = format!("reject {} {:?}", request.task_guid, request.rejection_reason);
                let (error, _) = self.reply("reject", line)?;
                Ok(api::encode(models::TaskLifecycleResponse { error }))
            }
            path => self.answer_about_lrp(path, body),
        }
    }

    fn answer_about_lrp(&mut self, path: &str, body: &Bytes) -> Result<Bytes, u16> {
        type Key = Option<models::ActualLrpKey>;
        type Instance = Option<models::ActualLrpInstanceKey>;
        let name = |key: Key, instance: Instance| {
            let key = key.unwrap();
            format!("{}/{} {}", key.process_guid, key.index, instance.unwrap().instance_guid)
        };
        let named = |guid: String, index: i32, instance: Instance| {
            format!("{guid}/{index} {}", instance.unwrap().instance_guid)
        };
        let (route, line) = match path {
            "/v1/actual_lrps/claim" => {
                let r: models::ClaimActualLrpRequest = api::decode(body).unwrap();
                ("claim", named(r.process_guid, r.index, r.actual_lrp_instance_key))
            }
            "/v1/actual_lrps/remove" => {
                let r: models::RemoveActualLrpRequest = api::decode(body).unwrap();
                ("remove", named(r.process_guid, r.index, r.actual_lrp_instance_key))
            }
            "/v1/actual_lrps/start.r1" => {
                let r: models::StartActualLrpRequest = api::decode(body).unwrap();
                let net = r.actual_lrp_net_info.unwrap();
                let ports: Vec<u32> = net.ports.iter().map(|port| port.container_port).collect();
                let routes: Vec<String> =
                    r.actual_lrp_internal_routes.into_iter().map(|route| route.hostname).collect();
                let name = name(r.actual_lrp_key, r.actual_lrp_instance_key);
                let (zone, tags, routable) = (r.availability_zone, r.metric_tags, r.routable);
                let made_from = r.definition_number;
                (
                    "start",
                    format!(
                        "{name} ports {ports:?} routes {routes:?} tags {tags:?} {routable:?} zone {zone:?} definition {made_from}"
                    ),
                )
            }
            "/v1/actual_lrps/crash" => {
                let r: models::CrashActualLrpRequest = api::decode(body).unwrap();
                let name = name(r.actual_lrp_key, r.actual_lrp_instance_key);
                ("crash", format!("{name}: {}", r.error_message))
            }
            "/v1/actual_lrps/evacuate_claimed" => {
                let r: models::EvacuateClaimedActualLrpRequest = api::decode(body).unwrap();
                ("evacuate_claimed", name(r.actual_lrp_key, r.actual_lrp_instance_key))
            }
            "/v1/actual_lrps/evacuate_running.r1" => {
                let r: models::EvacuateRunningActualLrpRequest = api::decode(body).unwrap();
                ("evacuate_running", name(r.actual_lrp_key, r.actual_lrp_instance_key))
            }
            "/v1/actual_lrps/evacuate_stopped" => {
                let r: models::EvacuateStoppedActualLrpRequest = api::decode(body).unwrap();
                ("evacuate_stopped", name(r.actual_lrp_key, r.actual_lrp_instance_key))
            }
            "/v1/actual_lrps/evacuate_crashed" => {
                let r: models::EvacuateCrashedActualLrpRequest = api::decode(body).unwrap();
                let name = name(r.actual_lrp_key, r.actual_lrp_instance_key);
                ("evacuate_crashed", format!("{name}: {}", r.error_message))
            }
            "/v1/actual_lrps/remove_evacuating" => {
                let r: models::RemoveEvacuatingActualLrpRequest = api::decode(body).unwrap();
                ("remove_evacuating", name(r.actual_lrp_key, r.actual_lrp_instance_key))
            }
            other => panic!("a cell called {other}"),
        };
        let (mut error, mut keep_container) = self.reply(route, format!("{route} {line}"))?;
        if let Some(index) = self.index.as_mut().filter(|_| error.is_none()) {
            (error, keep_container) = index.answer(route, body);
        }
        Ok(match route.starts_with("evacuate") {
            true => api::encode(models::EvacuationResponse { error, keep_container }),
            false => api::encode(models::ActualLrpLifecycleResponse { error }),
        })
    }

    fn draw(&mut self) -> Option<Reply> {
        const TROUBLE: [Reply; 4] =
            [Reply::HangUp, Reply::Status(503), Reply::Status(500), Reply::Error(Type::Deadlock)];
        let state = self.trouble.as_mut()?;
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = usize::try_from(*state >> 60).unwrap();
        TROUBLE.get(drawn / 2).copied()
    }

    /// Writes the call down, and says how it is answered: an error, whether to keep a container; or a bare status.
    fn reply(&mut self, route: &'static str, line: String) -> Result<(Option<models::Error>, bool), u16> {
        if !line.is_empty() {
            self.log.push(line);
        }
        let reply = self.replies.get_mut(route).and_then(VecDeque::pop_front).or_else(|| self.draw());
        match reply.or_else(|| self.always.get(route).copied()) {
            None => Ok((None, false)),
            Some(Reply::Keep(keep)) => Ok((None, keep)),
            Some(Reply::Error(kind)) => Ok((Some(models::Error::new(kind, "as told")), false)),
            Some(Reply::HangUp) => Err(0),
            Some(Reply::Status(status)) => Err(status),
        }
    }
}
