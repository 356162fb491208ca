//! One table per rule of the pass, each at its edges; and what a pass must never do.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use expect_test::expect_file;
use proptest::prelude::*;
use proptest::sample::select;

use super::{Decision, Hostnames, Metrics, Plan, Process, State, plan};
use crate::converge::Cells;
use crate::slot::tests::scenario::{Call, KEPT, NEWS, NOW_NS, Policy, key, row, words};
use crate::slot::{Outcome, Stamp};
use crate::{
    ActualLrp, ActualLrpKey, ActualState, CellId, DesiredLrp, Domain, DomainName, ImageCredentials, MetricTag,
    ModificationTag, NANOS_PER_SECOND, Nanos, Presence, ProcessGuid, Refusal, Resources, Slot, UpdateStrategy, crash,
};

/// One process and the domains there are.
struct Board {
    domains: Vec<Domain>,
    desired: Option<DesiredLrp>,
    slots: Vec<(i32, Slot)>,
}

impl State for Board {
    fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.domains.iter()
    }

    fn processes(&self) -> impl Iterator<Item = Process<'_>> {
        let slots = self.slots.iter().map(|(index, slot)| (*index, slot)).collect();
        std::iter::once(Process { desired: self.desired.as_ref(), slots })
    }
}

fn domain(expires_ns: Nanos) -> Domain {
    Domain { name: key().domain, expires_ns, unknown: crate::Unknown::default() }
}

fn fresh() -> Vec<Domain> {
    vec![domain(Domain::NEVER_NS)]
}

/// Wants what `row` reports, so that nothing has to be updated.
fn desired(instances: i32) -> DesiredLrp {
    DesiredLrp {
        process_guid: ProcessGuid::parse("app").unwrap(),
        domain: key().domain,
        log_guid: String::new(),
        annotation: String::new(),
        instances,
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        routes: [("internal-router".to_owned(), Bytes::from_static(b"1.internal"))].into(),
        metric_tags: [("number".to_owned(), MetricTag::Static("1".to_owned()))].into(),
        metrics_guid: String::new(),
        update_strategy: UpdateStrategy::ROLLING,
        image_credentials: ImageCredentials::default(),
        tag: ModificationTag::first("d".into()),
        run_info: Bytes::new(),
        definition: crate::DefinitionNumber::FIRST,
        definition_identifier: String::new(),
        history: None,
        previous: None,
        unknown: crate::Unknown::default(),
    }
}

/// Stands in for the shape of the internal router's value: names separated by spaces, or `?` for a shape nobody knows.
fn hostnames(desired: &DesiredLrp) -> Option<BTreeSet<String>> {
    let value = desired.internal_router().map_or("", |value| std::str::from_utf8(value).unwrap());
    (value != "?").then(|| value.split_whitespace().map(str::to_owned).collect())
}

/// Containers live on cells of their own name; these are alive.
fn live(names: &[&str]) -> Cells {
    Cells::Live(names.iter().map(|name| CellId::parse(name).unwrap()).collect())
}

fn slot(rows: &[ActualLrp]) -> Slot {
    let mut slot = Slot::default();
    for row in rows {
        slot.set(row.presence, Some(Arc::new(row.clone())));
    }
    slot
}

fn at(index: i32, mut slot: Slot) -> (i32, Slot) {
    for presence in [Presence::Ordinary, Presence::Evacuating, Presence::Suspect] {
        let row = slot.get(presence).cloned();
        slot.set(
            presence,
            row.map(|row| {
                let key = ActualLrpKey { index, ..row.key.clone() };
                Arc::new(ActualLrp { key, ..ActualLrp::clone(&row) })
            }),
        );
    }
    (index, slot)
}

fn aged(row: ActualLrp, age_ns: Nanos) -> ActualLrp {
    ActualLrp { since_ns: NOW_NS - age_ns, ..row }
}

fn ordinary(state: ActualState, holder: &str) -> ActualLrp {
    row(Presence::Ordinary, state, holder)
}

