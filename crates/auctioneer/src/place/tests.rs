//! Placements, as a table of scenarios: cells and starts in a line each, and who got what.

mod properties;
mod scenario;

use expect_test::{Expect, expect};

use self::scenario::{offers, settings, shown, work};
use super::*;

/// `given` are lines of settings and cells, `starts` lines of instances and tasks.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "expect! makes a value")]
fn check(given: &str, starts: &str, expected: Expect) {
    let outcome = place(&offers(given), work(starts), &settings(given), 1);
    expected.assert_eq(&shown(&outcome));
}

#[test]
fn without_cells_nothing_is_placed() {
    check(
        "",
        "lrp app/0\n task t",
        expect![[r#"
            task t: unable to communicate to compatible cells
            app/0: unable to communicate to compatible cells
        "#]],
    );
}

#[test]
fn the_emptier_cell_wins() {
    check(
        "cell a memory=400/1000\n cell b memory=500/1000\n cell c memory=300/1000",
        "lrp app/0",
        expect![[r#"
            b: app/0
        "#]],
    );
}

/// What counts is the share that is used after placing, averaged over memory, disk and containers.
#[test]
fn shares_count_and_not_amounts() {
    check(
        "cell large memory=5000/10000 disk=9000/10000\n cell small memory=600/1000 disk=900/1000",
        "lrp app/0 memory=10 disk=10",
        expect![[r#"
            small: app/0
        "#]],
    );
    check(
        "cell large memory=5000/10000 disk=9000/10000\n cell small memory=600/1000 disk=900/1000",
        "lrp app/0 memory=500 disk=10",
        expect![[r#"
            large: app/0
        "#]],
    );
    check(
        "cell a containers=50/100\n cell b containers=49/100",
        "lrp app/0",
        expect![[r#"
            a: app/0
        "#]],
    );
}

#[test]
fn instances_of_an_app_avoid_each_other() {
    check(
        "cell a memory=1000/1000 lrps=app,other\n cell b memory=100/1000\n cell c memory=50/1000 lrps=other",
        "lrp app/1 memory=10\n lrp app/2 memory=10\n lrp app/3 memory=10",
        expect![[r#"
            a: app/3
            b: app/1
            c: app/2
        "#]],
    );
}

#[test]
fn containers_that_are_starting_weigh() {
    let cells = "cell a memory=900/1000 starting=3\n cell b memory=100/1000";
    check(
        cells,
        "lrp app/0 memory=10",
        expect![[r#"
            b: app/0
        "#]],
    );
    check(
        &format!("starting_weight=0\n {cells}"),
        "lrp app/0 memory=10",
        expect![[r#"
            a: app/0
        "#]],
    );
}

#[test]
fn tasks_go_where_fewest_tasks_are() {
    check(
        "cell a memory=1000/1000 tasks=2\n cell b memory=100/1000 tasks=1",
        "task t memory=10\n task u memory=10\n task v memory=10",
        expect![[r#"
            a: task u
            b: task t, task v
        "#]],
    );
}

#[test]
fn zones_are_balanced_before_cells() {
    check(
        "cell a zone=z1 lrps=app,app\n cell b zone=z1\n cell c zone=z2 memory=200/1000 lrps=app\n cell d zone=z2 memory=100/1000",
        "lrp app/3 memory=1\n lrp app/4 memory=1\n lrp app/5 memory=1",
        expect![[r#"
            b: app/4
            c: app/5
            d: app/3
        "#]],
    );
}

/// A zone without room, or whose cells do not welcome the app, is passed over.
#[test]
fn the_next_zone_is_asked_when_the_first_has_no_room() {
    check(
        "cell a zone=z1 memory=5/1000\n cell b zone=z2 tags=x\n cell c zone=z3 lrps=app,app,app",
        "lrp app/3 memory=10",
        expect![[r#"
            c: app/3
        "#]],
    );
}

#[test]
fn cells_are_filled_in_order_when_they_are_to_be() {
    check(
        "bin_pack=10\n cell a index=7 memory=100/100\n cell b index=3 memory=100/100\n cell c index=9 memory=100/100",
        "lrp p/0 memory=60\n lrp q/0 memory=30\n lrp r/0 memory=20\n lrp s/0 memory=50\n lrp u/0 memory=80",
        expect![[r#"
            a: p/0, q/0
            b: u/0, r/0
            c: s/0
        "#]],
    );
}

#[test]
fn first_instances_come_first_and_large_ones_before_small_ones() {
    // Four containers for six starts: who comes last gets nothing.
    check(
        "cell a containers=4/10",
        "lrp p/1 memory=500\n lrp q/0 memory=10\n lrp p/0 memory=20\n task s memory=30\n task t memory=40\n lrp q/1 memory=5",
        expect![[r#"
            a: p/0, q/0, task t, task s
            p/1: insufficient resources: containers
            q/1: insufficient resources: containers
        "#]],
    );
    // Without an instance above index 0, tasks come first.
    check(
        "cell a containers=2/10",
        "lrp q/0 memory=10\n lrp p/0 memory=20\n task s memory=30\n task t memory=40",
        expect![[r#"
            a: task t, task s
            p/0: insufficient resources: containers
            q/0: insufficient resources: containers
        "#]],
    );
}

#[test]
fn what_is_starting_is_limited_over_the_whole_cluster() {
    check(
        "in_flight_max=5\n cell a starting=2\n cell b starting=1",
        "lrp app/0\n lrp app/1\n lrp app/2\n task t",
        expect![[r#"
            a: task t
            b: app/0
            app/1: waiting to start instance: reached in-flight start limit
            app/2: waiting to start instance: reached in-flight start limit
        "#]],
    );
    check(
        "in_flight_max=3\n cell a starting=9",
        "task t",
        expect![[r#"
            task t: waiting to start instance: reached in-flight start limit
        "#]],
    );
}

#[test]
fn the_most_specific_mismatch_of_all_zones_is_told() {
    let starts = "lrp app/0 rootfs=preloaded:s drivers=nfs tags=x,y,z\n task t rootfs=preloaded:s drivers=nfs";
    check(
        "cell a zone=z1 rootfs=other",
        starts,
        expect![[r#"
            task t: found no compatible cell for required rootfs
            app/0: found no compatible cell for required rootfs
        "#]],
    );
    check(
        "cell a zone=z1 rootfs=other\n cell b zone=z2 rootfs=s",
        starts,
        expect![[r#"
            task t: found no compatible cell with required volume drivers
            app/0: found no compatible cell with required volume drivers
        "#]],
    );
    check(
        "cell a zone=z1 rootfs=other\n cell b zone=z2 rootfs=s\n cell c zone=z3 rootfs=s drivers=nfs,smb tags=x,w",
        starts,
        expect![[r#"
            task t: found no compatible cell with no placement tags
            app/0: found no compatible cell with placement tags "x", "y" and "z"
        "#]],
    );
    check(
        "cell a",
        "lrp app/0 tags=x",
        expect![[r#"
            app/0: found no compatible cell with placement tag "x"
        "#]],
    );
}

#[test]
fn tags_of_a_cell_are_required_or_optional() {
    check(
        "cell both tags=x optional=o\n cell none\n cell optional optional=o",
        "lrp plain/0\n lrp x/0 tags=x\n lrp xo/0 tags=o,x\n lrp o/0 tags=o\n lrp y/0 tags=x,y",
        expect![[r#"
            both: x/0, xo/0
            none: plain/0
            optional: o/0
            y/0: found no compatible cell with placement tags "x" and "y"
        "#]],
    );
}

#[test]
fn a_shortage_is_named_when_all_cells_have_it() {
    check(
        "cell a memory=10/1000 disk=10/1000\n cell b memory=10/1000 containers=0/10",
        "lrp app/0 memory=100 disk=100\n task t memory=5 disk=2000",
        expect![[r#"
            task t: insufficient resources: disk
            app/0: insufficient resources: memory
        "#]],
    );
    check(
        "cell a memory=10/1000 disk=10/1000 containers=0/1",
        "lrp app/0 memory=100 disk=100",
        expect![[r#"
            app/0: insufficient resources: containers, disk, memory
        "#]],
    );
    check(
        "cell a memory=10/1000\n cell b disk=10/1000",
        "lrp app/0 memory=100 disk=100",
        expect![[r#"
            app/0: insufficient resources
        "#]],
    );
}

/// 100 MB are three instances of 20 and their proxies of 10, and one task without a proxy.
#[test]
fn the_proxy_of_an_instance_costs_memory_and_a_task_has_none() {
    check(
        "cell a memory=100/1000 proxy=10",
        "lrp app/0 memory=20\n lrp app/1 memory=20\n lrp app/2 memory=20\n lrp app/3 memory=20\n task t memory=10",
        expect![[r#"
            a: app/0, app/1, app/2, task t
            app/3: insufficient resources: memory
        "#]],
    );
}

/// Numbers that no healthy cell sends neither win an auction nor end it.
#[test]
fn strange_numbers_are_survived() {
    check(
        "cell nothing memory=0/0 disk=0/0 containers=0/0\n cell full memory=-5/1000 containers=-1/-1\n cell ok memory=10/1000",
        "lrp app/0 memory=1\n lrp app/1 memory=1",
        expect![[r#"
            ok: app/0, app/1
        "#]],
    );
    check(
        "cell a memory=2147483647/1 disk=2147483647/-2147483648 containers=9223372036854775807/1 starting=9223372036854775807 proxy=9223372036854775807\n cell b starting=-9223372036854775808",
        "task t memory=2147483647 disk=2147483647\n lrp app/0 memory=2147483647",
        expect![[r#"
            a: task t
            app/0: insufficient resources: memory
        "#]],
    );
}

/// Random clusters and starts, and what Diego's own scheduler decided. No two scores in them are equal, so chance plays no part;
/// proxies are left out, where we differ.
#[test]
fn diegos_scheduler_decides_the_same() {
    for (at, line) in include_str!("tests/diego.jsonl").lines().enumerate() {
        let recorded = scenario::recorded(line);
        for seed in 0..4 {
            let outcome = place(&recorded.offers, recorded.batch.clone(), &recorded.settings, seed);
            assert_eq!(scenario::decisions(&outcome), recorded.decisions, "line {}", at + 1);
        }
    }
}

/// Equal cells are told apart by chance only, and chance by the seed.
#[test]
fn ties_are_broken_by_the_seed() {
    let given = "cell a\n cell b zone=z2\n cell c zone=z3\n cell d zone=z4";
    let winners: std::collections::BTreeSet<String> =
        (0..64).map(|seed| shown(&place(&offers(given), work("task t"), &settings(given), seed))).collect();
    assert_eq!(winners.into_iter().collect::<String>(), "a: task t\nb: task t\nc: task t\nd: task t\n");
}
