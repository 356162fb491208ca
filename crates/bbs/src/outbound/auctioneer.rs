//! Asks the auctioneer to place work: identifiers and resources only, the chosen cell fetches the rest from us.
//!
//! One request is under way at a time. What is asked for meanwhile gathers and leaves with the next one, an element per
//! process with all its indices, so that a burst costs the auctioneer a few large auctions rather than many small ones.
//!
//! There may be several auctioneers, of which one has the lock; the others refuse connections. Whoever does not answer is passed
//! over, and the one that answered last is asked first.
//!
//! A failed request is counted, logged once and forgotten: convergence lists everything that still waits for a place. No
//! second copy of that list is kept here, because it would be wrong as soon as something is placed or no longer wanted.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::{Method, StatusCode};
use model::{DefinitionNumber, DesiredLrp, ProcessGuid, Resources, Task, TaskGuid};
use serde::{Serialize, Serializer};
use tokio::sync::mpsc;
use url::Url;

use super::http::{Http, Request};
use super::{CallError, ConfigError, identity};
use crate::config;
use crate::metrics::Metrics;

/// How many wishes are merged into one request to the auctioneer.
const BATCH_ORDERS_MAX: usize = 1000;
/// How long wishes gather after a failure, so that an auctioneer that is down is asked, and logged, a few times a second.
const FAILURE_PAUSE: Duration = Duration::from_millis(200);

/// What should be placed.
#[derive(Debug)]
pub(super) enum Order {
    Lrp { desired: Arc<DesiredLrp>, indices: Vec<i32> },
    Task(Arc<Task>),
}

#[derive(Debug)]
pub(super) struct Auctioneer {
    http: Http,
    /// One of them is active at a time; the others refuse connections.
    places: Vec<Place>,
    /// The one that answered last is asked first.
    last: AtomicUsize,
}

#[derive(Debug)]
struct Place {
    url: Url,
    /// The same host and port without TLS, where the configuration allows to fall back to it.
    plain: Option<Url>,
}

impl Auctioneer {
    /// `None` when no auctioneer is configured.
    pub(super) fn new(config: &config::Outbound) -> Result<Option<Self>, ConfigError> {
        let Some(texts) = &config.auctioneer_url else { return Ok(None) };
        let tls = identity(config.auctioneer_tls.as_ref(), "the auctioneer")?;
        let places =
            texts.split(',').map(|text| Place::new(text.trim(), config, tls.is_some())).collect::<Result<_, _>>()?;
        Ok(Some(Self { http: Http::new(tls, config.communication_timeout), places, last: AtomicUsize::new(0) }))
    }