fn suspect(holder: &str) -> ActualLrp {
    row(Presence::Suspect, ActualState::Running, holder)
}

fn evacuating(holder: &str) -> ActualLrp {
    row(Presence::Evacuating, ActualState::Running, holder)
}

fn run(board: &Board, cells: &Cells) -> Plan {
    let hostnames: &Hostnames<'_> = &hostnames;
    plan(board, cells, hostnames, NOW_NS)
}

fn print(decision: &Decision) -> String {
    match decision {
        Decision::PruneDomain { name, seen_expires_ns } => format!("prune domain {name} ({seen_expires_ns})"),
        Decision::DropEvacuating { key, held_by } => format!("{}: drop evacuating {}", key.index, held_by.cell_id),
        Decision::Create { key } => format!("{}: create", key.index),
        Decision::AuctionAgain { key } => format!("{}: auction again", key.index),
        Decision::RestartCrashed { key } => format!("{}: restart", key.index),
        Decision::LoseCell { key, held_by } => format!("{}: lose cell {}", key.index, held_by.cell_id),
        Decision::PromoteSuspect { key, held_by } => format!("{}: promote {}", key.index, held_by.cell_id),
        Decision::RetireSuspect { key, held_by } => format!("{}: retire suspect {}", key.index, held_by.cell_id),
        Decision::StopLeaving { key, held_by } => format!("{}: stop leaving {}", key.index, held_by.cell_id),
        Decision::Retire { key } => format!("{}: retire", key.index),
        Decision::UpdateInstance { key, routes, tags } => {
            format!("{}: update{}{}", key.index, if *routes { " routes" } else { "" }, if *tags { " tags" } else { "" })
        }
    }
}

#[derive(Default)]
struct Table(String);

impl Table {
    fn title(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        writeln!(self.0, "{gap}{title}").unwrap();
    }

    fn line(&mut self, name: &str, board: &Board, cells: &Cells) {
        let decisions: Vec<_> = run(board, cells).decisions.iter().map(print).collect();
        let decisions = if decisions.is_empty() { "-".to_owned() } else { decisions.join("; ") };
        writeln!(self.0, "  {name:<66} {decisions}").unwrap();
    }

    /// One wanted instance in a fresh domain.
    fn wanted(&mut self, name: &str, rows: &[ActualLrp], cells: &Cells) {
        let board = Board { domains: fresh(), desired: Some(desired(1)), slots: vec![at(0, slot(rows))] };
        self.line(name, &board, cells);
    }
}

