//! The table of calls: fifty routes, exactly as Diego names and spells them.
//!
//! Paths are matched literally: no parameters, no trailing slash, no query. A path without a revision is revision 0.
//! The removed revisions of Diego v1 are not here: no client of v1.0.0 or later calls them, and a server that answers
//! 404 for them is what today's clients expect.
//!
//! When you add a route: add the row in the section it belongs to, run the tests with `UPDATE_EXPECT=1`, and read the
//! difference in the golden table; then give it a method in `client/` and a handler in the server.

/// How a route is called. Diego uses GET only for the two oldest event streams, and even those may carry a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Post,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
        }
    }
}

impl From<Method> for hyper::Method {
    fn from(method: Method) -> Self {
        match method {
            Method::Get => hyper::Method::GET,
            Method::Post => hyper::Method::POST,
        }
    }
}

/// Whether clients should still begin to use it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Age {
    Current,
    Deprecated,
}

/// What comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Message,
    Events,
}

struct Row {
    name: &'static str,
    method: Method,
    path: &'static str,
    age: Age,
    answer: Answer,
}

macro_rules! routes {
    ($($variant:ident, $name:literal, $method:ident, $path:literal, $age:ident, $answer:ident;)*) => {
        /// One call of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Route {
            $($variant,)*
        }

        impl Route {
            /// Every route, in the order of the table.
            pub const ALL: &'static [Route] = &[$(Route::$variant,)*];

            /// Finds the route of a path, if it is one of ours. The method is the caller's to compare.
            pub fn find(path: &str) -> Option<Route> {
                match path {
                    $($path => Some(Route::$variant),)*
                    _ => None,
                }
            }

            fn row(self) -> Row {
                match self {
                    $(Route::$variant => Row {
                        name: $name,
                        method: Method::$method,
                        path: $path,
                        age: Age::$age,
                        answer: Answer::$answer,
                    },)*
                }
            }
        }
    };
}

#[rustfmt::skip]
routes! {
    Ping, "Ping", Post, "/v1/ping", Current, Message;
    Domains, "Domains", Post, "/v1/domains/list", Current, Message;
    UpsertDomain, "UpsertDomain", Post, "/v1/domains/upsert", Current, Message;
    Cells, "Cells", Post, "/v1/cells/list.r1", Current, Message;

    ActualLrps, "ActualLRPs", Post, "/v1/actual_lrps/list", Current, Message;
    ActualLrpsByProcessGuids, "ActualLRPsByProcessGuids", Post, "/v1/actual_lrps/list_by_process_guids", Current, Message;
    ActualLrpGroups, "ActualLRPGroups", Post, "/v1/actual_lrp_groups/list", Deprecated, Message;
    ActualLrpGroupsByProcessGuid, "ActualLRPGroupsByProcessGuid", Post, "/v1/actual_lrp_groups/list_by_process_guid", Deprecated, Message;
    ActualLrpGroupByProcessGuidAndIndex, "ActualLRPGroupsByProcessGuidAndIndex", Post, "/v1/actual_lrp_groups/get_by_process_guid_and_index", Deprecated, Message;

    ClaimActualLrp, "ClaimActualLRP", Post, "/v1/actual_lrps/claim", Current, Message;
    StartActualLrp, "StartActualLRP", Post, "/v1/actual_lrps/start.r1", Current, Message;
    StartActualLrpR0, "StartActualLRP_r0", Post, "/v1/actual_lrps/start", Deprecated, Message;
    CrashActualLrp, "CrashActualLRP", Post, "/v1/actual_lrps/crash", Current, Message;
    FailActualLrp, "FailActualLRP", Post, "/v1/actual_lrps/fail", Current, Message;
    RemoveActualLrp, "RemoveActualLRP", Post, "/v1/actual_lrps/remove", Current, Message;
    RetireActualLrp, "RetireActualLRP", Post, "/v1/actual_lrps/retire", Current, Message;

    RemoveEvacuatingActualLrp, "RemoveEvacuatingActualLRP", Post, "/v1/actual_lrps/remove_evacuating", Current, Message;
    EvacuateClaimedActualLrp, "EvacuateClaimedActualLRP", Post, "/v1/actual_lrps/evacuate_claimed", Current, Message;
    EvacuateCrashedActualLrp, "EvacuateCrashedActualLRP", Post, "/v1/actual_lrps/evacuate_crashed", Current, Message;
    EvacuateStoppedActualLrp, "EvacuateStoppedActualLRP", Post, "/v1/actual_lrps/evacuate_stopped", Current, Message;
    EvacuateRunningActualLrp, "EvacuateRunningActualLRP", Post, "/v1/actual_lrps/evacuate_running.r1", Current, Message;
    EvacuateRunningActualLrpR0, "EvacuateRunningActualLRP_r0", Post, "/v1/actual_lrps/evacuate_running", Deprecated, Message;

    DesiredLrpSchedulingInfos, "DesiredLRPSchedulingInfos", Post, "/v1/desired_lrp_scheduling_infos/list", Current, Message;
    DesiredLrpSchedulingInfoByProcessGuid, "DesiredLRPSchedulingInfoByProcessGuid", Post, "/v1/desired_lrp_scheduling_infos/get_by_process_guid", Current, Message;
    DesiredLrpRoutingInfos, "DesiredLRPRoutingInfos", Post, "/v1/desired_lrp_routing_infos/list", Current, Message;
    DesiredLrps, "DesiredLRPs", Post, "/v1/desired_lrps/list.r3", Current, Message;
    DesiredLrpByProcessGuid, "DesiredLRPByProcessGuid", Post, "/v1/desired_lrps/get_by_process_guid.r3", Current, Message;
    DesiredLrpsR2, "DesiredLRPs_r2", Post, "/v1/desired_lrps/list.r2", Deprecated, Message;
    DesiredLrpByProcessGuidR2, "DesiredLRPByProcessGuid_r2", Post, "/v1/desired_lrps/get_by_process_guid.r2", Deprecated, Message;
    DesireDesiredLrp, "DesireDesiredLRP", Post, "/v1/desired_lrp/desire.r2", Current, Message;
    UpdateDesiredLrp, "UpdateDesireLRP", Post, "/v1/desired_lrp/update", Current, Message;
    RemoveDesiredLrp, "RemoveDesiredLRP", Post, "/v1/desired_lrp/remove", Current, Message;

    Tasks, "Tasks", Post, "/v1/tasks/list.r3", Current, Message;
    TaskByGuid, "TaskByGuid", Post, "/v1/tasks/get_by_task_guid.r3", Current, Message;
    TasksR2, "Tasks_r2", Post, "/v1/tasks/list.r2", Deprecated, Message;
    TaskByGuidR2, "TaskByGuid_r2", Post, "/v1/tasks/get_by_task_guid.r2", Deprecated, Message;
    DesireTask, "DesireTask", Post, "/v1/tasks/desire.r2", Current, Message;
    StartTask, "StartTask", Post, "/v1/tasks/start", Current, Message;
    CancelTask, "CancelTask", Post, "/v1/tasks/cancel", Current, Message;
    FailTask, "FailTask", Post, "/v1/tasks/fail", Deprecated, Message;
    RejectTask, "RejectTask", Post, "/v1/tasks/reject", Current, Message;
    CompleteTask, "CompleteTask", Post, "/v1/tasks/complete", Current, Message;
    ResolvingTask, "ResolvingTask", Post, "/v1/tasks/resolving", Current, Message;
    DeleteTask, "DeleteTask", Post, "/v1/tasks/delete", Current, Message;

    EventStream, "EventStream", Get, "/v1/events.r1", Deprecated, Events;
    EventStreamR0, "EventStream_r0", Get, "/v1/events", Deprecated, Events;
    LrpInstanceEventStream, "LRPInstanceEventStream", Post, "/v1/events/lrp_instances.r1", Current, Events;
    LrpInstanceEventStreamR0, "LrpInstanceEventStream_r0", Post, "/v1/events/lrp_instances", Deprecated, Events;
    TaskEventStream, "TaskEventStream", Post, "/v1/events/tasks.r1", Current, Events;
    TaskEventStreamR0, "TaskEventStream_r0", Post, "/v1/events/tasks", Deprecated, Events;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Open,
    Major(u64),
}

