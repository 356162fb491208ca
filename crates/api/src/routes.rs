//! The table of calls: what Diego serves today, what it no longer serves, and what is ours, as each is named and spelt.
//!
//! Paths are matched literally: no parameters, no trailing slash, no query. A path without a revision is revision 0. One
//! path may stand in two rows, with another method each.
//!
//! A row also says since when there is a call, until when it is served, and what replaces it. The page about the API shows
//! the whole table, and the census of clients uses it to name those who would be left behind.
//!
//! When you add a route: add the row in the section it belongs to, run the tests with `UPDATE_EXPECT=1`, which rewrites the
//! golden table and the page, and read the difference; then give it a handler in the server and a method in `client/`. When a
//! new revision replaces a route, its row becomes `Old`, or `Ending` if it is not to be served for ever.

use std::fmt;

/// How a route is called. Diego uses GET only for its oldest routes, and even those may carry a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Post,
}

impl Method {
    /// The method of a request, if any route has it.
    pub fn of(method: &hyper::Method) -> Option<Self> {
        match *method {
            hyper::Method::GET => Some(Method::Get),
            hyper::Method::POST => Some(Method::Post),
            _ => None,
        }
    }

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

/// The release that served a route first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// A release of Diego, or the day on which it was added where no release is known. `1.0` includes what is older.
    Diego(&'static str),
    Corkboard(&'static str),
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Since::Diego(release) => write!(f, "Diego {release}"),
            Since::Corkboard(release) => write!(f, "Corkboard {release}"),
        }
    }
}

/// The last release that serves a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// No end is planned.
    Open,
    /// All releases of this major version of Corkboard serve it, and none of the next.
    Major(u64),
}

impl Until {
    /// The major version of Corkboard that is the last to serve it, if there is a last.
    pub fn major(self) -> Option<u64> {
        match self {
            Until::Open => None,
            Until::Major(major) => Some(major),
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Until::Open => f.write_str("open"),
            Until::Major(major) => write!(f, "Corkboard {major}.x"),
        }
    }
}

/// What Diego removed in its v2.1.0, and what was old when we began, is served by the first major version and the next.
const LAST_MAJOR: u64 = 1;

/// Whether clients should still begin to use it.
enum Standing {
    Current,
    /// Kept for older clients, for ever.
    Old(Route),
    /// Kept for older clients, until [`LAST_MAJOR`].
    Ending(Route),
}

struct Row {
    name: &'static str,
    method: Method,
    path: &'static str,
    request: &'static str,
    response: &'static str,
    since: Since,
    standing: Standing,
}

/// In the place of a request: the body is not read. In the place of an answer: a stream of events.
const NOTHING: &str = "Nothing";
const EVENTS: &str = "Events";

macro_rules! routes {
    ($($variant:ident, $name:literal, $method:ident, $path:literal, $request:ident => $response:ident,
       $whose:ident $release:literal, $standing:ident $(($by:ident))?;)*) => {
        /// One call of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Route {
            $($variant,)*
        }

        impl Route {
            /// Every route, in the order of the table.
            pub const ALL: &'static [Route] = &[$(Route::$variant,)*];

            /// Finds the route of a call, if it is one of ours.
            pub fn find(method: Method, path: &str) -> Option<Route> {
                match (method, path) {
                    $((Method::$method, $path) => Some(Route::$variant),)*
                    _ => None,
                }
            }

            fn row(self) -> Row {
                match self {
                    $(Route::$variant => Row {
                        name: $name,
                        method: Method::$method,
                        path: $path,
                        request: stringify!($request),
                        response: stringify!($response),
                        since: Since::$whose($release),
                        standing: Standing::$standing $((Route::$by))?,
                    },)*
                }
            }
        }
    };
}