#[test]
fn every_rule_at_its_edges() {
    use ActualState::{Claimed, Crashed, Running, Unclaimed};
    let mut table = Table::default();

    table.title("1 domains");
    for (name, expires_ns) in [("expires in 1 ns", NOW_NS + 1), ("expires now", NOW_NS), ("expired", NOW_NS - 1)] {
        let board = Board { domains: vec![domain(expires_ns)], desired: None, slots: vec![] };
        table.line(name, &board, &live(&[]));
    }
    table.line("never expires", &Board { domains: fresh(), desired: None, slots: vec![] }, &live(&[]));

    table.title("2 evacuating rows, whether or not somebody wants the instance");
    for (name, cells) in [("cell lives", live(&["eve"])), ("cell gone", live(&[])), ("unknown", Cells::Unknown)] {
        table.wanted(name, &[aged(ordinary(Unclaimed, ""), 0), evacuating("eve")], &cells);
        let board = Board { domains: vec![], desired: None, slots: vec![at(0, slot(&[evacuating("eve")]))] };
        table.line(&format!("{name}, desired LRP gone, no domain"), &board, &cells);
    }

    table.title("4 stale unclaimed");
    let seconds_30 = 30 * NANOS_PER_SECOND;
    for (name, age_ns) in [("now", 0), ("exactly 30 s", seconds_30), ("30 s and 1 ns", seconds_30 + 1)] {
        table.wanted(name, &[aged(ordinary(Unclaimed, ""), age_ns)], &live(&[]));
    }
    table.wanted("31 s, cells unknown", &[aged(ordinary(Unclaimed, ""), seconds_30 + 1)], &Cells::Unknown);
    table.wanted(
        "claimed for an hour is not stale",
        &[aged(ordinary(Claimed, "ann"), 120 * seconds_30)],
        &live(&["ann"]),
    );

    table.title("5 missing cells");
    for state in [Claimed, Running] {
        for (name, cells) in [("cell lives", live(&["ann"])), ("cell gone", live(&["x"])), ("unknown", Cells::Unknown)]
        {
            table.wanted(&format!("{state}, {name}"), &[ordinary(state, "ann")], &cells);
        }
    }
    table.wanted("the replacement's cell is gone too", &[ordinary(Claimed, "ann"), suspect("sue")], &live(&["x"]));
    let orphan = |domains| Board { domains, desired: None, slots: vec![at(0, slot(&[ordinary(Running, "ann")]))] };
    table.line("cell gone, desired LRP gone, no domain", &orphan(vec![]), &live(&["x"]));

    table.title("6 instance counts");
    let unclaimed = |indices: &[i32]| -> Vec<_> {
        indices.iter().map(|index| at(*index, slot(&[aged(ordinary(Unclaimed, ""), 0)]))).collect()
    };
    for (wanted, have) in [(2, &[0, 1][..]), (2, &[]), (2, &[1]), (2, &[0, 5]), (2, &[5, 6]), (1, &[0, 1]), (0, &[0])] {
        for (name, domains) in [("fresh", fresh()), ("stale", vec![])] {
            let board = Board { domains, desired: Some(desired(wanted)), slots: unclaimed(have) };
            table.line(&format!("{wanted} wanted, rows {have:?}, domain {name}"), &board, &live(&[]));
        }
    }
    let stays = Board { domains: fresh(), desired: Some(desired(1)), slots: vec![at(0, slot(&[suspect("sue")]))] };
    table.line("only a suspect on a lost cell: the index is missing", &stays, &live(&[]));
    let drains = Board { domains: fresh(), desired: Some(desired(1)), slots: vec![at(0, slot(&[evacuating("eve")]))] };
    table.line("only an evacuating row: the index is missing", &drains, &live(&["eve"]));
    let extra =
        |rows: &[ActualLrp]| Board { domains: vec![], desired: Some(desired(0)), slots: vec![at(0, slot(rows))] };
    table.line(
        "extra, domain stale: not auctioned",
        &extra(&[aged(ordinary(Unclaimed, ""), 2 * seconds_30)]),
        &live(&[]),
    );
    table.line("extra, domain stale: not replaced", &extra(&[ordinary(Running, "ann")]), &live(&[]));
    let moved = DesiredLrp { domain: DomainName::parse("elsewhere").unwrap(), ..desired(0) };
    let board = Board { domains: fresh(), desired: Some(moved), slots: unclaimed(&[0]) };
    table.line("extra, the row's domain is fresh, the desired LRP's is not", &board, &live(&[]));

    table.title("7 orphans");
    for (name, domains) in [("fresh", fresh()), ("stale", vec![domain(NOW_NS)]), ("absent", vec![])] {
        table.line(&format!("running, domain {name}"), &orphan(domains), &live(&["ann"]));
    }
    table.line("running, domain fresh, cells unknown", &orphan(fresh()), &Cells::Unknown);

    table.title("8 orphan suspects, and suspects beyond the wanted number");
    for (name, desired) in [("orphan", None), ("scaled down", Some(desired(0)))] {
        for (domain_name, domains) in [("fresh", fresh()), ("stale", vec![])] {
            for (cell_name, cells) in [("lost", live(&["x"])), ("back", live(&["sue"]))] {
                let (domains, desired) = (domains.clone(), desired.clone());
                let board = Board { domains, desired, slots: vec![at(0, slot(&[suspect("sue")]))] };
                table.line(&format!("{name}, domain {domain_name}, cell {cell_name}"), &board, &cells);
            }
        }
    }

    table.title("9 and 10 suspect and replacement");
    for state in [Unclaimed, Claimed, Running, Crashed] {
        let rows = [aged(ordinary(state, "ann"), 0), suspect("sue")];
        for names in [&["ann"][..], &["ann", "sue"], &["sue"], &["x"]] {
            let name = format!("replacement {state} on ann, suspect on sue, {} live", names.join(" and "));
            table.wanted(&name, &rows, &live(names));
        }
        table.wanted(&format!("replacement {state} on ann, suspect on sue, unknown"), &rows, &Cells::Unknown);
    }
    table.wanted("no replacement, cell back", &[suspect("sue")], &live(&["sue"]));

    table.title("13 crashed");
    for count in [3, 4, 5, 6, 7, 8, 199, 200] {
        let backoff_ns = crash::backoff_ns(count);
        for (name, early_ns) in [("1 ns early", 1), ("exactly", 0)] {
            let age_ns = backoff_ns.unwrap_or(NOW_NS) - early_ns;
            let crashed = ActualLrp { crash_count: count, ..aged(ordinary(Crashed, ""), age_ns) };
            let after = backoff_ns.map_or("a million s".to_owned(), |ns| format!("{} s", ns / NANOS_PER_SECOND));
            table.wanted(&format!("{count} crashes, {after}, {name}"), &[crashed], &live(&[]));
        }
    }

    table.title("14 and 15 internal routes and metric tags");
    let reported = |routes: &[&str], tags: Option<&[(&str, &str)]>| ActualLrp {
        internal_routes: routes.iter().map(|&name| name.to_owned()).collect(),
        metric_tags: tags.map(|tags| tags.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()),
        ..ordinary(Running, "ann")
    };
    let wants = |routes: Option<&'static str>, tags: &[(&str, MetricTag)]| DesiredLrp {
        routes: routes
            .into_iter()
            .map(|names| ("internal-router".to_owned(), Bytes::from_static(names.as_bytes())))
            .collect(),
        metric_tags: tags.iter().map(|(name, tag)| ((*name).to_owned(), tag.clone())).collect(),
        ..desired(8)
    };
    let dynamic =
        [("index", MetricTag::Index), ("guid", MetricTag::InstanceGuid), ("s", MetricTag::Static("v".into()))];
    let mut updates = |name: &str, desired: DesiredLrp, row: ActualLrp| {
        let board = Board { domains: vec![], desired: Some(desired), slots: vec![at(7, slot(&[row]))] };
        let decisions = run(&board, &live(&["ann"])).decisions;
        let decisions: Vec<_> =
            decisions.iter().filter(|decision| !matches!(decision, Decision::Create { .. })).map(print).collect();
        writeln!(table.0, "  {name:<66} {}", if decisions.is_empty() { "-".to_owned() } else { decisions.join("; ") })
            .unwrap();
    };
    updates("the same names in another order", wants(Some("a b"), &[]), reported(&["b", "a"], Some(&[])));
    updates("a name twice", wants(Some("a b"), &[]), reported(&["b", "a", "a"], Some(&[])));
    updates("a name too few", wants(Some("a b"), &[]), reported(&["a"], Some(&[])));
    updates("a name too many", wants(Some("a"), &[]), reported(&["a", "b"], Some(&[])));
    updates("another name", wants(Some("a"), &[]), reported(&["b"], Some(&[])));
    updates("names, but no internal router any more", wants(None, &[]), reported(&["a"], Some(&[])));
    updates("internal router of a shape nobody knows", wants(Some("?"), &[]), reported(&["a"], Some(&[])));
    let same = [("index", "7"), ("guid", "ann"), ("s", "v")];
    updates("tags as resolved", wants(None, &dynamic), reported(&[], Some(&same)));
    updates("another index", wants(None, &dynamic), reported(&[], Some(&[("index", "8"), same[1], same[2]])));
    updates("another guid", wants(None, &dynamic), reported(&[], Some(&[same[0], ("guid", "bob"), same[2]])));
    updates("a tag too few", wants(None, &dynamic), reported(&[], Some(&same[..2])));
    updates("a tag too many", wants(None, &dynamic[..2]), reported(&[], Some(&same)));
    updates("an old cell never reported tags", wants(None, &dynamic), reported(&[], None));
    updates("both differ", wants(Some("a"), &dynamic), reported(&[], Some(&[])));
    updates("claimed rows are left alone", wants(Some("a"), &dynamic), ordinary(Claimed, "ann"));

    expect_file!["lrps.golden"].assert_eq(&table.0);
}

