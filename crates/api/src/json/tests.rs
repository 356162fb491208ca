//! Golden prints of every object that operators meet, and what is read back from them.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{from_str, to_string};
use crate::models::*;

/// Prints, compares, reads back, and prints again: nothing that is printed may be lost in reading.
fn check<T: Serialize + DeserializeOwned>(value: &T, expected: &Expect) {
    let text = to_string(value);
    expected.assert_eq(&text);
    let again: T = from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(to_string(&again), text, "after reading it back");
}

fn routes() -> ProtoRoutes {
    let value = br#"[ {"hostnames": ["a.example"], "port": 8080} ]"#;
    ProtoRoutes { routes: BTreeMap::from([("cf-router".into(), value.to_vec())]) }
}

fn run_action() -> Action {
    let run = RunAction { path: "x".into(), user: "u".into(), ..Default::default() };
    Action { run_action: Some(run), ..Default::default() }
}

#[test]
fn actual_lrp() {
    check(
        &ActualLrp::default(),
        &expect![[
            r#"{"process_guid":"","index":0,"domain":"","instance_guid":"","cell_id":"","address":"","ports":null,"preferred_address":"UNKNOWN","crash_count":0,"state":"","since":0,"modification_tag":{"epoch":"","index":0},"presence":"ORDINARY","OptionalRoutable":null,"availability_zone":""}"#
        ]],
    );
    let full = ActualLrp {
        definition_number: 0,
        leaving: false,
        actual_lrp_key: Some(ActualLrpKey { process_guid: "g".into(), index: 2, domain: "d".into() }),
        actual_lrp_instance_key: Some(ActualLrpInstanceKey { instance_guid: "i".into(), cell_id: "c".into() }),
        actual_lrp_net_info: Some(ActualLrpNetInfo {
            address: "10.0.0.1".into(),
            ports: vec![PortMapping { container_port: 8080, host_port: 61001, ..Default::default() }],
            instance_address: "10.255.0.1".into(),
            preferred_address: actual_lrp_net_info::PreferredAddress::Host.into(),
            instance_ipv6_address: "::1".into(),
        }),
        crash_count: 1,
        crash_reason: "oom".into(),
        state: "RUNNING".into(),
        placement_error: "p".into(),
        since: 3,
        modification_tag: Some(ModificationTag { epoch: "e".into(), index: 4 }),
        presence: actual_lrp::Presence::Suspect.into(),
        actual_lrp_internal_routes: vec![ActualLrpInternalRoute { hostname: "h".into() }],
        metric_tags: BTreeMap::from([("k".into(), "v".into())]),
        routable: Some(false),
        availability_zone: "z1".into(),
    };
    check(
        &full,
        &expect![[
            r#"{"process_guid":"g","index":2,"domain":"d","instance_guid":"i","cell_id":"c","address":"10.0.0.1","ports":[{"container_port":8080,"host_port":61001,"container_tls_proxy_port":0,"host_tls_proxy_port":0}],"instance_address":"10.255.0.1","preferred_address":"HOST","instance_ipv6_address":"::1","crash_count":1,"crash_reason":"oom","state":"RUNNING","placement_error":"p","since":3,"modification_tag":{"epoch":"e","index":4},"presence":"SUSPECT","actual_lrp_internal_routes":[{"hostname":"h"}],"metric_tags":{"k":"v"},"OptionalRoutable":{"routable":false},"availability_zone":"z1"}"#
        ]],
    );
    assert_eq!(from_str::<ActualLrp>(&to_string(&full)).unwrap(), full);
}