#[rustfmt::skip]
routes! {
    Ping, "Ping", Post, "/v1/ping", Nothing => PingResponse, Diego "1.0", Current;
    Domains, "Domains", Post, "/v1/domains/list", Nothing => DomainsResponse, Diego "1.0", Current;
    UpsertDomain, "UpsertDomain", Post, "/v1/domains/upsert", UpsertDomainRequest => UpsertDomainResponse, Diego "1.0", Current;
    Cells, "Cells", Post, "/v1/cells/list.r1", Nothing => CellsResponse, Diego "1.0", Current;
    CellsByGet, "Cells_r1", Get, "/v1/cells/list.r1", Nothing => CellsResponse, Diego "1.0", Ending(Cells);

    ActualLrps, "ActualLRPs", Post, "/v1/actual_lrps/list", ActualLRPsRequest => ActualLRPsResponse, Diego "2.16", Current;
    ActualLrpsByProcessGuids, "ActualLRPsByProcessGuids", Post, "/v1/actual_lrps/list_by_process_guids", ActualLRPsByProcessGuidsRequest => ActualLRPsByProcessGuidsResponse, Diego "2025-07-04", Current;
    ActualLrpGroups, "ActualLRPGroups", Post, "/v1/actual_lrp_groups/list", ActualLRPGroupsRequest => ActualLRPGroupsResponse, Diego "1.0", Old(ActualLrps);
    ActualLrpGroupsByProcessGuid, "ActualLRPGroupsByProcessGuid", Post, "/v1/actual_lrp_groups/list_by_process_guid", ActualLRPGroupsByProcessGuidRequest => ActualLRPGroupsResponse, Diego "1.0", Old(ActualLrps);
    ActualLrpGroupByProcessGuidAndIndex, "ActualLRPGroupsByProcessGuidAndIndex", Post, "/v1/actual_lrp_groups/get_by_process_guid_and_index", ActualLRPGroupByProcessGuidAndIndexRequest => ActualLRPGroupResponse, Diego "1.0", Old(ActualLrps);

    ClaimActualLrp, "ClaimActualLRP", Post, "/v1/actual_lrps/claim", ClaimActualLRPRequest => ActualLRPLifecycleResponse, Diego "1.0", Current;
    StartActualLrp, "StartActualLRP", Post, "/v1/actual_lrps/start.r1", StartActualLRPRequest => ActualLRPLifecycleResponse, Diego "2.59", Current;
    StartActualLrpR0, "StartActualLRP_r0", Post, "/v1/actual_lrps/start", StartActualLRPRequest => ActualLRPLifecycleResponse, Diego "1.0", Old(StartActualLrp);
    CrashActualLrp, "CrashActualLRP", Post, "/v1/actual_lrps/crash", CrashActualLRPRequest => ActualLRPLifecycleResponse, Diego "1.0", Current;
    FailActualLrp, "FailActualLRP", Post, "/v1/actual_lrps/fail", FailActualLRPRequest => ActualLRPLifecycleResponse, Diego "1.0", Current;
    RemoveActualLrp, "RemoveActualLRP", Post, "/v1/actual_lrps/remove", RemoveActualLRPRequest => ActualLRPLifecycleResponse, Diego "1.0", Current;
    RetireActualLrp, "RetireActualLRP", Post, "/v1/actual_lrps/retire", RetireActualLRPRequest => ActualLRPLifecycleResponse, Diego "1.0", Current;

    RemoveEvacuatingActualLrp, "RemoveEvacuatingActualLRP", Post, "/v1/actual_lrps/remove_evacuating", RemoveEvacuatingActualLRPRequest => RemoveEvacuatingActualLRPResponse, Diego "1.0", Current;
    EvacuateClaimedActualLrp, "EvacuateClaimedActualLRP", Post, "/v1/actual_lrps/evacuate_claimed", EvacuateClaimedActualLRPRequest => EvacuationResponse, Diego "1.0", Current;
    EvacuateCrashedActualLrp, "EvacuateCrashedActualLRP", Post, "/v1/actual_lrps/evacuate_crashed", EvacuateCrashedActualLRPRequest => EvacuationResponse, Diego "1.0", Current;
    EvacuateStoppedActualLrp, "EvacuateStoppedActualLRP", Post, "/v1/actual_lrps/evacuate_stopped", EvacuateStoppedActualLRPRequest => EvacuationResponse, Diego "1.0", Current;
    EvacuateRunningActualLrp, "EvacuateRunningActualLRP", Post, "/v1/actual_lrps/evacuate_running.r1", EvacuateRunningActualLRPRequest => EvacuationResponse, Diego "2.59", Current;
    EvacuateRunningActualLrpR0, "EvacuateRunningActualLRP_r0", Post, "/v1/actual_lrps/evacuate_running", EvacuateRunningActualLRPRequest => EvacuationResponse, Diego "1.0", Old(EvacuateRunningActualLrp);

    DesiredLrpSchedulingInfos, "DesiredLRPSchedulingInfos", Post, "/v1/desired_lrp_scheduling_infos/list", DesiredLRPsRequest => DesiredLRPSchedulingInfosResponse, Diego "1.0", Current;
    DesiredLrpSchedulingInfoByProcessGuid, "DesiredLRPSchedulingInfoByProcessGuid", Post, "/v1/desired_lrp_scheduling_infos/get_by_process_guid", DesiredLRPByProcessGuidRequest => DesiredLRPSchedulingInfoByProcessGuidResponse, Diego "2.95", Current;
    DesiredLrpRoutingInfos, "DesiredLRPRoutingInfos", Post, "/v1/desired_lrp_routing_infos/list", DesiredLRPsRequest => DesiredLRPsResponse, Diego "2.77", Current;
    DesiredLrps, "DesiredLRPs", Post, "/v1/desired_lrps/list.r3", DesiredLRPsRequest => DesiredLRPsResponse, Diego "2.20", Current;
    DesiredLrpByProcessGuid, "DesiredLRPByProcessGuid", Post, "/v1/desired_lrps/get_by_process_guid.r3", DesiredLRPByProcessGuidRequest => DesiredLRPResponse, Diego "2.20", Current;
    DesiredLrpsR2, "DesiredLRPs_r2", Post, "/v1/desired_lrps/list.r2", DesiredLRPsRequest => DesiredLRPsResponse, Diego "1.0", Old(DesiredLrps);
    DesiredLrpByProcessGuidR2, "DesiredLRPByProcessGuid_r2", Post, "/v1/desired_lrps/get_by_process_guid.r2", DesiredLRPByProcessGuidRequest => DesiredLRPResponse, Diego "1.0", Old(DesiredLrpByProcessGuid);
    DesiredLrpsR1, "DesiredLRPs_r1", Post, "/v1/desired_lrps/list.r1", DesiredLRPsRequest => DesiredLRPsResponse, Diego "1.0", Ending(DesiredLrps);
    DesiredLrpByProcessGuidR1, "DesiredLRPByProcessGuid_r1", Post, "/v1/desired_lrps/get_by_process_guid.r1", DesiredLRPByProcessGuidRequest => DesiredLRPResponse, Diego "1.0", Ending(DesiredLrpByProcessGuid);
    DesiredLrpsR0, "DesiredLRPs_r0", Post, "/v1/desired_lrps/list", DesiredLRPsRequest => DesiredLRPsResponse, Diego "1.0", Ending(DesiredLrps);
    DesiredLrpByProcessGuidR0, "DesiredLRPByProcessGuid_r0", Post, "/v1/desired_lrps/get_by_process_guid", DesiredLRPByProcessGuidRequest => DesiredLRPResponse, Diego "1.0", Ending(DesiredLrpByProcessGuid);
    DesireDesiredLrp, "DesireDesiredLRP", Post, "/v1/desired_lrp/desire.r2", DesireLRPRequest => DesiredLRPLifecycleResponse, Diego "1.0", Current;
    DesireDesiredLrpR1, "DesireDesiredLRP_r1", Post, "/v1/desired_lrp/desire.r1", DesireLRPRequest => DesiredLRPLifecycleResponse, Diego "1.0", Ending(DesireDesiredLrp);
    DesireDesiredLrpR0, "DesireDesiredLRP_r0", Post, "/v1/desired_lrp/desire", DesireLRPRequest => DesiredLRPLifecycleResponse, Diego "1.0", Ending(DesireDesiredLrp);
    UpdateDesiredLrp, "UpdateDesireLRP", Post, "/v1/desired_lrp/update", UpdateDesiredLRPRequest => DesiredLRPLifecycleResponse, Diego "1.0", Current;
    RemoveDesiredLrp, "RemoveDesiredLRP", Post, "/v1/desired_lrp/remove", RemoveDesiredLRPRequest => DesiredLRPLifecycleResponse, Diego "1.0", Current;

    DesiredLrpDefinitions, "DesiredLRPDefinitions", Post, "/v1/desired_lrp/definitions", DesiredLRPByProcessGuidRequest => DesiredLRPDefinitionsResponse, Corkboard "0.1", Current;
    CancelUpdate, "CancelUpdateDesiredLRP", Post, "/v1/desired_lrp/cancel_update", SteerUpdateRequest => DesiredLRPLifecycleResponse, Corkboard "0.1", Current;
    PauseUpdate, "PauseUpdateDesiredLRP", Post, "/v1/desired_lrp/pause_update", SteerUpdateRequest => DesiredLRPLifecycleResponse, Corkboard "0.1", Current;
    ResumeUpdate, "ResumeUpdateDesiredLRP", Post, "/v1/desired_lrp/resume_update", SteerUpdateRequest => DesiredLRPLifecycleResponse, Corkboard "0.1", Current;
    RollbackDesiredLrp, "RollbackDesiredLRP", Post, "/v1/desired_lrp/rollback", RollbackDesiredLRPRequest => DesiredLRPLifecycleResponse, Corkboard "0.1", Current;
    MutableDesiredLrps, "ListMutableDesiredLRPs", Post, "/v1/mutable_desired_lrps/list", ListMutableDesiredLRPsRequest => ListMutableDesiredLRPsResponse, Corkboard "0.1", Current;
    ImmutableDesiredLrps, "ListImmutableDesiredLRPs", Post, "/v1/immutable_desired_lrps/list", ListImmutableDesiredLRPsRequest => ListImmutableDesiredLRPsResponse, Corkboard "0.1", Current;
    CreateDesiredLrp, "CreateDesiredLRP", Post, "/v1/desired_lrp/create", CreateDesiredLRPRequest => CreateDesiredLRPResponse, Corkboard "0.1", Current;
    DesiredLrps09, "ListDesiredLRPs_0_9", Post, "/v1/desired_lrps/list_0_9", ListDesiredLRPsRequest_0_9 => ListDesiredLRPsResponse_0_9, Corkboard "0.1", Ending(DesiredLrps);
    CreateDesiredLrp09, "CreateDesiredLRP_0_9", Post, "/v1/desired_lrp/create_0_9", CreateDesiredLRPRequest_0_9 => CreateDesiredLRPResponse_0_9, Corkboard "0.1", Ending(CreateDesiredLrp);

    Tasks, "Tasks", Post, "/v1/tasks/list.r3", TasksRequest => TasksResponse, Diego "2.20", Current;
    TaskByGuid, "TaskByGuid", Post, "/v1/tasks/get_by_task_guid.r3", TaskByGuidRequest => TaskResponse, Diego "2.20", Current;
    TasksR2, "Tasks_r2", Post, "/v1/tasks/list.r2", TasksRequest => TasksResponse, Diego "1.0", Old(Tasks);
    TaskByGuidR2, "TaskByGuid_r2", Post, "/v1/tasks/get_by_task_guid.r2", TaskByGuidRequest => TaskResponse, Diego "1.0", Old(TaskByGuid);
    TasksR1, "Tasks_r1", Post, "/v1/tasks/list.r1", TasksRequest => TasksResponse, Diego "1.0", Ending(Tasks);
    TaskByGuidR1, "TaskByGuid_r1", Post, "/v1/tasks/get_by_task_guid.r1", TaskByGuidRequest => TaskResponse, Diego "1.0", Ending(TaskByGuid);
    TasksR0, "Tasks_r0", Post, "/v1/tasks/list", TasksRequest => TasksResponse, Diego "1.0", Ending(Tasks);
    TaskByGuidR0, "TaskByGuid_r0", Get, "/v1/tasks/get_by_task_guid", TaskByGuidRequest => TaskResponse, Diego "1.0", Ending(TaskByGuid);
    DesireTask, "DesireTask", Post, "/v1/tasks/desire.r2", DesireTaskRequest => TaskLifecycleResponse, Diego "1.0", Current;
    DesireTaskR1, "DesireTask_r1", Post, "/v1/tasks/desire.r1", DesireTaskRequest => TaskLifecycleResponse, Diego "1.0", Ending(DesireTask);
    DesireTaskR0, "DesireTask_r0", Post, "/v1/tasks/desire", DesireTaskRequest => TaskLifecycleResponse, Diego "1.0", Ending(DesireTask);
    StartTask, "StartTask", Post, "/v1/tasks/start", StartTaskRequest => StartTaskResponse, Diego "1.0", Current;
    CancelTask, "CancelTask", Post, "/v1/tasks/cancel", TaskGuidRequest => TaskLifecycleResponse, Diego "1.0", Current;
    FailTask, "FailTask", Post, "/v1/tasks/fail", FailTaskRequest => TaskLifecycleResponse, Diego "1.0", Old(RejectTask);
    RejectTask, "RejectTask", Post, "/v1/tasks/reject", RejectTaskRequest => TaskLifecycleResponse, Diego "2.5", Current;
    CompleteTask, "CompleteTask", Post, "/v1/tasks/complete", CompleteTaskRequest => TaskLifecycleResponse, Diego "1.0", Current;
    ResolvingTask, "ResolvingTask", Post, "/v1/tasks/resolving", TaskGuidRequest => TaskLifecycleResponse, Diego "1.0", Current;
    DeleteTask, "DeleteTask", Post, "/v1/tasks/delete", TaskGuidRequest => TaskLifecycleResponse, Diego "1.0", Current;

    EventStream, "EventStream", Get, "/v1/events.r1", EventsByCellId => Events, Diego "2.20", Old(LrpInstanceEventStream);
    EventStreamR0, "EventStream_r0", Get, "/v1/events", EventsByCellId => Events, Diego "1.0", Old(LrpInstanceEventStream);
    LrpInstanceEventStream, "LRPInstanceEventStream", Post, "/v1/events/lrp_instances.r1", EventsByCellId => Events, Diego "2.20", Current;
    LrpInstanceEventStreamR0, "LrpInstanceEventStream_r0", Post, "/v1/events/lrp_instances", EventsByCellId => Events, Diego "2.19", Old(LrpInstanceEventStream);
    TaskEventStream, "TaskEventStream", Post, "/v1/events/tasks.r1", Nothing => Events, Diego "2.20", Current;
    TaskEventStreamR0, "TaskEventStream_r0", Post, "/v1/events/tasks", Nothing => Events, Diego "1.22", Old(TaskEventStream);
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

    /// The number behind `.r` in the path.
    pub fn revision(self) -> u32 {
        let path = self.path();
        path.rsplit_once(".r").and_then(|(_, revision)| revision.parse().ok()).unwrap_or_default()
    }

    /// The message in the body of a request, as named in the `.proto` files. `None`: the body is not read.
    pub fn request(self) -> Option<&'static str> {
        Some(self.row().request).filter(|name| *name != NOTHING)
    }

    /// The message in the answer. `None`: a stream of events.
    pub fn response(self) -> Option<&'static str> {
        Some(self.row().response).filter(|name| *name != EVENTS)
    }

    /// Answers with a stream of events instead of one message.
    pub fn stream(self) -> bool {
        self.response().is_none()
    }

    pub fn since(self) -> Since {
        self.row().since
    }

    pub fn until(self) -> Until {
        match self.row().standing {
            Standing::Current | Standing::Old(_) => Until::Open,
            Standing::Ending(_) => Until::Major(LAST_MAJOR),
        }
    }

    /// The route that new clients call instead of this one.
    pub fn replaced_by(self) -> Option<Route> {
        match self.row().standing {
            Standing::Current => None,
            Standing::Old(by) | Standing::Ending(by) => Some(by),
        }
    }

    /// Kept for older clients; new ones have a better call.
    pub fn deprecated(self) -> bool {
        self.replaced_by().is_some()
    }

    /// The methods with which a path may be called, as the header `Allow` lists them. `None`: there is no such path.
    pub fn allow(path: &str) -> Option<&'static str> {
        match (Route::find(Method::Get, path), Route::find(Method::Post, path)) {
            (Some(_), Some(_)) => Some("GET, POST"),
            (Some(_), None) => Some("GET"),
            (None, Some(_)) => Some("POST"),
            (None, None) => None,
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method().as_str(), self.path())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;

    use expect_test::expect_file;

    use super::*;
    use crate::version::{self, Version};

    #[test]
    fn the_table_is_the_published_one() {
        let mut table = String::new();
        for route in Route::ALL {
            let instead = route.replaced_by().map_or(String::new(), |by| format!(" deprecated, use {}", by.name()));
            let request = route.request().unwrap_or("-");
            let response = route.response().unwrap_or("events");
            writeln!(
                table,
                "{:<40} r{} {route}\n    {request} -> {response}\n    since {}, until {}{instead}",
                route.name(),
                route.revision(),
                route.since(),
                route.until()
            )
            .unwrap();
        }
        expect_file!["../tests/golden/routes.txt"].assert_eq(&table);
    }

    #[test]
    fn each_is_found_by_its_method_and_path() {
        let names: BTreeSet<_> = Route::ALL.iter().map(|route| route.name()).collect();
        assert_eq!(names.len(), Route::ALL.len(), "two routes have the same name");
        for route in Route::ALL {
            assert_eq!(Route::find(route.method(), route.path()), Some(*route));
            assert_eq!(Method::of(&route.method().into()), Some(route.method()));
            assert!(Route::allow(route.path()).unwrap().contains(route.method().as_str()));
        }
        assert_eq!(Method::of(&hyper::Method::HEAD), None);
    }

    #[test]
    fn matching_is_literal() {
        for path in ["", "/", "/v1/ping/", "/V1/ping", "/v1/ping?x=1", "/v1/desired_lrps/list.r4", "/v1/cells/list"] {
            assert_eq!(Route::allow(path), None, "{path}");
        }
        assert_eq!(Route::find(Method::Get, "/v1/ping"), None);
    }

    #[test]
    fn only_the_oldest_are_called_with_get() {
        let got: Vec<_> = Route::ALL.iter().filter(|route| route.method() == Method::Get).map(|r| r.path()).collect();
        assert_eq!(got, ["/v1/cells/list.r1", "/v1/tasks/get_by_task_guid", "/v1/events.r1", "/v1/events"]);
        assert_eq!(Route::allow("/v1/cells/list.r1"), Some("GET, POST"));
    }

    #[test]
    fn the_replacement_of_an_old_route_is_a_current_one() {
        for route in Route::ALL {
            if let Some(by) = route.replaced_by() {
                assert!(!by.deprecated() && by.until() == Until::Open, "{route} is replaced by {by}");
                assert_eq!(by.stream(), route.stream(), "{route} is replaced by {by}");
            }
            assert!(route.deprecated() || route.until() == Until::Open, "{route} ends and nothing replaces it");
        }
    }

    fn is_served(route: Route, by: Version) -> bool {
        route.until().major().is_none_or(|last| by.major <= last)
    }

    /// When this fails, a new major version has begun: delete the rows that have ended, their handlers and conversions.
    #[test]
    fn no_route_is_served_beyond_its_end() {
        let ended: Vec<_> = Route::ALL.iter().filter(|route| !is_served(**route, version::CURRENT)).collect();
        assert_eq!(ended, [] as [&Route; 0]);
        let next = Version { major: LAST_MAJOR + 1, minor: 0, patch: 0 };
        assert!(Route::ALL.iter().any(|route| !is_served(*route, next)), "the test can fail");
    }

    #[test]
    fn every_message_is_a_published_one() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/proto")).unwrap();
        let paths = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
        let texts: String = paths.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        for route in Route::ALL {
            for name in [route.request(), route.response()].into_iter().flatten() {
                let is_published = texts.contains(&format!("\nmessage {name} {{\n"));
                assert!(is_published, "{route} speaks of {name}");
            }
        }
    }
}
