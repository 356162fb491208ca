//! A store that logs in goes on when its token is forgotten, and says so when its user is gone.

use std::sync::Arc;
use std::time::Duration;

use rig::etcd::Cluster;
use store::etcd::{Etcd, Options, User};
use store::{Store, StoreError};
use zeroize::Zeroizing;

use super::{LONG_LEASE, open, options, soon, write};

fn with_users() -> Cluster {
    let user = Some(("cork".to_owned(), "right".to_owned()));
    Cluster::start(rig::etcd::Options { user, ..Default::default() })
}

async fn store(cluster: &Cluster) -> Arc<Etcd> {
    let user = User { name: "cork".to_owned(), password: Zeroizing::new("right".to_owned()) };
    open(Options { user: Some(user), lease: LONG_LEASE, ..options(cluster) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_forgotten_is_replaced() {
    let cluster = with_users();
    let (a, b) = (store(&cluster).await, store(&cluster).await);
    let held = a.campaign("a").await.unwrap();
    let mut following = b.follow().await.unwrap().unwrap();
    let mut revision = 0;
    let harms: [(&str, &dyn Fn()); 3] = [
        ("a member that was started again knows no tokens", &|| {
            cluster.restart(0);
            cluster.wait_until_ready(Duration::from_secs(20));
        }),
        ("users are not asked for", &|| drop(cluster.ctl(&["auth", "disable"]))),
        ("users are asked for again", &|| drop(cluster.ctl(&["auth", "enable"]))),
    ];
    for (what, harm) in harms {
        harm();
        revision += 1;
        assert_eq!(soon(what, write(&a, &held, "/x", what)).await.unwrap(), revision, "{what}");
        assert_eq!(soon(what, following.changes.recv()).await.unwrap().unwrap().revision, revision, "{what}");
        assert_eq!(b.get("/x").await.unwrap().unwrap(), what);
    }
    assert!(a.standing().is_certain());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_is_gone_is_said() {
    let cluster = with_users();
    cluster.ctl(&["user", "add", "other:right"]);
    cluster.ctl(&["user", "grant-role", "other", "root"]);
    let user = User { name: "other".to_owned(), password: Zeroizing::new("right".to_owned()) };
    let a = open(Options { user: Some(user), lease: LONG_LEASE, ..options(&cluster) }).await;
    let held = a.campaign("a").await.unwrap();
    write(&a, &held, "/x", "1").await.unwrap();
    cluster.ctl(&["user", "delete", "other"]);
    let error = write(&a, &held, "/x", "2").await.unwrap_err();
    assert!(matches!(error, StoreError::NotAllowed { .. }) && !error.outcome_unknown(), "{error}");
    assert!(error.to_string().contains("logging in as other") && !error.to_string().contains("right"), "{error}");
    cluster.ctl(&["user", "add", "other:right"]);
    cluster.ctl(&["user", "grant-role", "other", "root"]);
    assert_eq!(write(&a, &held, "/x", "3").await.unwrap(), 2, "and nothing of the one that was refused is there");
}