    /// Places what arrives until the queue closes.
    pub(super) async fn run(self, mut orders: mpsc::Receiver<(Order, Arc<str>)>, metrics: Arc<Metrics>) {
        let mut waiting = Vec::with_capacity(BATCH_ORDERS_MAX);
        while orders.recv_many(&mut waiting, BATCH_ORDERS_MAX).await > 0 {
            let trace = common_trace(&waiting);
            let batch = Batch::merge(waiting.drain(..).map(|(order, _)| order));
            let (lrps, tasks) =
                tokio::join!(self.submit("lrps", &batch.lrps, &trace), self.submit("tasks", &batch.tasks, &trace));
            let mut failed = false;
            for (kind, elements, outcome) in [("lrps", batch.lrps.len(), lrps), ("tasks", batch.tasks.len(), tasks)] {
                if let Err(error) = outcome {
                    failed = true;
                    metrics.auction_failures.inc();
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(kind, elements, %error, cause, "the auctioneer took nothing; convergence asks again");
                }
            }
            if failed {
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    }

    async fn submit<T: Serialize>(&self, kind: &str, elements: &[T], trace: &str) -> Result<(), CallError> {
        if elements.is_empty() {
            return Ok(());
        }
        let body = bytes::Bytes::from(api::json::to_string(elements));
        let first = self.last.load(Ordering::Relaxed);
        let mut outcome = Err(CallError::Address);
        for at in (0..self.places.len()).map(|step| (first + step) % self.places.len()) {
            let place = &self.places[at];
            outcome = match (self.post(&place.url, kind, body.clone(), trace).await, &place.plain) {
                (Err(CallError::Transport { .. }), Some(plain)) => self.post(plain, kind, body.clone(), trace).await,
                (outcome, _) => outcome,
            };
            if !matches!(outcome, Err(CallError::Transport { .. })) {
                self.last.store(at, Ordering::Relaxed);
                break;
            }
        }
        outcome
    }

    async fn post(&self, base: &Url, kind: &str, body: bytes::Bytes, trace: &str) -> Result<(), CallError> {
        let mut url = base.clone();
        url.path_segments_mut().map_err(|()| CallError::Address)?.pop_if_empty().extend(["v1", kind]);
        let answer = self.http.send(Request { method: Method::POST, url: &url, body, trace }).await?;
        match answer.status {
            StatusCode::ACCEPTED => Ok(()),
            status => Err(CallError::Status { status: status.as_u16() }),
        }
    }
}

impl Place {
    fn new(text: &str, config: &config::Outbound, has_tls: bool) -> Result<Self, ConfigError> {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or_else(|| ConfigError::AuctioneerUrl { url: text.to_owned() })?;
        let encrypted = url.scheme() == "https";
        if encrypted && !has_tls {
            return Err(ConfigError::AuctioneerCertificates { url: text.to_owned() });
        }
        if config.auctioneer_require_tls && !encrypted {
            return Err(ConfigError::AuctioneerPlain { url: text.to_owned() });
        }
        let plain = if encrypted && !config.auctioneer_require_tls { without_tls(&url) } else { None };
        Ok(Self { url, plain })
    }
}

/// The request that caused the whole batch, if it was one; a batch of several names none.
fn common_trace(orders: &[(Order, Arc<str>)]) -> Arc<str> {
    match orders {
        [(_, first), rest @ ..] if rest.iter().all(|(_, trace)| trace == first) => first.clone(),
        _ => Arc::from(""),
    }
}

fn without_tls(url: &Url) -> Option<Url> {
    // The port is set last: it must stay that of the encrypted address, also where the scheme implies it.
    let port = url.port_or_known_default();
    let mut plain = url.clone();
    plain.set_scheme("http").ok()?;
    plain.set_port(port).ok()?;
    Some(plain)
}

/// One request of each kind, in the order in which things were first asked for.
#[derive(Debug, Default)]
struct Batch {
    lrps: Vec<LrpStart>,
    tasks: Vec<TaskStart>,
}

impl Batch {
    fn merge(orders: impl Iterator<Item = Order>) -> Self {
        let mut batch = Self::default();
        // Instances of two definitions have different needs.
        let mut lrp_at: HashMap<(ProcessGuid, DefinitionNumber), usize> = HashMap::new();
        let mut task_at: HashMap<TaskGuid, usize> = HashMap::new();
        for order in orders {
            match order {
                Order::Lrp { indices, .. } if indices.is_empty() => {}
                Order::Lrp { desired, indices } => {
                    match lrp_at.entry((desired.process_guid.clone(), desired.definition)) {
                        Entry::Occupied(at) => {
                            let start = &mut batch.lrps[*at.get()];
                            start.indices.extend(indices);
                            // The record may have changed meanwhile; later wishes carry the newer one.
                            start.desired = desired;
                        }
                        Entry::Vacant(at) => {
                            at.insert(batch.lrps.len());
                            batch.lrps.push(LrpStart { desired, indices: indices.into_iter().collect() });
                        }
                    }
                }
                Order::Task(task) => match task_at.entry(task.guid.clone()) {
                    Entry::Occupied(at) => batch.tasks[*at.get()] = TaskStart(task),
                    Entry::Vacant(at) => {
                        at.insert(batch.tasks.len());
                        batch.tasks.push(TaskStart(task));
                    }
                },
            }
        }
        batch
    }
}

#[derive(Debug)]
struct LrpStart {
    desired: Arc<DesiredLrp>,
    indices: BTreeSet<i32>,
}

#[derive(Debug)]
struct TaskStart(Arc<Task>);

impl Serialize for LrpStart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            process_guid: &'a str,
            domain: &'a str,
            indices: &'a BTreeSet<i32>,
            #[serde(flatten)]
            needs: Needs<'a>,
        }
        let lrp = &self.desired;
        Wire {
            process_guid: lrp.process_guid.as_str(),
            domain: lrp.domain.as_str(),
            indices: &self.indices,
            needs: Needs::of(&lrp.resources, &lrp.placement_tags, &lrp.volume_drivers),
        }
        .serialize(serializer)
    }
}

