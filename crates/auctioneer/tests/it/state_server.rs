//! A played state server: lists cells, and writes down what found no place.

use std::sync::{Arc, Mutex};

use api::models::{
    ActualLrpLifecycleResponse, CellPresence, CellsResponse, FailActualLrpRequest, RejectTaskRequest,
    TaskLifecycleResponse,
};
use futures_util::FutureExt;
use tokio::sync::mpsc;

use crate::peer::{Heard, Peer, Reply};
use crate::world::patiently;

const HEARD_MAX: usize = 16_384;

pub(crate) struct StateServer {
    pub(crate) url: String,
    pub(crate) played: Arc<Played>,
    heard: mpsc::Receiver<String>,
    _peer: Peer,
}

#[derive(Default)]
pub(crate) struct Played {
    pub(crate) cells: Mutex<Vec<CellPresence>>,
    /// How many questions for the cells get 503 first.
    pub(crate) unavailable: Mutex<usize>,
    /// Answer reports with 503.
    pub(crate) deaf: Mutex<bool>,
    /// Answer reports with an error of the protocol.
    pub(crate) refusing: Mutex<bool>,
}

impl StateServer {
    pub(crate) async fn start() -> Self {
        let played = Arc::new(Played::default());
        let (sender, heard) = mpsc::channel(HEARD_MAX);
        let peer = Peer::start(
            None,
            Arc::new({
                let played = played.clone();
                move |heard| played.clone().answer(heard, sender.clone()).boxed()
            }),
        )
        .await;
        Self { url: format!("http://{}", peer.address), played, heard, _peer: peer }
    }

    /// The next report.
    pub(crate) async fn heard(&mut self) -> String {
        patiently(self.heard.recv()).await.expect("the state server is there")
    }

    pub(crate) fn heard_so_far(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.heard.try_recv().ok()).collect()
    }
}

impl Played {
    async fn answer(self: Arc<Self>, heard: Heard, to: mpsc::Sender<String>) -> Reply {
        let trace = heard.trace.map(|trace| format!(" ({trace})")).unwrap_or_default();
        let report = match heard.path.as_str() {
            "/v1/cells/list.r1" => return self.list(),
            "/v1/actual_lrps/fail" => {
                let request: FailActualLrpRequest = api::decode(&heard.body).unwrap();
                let key = request.actual_lrp_key.unwrap();
                let (guid, index, domain) = (key.process_guid, key.index, key.domain);
                format!("fail {guid}/{index} in {domain}{trace}: {}", request.error_message)
            }
            "/v1/tasks/reject" => {
                let request: RejectTaskRequest = api::decode(&heard.body).unwrap();
                format!("reject {}{trace}: {}", request.task_guid, request.rejection_reason)
            }
            other => panic!("the auctioneer called {other}"),
        };
        to.send(report).await.unwrap();
        if *self.deaf.lock().unwrap() {
            return Reply::json(503, String::new());
        }
        let error = self.refusing.lock().unwrap().then(|| api::models::Error {
            r#type: api::models::error::Type::ResourceNotFound.into(),
            message: "gone".into(),
        });
        match heard.path.as_str() {
            "/v1/tasks/reject" => Reply::protobuf(TaskLifecycleResponse { error }),
            _ => Reply::protobuf(ActualLrpLifecycleResponse { error }),
        }
    }

    fn list(&self) -> Reply {
        let mut unavailable = self.unavailable.lock().unwrap();
        if *unavailable > 0 {
            *unavailable -= 1;
            return Reply::json(503, String::new());
        }
        Reply::protobuf(CellsResponse { cells: self.cells.lock().unwrap().clone(), ..CellsResponse::default() })
    }
}
