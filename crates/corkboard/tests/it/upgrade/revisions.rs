//! Every revision of the API on data that moves: an old client sees the same bytes before, during and after a migration, from
//! either release and after a rollback, and what it writes at any of these moments is there for everybody.
//!
//! Which routes are tried follows from the table of routes, so that a new revision is tried from its first day.

use std::collections::BTreeMap;

use api::models;
use api::{Route, Wire};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::site::{PATIENCE, Release, Site, done};
use super::{FORMER, MANUALLY, QUIETLY};

/// What is read all the time, and nobody changes.
const STILL: &str = "still";
const DOMAIN: &str = "apps";
/// Where new records go, so that lists of the other domain stay as they are.
const NEW_DOMAIN: &str = "new-apps";

/// Sends one request and reads the answer to its end.
async fn send(site: &Site, route: Route, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(site.api()).await.unwrap();
    let head = format!(
        "{} {} HTTP/1.1\r\nHost: board\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        route.method().as_str(),
        route.path(),
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer").unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let status = head[9..12].parse().unwrap();
    let body = &answer[end + 4..];
    let body = if head.contains("transfer-encoding: chunked") { joined(body) } else { body.to_vec() };
    (status, body)
}

/// A list is streamed in chunks, whose borders mean nothing.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n").expect("the length of a chunk");
        let length = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[end + 2..end + 2 + length]);
        chunks = &chunks[end + 2 + length + 2..];
    }
}

fn run(path: &str) -> models::Action {
    let run = models::RunAction { path: path.into(), user: "vcap".into(), ..Default::default() };
    models::Action { run_action: Some(run), ..Default::default() }
}