impl Serialize for TaskStart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Wire<'a> {
            task_guid: &'a str,
            domain: &'a str,
            #[serde(flatten)]
            needs: Needs<'a>,
            /// Always the name of the zero state: the auctioneer does not look at it, but refuses a text it does not know.
            #[serde(rename = "state")]
            state: &'static str,
            #[serde(rename = "failed")]
            failed: bool,
        }
        let Self(task) = self;
        let definition = &task.definition;
        Wire {
            task_guid: task.guid.as_str(),
            domain: task.domain.as_str(),
            needs: Needs::of(&definition.resources, &definition.placement_tags, &definition.volume_drivers),
            state: "Invalid",
            failed: false,
        }
        .serialize(serializer)
    }
}

/// What a place must offer, flat in its element.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Needs<'a> {
    /// `null` when there are none, as Diego writes them after storage; a list of drivers is never `null`.
    placement_tags: Option<&'a [String]>,
    volume_drivers: &'a [String],
    root_fs: &'a str,
    #[serde(rename = "MemoryMB")]
    memory_mb: i32,
    #[serde(rename = "DiskMB")]
    disk_mb: i32,
    max_pids: i32,
}

impl<'a> Needs<'a> {
    fn of(resources: &'a Resources, tags: &'a [String], volume_drivers: &'a [String]) -> Self {
        Self {
            placement_tags: Some(tags).filter(|tags| !tags.is_empty()),
            volume_drivers,
            root_fs: &resources.root_fs,
            memory_mb: resources.memory_mb,
            disk_mb: resources.disk_mb,
            max_pids: resources.max_pids,
        }
    }
}

#[cfg(test)]
mod tests {
    use api::models;
    use expect_test::expect;
    use model::DomainName;

    use super::*;

    fn lrp(guid: &str, memory_mb: i32) -> Arc<DesiredLrp> {
        let wire = models::DesiredLrp {
            process_guid: guid.into(),
            domain: "my-domain".into(),
            root_fs: "preloaded:cflinuxfs4".into(),
            memory_mb,
            disk_mb: 128,
            max_pids: 100,
            ..Default::default()
        };
        Arc::new(api::convert::desired_lrp::desire(wire, "epoch".into()).unwrap())
    }

    fn task(guid: &str) -> Arc<Task> {
        let wire = models::TaskDefinition {
            root_fs: "docker:///busybox".into(),
            memory_mb: 32,
            disk_mb: 64,
            placement_tags: vec!["t1".into()],
            volume_mounts: vec![models::VolumeMount { driver: "nfs".into(), ..Default::default() }],
            ..Default::default()
        };
        let definition = api::convert::task_definition(&wire);
        Arc::new(Task::desire(TaskGuid::parse(guid).unwrap(), DomainName::parse("my-domain").unwrap(), definition, 1))
    }

