//! The desired LRP of an app, and what of it is different from the one that runs.

use api::models::{
    Action, Check, CheckDefinition, DesiredLrp, EnvironmentVariable, HttpCheck, MetricTagValue, ProtoRoutes, RunAction,
    TcpCheck,
};
use api::registry::routes::{CF_ROUTER, CfRoute};

use super::{DOMAIN, RunApp};
use crate::failure::CommandError;

/// What the app calls its port. Which one it really is, the cell says in `PORT`.
const PORT: u16 = 8080;
/// What an app may take until it is healthy.
const START_TIMEOUT_MS: i64 = 60_000;

/// Fields that only new instances get, and how their owner knows them.
const DEFINED: &[(&str, &str)] = &[
    ("action", "the command or --user"),
    ("env", "--env"),
    ("rootfs", "--rootfs"),
    ("memory_mb", "--memory"),
    ("disk_mb", "--disk"),
    ("check_definition", "the health check"),
    ("ports", "whether it has a route"),
];

pub(super) fn desired(name: &str, domain: &str, args: &RunApp, command: Vec<String>) -> DesiredLrp {
    let mut words = command.into_iter();
    let run = RunAction {
        path: words.next().unwrap_or_default(),
        args: words.collect(),
        user: args.user.clone(),
        ..RunAction::default()
    };
    let has_port = !args.route.is_empty();
    let variable = |(name, value): &(String, String)| EnvironmentVariable { name: name.clone(), value: value.clone() };
    let tag = MetricTagValue { r#static: name.to_owned(), ..MetricTagValue::default() };
    DesiredLrp {
        process_guid: name.to_owned(),
        domain: domain.to_owned(),
        root_fs: args.rootfs.clone(),
        instances: args.instances,
        memory_mb: args.memory,
        disk_mb: args.disk,
        environment_variables: args.env.iter().map(variable).collect(),
        action: Some(Action { run_action: Some(run), ..Action::default() }),
        check_definition: (has_port && !args.no_health_check).then(|| check(args.health_path.as_deref())),
        start_timeout_ms: START_TIMEOUT_MS,
        ports: has_port.then_some(u32::from(PORT)).into_iter().collect(),
        routes: Some(routes(&args.route)),
        log_guid: name.to_owned(),
        log_source: "APP".to_owned(),
        metric_tags: [("source_id".to_owned(), tag)].into_iter().collect(),
        ..DesiredLrp::default()
    }
}

fn check(path: Option<&str>) -> CheckDefinition {
    let port = u32::from(PORT);
    let check = match path {
        Some(path) => Check {
            http_check: Some(HttpCheck { port, path: path.to_owned(), ..HttpCheck::default() }),
            ..Check::default()
        },
        None => Check { tcp_check: Some(TcpCheck { port, ..TcpCheck::default() }), ..Check::default() },
    };
    CheckDefinition { checks: vec![check], log_source: "HEALTH".to_owned(), ..CheckDefinition::default() }
}

fn routes(hostnames: &[String]) -> ProtoRoutes {
    let route = CfRoute { hostnames: hostnames.to_vec(), port: PORT.into(), ..CfRoute::default() };
    let routes: Vec<CfRoute> = if hostnames.is_empty() { Vec::new() } else { vec![route] };
    let value = serde_json::to_vec(&routes).unwrap_or_default();
    ProtoRoutes { routes: [(CF_ROUTER.to_owned(), value)].into_iter().collect() }
}

/// What takes new instances, in the words of the command line; instances and routes are changed without.
pub(super) fn redefined(known: &DesiredLrp, wanted: &DesiredLrp) -> Vec<&'static str> {
    let fields = |lrp: &DesiredLrp| serde_json::from_str(&api::json::to_string(lrp)).unwrap_or(serde_json::Value::Null);
    let (before, after): (serde_json::Value, serde_json::Value) = (fields(known), fields(wanted));
    DEFINED.iter().filter(|(field, _)| before.get(field) != after.get(field)).map(|(_, words)| *words).collect()
}

/// A name that none of the definitions has.
pub(super) fn next_identifier(kept: &[DesiredLrp]) -> String {
    let last = kept.iter().map(|lrp| lrp.definition_number.max(1)).max().unwrap_or(1);
    let is_free = |name: &String| kept.iter().all(|lrp| lrp.definition_identifier != *name);
    let mut names = (last.saturating_add(1)..).map(|number| format!("v{number}"));
    names.find(is_free).unwrap_or_default()
}

