//! Whether the record of an instance says already what its container would tell the state server.
//!
//! Diego's cells repeat themselves for every container at every poll. With a thousand cells of 250 containers that is more than
//! eight thousand calls a second that change nothing. The cell has just fetched its records, so it compares, and speaks up where
//! they differ. In doubt they differ: a call too many changes nothing either.

use api::models::{ActualLrp, StartActualLrpRequest, actual_lrp::Presence};

use crate::executor::State;

const CLAIMED: &str = "CLAIMED";
const RUNNING: &str = "RUNNING";

/// `start` is what would be said of the container once it runs. The number of its definition is said with every start, but is no
/// reason for one: the state server has heard it when the container began to run, and takes it only from then.
pub(super) fn agrees(record: &ActualLrp, state: State, start: &StartActualLrpRequest) -> bool {
    let is_same_instance = record.actual_lrp_key == start.actual_lrp_key
        && record.actual_lrp_instance_key == start.actual_lrp_instance_key;
    is_same_instance
        && match (record.presence(), state) {
            // An update replaces it. Until its successor has proven itself it runs on, and is routed.
            (Presence::Evacuating, State::Running) if record.leaving => says_the_same(record, start),
            (Presence::Evacuating | Presence::Suspect, _) => false,
            // What was not run yet must be run, and what has ended must be told.
            (Presence::Ordinary, State::Reserved | State::Completed) => false,
            (Presence::Ordinary, State::Initializing | State::Created) => record.state == CLAIMED,
            (Presence::Ordinary, State::Running) => says_the_same(record, start),
        }
}

fn says_the_same(record: &ActualLrp, start: &StartActualLrpRequest) -> bool {
    record.state == RUNNING
        && record.actual_lrp_net_info == start.actual_lrp_net_info
        && record.actual_lrp_internal_routes == start.actual_lrp_internal_routes
        && record.metric_tags == start.metric_tags
        && record.routable == start.routable
        && record.availability_zone == start.availability_zone
}

#[cfg(test)]
mod tests {
    use api::models::{ActualLrpInstanceKey, ActualLrpInternalRoute, ActualLrpKey, ActualLrpNetInfo};

    use super::*;

    fn start() -> StartActualLrpRequest {
        let (instance_guid, cell_id) = ("i".to_owned(), "cell-1".to_owned());
        StartActualLrpRequest {
            definition_number: 0,
            actual_lrp_key: Some(ActualLrpKey { process_guid: "app".into(), index: 1, domain: "d".into() }),
            actual_lrp_instance_key: Some(ActualLrpInstanceKey { instance_guid, cell_id }),
            actual_lrp_net_info: Some(ActualLrpNetInfo { address: "10.0.0.1".into(), ..Default::default() }),
            actual_lrp_internal_routes: vec![ActualLrpInternalRoute { hostname: "a.internal".into() }],
            metric_tags: [("a".to_owned(), "b".to_owned())].into(),
            routable: Some(true),
            availability_zone: "z1".into(),
        }
    }

    fn record(state: &str) -> ActualLrp {
        let start = start();
        ActualLrp {
            actual_lrp_key: start.actual_lrp_key,
            actual_lrp_instance_key: start.actual_lrp_instance_key,
            actual_lrp_net_info: start.actual_lrp_net_info,
            actual_lrp_internal_routes: start.actual_lrp_internal_routes,
            metric_tags: start.metric_tags,
            routable: start.routable,
            availability_zone: start.availability_zone,
            state: state.into(),
            ..Default::default()
        }
    }

    #[test]
    fn only_a_record_of_the_same_state_agrees() {
        let states = [State::Reserved, State::Initializing, State::Created, State::Running, State::Completed];
        for (name, expected) in [
            ("UNCLAIMED", [false; 5]),
            (CLAIMED, [false, true, true, false, false]),
            (RUNNING, [false, false, false, true, false]),
            ("CRASHED", [false; 5]),
        ] {
            assert_eq!(states.map(|state| agrees(&record(name), state, &start())), expected, "{name}");
        }
    }

    #[test]
    fn the_record_of_a_container_that_leaves_agrees_while_it_runs() {
        let states = [State::Reserved, State::Initializing, State::Created, State::Running, State::Completed];
        for (leaving, presence, expected) in [
            (true, Presence::Evacuating, [false, false, false, true, false]),
            (false, Presence::Evacuating, [false; 5]),
            (true, Presence::Suspect, [false; 5]),
        ] {
            let mut record = ActualLrp { leaving, ..record(RUNNING) };
            record.set_presence(presence);
            assert_eq!(states.map(|state| agrees(&record, state, &start())), expected, "{leaving} {presence:?}");
            record.routable = Some(false);
            assert!(!agrees(&record, State::Running, &start()), "what is routed has to be known");
            record.actual_lrp_instance_key = None;
            assert!(!agrees(&record, State::Running, &start()));
        }
    }

    #[test]
    fn a_record_that_differs_in_anything_does_not_agree() {
        let changes: [fn(&mut ActualLrp); 9] = [
            |record| record.actual_lrp_key = None,
            |record| record.actual_lrp_instance_key = None,
            |record| record.actual_lrp_net_info = None,
            |record| record.actual_lrp_internal_routes.clear(),
            |record| record.metric_tags.clear(),
            |record| record.routable = Some(false),
            |record| record.availability_zone.clear(),
            |record| record.set_presence(Presence::Suspect),
            |record| record.set_presence(Presence::Evacuating),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut record = record(RUNNING);
            change(&mut record);
            assert!(!agrees(&record, State::Running, &start()), "change {number}");
        }
    }
}