/// With everything that a conversion to an older revision touches.
fn lrp(guid: &str, domain: &str) -> models::DesiredLrp {
    let timeout =
        models::TimeoutAction { action: Some(Box::new(run("/bin/setup"))), timeout_ms: 5000, ..Default::default() };
    let layer = |name: &str, layer_type: i32, digest: &str| models::ImageLayer {
        name: name.into(),
        url: format!("http://{name}.example"),
        destination_path: "/opt".into(),
        layer_type,
        media_type: 1,
        digest_algorithm: i32::from(!digest.is_empty()),
        digest_value: digest.into(),
    };
    let tag = models::MetricTagValue { r#static: guid.into(), ..Default::default() };
    models::DesiredLrp {
        process_guid: guid.into(),
        domain: domain.into(),
        root_fs: "preloaded:cflinuxfs4".into(),
        start_timeout_ms: 90_000,
        setup: Some(models::Action { timeout_action: Some(Box::new(timeout)), ..Default::default() }),
        action: Some(run("/bin/app")),
        monitor: Some(run("/bin/monitor")),
        legacy_download_user: "vcap".into(),
        cached_dependencies: vec![models::CachedDependency {
            from: "http://cached.example".into(),
            to: "/cached".into(),
            ..Default::default()
        }],
        image_layers: vec![layer("shared", 1, ""), layer("exclusive", 2, "abc")],
        metric_tags: BTreeMap::from([("source_id".to_owned(), tag)]).into_iter().collect(),
        ..Default::default()
    }
}

fn task(guid: &str, domain: &str) -> models::DesireTaskRequest {
    let lrp = lrp(guid, domain);
    let definition = models::TaskDefinition {
        root_fs: lrp.root_fs,
        action: lrp.setup,
        image_layers: lrp.image_layers,
        cached_dependencies: lrp.cached_dependencies,
        legacy_download_user: lrp.legacy_download_user,
        ..Default::default()
    };
    models::DesireTaskRequest { task_guid: guid.into(), domain: domain.into(), task_definition: Some(definition) }
}

/// The request with which a route reads what stays, if it reads such things.
fn question(route: Route) -> Option<Vec<u8>> {
    fn bytes(message: impl Wire) -> Option<Vec<u8>> {
        Some(api::encode(message).to_vec())
    }
    let (guid, domain) = (STILL.to_owned(), DOMAIN.to_owned());
    match route.request()? {
        "DesiredLRPsRequest" => {
            bytes(models::DesiredLrPsRequest { domain, process_guids: vec![guid], ..Default::default() })
        }
        "DesiredLRPByProcessGuidRequest" => {
            bytes(models::DesiredLrpByProcessGuidRequest { actual_lrp_instance_key: None, process_guid: guid })
        }
        "ListMutableDesiredLRPsRequest" => {
            bytes(models::ListMutableDesiredLrPsRequest { domain, ..Default::default() })
        }
        "ListImmutableDesiredLRPsRequest" => {
            bytes(models::ListImmutableDesiredLrPsRequest { domain, ..Default::default() })
        }
        "ListDesiredLRPsRequest_0_9" => bytes(models::ListDesiredLrPsRequest09 { domain, ..Default::default() }),
        "TasksRequest" => bytes(models::TasksRequest { domain, ..Default::default() }),
        "TaskByGuidRequest" => bytes(models::TaskByGuidRequest { task_guid: guid }),
        _ => None,
    }
}

/// What every reading route answers now.
async fn answers(site: &Site) -> BTreeMap<String, Vec<u8>> {
    let mut answers = BTreeMap::new();
    for route in Route::ALL.iter().copied() {
        if let Some(question) = question(route) {
            let (status, body) = send(site, route, &question).await;
            assert_eq!(status, 200, "{route}");
            assert!(body.len() > 8, "{route} answers with {} bytes: it found nothing", body.len());
            answers.insert(route.to_string(), body);
        }
    }
    answers
}

/// Writes a record through every revision that writes one, and says which.
async fn write(site: &Site, moment: &str) -> Vec<(Route, String)> {
    let mut written = Vec::new();
    for (at, route) in Route::ALL.iter().copied().enumerate() {
        let guid = format!("{moment}-{at}");
        let body = match route.request() {
            Some("DesireLRPRequest") => {
                api::encode(models::DesireLrpRequest { desired_lrp: Some(lrp(&guid, NEW_DOMAIN)) })
            }
            Some("CreateDesiredLRPRequest_0_9") => {
                api::encode(models::CreateDesiredLrpRequest09 { desired_lrp: Some(lrp(&guid, NEW_DOMAIN)) })
            }
            Some("CreateDesiredLRPRequest") => {
                let mutable =
                    models::MutableDesiredLrp { process_guid: guid.clone(), instances: 2, ..Default::default() };
                let immutable = api::revision::immutable_half(lrp(&guid, NEW_DOMAIN));
                api::encode(models::CreateDesiredLrpRequest {
                    mutable_desired_lrp: Some(mutable),
                    immutable_desired_lrp: Some(immutable),
                })
            }
            Some("DesireTaskRequest") => api::encode(task(&guid, NEW_DOMAIN)),
            _ => continue,
        };
        let (status, answer) = send(site, route, &body).await;
        let answer: models::DesiredLrpLifecycleResponse = api::decode(&answer).unwrap();
        assert_eq!((status, answer.error), (200, None), "{route} at {moment}");
        written.push((route, guid));
    }
    assert!(written.len() >= 8, "every revision of desire is tried: {written:?}");
    written
}

async fn check_written(site: &Site, written: &[(Route, String)]) {
    let client = site.client();
    for (route, guid) in written {
        let path = if route.request() == Some("DesireTaskRequest") {
            let task = client.task_by_guid(guid).await;
            task.unwrap_or_else(|error| panic!("{route} {guid}: {error}")).task_definition.unwrap().root_fs
        } else {
            let lrp = client.desired_lrp_by_process_guid(guid).await;
            lrp.unwrap_or_else(|error| panic!("{route} {guid}: {error}")).root_fs
        };
        assert_eq!(path, "preloaded:cflinuxfs4", "{route} {guid}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_clients_see_the_same_through_a_migration_and_back() {
    let mut site = Site::new();
    site.start(Release::Former, QUIETLY).await;
    let still = api::encode(models::DesireLrpRequest { desired_lrp: Some(lrp(STILL, DOMAIN)) });
    assert_eq!(send(&site, Route::DesireDesiredLrp, &still).await.0, 200);
    assert_eq!(send(&site, Route::DesireTask, &api::encode(task(STILL, DOMAIN))).await.0, 200);
    let first = answers(&site).await;
    assert!(first.len() >= 17, "every reading revision is tried: {:?}", first.keys());
    let mut written = write(&site, "former").await;
    site.terminate().await;

    let slowly = format!("{MANUALLY}\n").replace("[migration]\n", "[migration]\nrecords_per_s_max = 20\n");
    site.start(Release::Newest, &slowly).await;
    assert_eq!(site.state().await, "sweeping", "the migration is met in the middle");
    assert_eq!(answers(&site).await, first, "during the sweep");
    written.extend(write(&site, "sweeping").await);
    site.until_state("ready").await;
    assert_eq!(answers(&site).await, first, "before finalization");
    written.extend(write(&site, "ready").await);
    site.kill();

    site.start(Release::Former, QUIETLY).await;
    assert_eq!(answers(&site).await, first, "in the former release again");
    check_written(&site, &written).await;
    site.terminate().await;

    site.start(Release::Newest, MANUALLY).await;
    site.until_state("ready").await;
    done(&site.run(&["migrate", "finalize", "--yes", "--wait"]));
    assert_eq!(answers(&site).await, first, "after finalization");
    written.extend(write(&site, "finalized").await);
    check_written(&site, &written).await;

    site.leave();
    done(&site.run(&["migrate", "rollback", "--to", FORMER.name(), "--yes"]));
    assert_eq!(site.ended().await, 0, "{}", site.logged());
    site.start(Release::Former, QUIETLY).await;
    assert_eq!(answers(&site).await, first, "after a rollback");
    check_written(&site, &written).await;
}
