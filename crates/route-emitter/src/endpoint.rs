//! A running instance, as far as routes need to know it.

use api::models::actual_lrp::Presence;
use api::models::actual_lrp_net_info::PreferredAddress;
use api::models::{ActualLrp, ActualLrpInstanceChangedEvent, ActualLrpNetInfo, PortMapping};
use model::{DefinitionNumber, ModificationTag};

use crate::process::{number_of, tag_of};

const RUNNING: &str = "RUNNING";

/// What tells two endpoints of one process apart: an instance that is evacuated has two records for a while. During an update an
/// index has two instances, and the one that leaves has the record of one that is evacuated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointKey {
    pub instance_guid: String,
    pub evacuating: bool,
}

/// Where an instance can be reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    pub index: i32,
    pub net: ActualLrpNetInfo,
    pub availability_zone: String,
    /// What the instance was made from.
    pub definition: DefinitionNumber,
    pub since_ns: i64,
    pub tag: ModificationTag,
}

/// One state of one record.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    pub process_guid: String,
    pub cell_id: String,
    pub key: EndpointKey,
    pub endpoint: Endpoint,
    /// It runs, and does not ask to be left without requests.
    pub routable: bool,
}

impl Sighting {
    pub fn of(lrp: ActualLrp) -> Self {
        let key = lrp.actual_lrp_key.unwrap_or_default();
        let instance = lrp.actual_lrp_instance_key.unwrap_or_default();
        Self {
            process_guid: key.process_guid,
            cell_id: instance.cell_id,
            key: EndpointKey {
                instance_guid: instance.instance_guid,
                evacuating: lrp.presence == Presence::Evacuating as i32,
            },
            endpoint: Endpoint {
                index: key.index,
                net: lrp.actual_lrp_net_info.unwrap_or_default(),
                availability_zone: lrp.availability_zone,
                definition: number_of(lrp.definition_number),
                since_ns: lrp.since,
                tag: tag_of(lrp.modification_tag.as_ref()),
            },
            routable: lrp.state == RUNNING && lrp.routable != Some(false),
        }
    }

    /// The record before and after a change. The event names instance and cell once, for both.
    pub fn change(event: ActualLrpInstanceChangedEvent) -> (Self, Self) {
        let (key, instance) = (event.actual_lrp_key, event.actual_lrp_instance_key);
        let side = |info: Option<api::models::ActualLrpInfo>| {
            let info = info.unwrap_or_default();
            Self::of(ActualLrp {
                actual_lrp_key: key.clone(),
                actual_lrp_instance_key: instance.clone(),
                actual_lrp_net_info: info.actual_lrp_net_info,
                state: info.state,
                since: info.since,
                modification_tag: info.modification_tag,
                presence: info.presence,
                routable: info.routable,
                availability_zone: info.availability_zone,
                definition_number: info.definition_number,
                ..ActualLrp::default()
            })
        };
        (side(event.before), side(event.after))
    }
}

impl Endpoint {
    /// Whether requests go straight to the container instead of through a port of its host.
    pub fn is_direct(&self, unless_said_otherwise: bool) -> bool {
        match PreferredAddress::try_from(self.net.preferred_address) {
            Ok(PreferredAddress::Instance) => true,
            Ok(PreferredAddress::Host) => false,
            Ok(PreferredAddress::Unknown) | Err(_) => unless_said_otherwise,
        }
    }

    /// Host, port and TLS port for a port of the container.
    pub fn reach(&self, port: &PortMapping, direct: bool) -> (String, u16, u16) {
        let (host, port, tls_port) = if direct {
            (&self.net.instance_address, port.container_port, port.container_tls_proxy_port)
        } else {
            (&self.net.address, port.host_port, port.host_tls_proxy_port)
        };
        (host.clone(), as_port(port), as_port(tls_port))
    }
}

/// A number that is no port is none.
fn as_port(number: u32) -> u16 {
    u16::try_from(number).unwrap_or_default()
}
