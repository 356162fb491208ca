//! The task pass: expire, fail, demote, prune, call back again, give up, auction again.
//!
//! A task that ended and whose end somebody wants to hear of stays until that was heard, or until it is given up. It also stays
//! `Resolving` once it is, because only then can whoever heard of it delete it. Whether it is time to call again is not decided
//! here: a pass asks for every such task, and whoever calls keeps to its pauses.

use crate::converge::Cells;
use crate::{CellId, Nanos, Task, TaskGuid, TaskState};

/// Why a task that waited too long failed.
pub const EXPIRED: &str = "not started within time limit";
/// Why a task whose cell is gone failed.
pub const CELL_GONE: &str = "cell disappeared before completion";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub expire_pending_ns: Nanos,
    pub expire_completed_ns: Nanos,
    pub kick_ns: Nanos,
    /// For tasks whose end is reported: how long that is tried. Never shorter than `expire_completed_ns`.
    pub give_up_ns: Nanos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Fail {
        guid: TaskGuid,
        reason: &'static str,
        if_running_on: Option<CellId>,
    },
    Auction {
        guid: TaskGuid,
    },
    /// Resolving for too long, and nobody is to be told: completed again.
    Demote {
        guid: TaskGuid,
        seen_updated_ns: Nanos,
    },
    Prune {
        guid: TaskGuid,
    },
    CallBack {
        guid: TaskGuid,
    },
    /// Nobody took the report in time; the task goes without it.
    GiveUp {
        guid: TaskGuid,
        seen_first_completed_ns: Nanos,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub decisions: Vec<Decision>,
    pub pending: usize,
    pub running: usize,
    pub completed: usize,
    pub resolving: usize,
    pub kicked: usize,
    pub pruned: usize,
}

pub fn plan<'a>(tasks: impl IntoIterator<Item = &'a Task>, cells: &Cells, timing: Timing, now_ns: Nanos) -> Plan {
    let mut plan = Plan::default();
    for task in tasks {
        match task.state {
            TaskState::Pending => plan.pending += 1,
            TaskState::Running => plan.running += 1,
            TaskState::Completed => plan.completed += 1,
            TaskState::Resolving => plan.resolving += 1,
        }
        decide(task, cells, timing, now_ns, &mut plan);
    }
    plan
}

