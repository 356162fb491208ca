//! Calls to cells: stop an instance, tell it about new routes and tags, cancel a task.
//!
//! The address comes from the cell's presence and is chosen as Diego chooses it; see [`Cells::address`]. The version in the
//! path is the newest that the cell has; see [`versions`](super::versions). Only status 202 is success. A call is made once:
//! whoever calls knows whether a repetition is worth it, and a cell that did not hear of a change is found by convergence.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::rep::AddressError;
use bytes::Bytes;
use hyper::{Method, StatusCode};
use model::{ActualLrpKey, Cell, CellId, DesiredLrp, DomainName, InstanceGuid, InstanceKey, ProcessGuid, TaskGuid};
use serde::Serialize;
use tokio::time::Instant;
use url::Url;

use super::http::{Http, Request};
use super::versions::{Callee, CellCall, Versions};
use super::{CallError, ConfigError, identity};
use crate::cells::Registry;
use crate::clock::Clock;
use crate::config;
use crate::metrics::Metrics;

/// The client of all cells. Clones share their connections, and what they know about cells.
#[derive(Clone, Debug)]
pub struct Cells {
    http: Http,
    require_tls: bool,
    versions: Versions,
}

/// A request in one of its versions.
struct Outgoing<'a> {
    method: Method,
    /// What follows the version in the path.
    path: Vec<&'a str>,
    body: Bytes,
}

/// What a running instance should know anew. A part that is `None` stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LrpUpdate {
    pub instance_guid: InstanceGuid,
    pub process_guid: ProcessGuid,
    pub index: i32,
    pub domain: DomainName,
    /// Host names for the internal router.
    pub internal_routes: Option<Vec<String>>,
    /// Already resolved to plain text for this instance.
    pub metric_tags: Option<BTreeMap<String, String>>,
}

impl LrpUpdate {
    /// Takes the parts that changed from the desired LRP. Routes of an unknown shape count as unchanged, because sending a
    /// cell an empty list in their place would withdraw names that are in use.
    pub fn of(desired: &DesiredLrp, key: &ActualLrpKey, instance: &InstanceKey, routes: bool, tags: bool) -> Self {
        let hostnames = || api::convert::desired_lrp::internal_hostnames(desired);
        Self {
            instance_guid: instance.instance_guid.clone(),
            process_guid: key.process_guid.clone(),
            index: key.index,
            domain: key.domain.clone(),
            internal_routes: routes.then(hostnames).flatten().map(|names| names.into_iter().collect()),
            metric_tags: tags.then(|| desired.resolved_tags(key.index, instance)),
        }
    }

    fn is_empty(&self) -> bool {
        self.internal_routes.is_none() && self.metric_tags.is_none()
    }

    fn to_json(&self) -> Bytes {
        #[derive(Serialize)]
        struct Route<'a> {
            hostname: &'a str,
        }
        #[derive(Serialize)]
        struct Wire<'a> {
            instance_guid: &'a str,
            process_guid: &'a str,
            index: i32,
            domain: &'a str,
            internal_routes: Option<Vec<Route<'a>>>,
            metric_tags: Option<&'a BTreeMap<String, String>>,
        }
        let routes = self.internal_routes.as_ref();
        let wire = Wire {
            instance_guid: self.instance_guid.as_str(),
            process_guid: self.process_guid.as_str(),
            index: self.index,
            domain: self.domain.as_str(),
            internal_routes: routes.map(|names| names.iter().map(|hostname| Route { hostname }).collect()),
            metric_tags: self.metric_tags.as_ref(),
        };
        api::json::to_string(&wire).into()
    }
}

impl Cells {
    pub fn new(config: &config::Outbound) -> Result<Self, ConfigError> {
        let tls = identity(config.cell_tls.as_ref(), "cells")?;
        let http = Http::new(tls, config.communication_timeout);
        Ok(Self { http, require_tls: config.cell_require_tls, versions: Versions::default() })
    }

    /// Asks a cell to stop an instance. The cell reports when it is gone; until then its row stays.
    pub async fn stop(
        &self,
        cell: &Cell,
        key: &ActualLrpKey,
        instance: &InstanceKey,
        trace: &str,
    ) -> Result<(), CallError> {
        let (process, guid) = (key.process_guid.as_str(), instance.instance_guid.as_str());
        let path = ["lrps", process, "instances", guid, "stop"];
        let request = |_version| Some(Outgoing { method: Method::POST, path: path.to_vec(), body: Bytes::new() });
        accepted(self.call(cell, CellCall::Stop, request, trace).await?)
    }