/// Apps of others are left alone, since nobody knows what else belongs to them.
pub(super) fn check_ours(known: &DesiredLrp) -> Result<(), CommandError> {
    if known.domain == DOMAIN {
        return Ok(());
    }
    let (name, domain) = (&known.process_guid, &known.domain);
    Err(CommandError::Usage(format!(
        "{name} is somebody else's: its domain is {domain}, and this command is for those of {DOMAIN}. Nothing was changed. \
         `corkboard update-desired-lrp` and `corkboard delete-desired-lrp` change any"
    )))
}

#[cfg(test)]
mod tests {
    use api::models::DesireLrpRequest;
    use clap::Parser as _;
    use expect_test::expect;

    use super::*;

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        app: RunApp,
    }

    fn lrp(flags: &str) -> DesiredLrp {
        let app = Alone::parse_from(std::iter::once("run-app").chain(flags.split(' '))).app;
        let command = app.command.clone();
        desired("hello", DOMAIN, &app, command)
    }

    #[test]
    fn what_is_desired_is_valid() {
        let check = |flags: &str| {
            let desired_lrp = lrp(flags);
            let shown = api::json::to_string(&desired_lrp);
            api::validate::check(&DesireLrpRequest { desired_lrp: Some(desired_lrp) }).unwrap();
            shown
        };
        check("--route hello.local --health-path /healthz -- /bin/app");
        check("--name hello --no-health-check --instances 0 -- /bin/app");
        expect![[r#"{"process_guid":"hello","domain":"corkboard-apps","rootfs":"preloaded:cflinuxfs4","instances":1,"env":[{"name":"A","value":"b"}],"action":{"run":{"path":"/bin/app","args":["--flag"],"user":"vcap","suppress_log_output":false,"volume_mounted_files":null}},"start_timeout_ms":60000,"disk_mb":1024,"memory_mb":128,"cpu_weight":0,"privileged":false,"ports":[8080],"routes":{"cf-router":[{"hostnames":["hello.local","b.local/x"],"port":8080,"route_service_url":"","isolation_segment":"","protocol":"","options":null}]},"log_source":"APP","log_guid":"hello","metrics_guid":"","annotation":"","max_pids":0,"check_definition":{"checks":[{"tcp_check":{"port":8080}}],"log_source":"HEALTH"},"metric_tags":{"source_id":{"static":"hello"}},"volume_mounted_files":null,"update_strategy":0}"#]].assert_eq(&check("--route hello.local --route b.local/x --env A=b -- /bin/app --flag"));
    }

    #[test]
    fn what_takes_new_instances_is_named() {
        let known = lrp("--route hello.local --env A=secret -- /bin/app");
        let words = |flags: &str| redefined(&known, &lrp(flags)).join(", ");
        assert_eq!(words("--route b.local --env A=secret --instances 7 -- /bin/app"), "");
        expect!["the command or --user, --env, --memory"]
            .assert_eq(&words("--route hello.local --env A=other --memory 1G -- /bin/app -v"));
        let theirs = DesiredLrp { domain: "cf-apps".into(), ..known.clone() };
        expect!["hello is somebody else's: its domain is cf-apps, and this command is for those of corkboard-apps. Nothing was changed. `corkboard update-desired-lrp` and `corkboard delete-desired-lrp` change any"].assert_eq(&check_ours(&theirs).unwrap_err().to_string());
    }

    #[test]
    fn no_definition_gets_the_name_of_another() {
        let kept = |numbers: &[(u32, &str)]| {
            let one = |(number, name): &(u32, &str)| DesiredLrp {
                definition_number: *number,
                definition_identifier: (*name).to_owned(),
                ..DesiredLrp::default()
            };
            next_identifier(&numbers.iter().map(one).collect::<Vec<_>>())
        };
        assert_eq!(kept(&[(0, "")]), "v2");
        assert_eq!(kept(&[(0, ""), (2, "v2")]), "v3");
        assert_eq!(kept(&[(3, "v4"), (0, "")]), "v5");
    }
}
