//! Desired LRPs in two halves, the mutable and the immutable, and whole again.
//!
//! The tag of an LRP counts the changes of both halves and is in the immutable one, like everything that the mutable half does
//! not name. Nothing is filled with defaults here: a new field of `DesiredLRP` does not compile until it has its place.

use crate::models::{CreateDesiredLrpRequest, DesiredLrp, ImmutableDesiredLrp, MutableDesiredLrp, ProtoRoutes};

/// What may change while a process runs.
pub fn mutable_half(lrp: &model::DesiredLrp) -> MutableDesiredLrp {
    let routes = lrp.routes.iter().map(|(name, json)| (name.to_owned(), json.to_vec()));
    MutableDesiredLrp {
        process_guid: lrp.process_guid.to_string(),
        instances: lrp.instances,
        routes: Some(ProtoRoutes { routes: routes.collect() }),
        annotation: lrp.annotation.clone(),
    }
}

macro_rules! immutable {
    ($($field:ident),* $(,)?) => {
        /// Everything else.
        pub fn immutable_half(lrp: DesiredLrp) -> ImmutableDesiredLrp {
            ImmutableDesiredLrp { process_guid: lrp.process_guid, $($field: lrp.$field,)* }
        }

        /// The whole LRP. That both halves are there and name the same process is for validation to see.
        pub fn joined(request: CreateDesiredLrpRequest) -> DesiredLrp {
            let mutable = request.mutable_desired_lrp.unwrap_or_default();
            let immutable = request.immutable_desired_lrp.unwrap_or_default();
            DesiredLrp {
                process_guid: mutable.process_guid,
                instances: mutable.instances,
                routes: mutable.routes,
                annotation: mutable.annotation,
                $($field: immutable.$field,)*
                // What the server says about definitions is in neither half.
                ..DesiredLrp::default()
            }
        }
    };
}

immutable! {
    domain, root_fs, environment_variables, setup, action, start_timeout_ms, deprecated_start_timeout_s, monitor, disk_mb,
    memory_mb, cpu_weight, privileged, ports, log_source, log_guid, metrics_guid, egress_rules, modification_tag,
    cached_dependencies, legacy_download_user, trusted_system_certificates_path, volume_mounts, network, placement_tags,
    max_pids, certificate_properties, image_username, image_password, check_definition, image_layers, metric_tags, sidecars,
    log_rate_limit, volume_mounted_files, update_strategy,
}
