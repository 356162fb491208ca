//! The promises of the table over histories of a small server, seen by a router that believes all it is told.

use std::collections::BTreeMap;

use api::registry::RegistryMessage;
use proptest::prelude::*;

use super::history::{Deed, Record, Server, deeds};
use super::*;

/// What a router knows.
type Believed = BTreeMap<Key, RegistryMessage>;

fn believe(router: &mut Believed, changes: &Changes) {
    for row in &changes.register {
        router.insert(row.key(), row.message.clone());
    }
    for row in &changes.unregister {
        router.remove(&row.key());
    }
}

fn table_rows(table: &Table) -> Believed {
    table.rows().map(|row| (row.key(), row.message)).collect()
}

fn taken(table: &mut Table, listing: Listing, events: Vec<EventPayload>) -> Changes {
    match table.swap(listing, events) {
        Swap::Taken(changes) => changes,
        Swap::Refused => Changes::default(),
    }
}

fn listed(server: &Server) -> Table {
    let mut table = Table::new(RULES, None);
    taken(&mut table, server.listing(), vec![]);
    table
}

fn payloads(server: &Server, from: usize) -> Vec<EventPayload> {
    server.events[from..].iter().map(|(_, event)| event.clone()).collect()
}

/// Exchanges neighbours that nothing holds in order.
fn shuffled(mut events: Vec<(Record, EventPayload)>, swaps: &[prop::sample::Index]) -> Vec<EventPayload> {
    for at in swaps {
        if events.len() > 1 {
            let at = at.index(events.len() - 1);
            if events[at].0 != events[at + 1].0 {
                events.swap(at, at + 1);
            }
        }
    }
    events.into_iter().map(|(_, event)| event).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn events_in_any_order_that_tags_allow_end_where_a_listing_does(
        deeds in deeds(), swaps in proptest::collection::vec(any::<prop::sample::Index>(), 0..200)
    ) {
        let server = Server::after(&deeds);
        let mut table = Table::new(RULES, None);
        for event in shuffled(server.events.clone(), &swaps) {
            table.apply(event);
        }
        prop_assert_eq!(table_rows(&table), table_rows(&listed(&server)));
        prop_assert_eq!(table, listed(&server));
    }

    #[test]
    fn events_from_before_a_listing_do_no_harm(
        deeds in deeds(), at in any::<prop::sample::Index>(), back in any::<prop::sample::Index>()
    ) {
        let at = at.index(deeds.len() + 1);
        let then = Server::after(&deeds[..at]);
        let now = Server::after(&deeds);
        let from = back.index(then.events.len() + 1);
        let mut one_by_one = listed(&then);
        for event in payloads(&now, from) {
            one_by_one.apply(event);
        }
        let mut at_once = Table::new(RULES, None);
        taken(&mut at_once, then.listing(), payloads(&now, from));
        prop_assert_eq!(table_rows(&one_by_one), table_rows(&listed(&now)));
        prop_assert_eq!(table_rows(&at_once), table_rows(&listed(&now)));
    }

    #[test]
    fn a_router_that_believes_every_message_knows_the_table(deeds in deeds(), sync_every in 1..20_usize) {
        let (mut server, mut table, mut router) = (Server::default(), Table::new(RULES, None), Believed::new());
        for (number, deed) in deeds.iter().enumerate() {
            let from = server.events.len();
            server.perform(deed);
            let changes: Vec<Changes> = if number % sync_every == 0 {
                vec![taken(&mut table, server.listing(), vec![])]
            } else {
                payloads(&server, from).into_iter().map(|event| table.apply(event)).collect()
            };
            for changes in changes {
                believe(&mut router, &changes);
            }
            prop_assert_eq!(&router, &table_rows(&table));
            prop_assert_eq!(router.len(), table.row_count());
        }
    }

    #[test]
    fn a_swap_never_unregisters_what_the_new_table_has(one in deeds(), other in deeds()) {
        let mut table = listed(&Server::after(&one));
        let changes = taken(&mut table, Server::after(&other).listing(), vec![]);
        let rows = table_rows(&table);
        for row in &changes.unregister {
            prop_assert!(!rows.contains_key(&row.key()));
        }
    }

    #[test]
    fn starting_an_evacuation_says_nothing(deeds in deeds(), process in 0..2_usize, index in 0..3) {
        let mut server = Server::after(&deeds);
        server.perform(&Deed::EndEvacuation { process, index });
        let mut table = listed(&server);
        let from = server.events.len();
        server.perform(&Deed::Evacuate { process, index });
        for event in payloads(&server, from) {
            prop_assert!(table.apply(event).is_empty());
        }
        prop_assert_eq!(taken(&mut table, server.listing(), vec![]), Changes::default());
    }

    #[test]
    fn replacing_an_instance_says_nothing_until_its_successor_runs(deeds in deeds(), process in 0..2_usize, index in 0..3) {
        let mut server = Server::after(&deeds);
        let mut table = listed(&server);
        let from = server.events.len();
        server.perform(&Deed::Roll { process, index });
        for event in payloads(&server, from) {
            prop_assert!(table.apply(event).is_empty());
        }
        prop_assert_eq!(taken(&mut table, server.listing(), vec![]), Changes::default());
    }

    #[test]
    fn what_a_listing_does_not_mention_stays(deeds in deeds(), process in 0..2_usize, index in 0..3) {
        let server = Server::after(&deeds);
        let mut table = listed(&server);
        let before = table_rows(&table);
        let mut partial = server.listing();
        let guid = super::history::PROCESSES[process];
        partial.actual.retain(|lrp| lrp.actual_lrp_key.as_ref().is_none_or(|key| key.process_guid != guid || key.index != index));
        let mut unfresh = partial.clone();
        unfresh.desired.retain(|desired| desired.process_guid != guid);
        unfresh.fresh.clear();
        for listing in [partial, unfresh] {
            taken(&mut table, listing, vec![]);
            prop_assert_eq!(&table_rows(&table), &before);
        }
    }
}