#[test]
fn metrics_of_a_pass() {
    use ActualState::{Claimed, Crashed, Running, Unclaimed};
    let claimed_suspect = row(Presence::Suspect, Claimed, "lost");
    let slots = vec![
        at(0, slot(&[ordinary(Unclaimed, ""), suspect("lost")])),
        at(1, slot(&[ordinary(Claimed, "ann"), claimed_suspect])),
        at(2, slot(&[ordinary(Running, "lost")])),
        at(3, slot(&[ordinary(Crashed, "")])),
        // A draining cell that has left is not a missing one.
        at(4, slot(&[ordinary(Running, "ann"), evacuating("drained")])),
        at(9, slot(&[ordinary(Running, "ann")])),
    ];
    let board = Board { domains: fresh(), desired: Some(desired(6)), slots };
    let expected = Metrics {
        fresh_domains: vec![key().domain],
        unclaimed: 1,
        claimed: 1,
        running: 3,
        crashed: 1,
        missing: 1,
        extra: 1,
        suspect_running: 1,
        suspect_claimed: 1,
        desired_instances: 6,
        crashing_desired: 1,
        missing_cells: [CellId::parse("lost").unwrap()].into(),
    };
    assert_eq!(run(&board, &live(&["ann"])).metrics, expected);
    // An orphan's cell does not count, and unknown cells are not missing.
    let orphaned = Board { desired: None, ..board };
    assert_eq!(run(&orphaned, &live(&["ann"])).metrics.missing_cells, BTreeSet::new());
    let unknown = Board { desired: Some(desired(6)), ..orphaned };
    assert_eq!(run(&unknown, &Cells::Unknown).metrics.missing_cells, BTreeSet::new());
}

