//! What a process finds in its environment.
//!
//! Later ones win: what is usual, the container's, the action's, what Diego tells of the instance, and at last the ports, which
//! nobody but the cell can know.

use super::super::Owner;
use super::sandbox::Place;
use api::models;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Which cell it is, for whoever wonders why two instances differ.
const CELL_ID: &str = "CORKBOARD_CELL_ID";

pub(crate) fn environment(
    place: &Place<'_>,
    action: &models::RunAction,
    user: &str,
    home: &str,
) -> Vec<(String, String)> {
    let Place { cell_id, container, spec, .. } = *place;
    let mut env = Environment::default();
    env.set("PATH", PATH);
    env.set("HOME", home);
    if !user.is_empty() {
        env.set("USER", user);
    }
    for variable in spec.env.iter().chain(&action.env) {
        env.set(&variable.name, &variable.value);
    }
    if let Owner::Lrp { key, instance } = &container.owner {
        for (guid, index) in [("INSTANCE_GUID", "INSTANCE_INDEX"), ("CF_INSTANCE_GUID", "CF_INSTANCE_INDEX")] {
            env.set(guid, instance.as_str());
            env.set(index, &key.index.to_string());
        }
    }
    if !cell_id.is_empty() {
        env.set(CELL_ID, cell_id);
    }
    let address = &container.address;
    env.set("CF_INSTANCE_IP", address);
    env.set("CF_INSTANCE_INTERNAL_IP", &container.instance_address);
    match container.ports.first() {
        Some(first) => {
            env.set("CF_INSTANCE_PORT", &first.host.to_string());
            env.set("CF_INSTANCE_ADDR", &format!("{address}:{}", first.host));
            env.set("PORT", &first.host.to_string());
        }
        None => {
            env.set("CF_INSTANCE_PORT", "");
            env.set("CF_INSTANCE_ADDR", "");
        }
    }
    let pairs = container.ports.iter().map(|port| {
        env.set(&format!("PORT_{}", port.container), &port.host.to_string());
        format!(r#"{{"external":{},"internal":{}}}"#, port.host, port.container)
    });
    let pairs: Vec<String> = pairs.collect();
    env.set("CF_INSTANCE_PORTS", &format!("[{}]", pairs.join(",")));
    env.0
}

#[derive(Default)]
struct Environment(Vec<(String, String)>);

impl Environment {
    fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }
}
