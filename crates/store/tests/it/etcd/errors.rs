//! What somebody reads who has set it up wrongly: the true cause, soon, and what to do.

use expect_test::{Expect, expect};
use rig::etcd::Cluster;
use rig::pki::Pki;
use store::etcd::{Etcd, Options, TlsFiles, User};
use store::{Store, StoreError};
use zeroize::Zeroizing;

use super::{one, open, options, put, soon, three};

/// Addresses and ports differ from run to run.
fn steady(text: &str, options: &Options) -> String {
    let mut text = text.to_owned();
    for (at, endpoint) in options.endpoints.iter().enumerate() {
        text = text.replace(endpoint, &format!("ENDPOINT{at}"));
    }
    // How a line ends that is closed during the handshake depends on who speaks last.
    text.replace("Connection reset by peer (os error 104)", "tls handshake eof")
}

async fn check(options: Options, expected: Expect) {
    let error = soon("an error", Etcd::open(options.clone())).await.unwrap_err();
    let text = steady(&error.to_string(), &options);
    let (what, what_to_do) = text.split_once(". Nothing was changed. ").expect("what is safe is said");
    assert!(!what_to_do.is_empty() && !error.outcome_unknown());
    expected.assert_eq(what);
}

fn with_tls() -> Cluster {
    Cluster::start(rig::etcd::Options { tls: true, ..Default::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates() {
    let cluster = with_tls();
    let right = options(&cluster);
    let identity = right.tls.clone().unwrap().identity;
    let elsewhere = Pki::new();
    let tls = TlsFiles { ca: elsewhere.path("ca.crt"), identity: identity.clone() };
    check(
        Options { tls: Some(tls), ..right.clone() },
        expect!["etcd does not let this server in while reading the revision: invalid peer certificate: BadSignature"],
    )
    .await;
    let tls = TlsFiles { ca: cluster.ca(), identity: None };
    check(
        Options { tls: Some(tls), ..right.clone() },
        expect!["etcd does not let this server in while reading the revision: received fatal alert: BadCertificate"],
    )
    .await;
    let stranger = (elsewhere.path("client.crt"), elsewhere.path("client.key"));
    let tls = TlsFiles { ca: cluster.ca(), identity: Some(stranger) };
    check(
        Options { tls: Some(tls), ..right.clone() },
        expect!["etcd does not let this server in while reading the revision: received fatal alert: BadCertificate"],
    )
    .await;
    let plain = right.endpoints.iter().map(|url| url.replace("https", "http")).collect();
    check(Options { endpoints: plain, tls: None, ..right.clone() }, expect!["etcd could not be reached while reading the revision: ENDPOINT0: the connection was closed before there was an answer; if this member speaks TLS, its endpoint begins with https:// (asked: ENDPOINT0)"]).await;
    check(Options { tls: None, ..right.clone() }, expect!["etcd does not let this server in while preparing the connection to ENDPOINT0: it speaks TLS, and there is no certificate of an authority to know it by"]).await;
    let missing = TlsFiles { ca: "no-such-file.crt".into(), identity: None };
    check(
        Options { tls: Some(missing), ..right.clone() },
        expect![
            "etcd does not let this server in while reading no-such-file.crt: No such file or directory (os error 2)"
        ],
    )
    .await;
    Etcd::open(right).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_against_a_member_without() {
    let (cluster, elsewhere) = (one(), Pki::new());
    let endpoints = cluster.endpoints().iter().map(|url| url.replace("http", "https")).collect();
    let tls = Some(TlsFiles { ca: elsewhere.path("ca.crt"), identity: None });
    check(Options { endpoints, tls, ..options(&cluster) }, expect!["etcd could not be reached while reading the revision: ENDPOINT0: tls handshake eof; if this member does not speak TLS, its endpoint begins with http:// (asked: ENDPOINT0)"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_and_no_majority() {
    let (cluster, gone) = (three(), one());
    cluster.kill(0);
    cluster.kill(1);
    gone.kill(0);
    let no_majority = check(
        options(&cluster),
        expect![
            "etcd could not be reached while reading the revision: ENDPOINT0: tcp connect error: Connection refused (os error 111), ENDPOINT1: tcp connect error: Connection refused (os error 111), ENDPOINT2: etcdserver: no leader (asked: ENDPOINT0,ENDPOINT1,ENDPOINT2)"
        ],
    );
    let nobody = check(
        options(&gone),
        expect![
            "etcd could not be reached while reading the revision: ENDPOINT0: tcp connect error: Connection refused (os error 111) (asked: ENDPOINT0)"
        ],
    );
    tokio::join!(no_majority, nobody);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_two_clusters() {
    let (cluster, other) = (one(), one());
    let endpoints = vec![cluster.endpoint(0), other.endpoint(0)];
    let error = Etcd::open(Options { endpoints, ..options(&cluster) }).await.unwrap_err();
    assert!(matches!(error, StoreError::OtherEtcd { .. }) && !error.retryable(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn users() {
    let user = Some(("cork".to_owned(), "right".to_owned()));
    let cluster = Cluster::start(rig::etcd::Options { user, ..Default::default() });
    let named = |name: &str, password: &str| {
        Some(User { name: name.to_owned(), password: Zeroizing::new(password.to_owned()) })
    };
    check(
        options(&cluster),
        expect!["etcd does not let this server in while reading the revision: etcdserver: user name is empty"],
    )
    .await;
    check(Options { user: named("cork", "wrong"), ..options(&cluster) }, expect!["etcd does not let this server in while logging in as cork for reading the revision: etcdserver: authentication failed, invalid user ID or password"]).await;
    check(Options { user: named("nobody", "right"), ..options(&cluster) }, expect!["etcd does not let this server in while logging in as nobody for reading the revision: etcdserver: authentication failed, invalid user ID or password"]).await;
    cluster.ctl(&["user", "add", "guest:right"]);
    check(
        Options { user: named("guest", "right"), ..options(&cluster) },
        expect!["etcd does not let this server in while reading the revision: etcdserver: permission denied"],
    )
    .await;
    Etcd::open(Options { user: named("cork", "right"), ..options(&cluster) }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_too_large_for_this_etcd() {
    let max_request_bytes = Some(100_000);
    let cluster = Cluster::start(rig::etcd::Options { max_request_bytes, ..Default::default() });
    let store = open(options(&cluster)).await;
    let held = store.campaign("a").await.unwrap();
    let error = store.commit(&held, &put("/large", vec![0; 200_000])).await.unwrap_err();
    assert!(!error.retryable() && !error.outcome_unknown());
    expect!["etcd answered what this server does not expect while committing: the request is too large for it, because it takes less than by default. Start its members without --max-request-bytes, or with at least 1572864. Nothing was changed"].assert_eq(&error.to_string());
    assert_eq!(store.commit(&held, &put("/small", "x")).await.unwrap(), 1, "and nothing of it is there");
}