/// Carries out a plan for one slot as the server does, except that a retired instance is gone at once.
fn carry_out(decisions: &[Decision], before: &Slot, stamp: &Stamp) -> Slot {
    let mut slot = before.clone();
    for decision in decisions {
        let outcome: Option<Result<Outcome, Refusal>> = match decision {
            Decision::DropEvacuating { held_by, .. } => slot.drop_evacuating(held_by).map(Ok),
            Decision::Create { key } => Some(slot.create_unclaimed(key, stamp)),
            Decision::AuctionAgain { .. } => slot.auction_again().map(Ok),
            Decision::RestartCrashed { .. } => slot.restart_crashed(stamp).map(Ok),
            Decision::LoseCell { held_by, .. } => slot.lose_cell(held_by, stamp).map(Ok),
            Decision::PromoteSuspect { held_by, .. } => slot.promote_suspect(held_by).map(Ok),
            Decision::RetireSuspect { held_by, .. } => slot.retire_suspect(held_by).map(Ok),
            Decision::StopLeaving { held_by, .. } => slot.let_leave(held_by).map(Ok),
            Decision::Retire { .. } => Some(slot.remove(None)),
            Decision::PruneDomain { .. } | Decision::UpdateInstance { .. } => None,
        };
        if let Some(Ok(outcome)) = outcome {
            slot = outcome.slot;
        }
    }
    slot
}

