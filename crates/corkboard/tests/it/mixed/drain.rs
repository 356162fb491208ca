//! A master that rolls back before it stops: the former release, which has waited all the time, goes on with everything. One that
//! may not roll back says so, and the next node of its release goes on.

use store::Version;

use super::fleet::{Fleet, Setup, Way};
use crate::upgrade::FORMER;
use crate::upgrade::site::{Release, done};

const CALLS_BETWEEN: u64 = 60;
/// What a server ends with that should have rolled back and did not.
const EXIT_LOSS: i32 = 7;
const APP: &str = r#"{"process_guid":"gate","domain":"apps","rootfs":"preloaded:cflinuxfs4","instances":0,"action":{"run":{"path":"/bin/old","user":"vcap"}},"metric_tags":{"source_id":{"static":"gate"}}}"#;
const NEW_DEFINITION: &str = r#"{"desired_lrp":{"rootfs":"preloaded:cflinuxfs4","action":{"run":{"path":"/bin/new","user":"vcap"}},"metric_tags":{"source_id":{"static":"gate"}}},"update_identifier":"v2"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_on_drain_hands_everything_to_the_former_release_or_to_nobody() {
    let newest = Setup::newest("");
    let draining = Setup::newest(format!("rollback_on_drain_to_version = \"{}\"", FORMER.name()));
    let mut fleet = Fleet::start(&Setup::former()).await;
    let (_, older) = fleet.master_is_of(&draining).await;
    fleet.until_state(&["none"]).await;
    let (first, second) = fleet.both_but(older).await;
    fleet.replace(second, Way::Killed, &newest).await;

    // Something that the older version has no room for.
    done(&fleet.run(&["create-desired-lrp", APP]).await);
    done(&fleet.run(&["update-desired-lrp", "gate", NEW_DEFINITION]).await);
    fleet.crowd.more(CALLS_BETWEEN).await;
    fleet.nodes.node(first).may_end_with = vec![EXIT_LOSS];
    fleet.nodes.tell_to_stop(first);
    assert_eq!(fleet.nodes.ended(first).await, EXIT_LOSS, "{}", fleet.nodes.logs());
    assert_eq!(fleet.versions(), (Version::LATEST.number(), Version::LATEST.number()));
    assert_eq!(fleet.nodes.master().await, second, "{}", fleet.nodes.logs());
    fleet.crowd.more(CALLS_BETWEEN).await;
    done(&fleet.run(&["delete-desired-lrp", "gate"]).await);

    // Nothing is in the way any more.
    fleet.nodes.node(first).may_end_with = Vec::new();
    fleet.nodes.restart(first);
    fleet.until_taking_part(first).await;
    fleet.end(second, Way::Stopped).await;
    assert_eq!(fleet.nodes.master().await, first);
    fleet.crowd.more(CALLS_BETWEEN).await;
    fleet.nodes.tell_to_stop(first);
    assert_eq!(fleet.nodes.ended(first).await, 0, "{}", fleet.nodes.logs());
    assert_eq!(fleet.versions(), (FORMER.number(), FORMER.number()));
    assert_eq!(fleet.nodes.master().await, older, "{}", fleet.nodes.logs());
    assert_eq!(fleet.nodes.node(older).release, Release::Former);
    fleet.crowd.more(CALLS_BETWEEN).await;
    fleet.check_stock().await;
    for (at, setup) in [(first, Setup::former()), (second, newest)] {
        fleet.set(at, &setup);
        fleet.nodes.restart(at);
        fleet.until_taking_part(at).await;
    }
    // Between the last write of a rollback and the end of the server nobody is served.
    fleet.check_but_for(&["migrating", "rolled-back"]).await;
}
