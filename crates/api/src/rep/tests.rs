//! Bodies as Diego's programs were seen to send them, and bodies that no program should send.

use std::fmt::Write;

use expect_test::expect;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::json::to_string;

/// Read, written again, the text is the same.
fn unchanged<T: DeserializeOwned + Serialize>(text: &str) {
    let value: T = serde_json::from_str(text).unwrap();
    assert_eq!(to_string(&value), text);
}

const LRP_STARTS: &str = r#"[{"process_guid":"pg-2","domain":"my-domain","indices":[0,1],"PlacementTags":null,"VolumeDrivers":[],"RootFs":"preloaded:cflinuxfs4","MemoryMB":64,"DiskMB":128,"MaxPids":100}]"#;
const TASK_STARTS: &str = r#"[{"TaskGuid":"task-2","Domain":"my-domain","PlacementTags":["t1"],"VolumeDrivers":["nfs"],"RootFs":"docker:///busybox","MemoryMB":32,"DiskMB":64,"MaxPids":0,"state":"Invalid","failed":false}]"#;
const WORK: &str = r#"{"LRPs":[{"instance_guid":"","process_guid":"pg-1","index":0,"domain":"my-domain","PlacementTags":null,"VolumeDrivers":[],"RootFs":"preloaded:cflinuxfs4","MemoryMB":64,"DiskMB":128,"MaxPids":100,"state":""}],"Tasks":null,"cell_id":"cell-1"}"#;
const STATE: &str = r#"{"rep_url":"https://127.0.0.1:11801","cell_id":"cell-1","cell_index":0,"RootFSProviders":{"docker":{"type":"arbitrary"},"preloaded":{"set":{"cflinuxfs4":{}},"type":"fixed_set"}},"AvailableResources":{"MemoryMB":1024,"DiskMB":2048,"Containers":10},"TotalResources":{"MemoryMB":1024,"DiskMB":2048,"Containers":10},"LRPs":[],"Tasks":[],"StartingContainerCount":0,"Zone":"z1","Evacuating":false,"VolumeDrivers":[],"PlacementTags":[],"OptionalPlacementTags":[],"ProxyMemoryAllocationMB":0}"#;