fn decide(task: &Task, cells: &Cells, timing: Timing, now_ns: Nanos, plan: &mut Plan) {
    let guid = task.guid.clone();
    let older_than = |since_ns: Nanos, age_ns: Nanos| since_ns < now_ns.saturating_sub(age_ns);
    match task.state {
        TaskState::Pending if older_than(task.created_ns, timing.expire_pending_ns) => {
            plan.kicked += 1;
            plan.decisions.push(Decision::Fail { guid, reason: EXPIRED, if_running_on: None });
        }
        TaskState::Pending => {
            plan.kicked += 1;
            plan.decisions.push(Decision::Auction { guid });
        }
        TaskState::Running => {
            if let Some(cell) = task.cell_id.as_ref().filter(|cell| cells.is_missing(cell)) {
                plan.kicked += 1;
                let if_running_on = Some(cell.clone());
                plan.decisions.push(Decision::Fail { guid, reason: CELL_GONE, if_running_on });
            }
        }
        TaskState::Resolving if !older_than(task.updated_ns, timing.kick_ns) => {}
        TaskState::Resolving | TaskState::Completed => {
            let reported = !task.definition.completion_callback_url.is_empty();
            if task.state == TaskState::Resolving && !reported {
                plan.decisions.push(Decision::Demote { guid: guid.clone(), seen_updated_ns: task.updated_ns });
            }
            let give_up_ns = timing.give_up_ns.max(timing.expire_completed_ns);
            if reported && older_than(task.first_completed_ns, give_up_ns) {
                plan.pruned += 1;
                let seen_first_completed_ns = task.first_completed_ns;
                plan.decisions.push(Decision::GiveUp { guid, seen_first_completed_ns });
            } else if !reported && older_than(task.first_completed_ns, timing.expire_completed_ns) {
                plan.pruned += 1;
                plan.decisions.push(Decision::Prune { guid });
            } else if older_than(task.updated_ns, timing.kick_ns) {
                plan.kicked += 1;
                plan.decisions.push(Decision::CallBack { guid });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use bytes::Bytes;
    use expect_test::expect_file;

    use super::*;
    use crate::{DomainName, NANOS_PER_SECOND, Resources, TaskDefinition};

    const NOW_NS: Nanos = 1_000_000 * NANOS_PER_SECOND;
    const TIMING: Timing = Timing {
        expire_pending_ns: 1800 * NANOS_PER_SECOND,
        expire_completed_ns: 120 * NANOS_PER_SECOND,
        kick_ns: 30 * NANOS_PER_SECOND,
        give_up_ns: 3600 * NANOS_PER_SECOND,
    };

    /// Ages in nanoseconds before now.
    struct Ages {
        created: Nanos,
        updated: Nanos,
        completed: Nanos,
    }

    fn task(state: TaskState, cell: Option<&str>, ages: &Ages) -> Task {
        let definition = TaskDefinition {
            resources: Resources::default(),
            placement_tags: vec![],
            volume_drivers: vec![],
            completion_callback_url: String::new(),
            annotation: String::new(),
            encoded: Bytes::new(),
        };
        let (guid, domain) = (TaskGuid::parse("t").unwrap(), DomainName::parse("d").unwrap());
        Task {
            state,
            cell_id: cell.map(|id| CellId::parse(id).unwrap()),
            updated_ns: NOW_NS - ages.updated,
            first_completed_ns: NOW_NS - ages.completed,
            ..Task::desire(guid, domain, definition, NOW_NS - ages.created)
        }
    }

    fn print(name: &str, task: &Task, cells: &Cells, table: &mut String) {
        let plan = plan([task], cells, TIMING, NOW_NS);
        let decisions = plan.decisions.iter().map(|decision| match decision {
            Decision::Fail { reason, if_running_on: None, .. } => format!("fail: {reason}"),
            Decision::Fail { reason, if_running_on: Some(cell), .. } => format!("fail if still on {cell}: {reason}"),
            Decision::Auction { .. } => "auction".to_owned(),
            Decision::Demote { seen_updated_ns, .. } => {
                assert_eq!(*seen_updated_ns, task.updated_ns, "{name}");
                "demote".to_owned()
            }
            Decision::Prune { .. } => "prune".to_owned(),
            Decision::CallBack { .. } => "call back".to_owned(),
            Decision::GiveUp { seen_first_completed_ns, .. } => {
                assert_eq!(*seen_first_completed_ns, task.first_completed_ns, "{name}");
                "give up".to_owned()
            }
        });
        let decisions = decisions.collect::<Vec<_>>().join(", then ");
        let decisions = if decisions.is_empty() { "-" } else { &decisions };
        writeln!(table, "{name:<71} kicked {} pruned {}  {decisions}", plan.kicked, plan.pruned).unwrap();
    }

    #[test]
    fn every_rule_at_its_edge() {
        use TaskState::{Completed, Pending, Resolving, Running};
        let s = |seconds: Nanos| seconds * NANOS_PER_SECOND;
        let live = Cells::Live([CellId::parse("live").unwrap()].into());
        let mut table = String::new();

        for (age, text) in [(0, "now"), (s(1800), "exactly 30 min ago"), (s(1800) + 1, "1 ns more than 30 min ago")] {
            let ages = Ages { created: age, updated: age, completed: 0 };
            print(&format!("pending, created {text}"), &task(Pending, None, &ages), &live, &mut table);
        }
        // A rejection refreshes the update but not the creation.
        let ages = Ages { created: s(1801), updated: 0, completed: 0 };
        print("pending, created 1801 s ago, rejected now", &task(Pending, None, &ages), &live, &mut table);

        let ages = Ages { created: s(9999), updated: s(9999), completed: 0 };
        for cell in ["live", "gone"] {
            print(&format!("running on a {cell} cell"), &task(Running, Some(cell), &ages), &live, &mut table);
            let name = format!("running on a {cell} cell, cells unknown");
            print(&name, &task(Running, Some(cell), &ages), &Cells::Unknown, &mut table);
        }

        for state in [Resolving, Completed] {
            for (updated, updated_text) in [(s(30), "30 s"), (s(30) + 1, "30 s and 1 ns")] {
                for (completed, completed_text) in [(s(120), "2 min"), (s(120) + 1, "2 min and 1 ns")] {
                    let ages = Ages { created: s(9999), updated, completed };
                    let name = format!("{state}, updated {updated_text}, completed {completed_text} ago");
                    print(&name, &task(state, None, &ages), &live, &mut table);
                }
            }
        }
        for state in [Resolving, Completed] {
            for (updated, updated_text) in [(s(30), "30 s"), (s(30) + 1, "30 s and 1 ns")] {
                for (completed, completed_text) in [(s(121), "121 s"), (s(3600), "1 h"), (s(3600) + 1, "1 h and 1 ns")]
                {
                    let ages = Ages { created: s(9999), updated, completed };
                    let name = format!("{state}, reported, updated {updated_text}, completed {completed_text} ago");
                    print(&name, &reported(task(state, None, &ages)), &live, &mut table);
                }
            }
        }
        expect_file!["tasks.golden"].assert_eq(&table);
    }

    fn reported(task: Task) -> Task {
        let url = "http://receiver".to_owned();
        let definition = TaskDefinition { completion_callback_url: url, ..TaskDefinition::clone(&task.definition) };
        Task { definition: definition.into(), ..task }
    }

    #[test]
    fn nobody_is_given_up_before_a_task_without_a_receiver_would_expire() {
        let ages = Ages { created: 0, updated: 0, completed: TIMING.expire_completed_ns };
        let hasty = Timing { give_up_ns: 0, ..TIMING };
        let plan = |task: &Task| plan([task], &Cells::Unknown, hasty, NOW_NS).pruned;
        assert_eq!(plan(&reported(task(TaskState::Completed, None, &ages))), 0);
        let ages = Ages { completed: TIMING.expire_completed_ns + 1, ..ages };
        assert_eq!(plan(&reported(task(TaskState::Completed, None, &ages))), 1);
    }

    #[test]
    fn states_are_counted() {
        let ages = Ages { created: 0, updated: 0, completed: 0 };
        let states = [TaskState::Pending, TaskState::Running, TaskState::Running, TaskState::Resolving];
        let tasks: Vec<_> = states.into_iter().map(|state| task(state, Some("live"), &ages)).collect();
        let plan = plan(&tasks, &Cells::Unknown, TIMING, NOW_NS);
        assert_eq!((plan.pending, plan.running, plan.completed, plan.resolving), (1, 2, 0, 1));
    }
}
