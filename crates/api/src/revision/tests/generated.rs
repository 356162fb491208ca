//! The conversions on whatever can be sent.

use prop::collection::vec;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::models::{CodependentAction, DesireTaskRequest, DownloadAction, ParallelAction, ProtoRoutes};
use crate::revision::volume_mounts::Retired;
use crate::validate::check as validated;

/// Deeper than any client nests, and far from the limit of decoding.
const DEPTH_MAX: u32 = 6;

/// Trees of actions. What a timeout says is drawn from `timeout`, so that the same trees can be wild or valid.
fn tree(timeout: BoxedStrategy<(i64, i64)>) -> BoxedStrategy<Action> {
    let user = || "vcap".to_owned();
    let run = RunAction { path: "/bin/true".into(), user: user(), ..Default::default() };
    let download = DownloadAction { from: "http://x".into(), to: "/x".into(), user: user(), ..Default::default() };
    let leaf = prop_oneof![
        Just(Action { run_action: Some(run), ..Default::default() }),
        Just(Action { download_action: Some(download), ..Default::default() }),
    ];
    leaf.prop_recursive(DEPTH_MAX, 24, 3, move |inner| {
        let timed = (inner.clone(), timeout.clone()).prop_map(|(action, (timeout_ms, deprecated_timeout_ns))| {
            let action = Some(Box::new(action));
            let timeout = TimeoutAction { action, timeout_ms, deprecated_timeout_ns, ..Default::default() };
            Action { timeout_action: Some(Box::new(timeout)), ..Default::default() }
        });
        let list = vec(inner.clone(), 1..4);
        prop_oneof![
            3 => timed,
            1 => inner.clone().prop_map(attempt),
            1 => inner.prop_map(emit_progress),
            1 => list.clone().prop_map(serial),
            1 => list.clone().prop_map(|actions| Action {
                parallel_action: Some(ParallelAction { actions, ..Default::default() }), ..Default::default()
            }),
            1 => list.prop_map(|actions| Action {
                codependent_action: Some(CodependentAction { actions, ..Default::default() }), ..Default::default()
            }),
        ]
    })
    .boxed()
}

fn wild() -> impl Strategy<Value = Option<Action>> {
    prop::option::of(tree(any::<(i64, i64)>().boxed()))
}

prop_compose! {
    fn any_layer()(
        (name, url, destination_path, digest_value) in ("\\PC{0,5}", "\\PC{0,5}", "\\PC{0,5}", "\\PC{0,5}"),
        [digest_algorithm, media_type, layer_type] in any::<[i8; 3]>(),
        known in 0_i32..3,
    ) -> ImageLayer {
        let layer_type = if known == 0 { i32::from(layer_type) } else { known };
        let (digest_algorithm, media_type) = (digest_algorithm.into(), media_type.into());
        ImageLayer { name, url, destination_path, digest_algorithm, digest_value, media_type, layer_type }
    }
}

fn dependency() -> impl Strategy<Value = CachedDependency> {
    ("[a-z]{1,5}", "[a-z]{1,5}", "[a-z]{0,5}", "[a-z]{0,5}").prop_map(|(from, to, name, log_source)| CachedDependency {
        name,
        from,
        to,
        log_source,
        ..Default::default()
    })
}

prop_compose! {
    fn any_lrp()(
        image_layers in vec(any_layer(), 0..4),
        cached_dependencies in vec(dependency(), 0..3),
        (setup, action, monitor) in (wild(), wild(), wild()),
        (legacy_download_user, annotation, process_guid) in ("[a-z]{0,3}", "\\PC{0,9}", "\\PC{0,9}"),
        (start_timeout_ms, deprecated_start_timeout_s, instances) in any::<(i64, u32, i32)>(),
        routes in prop::option::of(Just(ProtoRoutes { routes: [("r".to_owned(), b"1".to_vec())].into() })),
    ) -> DesiredLrp {
        DesiredLrp {
            image_layers, cached_dependencies, setup, action, monitor, legacy_download_user, annotation, process_guid,
            start_timeout_ms, deprecated_start_timeout_s, instances, routes, ..Default::default()
        }
    }
}

fn as_task(lrp: &DesiredLrp) -> Task {
    let definition = TaskDefinition {
        image_layers: lrp.image_layers.clone(),
        cached_dependencies: lrp.cached_dependencies.clone(),
        action: lrp.action.clone(),
        legacy_download_user: lrp.legacy_download_user.clone(),
        ..Default::default()
    };
    Task { task_definition: Some(definition), ..Default::default() }
}

prop_compose! {
    /// What a client of the oldest revision could desire: valid then, so valid now.
    fn old_lrp()(
        (action, setup, monitor) in {
            let old = || tree((Just(0_i64), 1..i64::MAX).boxed());
            (old(), prop::option::of(old()), prop::option::of(old()))
        },
        cached_dependencies in vec(dependency(), 0..3),
        (metrics_guid, log_guid) in ("[a-z]{0,3}", "[a-z]{0,3}"),
        deprecated_start_timeout_s in any::<u32>(),
    ) -> DesiredLrp {
        DesiredLrp {
            process_guid: "p".into(),
            domain: "d".into(),
            root_fs: "preloaded:cflinuxfs2".into(),
            instances: 1,
            legacy_download_user: "vcap".into(),
            action: Some(action),
            setup, monitor, cached_dependencies, metrics_guid, log_guid, deprecated_start_timeout_s,
            ..Default::default()
        }
    }
}

