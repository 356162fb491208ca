//! The routes of one process: what is desired, which instances run, and the rows that follow from both.
//!
//! Rows are never kept: they are a pure function of the two, so that whatever order news came in, the same state has the same
//! rows. What two routers must be told is the difference of rows before and after.
//!
//! During an update instances have two definitions, whose routes and ports may differ. Each instance is routed as its own
//! definition says.

use std::collections::BTreeMap;

use api::models::{DesiredLrp, MetricTagValue, metric_tag_value::DynamicValue};
use api::registry::RegistryMessage;
use api::registry::routes::Routes;
use model::{DefinitionNumber, ModificationTag};

use crate::endpoint::{Endpoint, EndpointKey, Sighting};
use crate::row::{Key, Kind, Row};

/// The tag that says who sent a registration.
const COMPONENT: (&str, &str) = ("component", "route-emitter");

/// What of the configuration rows depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Instances that state no preference are reached by the address of their container.
    pub direct_instance_routes: bool,
    /// Routes between containers are told, too.
    pub internal_routes: bool,
}

/// What a desired LRP says about its routes.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub process_guid: String,
    pub domain: String,
    pub log_guid: String,
    pub instances: i32,
    pub routes: Routes,
    /// The routes of instances that still have the definition before, where they differ.
    pub previous: Option<(DefinitionNumber, Routes)>,
    pub metric_tags: BTreeMap<String, MetricTagValue>,
    pub tag: ModificationTag,
}

impl Desired {
    pub fn of(lrp: DesiredLrp) -> Self {
        Self {
            routes: Routes::of(lrp.routes.as_ref()),
            previous: lrp
                .previous_routes
                .map(|routes| (number_of(lrp.previous_definition_number), Routes::of(Some(&routes)))),
            tag: tag_of(lrp.modification_tag.as_ref()),
            process_guid: lrp.process_guid,
            domain: lrp.domain,
            log_guid: lrp.log_guid,
            instances: lrp.instances,
            metric_tags: lrp.metric_tags.into_iter().collect(),
        }
    }
}

impl Desired {
    /// The routes that lead to an instance.
    fn routes_to(&self, endpoint: &Endpoint) -> &Routes {
        let previous = self.previous.as_ref().filter(|(number, _)| *number == endpoint.definition);
        previous.map_or(&self.routes, |(_, routes)| routes)
    }
}

/// The number of the first definition is not sent.
pub(crate) fn number_of(number: u32) -> DefinitionNumber {
    DefinitionNumber(number).max(DefinitionNumber::FIRST)
}

/// A tag that is absent is one without an epoch, which anything may replace.
pub(crate) fn tag_of(tag: Option<&api::models::ModificationTag>) -> ModificationTag {
    let (epoch, index) = tag.map_or(("", 0), |tag| (tag.epoch.as_str(), tag.index));
    ModificationTag { epoch: epoch.into(), index }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    pub desired: Option<Desired>,
    pub endpoints: BTreeMap<EndpointKey, Endpoint>,
}

impl Process {
    pub fn is_empty(&self) -> bool {
        self.desired.is_none() && self.endpoints.is_empty()
    }

    /// Older news than what is held changes nothing.
    pub fn set_desired(&mut self, desired: Desired) {
        if desired.tag.supersedes(self.desired.as_ref().map(|held| &held.tag)) {
            self.desired = Some(desired);
        }
    }

    pub fn remove_desired(&mut self, tag: &ModificationTag) {
        if self.desired.as_ref().is_some_and(|held| may_remove(tag, &held.tag)) {
            self.desired = None;
        }
    }

    pub fn see(&mut self, sighting: Sighting) {
        let held = self.endpoints.get(&sighting.key).map(|held| &held.tag);
        if sighting.endpoint.tag.supersedes(held) {
            self.endpoints.insert(sighting.key, sighting.endpoint);
        }
    }

    pub fn lose(&mut self, key: &EndpointKey, tag: &ModificationTag) {
        if self.endpoints.get(key).is_some_and(|held| may_remove(tag, &held.tag)) {
            self.endpoints.remove(key);
        }
    }

    /// Instances beyond the desired number are on their way out. Zero desired instances name no bound.
    pub fn is_surplus(&self, endpoint: &Endpoint) -> bool {
        let instances = self.desired.as_ref().map_or(0, |desired| desired.instances);
        instances > 0 && endpoint.index >= instances
    }

    fn routed(&self) -> impl Iterator<Item = (&EndpointKey, &Endpoint)> {
        self.endpoints.iter().filter(|(_, endpoint)| !self.is_surplus(endpoint))
    }