fn any_call() -> impl Strategy<Value = Call> {
    let who = || select(vec!["ann", "bob", "cat"]);
    prop_oneof![
        who().prop_map(Call::Claim),
        who().prop_map(|by| Call::Start(by, KEPT)),
        who().prop_map(Call::Crash),
        who().prop_map(|by| Call::EvacuateRunning(by, NEWS, Policy::Rolling)),
        Just(Call::LoseCell),
        Just(Call::Remove(None)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happened before, two passes reach a state that a third one leaves alone: there is an ordinary row exactly
    /// if the index is wanted, it is not on a dead cell, nothing evacuates from one, and a suspect's cell is still lost.
    #[test]
    fn passes_settle(
        calls in prop::collection::vec(any_call(), 0..12),
        alive in prop::sample::subsequence(vec!["ann", "bob", "cat"], 0..=3),
        wanted in any::<bool>(),
    ) {
        let mut now = Slot::default();
        for (number, call) in calls.into_iter().enumerate() {
            let stamp = Stamp { now_ns: NOW_NS - NANOS_PER_SECOND, epoch: format!("e{number}").into() };
            (now, _) = call.make(&now, &stamp).after(&now);
        }
        let start = words(&now);
        let cells = live(&alive);
        let mut passes = Vec::new();
        for pass in 0..3 {
            let desired = Some(desired(i32::from(wanted)));
            let board = Board { domains: fresh(), desired, slots: vec![(0, now.clone())] };
            let stamp = Stamp { now_ns: NOW_NS, epoch: format!("pass{pass}").into() };
            now = carry_out(&run(&board, &cells).decisions, &now, &stamp);
            passes.push(now.clone());
        }
        prop_assert_eq!(&passes[1], &passes[2], "from {}", start);
        prop_assert_eq!(now.ordinary.is_some(), wanted, "from {}", start);
        for row in now.rows() {
            let lives = row.cell_id().is_none_or(|cell| cells.is_live(cell));
            match row.presence {
                Presence::Ordinary | Presence::Evacuating => {
                    prop_assert!(lives, "from {} to {}", start, words(&now));
                }
                Presence::Suspect => prop_assert!(!lives && wanted, "from {} to {}", start, words(&now)),
            }
        }
    }
}

#[test]
fn an_instance_keeps_the_internal_routes_of_its_own_definition() {
    let definition = crate::NewDefinition {
        identifier: "v2".into(),
        resources: Resources::default(),
        placement_tags: vec![],
        volume_drivers: vec![],
        log_guid: String::new(),
        metrics_guid: String::new(),
        run_info: Bytes::from_static(b"2"),
    };
    let routes = [("internal-router".to_owned(), Bytes::from_static(b"2.internal"))].into();
    let update = crate::DesiredUpdate { definition: Some(definition), routes: Some(routes), ..Default::default() };
    let desired = desired(1).updated(update, NOW_NS).unwrap();
    let slots = vec![at(0, slot(&[ordinary(ActualState::Running, "ann")]))];
    let board = Board { domains: fresh(), desired: Some(desired), slots };
    let decisions = run(&board, &live(&["ann"])).decisions;
    assert_eq!(decisions, []);
}

/// Its successor has to run first: nobody told its cell to drain.
#[test]
fn silence_does_not_end_the_route_of_a_container_that_leaves() {
    for (successor, is_dropped) in
        [(ordinary(ActualState::Unclaimed, ""), false), (ordinary(ActualState::Running, "ann"), true)]
    {
        let leaving = ActualLrp { leaving: true, ..evacuating("eve") };
        let board =
            Board { domains: fresh(), desired: Some(desired(1)), slots: vec![at(0, slot(&[successor, leaving]))] };
        let decisions = run(&board, &live(&["ann"])).decisions;
        let drops = decisions.iter().any(|it| matches!(it, Decision::DropEvacuating { .. }));
        assert_eq!(drops, is_dropped, "{decisions:?}");
    }
}