#[test]
fn bodies_are_diegos() {
    unchanged::<Vec<LrpStart>>(LRP_STARTS);
    unchanged::<Vec<TaskStart>>(TASK_STARTS);
    unchanged::<Work>(WORK);
    unchanged::<CellState>(STATE);
    unchanged::<Work>(r#"{"LRPs":null,"Tasks":null}"#);
}

#[test]
fn null_empty_and_absent_lists_are_the_same() {
    let read = |text: &str| serde_json::from_str::<Work>(text).unwrap();
    assert_eq!(read("{}"), read(r#"{"LRPs":[],"Tasks":null,"cell_id":null}"#));
    let state = |text: &str| serde_json::from_str::<CellState>(text).unwrap();
    let nulls = r#"{"LRPs":null,"Tasks":null,"VolumeDrivers":null,"PlacementTags":null,"OptionalPlacementTags":null,
        "RootFSProviders":null,"AvailableResources":null,"Zone":null}"#;
    assert_eq!(state(nulls), CellState::default());
    assert_eq!(read_starts::<LrpStart>(b"null").unwrap(), []);
    assert_eq!(read_starts::<LrpStart>(b"[null]").unwrap(), [LrpStart::default()]);
}

#[test]
fn the_case_of_keys_does_not_matter_and_unknown_keys_do_not_either() {
    let shouted = r#"{"lrps":[{"PROCESS_GUID":"pg","rootfs":"a:b","memorymb":3,"later":{"deep":[1]}}],"CELL_ID":"c"}"#;
    let work: Work = serde_json::from_str(shouted).unwrap();
    let needs = Needs { rootfs: "a:b".into(), memory_mb: 3, ..Needs::default() };
    let lrp = Lrp { process_guid: "pg".into(), needs, ..Lrp::default() };
    assert_eq!(work, Work { lrps: vec![lrp], tasks: vec![], cell_id: "c".into() });
}

#[test]
fn what_is_not_json_of_this_shape_is_refused_with_its_place() {
    let complaint = |text: &str| read_starts::<TaskStart>(text.as_bytes()).unwrap_err().to_string();
    expect!["EOF while parsing a value at line 1 column 0"].assert_eq(&complaint(""));
    expect!["invalid type: map, expected a sequence at line 1 column 0"].assert_eq(&complaint("{}"));
    expect!["invalid type: integer `1`, expected an object (Task) at line 1 column 2"].assert_eq(&complaint("[1]"));
    expect!["unknown variant `Gone`, expected one of `Invalid`, `Pending`, `Running`, `Completed`, `Resolving` at line 1 column 16"]
        .assert_eq(&complaint(r#"[{"state":"Gone"}]"#));
    assert!(complaint(r#"[{"state":1}]"#).contains("line 1"));
    assert!(complaint(r#"[{"MemoryMB":3000000000}]"#).contains("line 1"));
}

#[test]
fn providers_of_an_unknown_type_are_forgotten() {
    let text = r#"{"a":{"type":"arbitrary"},"b":{"type":"novel","set":{"x":{}}},"c":null,"d":{"type":"fixed_set"}}"#;
    let providers: RootfsProviders = serde_json::from_str(text).unwrap();
    expect![[r#"{"a":{"type":"arbitrary"},"d":{"set":{},"type":"fixed_set"}}"#]].assert_eq(&to_string(&providers));
}

#[test]
fn starts_are_checked_in_diegos_order() {
    let mut start: LrpStart = read_starts(LRP_STARTS.as_bytes()).unwrap().remove(0);
    assert_eq!(start.check(), Ok(()));
    assert_eq!(start.lrps().map(|lrp| lrp.index).collect::<Vec<_>>(), [0, 1]);
    start.needs.rootfs.clear();
    assert_eq!(start.check(), Err(StartError::Rootfs));
    start.needs.disk_mb = -1;
    assert_eq!(start.check(), Err(StartError::Resources));
    start.indices.clear();
    assert_eq!(start.check(), Err(StartError::Indices));
    start.domain.clear();
    assert_eq!(start.check(), Err(StartError::Domain));
    start.process_guid.clear();
    assert_eq!(start.check(), Err(StartError::Guid));

    let mut task: TaskStart = read_starts(TASK_STARTS.as_bytes()).unwrap().remove(0);
    // A task without a domain is taken, as by Diego.
    task.0.domain.clear();
    assert_eq!(task.check(), Ok(()));
    task.0.needs.memory_mb = -1;
    assert_eq!(task.check(), Err(StartError::Resources));
    task.0.task_guid.clear();
    assert_eq!(task.check(), Err(StartError::Guid));
}

#[test]
fn the_whole_table_of_addresses() {
    let mut table = String::new();
    for (require_tls, certificates) in [(false, false), (false, true), (true, false), (true, true)] {
        for rep_url in ["", "http://url", "https://url"] {
            let wire = crate::models::CellPresence {
                cell_id: "cell".into(),
                rep_url: rep_url.into(),
                rep_address: "http://address".into(),
                ..Default::default()
            };
            let cell = crate::convert::cell_from_wire(wire).unwrap();
            let chosen = address(&cell, require_tls, certificates);
            let chosen = chosen.map_or_else(|error| error.to_string(), str::to_owned);
            writeln!(table, "{require_tls:<6}{certificates:<6}{rep_url:<12}{chosen}").unwrap();
        }
    }
    expect![[r#"
        false false             http://address
        false false http://url  http://url
        false false https://url https scheme not supported since certificates aren't provided
        false true              http://address
        false true  http://url  http://url
        false true  https://url https://url
        true  false             https scheme is required but none of the addresses support it
        true  false http://url  https scheme is required but none of the addresses support it
        true  false https://url https scheme not supported since certificates aren't provided
        true  true              https scheme is required but none of the addresses support it
        true  true  http://url  https scheme is required but none of the addresses support it
        true  true  https://url https://url
    "#]]
    .assert_eq(&table);
}

proptest! {
    /// Whatever arrives is an answer or an error, never a panic, and what was understood survives a round trip.
    #[test]
    fn any_text_is_read_or_refused(text in r#"[\[\]{}",:a-zA-Z0-9\\ ]{0,60}"#, cut in 0..WORK.len()) {
        let _ = read_starts::<LrpStart>(text.as_bytes());
        let _ = serde_json::from_str::<CellState>(&text);
        prop_assert!(serde_json::from_str::<Work>(&WORK[..cut]).is_err());
    }

    #[test]
    fn guids_and_tags_of_any_kind_survive(guid in ".*", tags in prop::collection::vec(".*", 0..3)) {
        let needs = Needs { placement_tags: tags.clone(), volume_drivers: tags, rootfs: guid.clone(), ..Needs::default() };
        let work = Work { lrps: vec![Lrp { process_guid: guid, needs, ..Lrp::default() }], ..Work::default() };
        prop_assert_eq!(serde_json::from_str::<Work>(&to_string(&work)).unwrap(), work);
    }
}