    /// Tells a cell about changed routes and tags. A cell too old for the newer call is told the routes by the older one; one
    /// too old for both learns of them when it starts the next instance, and that is no failure.
    pub async fn update(&self, cell: &Cell, update: &LrpUpdate, trace: &str) -> Result<(), CallError> {
        let path = ["lrps", update.process_guid.as_str(), "instances", update.instance_guid.as_str()];
        let request = |version| {
            let body = match version {
                1 if update.internal_routes.is_none() => return None,
                1 => LrpUpdate { metric_tags: None, ..update.clone() }.to_json(),
                _ => update.to_json(),
            };
            Some(Outgoing { method: Method::PUT, path: path.to_vec(), body })
        };
        match self.call(cell, CellCall::Update, request, trace).await? {
            None | Some(StatusCode::NOT_FOUND) => Ok(()),
            status => accepted(status),
        }
    }

    /// Asks a cell to destroy the container of a task. The task itself has been completed already.
    pub async fn cancel_task(&self, cell: &Cell, guid: &TaskGuid, trace: &str) -> Result<(), CallError> {
        let path = ["tasks", guid.as_str(), "cancel"];
        let request = |_version| Some(Outgoing { method: Method::POST, path: path.to_vec(), body: Bytes::new() });
        accepted(self.call(cell, CellCall::Cancel, request, trace).await?)
    }

    async fn call<'a>(
        &self,
        cell: &Cell,
        call: CellCall,
        request: impl Fn(u8) -> Option<Outgoing<'a>>,
        trace: &str,
    ) -> Result<Option<StatusCode>, CallError> {
        let address = self.address(cell)?;
        let base = Url::parse(address).map_err(|_| CallError::Address)?;
        let send = |version| {
            let (request, mut url) = (request(version), base.clone());
            async move {
                let Outgoing { method, path, body } = request?;
                let Ok(mut segments) = url.path_segments_mut() else { return Some(Err(CallError::Address)) };
                segments.pop_if_empty().push(&format!("v{version}")).extend(path);
                drop(segments);
                let answer = self.http.send(Request { method, url: &url, body, trace }).await;
                Some(answer.map(|answer| answer.status))
            }
        };
        self.versions.call(Callee { cell, address }, call, Instant::now(), send).await
    }

    /// As the auctioneer chooses, too.
    fn address<'a>(&self, cell: &'a Cell) -> Result<&'a str, CallError> {
        api::rep::address(cell, self.require_tls, self.http.has_certificates()).map_err(|error| match error {
            AddressError::TlsRequired => CallError::TlsRequired,
            AddressError::NoCertificates => CallError::NoCertificates,
        })
    }
}

fn accepted(status: Option<StatusCode>) -> Result<(), CallError> {
    match status {
        None | Some(StatusCode::ACCEPTED) => Ok(()),
        Some(status) => Err(CallError::Status { status: status.as_u16() }),
    }
}

/// One call to make, to whatever address the cell has by then.
#[derive(Debug)]
pub(super) enum Errand {
    Stop { key: ActualLrpKey, instance: InstanceKey },
    Update { cell: CellId, update: LrpUpdate },
    Cancel { guid: TaskGuid, cell: CellId },
}

impl Errand {
    fn cell(&self) -> &CellId {
        match self {
            Self::Stop { instance, .. } => &instance.cell_id,
            Self::Update { cell, .. } | Self::Cancel { cell, .. } => cell,
        }
    }

    fn name(&self) -> &'static str {
        let call = match self {
            Self::Stop { .. } => CellCall::Stop,
            Self::Update { .. } => CellCall::Update,
            Self::Cancel { .. } => CellCall::Cancel,
        };
        call.name()
    }
}

/// Who runs errands: the client, and where to find cells.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    pub(super) cells: Cells,
    pub(super) registry: Arc<Registry>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
}

