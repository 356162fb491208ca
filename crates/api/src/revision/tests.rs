//! The conversions on the example of the protocol's description, printed so that the shape can be read.

mod generated;
mod halves;
mod up;

use expect_test::{Expect, expect};

use super::*;
use crate::models::image_layer::{DigestAlgorithm, Type};
use crate::models::{
    CachedDependency, DesiredLrp, EmitProgressAction, ImageLayer, RunAction, Task, TaskDefinition, TimeoutAction,
    TryAction,
};

fn show(action: &Action) -> String {
    let list =
        |name: &str, actions: &[Action]| format!("{name}[{}]", actions.iter().map(show).collect::<Vec<_>>().join(", "));
    let inner = |action: &Option<Box<Action>>| action.as_deref().map_or("-".into(), show);
    if let Some(it) = &action.download_action {
        let checksum = format!("{}/{}", it.checksum_algorithm, it.checksum_value);
        format!(
            "download({} {} -> {} key={} user={} sum={checksum})",
            it.artifact, it.from, it.to, it.cache_key, it.user
        )
    } else if let Some(it) = &action.run_action {
        format!("run({})", it.path)
    } else if let Some(it) = &action.timeout_action {
        format!("timeout({}ms {}ns {})", it.timeout_ms, it.deprecated_timeout_ns, inner(&it.action))
    } else if let Some(it) = &action.try_action {
        format!("try({})", inner(&it.action))
    } else if let Some(it) = &action.emit_progress_action {
        format!("emit_progress({})", inner(&it.action))
    } else if let Some(it) = &action.parallel_action {
        list("parallel", &it.actions)
    } else if let Some(it) = &action.serial_action {
        list("serial", &it.actions)
    } else if let Some(it) = &action.codependent_action {
        list("codependent", &it.actions)
    } else {
        "nothing".into()
    }
}

fn show_lrp(lrp: &DesiredLrp) -> String {
    let mut out = String::new();
    for dependency in &lrp.cached_dependencies {
        let CachedDependency { name, from, to, cache_key, checksum_algorithm, checksum_value, .. } = dependency;
        out += &format!("cached {name} {from} -> {to} key={cache_key} sum={checksum_algorithm}/{checksum_value}\n");
    }
    out += &format!("layers {}\n", lrp.image_layers.len());
    out += &format!("setup {}\n", lrp.setup.as_ref().map_or("-".into(), show));
    out += &format!("start timeout {} ms, {} s\n", lrp.start_timeout_ms, lrp.deprecated_start_timeout_s);
    out
}

fn run(path: &str) -> Action {
    Action { run_action: Some(RunAction { path: path.into(), ..Default::default() }), ..Default::default() }
}

fn timeout(ms: i64, inner: Action) -> Action {
    let timeout = TimeoutAction { action: Some(Box::new(inner)), timeout_ms: ms, ..Default::default() };
    Action { timeout_action: Some(Box::new(timeout)), ..Default::default() }
}

fn attempt(inner: Action) -> Action {
    let attempt = TryAction { action: Some(Box::new(inner)), ..Default::default() };
    Action { try_action: Some(Box::new(attempt)), ..Default::default() }
}

fn emit_progress(inner: Action) -> Action {
    let progress = EmitProgressAction { action: Some(Box::new(inner)), ..Default::default() };
    Action { emit_progress_action: Some(Box::new(progress)), ..Default::default() }
}

fn layer(name: &str, layer_type: Type, digest: Option<(DigestAlgorithm, &str)>) -> ImageLayer {
    let (algorithm, value) = digest.unwrap_or((DigestAlgorithm::Invalid, ""));
    ImageLayer {
        name: name.into(),
        url: format!("http://{name}"),
        destination_path: format!("/{name}"),
        layer_type: layer_type.into(),
        digest_algorithm: algorithm.into(),
        digest_value: value.into(),
        ..Default::default()
    }
}

fn worked_example() -> DesiredLrp {
    DesiredLrp {
        image_layers: vec![
            layer("s", Type::Shared, None),
            layer("s2", Type::Shared, Some((DigestAlgorithm::Sha256, "abc"))),
            layer("e", Type::Exclusive, Some((DigestAlgorithm::Sha512, "def"))),
        ],
        cached_dependencies: vec![CachedDependency {
            name: "c".into(),
            from: "http://c".into(),
            to: "/c".into(),
            cache_key: "ckey".into(),
            checksum_algorithm: "md5".into(),
            checksum_value: "123".into(),
            ..Default::default()
        }],
        setup: Some(attempt(timeout(5000, run("r")))),
        legacy_download_user: "vcap".into(),
        start_timeout_ms: 61_999,
        ..Default::default()
    }
}

fn check(lrp: &DesiredLrp, expected: &Expect) {
    expected.assert_eq(&show_lrp(lrp));
}