    /// What routers should know.
    pub fn rows(&self, rules: Rules) -> BTreeMap<Key, Row> {
        let Some(desired) = &self.desired else { return BTreeMap::new() };
        let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
        for (key, endpoint) in self.routed() {
            let internal = rules.internal_routes.then(|| internal_rows(desired, endpoint)).into_iter().flatten();
            for row in http_rows(desired, key, endpoint, rules).chain(internal) {
                // A port that was given to another instance belongs to the younger one.
                let known = rows.get(&row.key());
                if known.is_none_or(|known| known.since_ns < row.since_ns) {
                    rows.insert(row.key(), row);
                }
            }
        }
        rows
    }

    pub fn tcp_mappings(&self, rules: Rules) -> Vec<TcpMapping> {
        let Some(desired) = &self.desired else { return Vec::new() };
        let mut mappings = Vec::new();
        for (key, endpoint) in self.routed() {
            let direct = endpoint.is_direct(rules.direct_instance_routes);
            for port in &endpoint.net.ports {
                let (host, backend_port, backend_tls_port) = endpoint.reach(port, direct);
                let routes = desired.routes_to(endpoint).tcp.iter();
                for route in routes.filter(|route| route.container_port == port.container_port) {
                    mappings.push(TcpMapping {
                        router_group_guid: route.router_group_guid.clone(),
                        external_port: route.external_port,
                        host: host.clone(),
                        backend_port,
                        backend_tls_port,
                        instance_guid: key.instance_guid.clone(),
                    });
                }
            }
        }
        mappings.sort();
        mappings.dedup();
        mappings
    }
}

/// One TCP route to one instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TcpMapping {
    pub router_group_guid: String,
    pub external_port: u32,
    pub host: String,
    pub backend_port: u16,
    pub backend_tls_port: u16,
    pub instance_guid: String,
}

fn may_remove(tag: &ModificationTag, held: &ModificationTag) -> bool {
    tag == held || tag.supersedes(Some(held))
}

fn http_rows(desired: &Desired, key: &EndpointKey, endpoint: &Endpoint, rules: Rules) -> impl Iterator<Item = Row> {
    let direct = endpoint.is_direct(rules.direct_instance_routes);
    let mut rows = Vec::new();
    for port in &endpoint.net.ports {
        let (host, host_port, tls_port) = endpoint.reach(port, direct);
        if host.is_empty() || (host_port == 0 && tls_port == 0) {
            continue;
        }
        for route in desired.routes_to(endpoint).http.iter().filter(|route| route.port == port.container_port) {
            for hostname in route.hostnames.iter().filter(|hostname| !hostname.is_empty()) {
                let message = RegistryMessage {
                    host: host.clone(),
                    port: host_port,
                    tls_port,
                    uris: vec![hostname.clone()],
                    protocol: route.protocol.clone(),
                    app: desired.log_guid.clone(),
                    route_service_url: route.route_service_url.clone(),
                    private_instance_id: key.instance_guid.clone(),
                    private_instance_index: endpoint.index.to_string(),
                    server_cert_domain_san: key.instance_guid.clone(),
                    isolation_segment: route.isolation_segment.clone(),
                    tags: tags(desired, key, endpoint),
                    availability_zone: endpoint.availability_zone.clone(),
                    options: route.options.clone().filter(|_| !direct),
                    ..RegistryMessage::default()
                };
                rows.push(Row { kind: Kind::Http, message, since_ns: endpoint.since_ns });
            }
        }
    }
    rows.into_iter()
}

fn internal_rows(desired: &Desired, endpoint: &Endpoint) -> Vec<Row> {
    let host = &endpoint.net.instance_address;
    let hostnames = desired.routes_to(endpoint).internal.iter().map(|route| &route.hostname);
    hostnames
        .filter(|hostname| !hostname.is_empty() && !host.is_empty())
        .map(|hostname| {
            let index = endpoint.index.to_string();
            let message = RegistryMessage {
                host: host.clone(),
                uris: vec![hostname.clone(), format!("{index}.{hostname}")],
                app: desired.log_guid.clone(),
                private_instance_index: index,
                tags: BTreeMap::from([component()]),
                ..RegistryMessage::default()
            };
            Row { kind: Kind::Internal, message, since_ns: endpoint.since_ns }
        })
        .collect()
}

fn tags(desired: &Desired, key: &EndpointKey, endpoint: &Endpoint) -> BTreeMap<String, String> {
    let resolved = |value: &MetricTagValue| match DynamicValue::try_from(value.dynamic) {
        Ok(DynamicValue::Index) => endpoint.index.to_string(),
        Ok(DynamicValue::InstanceGuid) => key.instance_guid.clone(),
        Ok(DynamicValue::Invalid) | Err(_) => value.r#static.clone(),
    };
    let mut tags: BTreeMap<_, _> =
        desired.metric_tags.iter().map(|(name, value)| (name.clone(), resolved(value))).collect();
    tags.extend([component()]);
    tags
}

fn component() -> (String, String) {
    (COMPONENT.0.to_owned(), COMPONENT.1.to_owned())
}