#[test]
fn actual_lrp_group() {
    check(&ActualLrpGroup::default(), &expect!["{}"]);
    let text = to_string(&ActualLrpGroup { evacuating: Some(ActualLrp::default()), instance: None });
    assert!(text.starts_with(r#"{"evacuating":{"process_guid":"","#), "{text}");
}

/// The field that Diego's `.proto` spells with a capital letter.
#[test]
fn routable_elsewhere_is_left_out_when_false() {
    let shown = |routable| {
        let text = to_string(&ActualLrpInfo { routable, ..Default::default() });
        let at = text.find("\"OptionalRoutable\"").unwrap();
        text[at..text.find(",\"availability_zone\"").unwrap()].to_owned()
    };
    assert_eq!(shown(None), r#""OptionalRoutable":null"#);
    assert_eq!(shown(Some(true)), r#""OptionalRoutable":{"Routable":true}"#);
    assert_eq!(shown(Some(false)), r#""OptionalRoutable":{}"#);
    let read = |text| from_str::<ActualLrpInfo>(text).unwrap().routable;
    assert_eq!(read(r#"{"OptionalRoutable":{"Routable":true,"more":[]}}"#), Some(true));
    assert_eq!(read(r#"{"OptionalRoutable":{}}"#), Some(false));
    assert_eq!(read(r#"{"OptionalRoutable":null}"#), None);
}

#[test]
fn desired_lrp() {
    check(
        &DesiredLrp::default(),
        &expect![[
            r#"{"process_guid":"","domain":"","rootfs":"","instances":0,"env":null,"start_timeout_ms":0,"disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"log_source":"","log_guid":"","metrics_guid":"","annotation":"","max_pids":0,"volume_mounted_files":null,"update_strategy":0}"#
        ]],
    );
    let full = DesiredLrp {
        process_guid: "g".into(),
        environment_variables: vec![EnvironmentVariable { name: "N".into(), value: "V".into() }],
        setup: Some(run_action()),
        action: Some(run_action()),
        start_timeout_ms: 5,
        deprecated_start_timeout_s: 6,
        monitor: Some(run_action()),
        ports: vec![8080],
        routes: Some(routes()),
        egress_rules: vec![SecurityGroupRule {
            protocol: "tcp".into(),
            destinations: vec!["0.0.0.0/0".into()],
            ports: vec![443],
            port_range: Some(PortRange { start: 1, end: 2 }),
            icmp_info: Some(IcmpInfo { r#type: 8, code: 0 }),
            log: true,
            annotations: vec!["a".into()],
        }],
        modification_tag: Some(ModificationTag { epoch: "e".into(), index: 1 }),
        cached_dependencies: vec![CachedDependency::default()],
        legacy_download_user: "u".into(),
        trusted_system_certificates_path: "/t".into(),
        volume_mounts: vec![VolumeMount { driver: "nfs".into(), mode: "rw".into(), ..Default::default() }],
        network: Some(Network { properties: BTreeMap::from([("p".into(), "q".into())]) }),
        placement_tags: vec!["t".into()],
        certificate_properties: Some(CertificateProperties { organizational_unit: vec!["ou".into()] }),
        image_username: "iu".into(),
        image_password: "ip".into(),
        check_definition: Some(CheckDefinition {
            checks: vec![Check { tcp_check: Some(TcpCheck { port: 1, ..Default::default() }), http_check: None }],
            ..Default::default()
        }),
        image_layers: vec![ImageLayer {
            url: "http://l".into(),
            layer_type: image_layer::Type::Exclusive.into(),
            media_type: image_layer::MediaType::Tgz.into(),
            digest_algorithm: image_layer::DigestAlgorithm::Sha256.into(),
            ..Default::default()
        }],
        metric_tags: BTreeMap::from([("t".into(), MetricTagValue { r#static: "s".into(), dynamic: 0 })]),
        sidecars: vec![Sidecar { disk_mb: 1, ..Default::default() }],
        log_rate_limit: Some(LogRateLimit { bytes_per_second: -1 }),
        volume_mounted_files: vec![File { path: "/f".into(), content: "c".into() }],
        update_strategy: desired_lrp::UpdateStrategy::Recreate.into(),
        ..Default::default()
    };
    check(
        &full,
        &expect![[
            r#"{"process_guid":"g","domain":"","rootfs":"","instances":0,"env":[{"name":"N","value":"V"}],"setup":{"run":{"path":"x","user":"u","suppress_log_output":false,"volume_mounted_files":null}},"action":{"run":{"path":"x","user":"u","suppress_log_output":false,"volume_mounted_files":null}},"start_timeout_ms":5,"deprecated_timeout_ns":6,"monitor":{"run":{"path":"x","user":"u","suppress_log_output":false,"volume_mounted_files":null}},"disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"ports":[8080],"routes":{"cf-router":[{"hostnames":["a.example"],"port":8080}]},"log_source":"","log_guid":"","metrics_guid":"","annotation":"","egress_rules":[{"protocol":"tcp","destinations":["0.0.0.0/0"],"ports":[443],"port_range":{"start":1,"end":2},"icmp_info":{"type":8,"code":0},"log":true,"annotations":["a"]}],"modification_tag":{"epoch":"e","index":1},"cached_dependencies":[{"name":"","from":"","to":"","cache_key":"","log_source":""}],"legacy_download_user":"u","trusted_system_certificates_path":"/t","volume_mounts":[{"driver":"nfs","container_dir":"","mode":"rw","shared":null,"dedicated":null}],"network":{"properties":{"p":"q"}},"placement_tags":["t"],"max_pids":0,"certificate_properties":{"organizational_unit":["ou"]},"image_username":"iu","image_password":"ip","check_definition":{"checks":[{"tcp_check":{"port":1}}],"log_source":""},"image_layers":[{"url":"http://l","destination_path":"","layer_type":"EXCLUSIVE","media_type":"TGZ","digest_algorithm":"SHA256"}],"metric_tags":{"t":{"static":"s"}},"sidecars":[{"disk_mb":1,"memory_mb":0}],"log_rate_limit":{"bytes_per_second":-1},"volume_mounted_files":[{"path":"/f","content":"c"}],"update_strategy":1}"#
        ]],
    );
}

#[test]
fn desired_lrp_scheduling_info() {
    check(
        &DesiredLrpSchedulingInfo::default(),
        &expect![[
            r#"{"process_guid":"","domain":"","log_guid":"","annotation":"","instances":0,"memory_mb":0,"disk_mb":0,"rootfs":"","max_pids":0,"routes":null,"epoch":"","index":0}"#
        ]],
    );
    let info = DesiredLrpSchedulingInfo {
        routes: Some(routes()),
        modification_tag: Some(ModificationTag { epoch: "e".into(), index: 7 }),
        volume_placement: Some(VolumePlacement::default()),
        placement_tags: vec!["t".into()],
        ..Default::default()
    };
    check(
        &info,
        &expect![[
            r#"{"process_guid":"","domain":"","log_guid":"","annotation":"","instances":0,"memory_mb":0,"disk_mb":0,"rootfs":"","max_pids":0,"routes":{"cf-router":[{"hostnames":["a.example"],"port":8080}]},"epoch":"e","index":7,"volume_placement":{"driver_names":null},"placement_tags":["t"]}"#
        ]],
    );
}

#[test]
fn task() {
    check(
        &Task::default(),
        &expect![[
            r#"{"task_guid":"","domain":"","created_at":0,"updated_at":0,"first_completed_at":0,"state":"Invalid","cell_id":"","result":"","failed":false,"failure_reason":"","rejection_count":0,"rejection_reason":""}"#
        ]],
    );
    let task = Task {
        task_definition: Some(TaskDefinition::default()),
        task_guid: "t".into(),
        state: task::State::Running.into(),
        ..Default::default()
    };
    check(
        &task,
        &expect![[
            r#"{"rootfs":"","disk_mb":0,"memory_mb":0,"cpu_weight":0,"privileged":false,"log_source":"","log_guid":"","metrics_guid":"","result_file":"","max_pids":0,"image_username":"","image_password":"","volume_mounted_files":null,"task_guid":"t","domain":"","created_at":0,"updated_at":0,"first_completed_at":0,"state":"Running","cell_id":"","result":"","failed":false,"failure_reason":"","rejection_count":0,"rejection_reason":""}"#
        ]],
    );
}

#[test]
fn cell_presence() {
    let cell = CellPresence {
        cell_id: "c".into(),
        capacity: Some(CellCapacity { memory_mb: 1, disk_mb: 2, containers: 3 }),
        rootfs_providers: vec![Provider { name: "preloaded".into(), properties: vec!["cflinuxfs4".into()] }],
        ..Default::default()
    };
    check(
        &cell,
        &expect![[
            r#"{"cell_id":"c","rep_address":"","zone":"","capacity":{"memory_mb":1,"disk_mb":2,"containers":3},"rootfs_provider_list":[{"name":"preloaded","properties":["cflinuxfs4"]}],"rep_url":"","annotations":{}}"#
        ]],
    );
}

#[test]
fn actions() {
    let timeout = TimeoutAction { action: Some(Box::new(run_action())), timeout_ms: 1000, ..Default::default() };
    check(
        &Action { timeout_action: Some(Box::new(timeout)), ..Default::default() },
        &expect![[
            r#"{"timeout":{"action":{"run":{"path":"x","user":"u","suppress_log_output":false,"volume_mounted_files":null}},"timeout_ms":1000}}"#
        ]],
    );
    let try_action = TryAction { action: Some(Box::new(Action::default())), ..Default::default() };
    let list = vec![
        Action { download_action: Some(DownloadAction::default()), ..Default::default() },
        Action { upload_action: Some(UploadAction::default()), ..Default::default() },
        Action { emit_progress_action: Some(Box::default()), ..Default::default() },
        Action { try_action: Some(Box::new(try_action)), ..Default::default() },
        Action { parallel_action: Some(ParallelAction::default()), ..Default::default() },
        Action { codependent_action: Some(CodependentAction::default()), ..Default::default() },
    ];
    check(
        &Action { serial_action: Some(SerialAction { actions: list, ..Default::default() }), ..Default::default() },
        &expect![[
            r#"{"serial":{"actions":[{"download":{"from":"","to":"","cache_key":"","user":""}},{"upload":{"from":"","to":"","user":""}},{"emit_progress":{"start_message":"","success_message":"","failure_message_prefix":""}},{"try":{"action":{}}},{"parallel":{}},{"codependent":{}}]}}"#
        ]],
    );
}

#[test]
fn small_objects() {
    check(&ResourceLimits::default(), &expect!["{}"]);
    check(&ResourceLimits { nofile: Some(0), nproc: None }, &expect![[r#"{"nofile":0}"#]]);
    check(&ResourceLimits { nofile: Some(1), nproc: Some(2) }, &expect![[r#"{"nofile":1,"nproc":2}"#]]);
    let dynamic = |value| MetricTagValue { dynamic: value, ..Default::default() };
    check(&dynamic(1), &expect![[r#"{"dynamic":"INDEX"}"#]]);
    check(&dynamic(2), &expect![[r#"{"dynamic":"INSTANCE_GUID"}"#]]);
    let shared = SharedDevice { volume_id: "v".into(), mount_config: String::new() };
    check(
        &VolumeMount { shared: Some(shared), ..Default::default() },
        &expect![[
            r#"{"driver":"","container_dir":"","mode":"","shared":{"volume_id":"v","mount_config":""},"dedicated":null}"#
        ]],
    );
    check(&SecurityGroupRule::default(), &expect![[r#"{"log":false}"#]]);
    check(&Error { r#type: 13, message: "m".into() }, &expect![[r#"{"type":"ResourceNotFound","message":"m"}"#]]);
    check(
        &ActualLrPsRequest { index: Some(0), ..Default::default() },
        &expect![[r#"{"domain":"","cell_id":"","process_guid":"","index":0}"#]],
    );
    check(&DesireTaskRequest::default(), &expect![[r#"{"task_definition":null,"task_guid":"","domain":""}"#]]);
    check(
        &TaskCallbackResponse { task_guid: "t".into(), created_at: 1, ..Default::default() },
        &expect![[r#"{"task_guid":"t","failed":false,"failure_reason":"","result":"","created_at":1}"#]],
    );
}

#[test]
fn events() {
    check(
        &ActualLrpCrashedEvent { crash_count: 1, ..Default::default() },
        &expect![[
            r#"{"process_guid":"","index":0,"domain":"","instance_guid":"","cell_id":"","crash_count":1,"since":0}"#
        ]],
    );
    check(
        &ActualLrpInstanceChangedEvent { before: Some(ActualLrpInfo::default()), ..Default::default() },
        &expect![[
            r#"{"process_guid":"","index":0,"domain":"","instance_guid":"","cell_id":"","before":{"address":"","ports":null,"preferred_address":"UNKNOWN","crash_count":0,"state":"","since":0,"modification_tag":{"epoch":"","index":0},"presence":"ORDINARY","OptionalRoutable":null,"availability_zone":""},"trace_id":""}"#
        ]],
    );
}

#[test]
fn an_update_tells_clearing_from_leaving() {
    check(&DesiredLrpUpdate::default(), &expect!["{}"]);
    let clear = DesiredLrpUpdate {
        instances: Some(0),
        annotation: Some(String::new()),
        routes: Some(ProtoRoutes::default()),
        ..Default::default()
    };
    check(&clear, &expect![[r#"{"instances":0,"routes":{},"annotation":""}"#]]);
    assert_eq!(from_str::<DesiredLrpUpdate>(&to_string(&clear)).unwrap(), clear);
    let nulls = r#"{"instances":null,"routes":null,"annotation":null,"metric_tags":null,"image_username":null}"#;
    assert_eq!(from_str::<DesiredLrpUpdate>(nulls).unwrap(), DesiredLrpUpdate::default());
}

#[test]
fn an_update_may_hold_a_definition() {
    let json = r#"{"desired_lrp":{"rootfs":"docker:///a","memory_mb":64},"update_identifier":"v2"}"#;
    let update = DesiredLrpUpdate {
        desired_lrp: Some(DesiredLrp { root_fs: "docker:///a".into(), memory_mb: 64, ..Default::default() }),
        update_identifier: Some("v2".into()),
        ..Default::default()
    };
    assert_eq!(from_str::<DesiredLrpUpdate>(json).unwrap(), update);
    assert_eq!(from_str::<DesiredLrpUpdate>(&to_string(&update)).unwrap(), update);
    let nulls = r#"{"desired_lrp":null,"update_identifier":null}"#;
    assert_eq!(from_str::<DesiredLrpUpdate>(nulls).unwrap(), DesiredLrpUpdate::default());
}

#[test]
fn what_html_would_misread_is_escaped() {
    let text = to_string("<a href=\"x&y\">\u{2028}\u{2029}é\n\u{1}");
    expect![[r#""\u003ca href=\"x\u0026y\"\u003e\u2028\u2029é\n\u0001""#]].assert_eq(&text);
    assert_eq!(from_str::<String>(&text).unwrap(), "<a href=\"x&y\">\u{2028}\u{2029}é\n\u{1}");
}

#[test]
fn route_values_keep_their_content_and_lose_their_white_space() {
    let value = br#" { "b" : [ 1.50, 1e400 ] , "a" : " spaced \" < \\" } "#;
    let routes = ProtoRoutes { routes: BTreeMap::from([("r".into(), value.to_vec())]) };
    expect![[r#"{"r":{"b":[1.50,1e400],"a":" spaced \" \u003c \\"}}"#]].assert_eq(&to_string(&routes));
    let broken = ProtoRoutes { routes: BTreeMap::from([("r".into(), b"{oops".to_vec())]) };
    expect![[r#"{"r":"{oops"}"#]].assert_eq(&to_string(&broken));
}

#[test]
fn the_smallest_specs_are_read() {
    let lrp: DesiredLrp = from_str(
        r#"{"process_guid":"g","domain":"d","rootfs":"preloaded:cflinuxfs4","instances":1,"action":{"run":{"path":"/bin/sh","user":"vcap"}},"metric_tags":{"source_id":{"static":"g"}}}"#,
    )
    .unwrap();
    let run = RunAction { path: "/bin/sh".into(), user: "vcap".into(), ..Default::default() };
    let expected = DesiredLrp {
        process_guid: "g".into(),
        domain: "d".into(),
        root_fs: "preloaded:cflinuxfs4".into(),
        instances: 1,
        action: Some(Action { run_action: Some(run), ..Default::default() }),
        metric_tags: BTreeMap::from([("source_id".into(), MetricTagValue { r#static: "g".into(), dynamic: 0 })]),
        ..Default::default()
    };
    assert_eq!(lrp, expected);

    let task: Task = from_str(
        r#"{"task_guid":"t","domain":"d","rootfs":"preloaded:cflinuxfs4","action":{"run":{"path":"/bin/true","user":"vcap"}}}"#,
    )
    .unwrap();
    assert_eq!((task.task_guid.as_str(), task.domain.as_str()), ("t", "d"));
    let definition = task.task_definition.unwrap();
    assert_eq!(definition.root_fs, "preloaded:cflinuxfs4");
    assert_eq!(definition.action.unwrap().run_action.unwrap().path, "/bin/true");
}

#[test]
fn a_task_without_any_definition_key_has_no_definition() {
    assert_eq!(from_str::<Task>(r#"{"task_guid":"t","domain":"d"}"#).unwrap().task_definition, None);
    assert!(from_str::<Task>(r#"{"rootfs":null}"#).unwrap().task_definition.is_some());
}

#[test]
fn reading_is_lenient_where_go_is() {
    let lrp: DesiredLrp = from_str(
        r#"{"Process_GUID":"g","unknown":{"deep":[1,2]},"instances":null,"ports":null,"env":[null,{"NAME":"n"}],"placement_tags":[null,"t"],"network":null}"#,
    )
    .unwrap();
    let expected = DesiredLrp {
        process_guid: "g".into(),
        environment_variables: vec![
            EnvironmentVariable::default(),
            EnvironmentVariable { name: "n".into(), value: String::new() },
        ],
        placement_tags: vec![String::new(), "t".into()],
        ..Default::default()
    };
    assert_eq!(lrp, expected);
    assert_eq!(from_str::<DesiredLrp>("null").unwrap(), DesiredLrp::default());
    assert!(from_str::<ActualLrp>("{}").unwrap().actual_lrp_key.is_some(), "Go holds it by value");
}

#[test]
fn reading_is_strict_where_go_is() {
    for (text, complaint) in [
        (r#"{"instances":"1"}"#, "invalid type: string"),
        (r#"{"instances":1.5}"#, "invalid type: floating point"),
        (r#"{"image_layers":[{"layer_type":"shared"}]}"#, "the name \"shared\" is not known here; case matters"),
        (r#"{"update_strategy":"ROLLING"}"#, "invalid type: string"),
        (r#"{"network":[]}"#, "expected an object (Network)"),
        (r#"{"process_guid":"g""#, "EOF"),
    ] {
        let error = from_str::<DesiredLrp>(text).unwrap_err().to_string();
        assert!(error.contains(complaint), "{text}: {error}");
    }
    let tag: MetricTagValue = from_str(r#"{"dynamic":"SOMETHING"}"#).unwrap();
    assert_eq!(tag.dynamic, 0, "an unknown dynamic value is silently none");
}

#[test]
fn depth_is_limited_in_json_too() {
    let nested = format!("{}null{}", r#"{"try":{"action":"#.repeat(100_000), "}}".repeat(100_000));
    assert!(from_str::<Action>(&nested).unwrap_err().to_string().contains("recursion limit"));
}

#[test]
fn a_number_without_a_name_is_printed_as_text() {
    expect![[r#"{"type":"99","message":""}"#]].assert_eq(&to_string(&Error { r#type: 99, message: String::new() }));
}
