//! Ports of the host that containers have.
//!
//! A port is given in turn and not again at once, so that a request that is on its way to an app that is gone does not meet
//! another one. A port that somebody else listens on is passed over.

use std::collections::BTreeSet;
use std::net::{IpAddr, TcpListener};
use std::ops::RangeInclusive;

use super::super::Port;

#[derive(Debug)]
pub(crate) struct Ports {
    range: RangeInclusive<u16>,
    address: IpAddr,
    taken: BTreeSet<u16>,
    next: u16,
}

impl Ports {
    pub(crate) fn new(range: RangeInclusive<u16>, address: IpAddr) -> Self {
        Self { next: *range.start(), range, address, taken: BTreeSet::new() }
    }

    /// Takes the ports of a container that was there before.
    pub(crate) fn take(&mut self, ports: &[Port]) {
        self.taken.extend(ports.iter().map(|port| port.host));
    }

    pub(crate) fn give_back(&mut self, ports: &[Port]) {
        for port in ports {
            self.taken.remove(&port.host);
        }
    }

    /// One for each container port, or none at all.
    pub(crate) fn allocate(&mut self, containers: &[u16]) -> Option<Vec<Port>> {
        let mut ports: Vec<Port> = Vec::new();
        for container in containers {
            if ports.iter().any(|port| port.container == *container) {
                continue;
            }
            match self.one() {
                Some(host) => ports.push(Port { container: *container, host, ..Port::default() }),
                None => {
                    self.give_back(&ports);
                    return None;
                }
            }
        }
        Some(ports)
    }

    fn one(&mut self) -> Option<u16> {
        for _ in 0..self.range.len() {
            let port = self.next;
            self.next = if port == *self.range.end() { *self.range.start() } else { port + 1 };
            if !self.taken.contains(&port) && TcpListener::bind((self.address, port)).is_ok() {
                self.taken.insert(port);
                return Some(port);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_in_turn_and_never_twice() {
        // An address that no other test listens on.
        let address = IpAddr::from([127, 77, 1, 1]);
        let other = TcpListener::bind((address, 0)).unwrap();
        let used = other.local_addr().unwrap().port();
        let range = used - 2..=used.saturating_add(2);
        let mut ports = Ports::new(range.clone(), address);
        let first = ports.allocate(&[8080, 2222, 8080]).unwrap();
        assert_eq!(first.iter().map(|port| port.container).collect::<Vec<_>>(), [8080, 2222]);
        assert!(first.iter().all(|port| range.contains(&port.host) && port.host != used));
        ports.give_back(&first);
        let again = ports.allocate(&[8080]).unwrap();
        assert!(!first.contains(&again[0]));
        // Three are free, and a container that wants more gets none of them.
        assert!(ports.allocate(&[1, 2, 3, 4]).is_none());
        assert!(ports.allocate(&[1, 2, 3]).is_some());
    }
}
