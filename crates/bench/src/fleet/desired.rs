//! One application as Cloud Controller would describe it, with the fields that make a DesiredLRP as large as it is, and a
//! task of one.
//!
//! Secrets in it are noise. What matters to a server is present: an action tree, routes as JSON, environment, egress
//! rules, metric tags, a start timeout and a health check.

use std::collections::BTreeMap;

use api::models::{
    Action, CachedDependency, CertificateProperties, Check, CheckDefinition, CodependentAction, DesiredLrp,
    EnvironmentVariable, HttpCheck, ImageLayer, LogRateLimit, MetricTagValue, Network, ParallelAction, PortRange,
    ProtoRoutes, ResourceLimits, RunAction, SecurityGroupRule, TaskDefinition, TimeoutAction,
};
use serde_json::json;

use super::DOMAIN;
use crate::noise::Noise;

const SEED_APPLICATION: u64 = 0x4150_504c;
/// So many bytes of environment and action make a DesiredLRP of 4.3 KB.
const SERVICES_BYTES: usize = 650;
/// The key of the SSH route, which is most of a scheduling info in reality too.
const SSH_KEY_BYTES: usize = 201;

const TAG_INDEX: i32 = 1;
const TAG_INSTANCE_GUID: i32 = 2;

/// What belongs to the application and not to one version of it.
struct Application {
    guid: String,
    space: String,
    organization: String,
    name: String,
}

impl Application {
    fn of(lrp: u64) -> Self {
        let mut noise = Noise::new(SEED_APPLICATION ^ lrp);
        let mut owner = Noise::new(SEED_APPLICATION ^ (lrp / 40) << 32);
        Self { guid: noise.guid(), space: owner.guid(), organization: owner.guid(), name: format!("app-{lrp}") }
    }