impl Runner {
    pub(super) async fn run(self, errand: Errand, trace: Arc<str>) {
        let name = errand.name();
        let Some(cell) = self.registry.get(errand.cell(), self.clock.uptime_ns()) else {
            // What a cell that is gone held is withdrawn by convergence, which may also decide that it is not gone.
            tracing::debug!(cell = %errand.cell(), call = name, "the cell is not known; nobody was called");
            return;
        };
        let outcome = match &errand {
            Errand::Stop { key, instance } => self.cells.stop(&cell, key, instance, &trace).await,
            Errand::Update { update, .. } if update.is_empty() => Ok(()),
            Errand::Update { update, .. } => self.cells.update(&cell, update, &trace).await,
            Errand::Cancel { guid, .. } => self.cells.cancel_task(&cell, guid, &trace).await,
        };
        if let Err(error) = outcome {
            self.metrics.cell_call_failures.inc();
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(cell = %cell.id, call = name, %error, cause, "a cell was not told; convergence asks again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::time::Duration;

    use expect_test::expect;

    use super::*;

    fn cell(rep_url: &str, rep_address: &str) -> Cell {
        let wire = api::models::CellPresence {
            cell_id: "cell".into(),
            rep_url: rep_url.into(),
            rep_address: rep_address.into(),
            ..Default::default()
        };
        api::convert::cell_from_wire(wire).unwrap()
    }

    /// Certificates that are good enough to have; no connection is made with them.
    fn some_certificates() -> Arc<rustls::ClientConfig> {
        let dir = tempfile::TempDir::new().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
        let (cert_path, key_path) = (dir.path().join("crt"), dir.path().join("key"));
        std::fs::write(&cert_path, cert.pem()).unwrap();
        std::fs::write(&key_path, key.serialize_pem()).unwrap();
        let files = api::client::TlsFiles { ca: cert_path.clone(), cert: cert_path, key: key_path, skip_verify: false };
        api::client::tls::client_config(&files).unwrap()
    }

    #[test]
    fn the_whole_table_of_addresses() {
        let tls = some_certificates();
        let mut table = String::new();
        for require_tls in [false, true] {
            for certificates in [false, true] {
                let http = Http::new(certificates.then(|| tls.clone()), Duration::from_secs(1));
                let cells = Cells { http, require_tls, versions: Versions::default() };
                for rep_url in ["", "http://url", "https://url"] {
                    let cell = cell(rep_url, "http://address");
                    let chosen = cells.address(&cell).map_or_else(|error| error.to_string(), str::to_owned);
                    writeln!(table, "{require_tls:<6}{certificates:<6}{rep_url:<12}{chosen}").unwrap();
                }
            }
        }
        expect![[r#"
            false false             http://address
            false false http://url  http://url
            false false https://url https scheme not supported since certificates aren't provided
            false true              http://address
            false true  http://url  http://url
            false true  https://url https://url
            true  false             https scheme is required but none of the addresses support it
            true  false http://url  https scheme is required but none of the addresses support it
            true  false https://url https scheme not supported since certificates aren't provided
            true  true              https scheme is required but none of the addresses support it
            true  true  http://url  https scheme is required but none of the addresses support it
            true  true  https://url https://url
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn an_old_https_address_needs_certificates_too() {
        let cells = Cells::new(&config::Outbound::default()).unwrap();
        assert!(matches!(cells.address(&cell("", "https://address")), Err(CallError::NoCertificates)));
    }

    fn desired(internal_router: &str) -> DesiredLrp {
        let static_tag = |text: &str| api::models::MetricTagValue { r#static: text.into(), dynamic: 0 };
        let wire = api::models::DesiredLrp {
            process_guid: "pg-1".into(),
            domain: "my-domain".into(),
            routes: Some(api::models::ProtoRoutes {
                routes: [("internal-router".to_owned(), internal_router.as_bytes().to_vec())].into(),
            }),
            metric_tags: [
                ("space".to_owned(), static_tag("<a>")),
                ("index".to_owned(), api::models::MetricTagValue { r#static: String::new(), dynamic: 1 }),
                ("guid".to_owned(), api::models::MetricTagValue { r#static: String::new(), dynamic: 2 }),
            ]
            .into(),
            ..Default::default()
        };
        api::convert::desired_lrp::desire(wire, "epoch".into()).unwrap()
    }

    fn update_json(internal_router: &str, routes: bool, tags: bool) -> String {
        let instance = InstanceKey {
            instance_guid: InstanceGuid::parse("ig-0").unwrap(),
            cell_id: CellId::parse("cell").unwrap(),
        };
        let lrp = desired(internal_router);
        let update = LrpUpdate::of(&lrp, &lrp.key(0), &instance, routes, tags);
        String::from_utf8(update.to_json().to_vec()).unwrap()
    }

    #[test]
    fn only_what_changed_is_sent() {
        let routes = r#"[{"hostname":"a.apps.internal"}]"#;
        assert_eq!(
            update_json(routes, true, false),
            r#"{"instance_guid":"ig-0","process_guid":"pg-1","index":0,"domain":"my-domain","internal_routes":[{"hostname":"a.apps.internal"}],"metric_tags":null}"#
        );
        assert_eq!(
            update_json(routes, false, true),
            r#"{"instance_guid":"ig-0","process_guid":"pg-1","index":0,"domain":"my-domain","internal_routes":null,"metric_tags":{"guid":"ig-0","index":"0","space":"\u003ca\u003e"}}"#
        );
        assert!(update_json("[]", true, false).contains(r#""internal_routes":[],"#));
        assert!(update_json(r#"{"not":"a list"}"#, true, false).contains(r#""internal_routes":null,"#));
    }
}