#[test]
fn the_worked_example_in_v2() {
    check(
        &desired_lrp_v3_to_v2(worked_example()),
        &expect![[r#"
            cached s http://s -> /s key=http://s sum=/
            cached s2 http://s2 -> /s2 key=sha256:abc sum=sha256/abc
            cached c http://c -> /c key=ckey sum=md5/123
            layers 0
            setup serial[parallel[download(e http://e -> /e key=sha512:def user=vcap sum=sha512/def)], try(timeout(5000ms 0ns run(r)))]
            start timeout 61999 ms, 0 s
        "#]],
    );
}

#[test]
fn the_worked_example_in_v1() {
    check(
        &desired_lrp_v3_to_v1(worked_example()),
        &expect![[r#"
        cached s http://s -> /s key=http://s sum=/
        cached s2 http://s2 -> /s2 key=sha256:abc sum=sha256/abc
        cached c http://c -> /c key=ckey sum=md5/123
        layers 0
        setup serial[parallel[download(e http://e -> /e key=sha512:def user=vcap sum=sha512/def)], try(timeout(5000ms 5000000000ns run(r)))]
        start timeout 61999 ms, 61 s
    "#]],
    );
}

/// As in the description, except that the `try` stays; see the header of the module.
#[test]
fn the_worked_example_in_v0() {
    check(
        &desired_lrp_v3_to_v0(worked_example()),
        &expect![[r#"
            layers 0
            setup serial[parallel[download(s http://s -> /s key=http://s user=vcap sum=/), download(s2 http://s2 -> /s2 key=sha256:abc user=vcap sum=/), download(c http://c -> /c key=ckey user=vcap sum=/)], serial[parallel[download(e http://e -> /e key=sha512:def user=vcap sum=sha512/def)], try(timeout(5000ms 5000000000ns run(r)))]]
            start timeout 61999 ms, 61 s
        "#]],
    );
}

#[test]
fn nothing_is_invented_where_there_is_nothing_to_convert() {
    assert_eq!(desired_lrp_v3_to_v0(DesiredLrp::default()), DesiredLrp::default());
    let plain = DesiredLrp { setup: Some(run("r")), ..Default::default() };
    assert_eq!(desired_lrp_v3_to_v0(plain.clone()), plain);
}

#[test]
fn without_a_setup_the_downloads_stand_alone_in_v2_and_in_a_serial_in_v0() {
    let lrp = DesiredLrp { setup: None, image_layers: worked_example().image_layers, ..worked_example() };
    check(
        &desired_lrp_v3_to_v2(DesiredLrp { cached_dependencies: vec![], ..lrp }),
        &expect![[r#"
            cached s http://s -> /s key=http://s sum=/
            cached s2 http://s2 -> /s2 key=sha256:abc sum=sha256/abc
            layers 0
            setup parallel[download(e http://e -> /e key=sha512:def user=vcap sum=sha512/def)]
            start timeout 61999 ms, 0 s
        "#]],
    );
    let only_cached = DesiredLrp { setup: None, image_layers: vec![], ..worked_example() };
    check(
        &desired_lrp_v3_to_v0(only_cached),
        &expect![[r#"
            layers 0
            setup serial[parallel[download(c http://c -> /c key=ckey user=vcap sum=/)]]
            start timeout 61999 ms, 61 s
        "#]],
    );
}

#[test]
fn timeouts_are_filled_through_every_wrapper_but_not_inside_a_timeout() {
    let action =
        serial(vec![emit_progress(timeout(1, run("a"))), attempt(serial(vec![timeout(2, timeout(3, run("b")))]))]);
    let lrp = DesiredLrp { action: Some(action.clone()), monitor: Some(action), ..Default::default() };
    let old = desired_lrp_v3_to_v0(lrp);
    let expected = "serial[emit_progress(timeout(1ms 1000000ns run(a))), try(serial[timeout(2ms 2000000ns timeout(3ms 0ns run(b)))])]";
    assert_eq!(show(old.action.as_ref().unwrap()), expected);
    assert_eq!(show(old.monitor.as_ref().unwrap()), expected);
}

#[test]
fn start_timeout_is_cut_before_it_is_divided() {
    let seconds =
        |ms| desired_lrp_v3_to_v0(DesiredLrp { start_timeout_ms: ms, ..Default::default() }).deprecated_start_timeout_s;
    assert_eq!((seconds(999), seconds(60_000), seconds(4_294_967_296 + 2000)), (0, 60, 2));
}

fn task() -> Task {
    let lrp = worked_example();
    let definition = TaskDefinition {
        image_layers: lrp.image_layers,
        cached_dependencies: lrp.cached_dependencies,
        action: Some(attempt(timeout(5000, run("t")))),
        legacy_download_user: "vcap".into(),
        ..Default::default()
    };
    Task { task_definition: Some(definition), ..Default::default() }
}

fn show_task(task: Task) -> String {
    let definition = task.task_definition.unwrap();
    let names: Vec<_> = definition.cached_dependencies.iter().map(|it| it.name.as_str()).collect();
    let action = definition.action.as_ref().map_or("-".into(), show);
    format!("cached {names:?} layers {}\naction {action}\n", definition.image_layers.len())
}

#[test]
fn in_a_task_the_action_takes_the_place_of_the_setup() {
    expect![[r#"
        cached ["s", "s2", "c"] layers 0
        action serial[parallel[download(e http://e -> /e key=sha512:def user=vcap sum=sha512/def)], try(timeout(5000ms 0ns run(t)))]
    "#]].assert_eq(&show_task(task_v3_to_v2(task())));
    expect![[r#"
        cached ["s", "s2", "c"] layers 0
        action serial[parallel[download(e http://e -> /e key=sha512:def user=vcap sum=sha512/def)], try(timeout(5000ms 5000000000ns run(t)))]
    "#]].assert_eq(&show_task(task_v3_to_v1(task())));
    expect![[r#"
        cached [] layers 0
        action serial[parallel[download(s http://s -> /s key=http://s user=vcap sum=/), download(s2 http://s2 -> /s2 key=sha256:abc user=vcap sum=/), download(c http://c -> /c key=ckey user=vcap sum=/)], serial[parallel[download(e http://e -> /e key=sha512:def user=vcap sum=sha512/def)], try(timeout(5000ms 5000000000ns run(t)))]]
    "#]].assert_eq(&show_task(task_v3_to_v0(task())));
}

#[test]
fn a_task_without_a_definition_gets_an_empty_one() {
    for convert in [task_v3_to_v2, task_v3_to_v1, task_v3_to_v0] {
        assert_eq!(convert(Task::default()).task_definition, Some(TaskDefinition::default()));
    }
}
