//! What a desired LRP says about its routes: JSON under the name of the router that understands it.
//!
//! Names that are unknown are somebody else's. A value that cannot be read counts as no routes of its kind: one bad value
//! must not take the other routes of the LRP with it. An element that is well-formed but useless, without a hostname for
//! instance, is left to the reader.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::models::ProtoRoutes;

/// HTTP routes for gorouter.
pub const CF_ROUTER: &str = "cf-router";
/// TCP routes, by way of the routing API.
pub const TCP_ROUTER: &str = "tcp-router";
/// Routes between containers.
pub const INTERNAL_ROUTER: &str = "internal-router";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CfRoute {
    #[serde(deserialize_with = "super::null_is_empty")]
    pub hostnames: Vec<String>,
    /// Of the container.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub port: u32,
    #[serde(deserialize_with = "super::null_is_empty")]
    pub route_service_url: String,
    #[serde(deserialize_with = "super::null_is_empty")]
    pub isolation_segment: String,
    #[serde(deserialize_with = "super::null_is_empty")]
    pub protocol: String,
    pub options: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpRoute {
    #[serde(deserialize_with = "super::null_is_empty")]
    pub router_group_guid: String,
    #[serde(deserialize_with = "super::null_is_empty")]
    pub external_port: u32,
    #[serde(deserialize_with = "super::null_is_empty")]
    pub container_port: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InternalRoute {
    #[serde(deserialize_with = "super::null_is_empty")]
    pub hostname: String,
}

/// All routes of one desired LRP that somebody here understands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    pub http: Vec<CfRoute>,
    pub tcp: Vec<TcpRoute>,
    pub internal: Vec<InternalRoute>,
}

impl Routes {
    pub fn of(routes: Option<&ProtoRoutes>) -> Self {
        let value = |name: &str| routes.and_then(|routes| routes.routes.get(name));
        Self {
            http: value(CF_ROUTER).map(|bytes| read(bytes)).unwrap_or_default(),
            tcp: value(TCP_ROUTER).map(|bytes| read(bytes)).unwrap_or_default(),
            internal: value(INTERNAL_ROUTER).map(|bytes| read(bytes)).unwrap_or_default(),
        }
    }
}

/// A list of routes, empty where it cannot be read.
pub fn read<R: DeserializeOwned>(bytes: &[u8]) -> Vec<R> {
    serde_json::from_slice::<Option<Vec<R>>>(bytes).ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn each_router_finds_its_own() {
        check(
            &[
                (
                    "cf-router",
                    r#"[{"hostnames":["a.example.com","b"],"port":8080,"protocol":"http2","options":{"x":1}}]"#,
                ),
                ("tcp-router", r#"[{"router_group_guid":"g","external_port":1024,"container_port":8080}]"#),
                ("internal-router", r#"[{"hostname":"a.apps.internal"}]"#),
                ("diego-ssh", r#"{"container_port":2222}"#),
            ],
            &expect![[r#"
                http [a.example.com b] 8080 "http2" {"x":1}
                tcp g 1024 -> 8080
                internal a.apps.internal
            "#]],
        );
    }

    #[test]
    fn what_cannot_be_read_is_no_routes_of_its_kind_only() {
        let internal = ("internal-router", r#"[{"hostname":"a"},{"hostname":null}]"#);
        for bad in ["null", "{}", "[1]", "", "[{\"port\":\"8080\"}]", "[{\"port\":-1}]", "\u{feff}[]"] {
            check(
                &[("cf-router", bad), internal],
                &expect![[r#"
                internal a
                internal 
            "#]],
            );
        }
    }

    fn check(routes: &[(&str, &str)], expected: &Expect) {
        let routes: BTreeMap<_, _> =
            routes.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        let routes = Routes::of(Some(&ProtoRoutes { routes }));
        let mut shown = String::new();
        for CfRoute { hostnames, port, protocol, options, .. } in &routes.http {
            let options = options.clone().unwrap_or_default();
            shown += &format!("http [{}] {port} {protocol:?} {options}\n", hostnames.join(" "));
        }
        for TcpRoute { router_group_guid, external_port, container_port } in &routes.tcp {
            shown += &format!("tcp {router_group_guid} {external_port} -> {container_port}\n");
        }
        for InternalRoute { hostname } in &routes.internal {
            shown += &format!("internal {hostname}\n");
        }
        expected.assert_eq(&shown);
    }
}