fn old_mounts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let mount = ("[a-z]{1,5}", "[a-z]{1,5}", any::<i32>(), vec(any::<u8>(), 0..9)).prop_map(
        |(driver, volume_id, mode, config)| {
            up::old_mount(&driver, &Retired { volume_id: volume_id.into_bytes(), mode, config })
        },
    );
    vec(mount, 0..3)
}

fn without_layers(lrp: &DesiredLrp) -> bool {
    lrp.image_layers.is_empty()
}

proptest! {
    #[test]
    fn the_way_down_never_panics_and_leaves_nothing_newer(lrp in any_lrp()) {
        let [v2, v1, v0] = [desired_lrp_v3_to_v2, desired_lrp_v3_to_v1, desired_lrp_v3_to_v0].map(|to| to(lrp.clone()));
        prop_assert!([&v2, &v1, &v0].into_iter().all(without_layers));
        prop_assert!(v0.cached_dependencies.is_empty());
        prop_assert_eq!(&v1.cached_dependencies, &v2.cached_dependencies);
        // Converting again changes nothing.
        prop_assert_eq!(&desired_lrp_v3_to_v2(v2.clone()), &v2);
        prop_assert_eq!(&desired_lrp_v3_to_v0(v0.clone()), &v0);
        // What no conversion is about is left alone.
        for old in [&v2, &v1, &v0] {
            prop_assert_eq!((&old.annotation, old.start_timeout_ms), (&lrp.annotation, lrp.start_timeout_ms));
        }
        for to in [task_v3_to_v2, task_v3_to_v1, task_v3_to_v0] {
            let definition = to(as_task(&lrp)).task_definition.unwrap();
            prop_assert!(definition.image_layers.is_empty());
        }
        prop_assert!(task_v3_to_v0(as_task(&lrp)).task_definition.unwrap().cached_dependencies.is_empty());
    }

    #[test]
    fn the_way_up_never_panics(lrp in any_lrp(), mounts in old_mounts(), bytes in vec(any::<u8>(), 0..100)) {
        for body in [up::request(&lrp, 25, &mounts), up::request(&lrp, 25, std::slice::from_ref(&bytes)), bytes] {
            let _ = (desire_lrp_r0(&body), desire_lrp_r1(&body), desire_task_r0(&body), desire_task_r1(&body));
        }
    }

    #[test]
    fn what_an_old_client_could_desire_is_accepted(lrp in old_lrp(), mounts in old_mounts()) {
        let mut request = desire_lrp_r0(&up::request(&lrp, 25, &mounts)).unwrap();
        name_metrics_source(request.desired_lrp.as_mut().unwrap());
        prop_assert_eq!(validated(&request), Ok(()));

        // A client of the first revision says the same in milliseconds.
        let newer = request.desired_lrp.clone().unwrap();
        let (action, setup, monitor) = (newer.action, newer.setup, newer.monitor);
        let lrp = DesiredLrp { action, setup, monitor, ..lrp };
        let mut request = desire_lrp_r1(&up::request(&lrp, 25, &mounts)).unwrap();
        name_metrics_source(request.desired_lrp.as_mut().unwrap());
        prop_assert_eq!(validated(&request), Ok(()));
    }

    #[test]
    fn what_an_old_client_could_ask_of_a_task_is_accepted(lrp in old_lrp(), mounts in old_mounts()) {
        let definition = TaskDefinition { root_fs: lrp.root_fs.clone(), ..as_task(&lrp).task_definition.unwrap() };
        let names = DesireTaskRequest { task_definition: None, task_guid: "t".into(), domain: "d".into() };
        let body = [up::request(&definition, 18, &mounts), names.encode_to_vec()].concat();
        prop_assert_eq!(validated(&desire_task_r0(&body).unwrap()), Ok(()));
    }

    /// An old client that reads what it wrote finds its timeouts where it put them.
    #[test]
    fn times_come_back_in_whole_milliseconds(lrp in old_lrp()) {
        let desired = desire_lrp_r0(&up::request(&lrp, 25, &[])).unwrap().desired_lrp.unwrap();
        let desired = DesiredLrp { cached_dependencies: vec![], ..desired };
        let read = desired_lrp_v3_to_v0(desired.clone());
        let outermost = |action: &Option<Action>| action.as_ref()?.timeout_action.as_ref().map(|it| it.deprecated_timeout_ns);
        let (sent, back) = (outermost(&lrp.action), outermost(&read.action));
        prop_assert_eq!(back, sent.map(|ns| (ns / 1_000_000).max(1) * 1_000_000));
        prop_assert_eq!(desired.start_timeout_ms, i64::from(lrp.deprecated_start_timeout_s) * 1000);
    }

    #[test]
    fn two_halves_make_the_whole(lrp in any_lrp()) {
        prop_assert_eq!(joined(super::halves::halves_of(lrp.clone())), lrp);
    }

    #[test]
    fn whatever_is_desired_has_a_metrics_source(lrp in any_lrp()) {
        let mut named = lrp.clone();
        name_metrics_source(&mut named);
        prop_assert_eq!(named.metric_tags.is_empty(), lrp.process_guid.is_empty());
    }
}
