//! What is secret in an app is in what the app itself writes, and in nothing that the programs around it print or show.

use api::client::TlsFiles;
use api::client::pool::{Pool, Target};
use api::client::tls::client_config;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};

use super::site::{Daemon, Site, eventually};

const IN_ENVIRONMENT: &str = "marker-in-environment";
const IN_ARGUMENTS: &str = "marker-in-arguments";

#[test]
fn secrets_of_apps_are_in_no_log_and_on_no_page() {
    let site = Site::start(1, "trace");
    let env = format!(r#","env":[{{"name":"TOKEN","value":"{IN_ENVIRONMENT}"}}]"#);
    site.app("keeps", &format!("echo $TOKEN; : {IN_ARGUMENTS}; sleep 1000"), &env);
    site.app("tells", &format!("echo {IN_ARGUMENTS}; exit 1"), &env);
    // What cannot even be started is reported, too.
    let absent = r#"{"process_guid":"absent","domain":"d","rootfs":"preloaded:cflinuxfs4","instances":1,"memory_mb":32,
        "disk_mb":32,"log_guid":"absent","metric_tags":{"source_id":{"static":"absent"}},
        "action":{"run":{"path":"/nowhere","args":["marker-in-arguments"],"user":"root",
        "env":[{"name":"TOKEN","value":"marker-in-environment"}]}}}"#;
    site.call(&["create-desired-lrp", absent]);
    site.task("once", &format!("echo {IN_ARGUMENTS}; exit 2"));

    assert!(site.logs_with(&["logs", "keeps"], IN_ENVIRONMENT).contains("[APP/0] OUT"));
    site.logs_with(&["logs", "tells"], IN_ARGUMENTS);
    site.logs_with(&["logs", "--task", "once"], IN_ARGUMENTS);
    eventually("crashes and the end of the task", || {
        let lrps = site.call(&["actual-lrps", "--json"]);
        let (crashes, task) = (lrps.matches("\"crash_reason\":\"").count(), site.call(&["task", "once", "--json"]));
        if crashes >= 2 && task.contains("\"failed\":true") { Ok(()) } else { Err(format!("{lrps}{task}")) }
    });

    let mut seen = Vec::new();
    for daemon in [&site.board, &site.auctioneer, &site.cells[0]] {
        seen.push(daemon.log());
    }
    let cell = &site.cells[0];
    let (network, admin) = (cell.told("The cell cell-0 listens on "), cell.told(", admin on "));
    for path in ["/ping", "/evacuation", "/metrics", "/nowhere"] {
        seen.push(page(&site, &admin, path));
    }
    for path in ["/state", "/container_metrics", "/corkboard/v1/logs?process_guid=other"] {
        seen.push(page(&site, &network, path));
    }
    seen.push(site.call(&["actual-lrps", "--json"]));
    for text in &seen {
        for marker in [IN_ENVIRONMENT, IN_ARGUMENTS] {
            let line = text.lines().find(|line| line.contains(marker));
            assert!(line.is_none(), "{marker} is in {line:?}");
        }
    }
    assert!(seen[2].contains("TRACE"), "the cell logs everything");
    assert!(seen.iter().any(|text| text.contains("corkboard_cell_lrps ")), "pages were read");
    is_whole(&site.board);
}

/// A log in which nothing is would prove nothing.
fn is_whole(daemon: &Daemon) {
    assert!(daemon.log().lines().count() > 100);
}

/// A page of a port that wants certificates.
fn page(site: &Site, address: &str, path: &str) -> String {
    let pki = &site.pki;
    let files = TlsFiles {
        ca: pki.path("ca.crt"),
        cert: pki.path("client.crt"),
        key: pki.path("client.key"),
        skip_verify: false,
    };
    let (host, port) = address.rsplit_once(':').unwrap();
    let tls = Some((client_config(&files).unwrap(), host.to_owned().try_into().unwrap()));
    let target = Target { host: host.to_owned(), port: port.parse().unwrap(), tls };
    let request = hyper::Request::get(path).header("host", "cell").body(Full::new(Bytes::new())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (response, _connection) = Pool::new(target).send(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8_lossy(&body).into_owned()
    })
}