    /// The two bodies are what a Go auctioneer was seen to receive, byte for byte.
    #[test]
    fn elements_are_diegos() {
        let orders = [Order::Lrp { desired: lrp("pg-2", 64), indices: vec![0, 1] }, Order::Task(task("task-2"))];
        let batch = Batch::merge(orders.into_iter());
        assert_eq!(
            api::json::to_string(&batch.lrps),
            r#"[{"process_guid":"pg-2","domain":"my-domain","indices":[0,1],"PlacementTags":null,"VolumeDrivers":[],"RootFs":"preloaded:cflinuxfs4","MemoryMB":64,"DiskMB":128,"MaxPids":100}]"#
        );
        assert_eq!(
            api::json::to_string(&batch.tasks),
            r#"[{"TaskGuid":"task-2","Domain":"my-domain","PlacementTags":["t1"],"VolumeDrivers":["nfs"],"RootFs":"docker:///busybox","MemoryMB":32,"DiskMB":64,"MaxPids":0,"state":"Invalid","failed":false}]"#
        );
    }

    /// Everything in a definition that is not placed by. Each text names itself, so that it can be found in a request.
    fn filled_lrp() -> models::DesiredLrp {
        models::DesiredLrp {
            process_guid: "pg".into(),
            domain: "d".into(),
            root_fs: "preloaded:cflinuxfs4".into(),
            environment_variables: vec![variable("private-env-name", "private-env-value")],
            setup: Some(run("private-setup")),
            action: Some(run("private-action")),
            monitor: Some(run("private-monitor")),
            log_guid: "private-log-guid".into(),
            log_source: "private-log-source".into(),
            metrics_guid: "private-metrics-guid".into(),
            annotation: "private-annotation".into(),
            routes: Some(models::ProtoRoutes {
                routes: [("private-router".to_owned(), b"\"private-route\"".to_vec())].into(),
            }),
            egress_rules: vec![models::SecurityGroupRule {
                protocol: "all".into(),
                destinations: vec!["private-destination".into()],
                ..Default::default()
            }],
            trusted_system_certificates_path: "/private-certificates".into(),
            volume_mounts: vec![models::VolumeMount {
                driver: "nfs".into(),
                container_dir: "/private-dir".into(),
                shared: Some(models::SharedDevice {
                    volume_id: "private-volume".into(),
                    mount_config: r#"{"password":"private-mount"}"#.into(),
                }),
                ..Default::default()
            }],
            placement_tags: vec!["a-tag".into()],
            legacy_download_user: "private-user".into(),
            image_username: "private-image-username".into(),
            image_password: "private-image-password".into(),
            metric_tags: [(
                "private-tag".to_owned(),
                models::MetricTagValue { r#static: "private-tag-value".into(), dynamic: 0 },
            )]
            .into(),
            ..Default::default()
        }
    }

    fn filled_task() -> models::TaskDefinition {
        let lrp = filled_lrp();
        models::TaskDefinition {
            root_fs: lrp.root_fs,
            environment_variables: lrp.environment_variables,
            action: lrp.action,
            log_guid: lrp.log_guid,
            log_source: lrp.log_source,
            metrics_guid: lrp.metrics_guid,
            result_file: "/private-result".into(),
            completion_callback_url: "https://user:private-password@host/private-callback".into(),
            annotation: lrp.annotation,
            egress_rules: lrp.egress_rules,
            trusted_system_certificates_path: lrp.trusted_system_certificates_path,
            volume_mounts: lrp.volume_mounts,
            placement_tags: lrp.placement_tags,
            image_username: lrp.image_username,
            image_password: lrp.image_password,
            metric_tags: lrp.metric_tags,
            ..Default::default()
        }
    }

    fn variable(name: &str, value: &str) -> models::EnvironmentVariable {
        models::EnvironmentVariable { name: name.into(), value: value.into() }
    }

    fn run(what: &str) -> models::Action {
        let run = models::RunAction {
            path: format!("/{what}-path"),
            args: vec![format!("{what}-arg")],
            user: format!("{what}-user"),
            env: vec![variable(what, what)],
            ..Default::default()
        };
        models::Action { run_action: Some(run), ..Default::default() }
    }

    #[test]
    fn identifiers_and_resources_leave_and_nothing_else() {
        let desired = api::convert::desired_lrp::desire(filled_lrp(), "private-epoch".into()).unwrap();
        let definition = api::convert::task_definition(&filled_task());
        let mut task = Task::desire(TaskGuid::parse("t").unwrap(), DomainName::parse("d").unwrap(), definition, 1);
        task.result = "private-result-text".into();
        task.rejection_reason = "private-rejection".into();
        let orders = [Order::Lrp { desired: Arc::new(desired), indices: vec![0] }, Order::Task(Arc::new(task))];
        let batch = Batch::merge(orders.into_iter());
        let bodies = [api::json::to_string(&batch.lrps), api::json::to_string(&batch.tasks)];
        for body in &bodies {
            assert!(!body.contains("private"), "{body}");
        }
        let keys = |body: &str| {
            let elements: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(body).unwrap();
            elements.iter().flat_map(|element| element.keys().cloned()).collect::<BTreeSet<_>>()
        };
        let placed_by = ["PlacementTags", "VolumeDrivers", "RootFs", "MemoryMB", "DiskMB", "MaxPids"];
        let with = |own: &[&str]| own.iter().chain(&placed_by).map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(keys(&bodies[0]), with(&["process_guid", "domain", "indices"]));
        assert_eq!(keys(&bodies[1]), with(&["TaskGuid", "Domain", "state", "failed"]));
        for needed in [r#""PlacementTags":["a-tag"]"#, r#""VolumeDrivers":["nfs"]"#] {
            assert!(bodies.iter().all(|body| body.contains(needed)), "{needed} is needed to find a place");
        }
    }

    #[test]
    fn wishes_for_the_same_thing_become_one() {
        let orders = [
            Order::Lrp { desired: lrp("b", 64), indices: vec![2, 0] },
            Order::Task(task("t")),
            Order::Lrp { desired: lrp("a", 64), indices: vec![5] },
            Order::Lrp { desired: lrp("c", 64), indices: vec![] },
            Order::Task(task("t")),
            Order::Lrp { desired: lrp("b", 65), indices: vec![1, 2] },
        ];
        let batch = Batch::merge(orders.into_iter());
        let lrps: Vec<_> = batch.lrps.iter().map(|start| (&start.desired, &start.indices)).collect();
        let shown: Vec<_> = lrps
            .iter()
            .map(|(lrp, indices)| format!("{} {} {indices:?}", lrp.process_guid, lrp.resources.memory_mb))
            .collect();
        assert_eq!(shown, ["b 65 {0, 1, 2}", "a 64 {5}"]);
        assert_eq!(batch.tasks.len(), 1);
    }

    fn complaint(url: &str, require_tls: bool) -> String {
        let config = config::Outbound {
            auctioneer_url: Some(url.into()),
            auctioneer_require_tls: require_tls,
            ..Default::default()
        };
        Auctioneer::new(&config).map_or_else(|error| error.to_string(), |_| "fine".into())
    }

    #[test]
    fn a_configuration_that_cannot_work_is_refused_at_the_start() {
        assert_eq!(complaint("http://localhost:9016", false), "fine");
        assert_eq!(complaint("http://localhost:9016, http://localhost:9017", false), "fine");
        expect![[r#"the auctioneer's address "" is not an http or https URL that names a host"#]]
            .assert_eq(&complaint("http://localhost:9016,", false));
        expect![[r#"the auctioneer's address "localhost:9016" is not an http or https URL that names a host"#]]
            .assert_eq(&complaint("localhost:9016", false));
        expect![[r#"the auctioneer's address "https://localhost:9016" needs a CA file, a certificate and a key; use http:// without TLS"#]]
            .assert_eq(&complaint("https://localhost:9016", false));
        expect![[
            r#"TLS is required for the auctioneer, but its address "http://localhost:9016" is without; use https://"#
        ]]
        .assert_eq(&complaint("http://localhost:9016", true));
    }

    #[test]
    fn the_fallback_keeps_host_and_port() {
        let plain = |url: &str| without_tls(&Url::parse(url).unwrap()).unwrap().to_string();
        assert_eq!(plain("https://auctioneer:9016/"), "http://auctioneer:9016/");
        assert_eq!(plain("https://auctioneer/"), "http://auctioneer:443/");
    }
}
