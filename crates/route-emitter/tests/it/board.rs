//! A state server as far as the emitter asks it: four calls, which can fail, lie and hang up.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use api::event::EventPayload;
use api::models::{
    ActualLrPsByProcessGuidsRequest, ActualLrPsByProcessGuidsResponse, ActualLrPsRequest, ActualLrPsResponse,
    ActualLrp, ActualLrpInstanceCreatedEvent, ActualLrpInstanceKey, ActualLrpInstanceRemovedEvent, ActualLrpKey,
    ActualLrpNetInfo, DesiredLrPsRequest, DesiredLrPsResponse, DesiredLrp, DomainsResponse, EventsByCellId,
    ModificationTag, PortMapping, ProtoRoutes,
};
use api::routes::Method;
use api::{Route, decode, encode};
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};

type Body = UnsyncBoxBody<Bytes, Infallible>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// Answers everything with 503.
    Failing,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) desired: Vec<DesiredLrp>,
    pub(crate) actual: Vec<ActualLrp>,
    pub(crate) domains: Vec<String>,
    pub(crate) mood: Mood,
    pub(crate) asked: Vec<String>,
}

/// Streams are cut by a change of the number.
pub(crate) struct Board {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    events: broadcast::Sender<EventPayload>,
    cuts: watch::Sender<u32>,
}

impl Board {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = State { desired: vec![], actual: vec![], domains: vec![], mood: Mood::Well, asked: vec![] };
        let board = Self {
            address,
            state: Arc::new(Mutex::new(state)),
            events: broadcast::channel(1000).0,
            cuts: watch::Sender::new(0),
        };
        let (state, events, cuts) = (board.state.clone(), board.events.clone(), board.cuts.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (state, events) = (state.clone(), events.clone());
                let mut cut = cuts.subscribe();
                tokio::spawn(async move {
                    let serve = |request| serve(request, state.clone(), events.clone());
                    let http = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(serve));
                    tokio::select! {
                        _ = cut.changed() => {}
                        _ = http => {}
                    }
                });
            }
        });
        board
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn cut_all(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// The server may have nobody listening.
    pub(crate) fn tell(&self, event: EventPayload) {
        let _ = self.events.send(event);
    }

    pub(crate) fn listeners(&self) -> usize {
        self.events.receiver_count()
    }

    /// Stores an instance and tells about it.
    pub(crate) fn run_instance(&self, lrp: ActualLrp) {
        self.state().actual.push(lrp.clone());
        self.tell(EventPayload::ActualLrpInstanceCreated(ActualLrpInstanceCreatedEvent {
            actual_lrp: Some(lrp),
            ..Default::default()
        }));
    }

    pub(crate) fn end_instance(&self, lrp: ActualLrp) {
        self.state().actual.retain(|known| *known != lrp);
        self.tell(EventPayload::ActualLrpInstanceRemoved(ActualLrpInstanceRemovedEvent {
            actual_lrp: Some(lrp),
            ..Default::default()
        }));
    }
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).boxed_unsync()
}

async fn serve(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
    events: broadcast::Sender<EventPayload>,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let state = &mut *state.lock().unwrap();
    state.asked.push(path.clone());
    if state.mood == Mood::Failing {
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        return Ok(response);
    }
    let answer = match Route::find(Method::Post, &path) {
        Some(Route::Domains) => encode(DomainsResponse { domains: state.domains.clone(), ..Default::default() }),
        Some(Route::ActualLrps) => {
            let wanted: ActualLrPsRequest = decode(&body).unwrap();
            let fits = |lrp: &&ActualLrp| {
                let cell = &lrp.actual_lrp_instance_key.as_ref().unwrap().cell_id;
                wanted.cell_id.is_empty() || wanted.cell_id == *cell
            };
            let actual_lrps = state.actual.iter().filter(fits).cloned().collect();
            encode(ActualLrPsResponse { actual_lrps, ..Default::default() })
        }
        Some(Route::ActualLrpsByProcessGuids) => {
            let wanted: ActualLrPsByProcessGuidsRequest = decode(&body).unwrap();
            let fits =
                |lrp: &&ActualLrp| wanted.process_guids.contains(&lrp.actual_lrp_key.as_ref().unwrap().process_guid);
            let actual_lrps = state.actual.iter().filter(fits).cloned().collect();
            encode(ActualLrPsByProcessGuidsResponse { actual_lrps, ..Default::default() })
        }
        Some(Route::DesiredLrpRoutingInfos) => {
            let wanted: DesiredLrPsRequest = decode(&body).unwrap();
            let fits =
                |lrp: &&DesiredLrp| wanted.process_guids.is_empty() || wanted.process_guids.contains(&lrp.process_guid);
            let desired_lrps = state.desired.iter().filter(fits).cloned().collect();
            encode(DesiredLrPsResponse { desired_lrps, ..Default::default() })
        }
        Some(Route::LrpInstanceEventStream) => return Ok(stream(&body, events.subscribe())),
        _ => panic!("the emitter should not ask for {path}"),
    };
    let response = Response::builder().header("content-type", "application/x-protobuf");
    Ok(response.body(full(answer)).unwrap())
}

fn stream(body: &Bytes, receiver: broadcast::Receiver<EventPayload>) -> Response<Body> {
    let wanted: EventsByCellId = decode(body).unwrap();
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let event = receiver.recv().await.ok()?;
        let name = event.name();
        Some((api::sse::frame(1, name, &event.encode()), receiver))
    });
    drop(wanted);
    let body = StreamBody::new(frames.map(|frame| Ok::<_, Infallible>(Frame::data(frame))));
    Response::builder().header("content-type", "text/event-stream").body(body.boxed_unsync()).unwrap()
}

/// One desired LRP with one hostname for port 8080.
pub(crate) fn desired(guid: &str, hostname: &str) -> DesiredLrp {
    let json = format!("[{{\"hostnames\":[{hostname:?}],\"port\":8080}}]");
    DesiredLrp {
        process_guid: guid.into(),
        domain: "apps".into(),
        log_guid: guid.into(),
        instances: 3,
        routes: Some(ProtoRoutes { routes: [("cf-router".to_owned(), json.into_bytes())].into() }),
        modification_tag: Some(ModificationTag { epoch: guid.into(), index: 0 }),
        ..DesiredLrp::default()
    }
}

/// A running instance on a port of its own.
pub(crate) fn running(guid: &str, index: i32, instance: &str, port: u32) -> ActualLrp {
    ActualLrp {
        actual_lrp_key: Some(ActualLrpKey { process_guid: guid.into(), index, domain: "apps".into() }),
        actual_lrp_instance_key: Some(ActualLrpInstanceKey {
            instance_guid: instance.into(),
            cell_id: "cell-1".into(),
        }),
        actual_lrp_net_info: Some(ActualLrpNetInfo {
            address: "10.0.0.1".into(),
            ports: vec![PortMapping { container_port: 8080, host_port: port, ..PortMapping::default() }],
            ..ActualLrpNetInfo::default()
        }),
        state: "RUNNING".into(),
        since: 1,
        modification_tag: Some(ModificationTag { epoch: instance.into(), index: 0 }),
        ..ActualLrp::default()
    }
}