    fn tags(&self) -> BTreeMap<String, String> {
        let pairs = [
            ("source_id", self.guid.as_str()),
            ("app_id", &self.guid),
            ("app_name", &self.name),
            ("space_id", &self.space),
            ("space_name", "production-eu-central"),
            ("organization_id", &self.organization),
            ("organization_name", "acme-retail"),
            ("process_id", &self.guid),
            ("process_type", "web"),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

pub(super) fn lrp(number: u64, process_guid: &str, instances: i32) -> DesiredLrp {
    let application = Application::of(number);
    let mut noise = Noise::new(SEED_APPLICATION ^ number << 20);
    let fixed = |value: String| MetricTagValue { r#static: value, dynamic: 0 };
    let dynamic = |dynamic| MetricTagValue { r#static: String::new(), dynamic };
    let mut metric_tags: BTreeMap<_, _> =
        application.tags().into_iter().map(|(name, value)| (name, fixed(value))).collect();
    metric_tags.insert("instance_id".into(), dynamic(TAG_INDEX));
    metric_tags.insert("process_instance_id".into(), dynamic(TAG_INSTANCE_GUID));
    DesiredLrp {
        process_guid: process_guid.to_owned(),
        domain: DOMAIN.into(),
        root_fs: "preloaded:cflinuxfs4".into(),
        instances,
        environment_variables: vec![variable("LANG", "en_US.UTF-8")],
        action: Some(action(&application, &mut noise)),
        monitor: Some(monitor()),
        start_timeout_ms: 60_000,
        disk_mb: 1_024,
        memory_mb: 512,
        cpu_weight: 6,
        ports: vec![8080],
        routes: Some(routes(&application, &mut noise)),
        log_source: "CELL".into(),
        log_guid: application.guid.clone(),
        metrics_guid: application.guid.clone(),
        annotation: "1718200000.1234567".into(),
        egress_rules: egress_rules(),
        cached_dependencies: vec![cached_dependency()],
        legacy_download_user: "vcap".into(),
        trusted_system_certificates_path: "/etc/cf-system-certificates".into(),
        network: Some(network(&application)),
        max_pids: 1_024,
        certificate_properties: Some(CertificateProperties {
            organizational_unit: vec![
                format!("organization:{}", application.organization),
                format!("space:{}", application.space),
                format!("app:{}", application.guid),
            ],
        }),
        check_definition: Some(health_check()),
        image_layers: vec![droplet(&application, &mut noise)],
        metric_tags,
        log_rate_limit: Some(LogRateLimit { bytes_per_second: 1_048_576 }),
        ..Default::default()
    }
}

/// A task of an application: the same droplet, another command.
pub(super) fn task(number: u64) -> TaskDefinition {
    let application = Application::of(number);
    let mut noise = Noise::new(SEED_APPLICATION ^ number << 24);
    TaskDefinition {
        root_fs: "preloaded:cflinuxfs4".into(),
        environment_variables: vec![variable("LANG", "en_US.UTF-8")],
        action: Some(action(&application, &mut noise)),
        disk_mb: 1_024,
        memory_mb: 512,
        log_source: "APP/TASK/migrate".into(),
        log_guid: application.guid.clone(),
        metrics_guid: application.guid.clone(),
        completion_callback_url: "https://cloud-controller-ng.service.cf.internal:9023/internal/v4/tasks".into(),
        egress_rules: egress_rules(),
        cached_dependencies: vec![cached_dependency()],
        legacy_download_user: "vcap".into(),
        trusted_system_certificates_path: "/etc/cf-system-certificates".into(),
        network: Some(network(&application)),
        max_pids: 1_024,
        image_layers: vec![droplet(&application, &mut noise)],
        log_rate_limit: Some(LogRateLimit { bytes_per_second: 1_048_576 }),
        ..Default::default()
    }
}

/// The tags of a running instance: what was dynamic has its value.
pub(super) fn resolved_tags(lrp: u64, index: i32, instance_guid: &str) -> BTreeMap<String, String> {
    let mut tags = Application::of(lrp).tags();
    tags.insert("instance_id".into(), index.to_string());
    tags.insert("process_instance_id".into(), instance_guid.to_owned());
    tags
}

fn variable(name: &str, value: impl Into<String>) -> EnvironmentVariable {
    EnvironmentVariable { name: name.into(), value: value.into() }
}

fn run(path: &str, args: &[&str], env: Vec<EnvironmentVariable>) -> Action {
    let run = RunAction {
        path: path.into(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env,
        resource_limits: Some(ResourceLimits { nofile: Some(16_384), nproc: None }),
        user: "vcap".into(),
        log_source: "APP/PROC/WEB".into(),
        ..Default::default()
    };
    Action { run_action: Some(run), ..Default::default() }
}

/// The application and its SSH daemon side by side.
fn action(application: &Application, noise: &mut Noise) -> Action {
    let about = json!({
        "application_id": application.guid, "application_name": application.name, "cf_api": "https://api.example.com",
        "limits": { "fds": 16_384, "mem": 512, "disk": 1_024 }, "space_id": application.space,
        "space_name": "production", "organization_id": application.organization, "organization_name": "acme",
    });
    let services = json!({
        "postgres": [{ "name": "db", "plan": "small", "credentials": { "uri": noise.text(SERVICES_BYTES) } }],
    });
    let env = vec![
        variable("VCAP_APPLICATION", about.to_string()),
        variable("VCAP_SERVICES", services.to_string()),
        variable("MEMORY_LIMIT", "512m"),
        variable("CF_STACK", "cflinuxfs4"),
        variable("PORT", "8080"),
        variable("VCAP_APP_PORT", "8080"),
        variable("VCAP_APP_HOST", "0.0.0.0"),
    ];
    let command = "JAVA_OPTS=\"-Djava.io.tmpdir=$TMPDIR\" exec ./bin/server --port $PORT";
    let server = run("/tmp/lifecycle/launcher", &["app", command, "{\"start_command\":\"web\"}"], env);
    let shell = run(
        "/tmp/lifecycle/diego-sshd",
        &["-address=0.0.0.0:2222", "-inheritDaemonEnv", "-logLevel=fatal"],
        vec![variable("PORT", "8080"), variable("VCAP_APP_PORT", "8080"), variable("VCAP_APP_HOST", "0.0.0.0")],
    );
    let codependent = CodependentAction { actions: vec![server, shell], log_source: String::new() };
    Action { codependent_action: Some(codependent), ..Default::default() }
}

fn monitor() -> Action {
    let port = run("/tmp/lifecycle/healthcheck", &["-port=8080"], Vec::new());
    let shell = run("/tmp/lifecycle/healthcheck", &["-port=2222"], Vec::new());
    let parallel = ParallelAction { actions: vec![port, shell], log_source: "HEALTH".into() };
    let both = Action { parallel_action: Some(parallel), ..Default::default() };
    let timeout = TimeoutAction { action: Some(Box::new(both)), timeout_ms: 60_000, ..Default::default() };
    Action { timeout_action: Some(Box::new(timeout)), ..Default::default() }
}

fn routes(application: &Application, noise: &mut Noise) -> ProtoRoutes {
    let name = &application.name;
    let router = json!([
        { "hostnames": [format!("{name}.apps.example.com")], "port": 8080, "route_service_url": null,
          "isolation_segment": null, "protocol": "http1" },
        { "hostnames": [format!("{name}.example.com"), format!("www.{name}.example.com")], "port": 8080,
          "route_service_url": null, "isolation_segment": null, "protocol": "http1" },
    ]);
    let shell = json!({
        "container_port": 2222, "host_fingerprint": noise.text(43), "private_key": noise.text(SSH_KEY_BYTES),
    });
    let internal = json!([{ "hostname": format!("{name}.apps.internal") }]);
    let routes =
        [("cf-router", router), ("diego-ssh", shell), ("internal-router", internal), ("tcp-router", json!([]))];
    ProtoRoutes {
        routes: routes.into_iter().map(|(name, value)| (name.to_owned(), value.to_string().into_bytes())).collect(),
    }
}

fn egress_rules() -> Vec<SecurityGroupRule> {
    let rule = |protocol: &str, destination: &str| SecurityGroupRule {
        protocol: protocol.into(),
        destinations: vec![destination.into()],
        ..Default::default()
    };
    let open = [
        "0.0.0.0-9.255.255.255",
        "11.0.0.0-169.253.255.255",
        "169.255.0.0-172.15.255.255",
        "172.32.0.0-192.167.255.255",
        "192.169.0.0-255.255.255.255",
    ];
    let mut rules: Vec<_> = open.iter().map(|destination| rule("all", destination)).collect();
    for protocol in ["tcp", "udp"] {
        rules.push(SecurityGroupRule { ports: vec![53], ..rule(protocol, "0.0.0.0/0") });
    }
    let services = Some(PortRange { start: 5_432, end: 5_434 });
    rules.push(SecurityGroupRule { port_range: services, log: true, ..rule("tcp", "10.0.32.0/20") });
    rules
}

fn cached_dependency() -> CachedDependency {
    CachedDependency {
        name: "lifecycle".into(),
        from: "https://file-server.service.cf.internal:8447/v1/static/buildpack_app_lifecycle/lifecycle.tgz".into(),
        to: "/tmp/lifecycle".into(),
        cache_key: "buildpack-cflinuxfs4-lifecycle".into(),
        ..Default::default()
    }
}

fn droplet(application: &Application, noise: &mut Noise) -> ImageLayer {
    let url = format!(
        "https://cloud-controller-ng.service.cf.internal:9023/internal/v4/droplets/{}/{}/download",
        application.guid,
        noise.text(40)
    );
    ImageLayer {
        name: "droplet".into(),
        url,
        destination_path: "/home/vcap".into(),
        layer_type: 2,
        media_type: 1,
        digest_algorithm: 1,
        digest_value: noise.text(64),
    }
}

fn network(application: &Application) -> Network {
    let mut properties: BTreeMap<_, _> = application.tags();
    properties.retain(|name, _| matches!(name.as_str(), "app_id" | "space_id" | "organization_id"));
    properties.insert("policy_group_id".into(), application.guid.clone());
    properties.insert("ports".into(), "8080".into());
    properties.insert("container_workload".into(), "app".into());
    Network { properties }
}

fn health_check() -> CheckDefinition {
    let http = HttpCheck { port: 8080, request_timeout_ms: 1_000, path: "/health".into(), interval_ms: 30_000 };
    CheckDefinition {
        checks: vec![Check { http_check: Some(http), ..Default::default() }],
        log_source: "HEALTH".into(),
        ..Default::default()
    }
}