impl Until {
    pub fn major(self) -> Option<u64> {
        match self {
            Until::Open => None,
            Until::Major(major) => Some(major),
        }
    }
}

impl Route {
    /// The name inside Diego's code, which is also the label of its metrics. Its odd spellings are Diego's.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn path(self) -> &'static str {
        self.row().path
    }

    pub fn method(self) -> Method {
        self.row().method
    }

    /// Kept for older clients; new ones have a better call.
    pub fn deprecated(self) -> bool {
        self.row().age == Age::Deprecated
    }

    pub fn revision(self) -> u32 {
        self.path().rsplit_once(".r").and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
    }

    pub fn replaced_by(self) -> Option<Route> {
        None
    }

    pub fn until(self) -> Until {
        if self == Route::FailTask { Until::Major(1) } else { Until::Open }
    }

    /// Answers with a stream of events instead of one message.
    pub fn stream(self) -> bool {
        self.row().answer == Answer::Events
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method().as_str(), self.path())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;

    use expect_test::expect_file;

    use super::*;

    #[test]
    fn the_table_is_the_published_one() {
        let mut table = String::new();
        for route in Route::ALL {
            let age = if route.deprecated() { " deprecated" } else { "" };
            let stream = if route.stream() { " stream" } else { "" };
            writeln!(table, "{:<40} {:<4} {}{age}{stream}", route.name(), route.method().as_str(), route.path())
                .unwrap();
        }
        expect_file!["../tests/golden/routes.txt"].assert_eq(&table);
    }

    #[test]
    fn there_are_fifty_and_each_is_found_by_its_path() {
        assert_eq!(Route::ALL.len(), 50);
        let names: BTreeSet<_> = Route::ALL.iter().map(|route| route.name()).collect();
        assert_eq!(names.len(), 50, "two routes have the same name");
        for route in Route::ALL {
            assert_eq!(Route::find(route.path()), Some(*route));
        }
    }

    #[test]
    fn matching_is_literal() {
        for path in
            ["", "/", "/v1/ping/", "/V1/ping", "/v1/ping?x=1", "/v1/desired_lrps/list", "/v1/desired_lrp/desire.r1"]
        {
            assert_eq!(Route::find(path), None, "{path}");
        }
    }

    #[test]
    fn only_the_oldest_streams_are_read_with_get() {
        let got: Vec<_> = Route::ALL.iter().filter(|route| route.method() == Method::Get).map(|r| r.path()).collect();
        assert_eq!(got, ["/v1/events.r1", "/v1/events"]);
    }
}
