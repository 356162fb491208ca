//! Two machines on one: network namespaces joined by one cable that a test can pull.
//!
//! Promise: what runs on one side reaches the other side and nothing else, the machine's own network included, and nothing
//! at all while the cable is pulled. Dropping the value kills whatever still runs on either side and removes both. What a test
//! that was killed has left behind is removed by the next one that asks for a pair.
//!
//! Unlike a [`Proxy`](crate::proxy::Proxy) this is the kernel's own network: nothing answers for the other side, keep-alives
//! fail as they should. It takes root and the program `ip`, so a test must have something to do without it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// Names of our namespaces: this, the process that made them, a number, the side.
const NAME_PREFIX: &str = "corkboard-rig-";
/// The name of the cable's plug on either side; it is seen nowhere else, so it may always be the same.
const PLUG: &str = "cable";
/// For documentation and examples (RFC 5737), so it is nobody's real network.
const LEFT_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const RIGHT_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const NETWORK_BITS: u8 = 30;

static PAIRS_MADE: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

const SIDES: [Side; 2] = [Side::Left, Side::Right];

#[derive(Debug)]
pub struct Netns {
    name: String,
}

/// Why this machine gives us no namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible(String);

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no network namespaces here: {}", self.0)
    }
}

impl std::error::Error for Impossible {}

impl Netns {
    /// Two sides with the cable in, or the reason why not, most often that the test is not run by root.
    pub fn pair() -> Result<Self, Impossible> {
        if !rustix::process::geteuid().is_root() {
            return Err(Impossible("only root may make them".to_owned()));
        }
        remove_left_behind()?;
        let number = PAIRS_MADE.fetch_add(1, Ordering::Relaxed);
        let pair = Self { name: format!("{NAME_PREFIX}{}-{number}", std::process::id()) };
        let [left, right] = SIDES.map(|side| pair.namespace(side));
        for name in [&left, &right] {
            ip(&["netns", "add", name])?;
        }
        ip(&["-n", &left, "link", "add", PLUG, "type", "veth", "peer", "name", PLUG, "netns", &right])?;
        for side in SIDES {
            let (name, address) = (pair.namespace(side), format!("{}/{NETWORK_BITS}", pair.address(side)));
            ip(&["-n", &name, "address", "add", &address, "dev", PLUG])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            ip(&["-n", &name, "link", "set", PLUG, "up"])?;
            // To make a namespace is one right, to enter it another.
            ip(&["netns", "exec", &name, "true"])?;
        }
        Ok(pair)
    }

    /// The program, to be run on this side. The process that is spawned is the program itself, so it can be killed as usual.
    pub fn command(&self, side: Side, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(side)]).arg(program);
        command
    }

    /// The address under which the other side reaches this one.
    pub fn address(&self, side: Side) -> IpAddr {
        IpAddr::V4(if side == Side::Left { LEFT_ADDRESS } else { RIGHT_ADDRESS })
    }

    /// Pulls the cable: nothing arrives, connections stay open and stall.
    pub fn cut(&self) {
        self.plug("down");
    }

    pub fn heal(&self) {
        self.plug("up");
    }

    fn plug(&self, state: &str) {
        for side in SIDES {
            let set = ip(&["-n", &self.namespace(side), "link", "set", PLUG, state]);
            set.unwrap_or_else(|error| panic!("the cable cannot be set {state}: {error}"));
        }
    }

    fn namespace(&self, side: Side) -> String {
        format!("{}-{}", self.name, if side == Side::Left { "left" } else { "right" })
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        for side in SIDES {
            remove(&self.namespace(side));
        }
    }
}

/// Namespaces of processes that are no more.
fn remove_left_behind() -> Result<(), Impossible> {
    let listed = ip(&["netns", "list"])?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    for name in names {
        let maker = name.strip_prefix(NAME_PREFIX).and_then(|rest| rest.split('-').next());
        if maker.is_some_and(|maker| !Path::new("/proc").join(maker).exists()) {
            remove(name);
        }
    }
    Ok(())
}

/// Kills what runs inside and removes the name. Failing means that it is gone already, or was never there.
fn remove(name: &str) {
    let pids = ip(&["netns", "pids", name]).unwrap_or_default();
    for pid in pids.lines().filter_map(|pid| Pid::from_raw(pid.trim().parse().ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = ip(&["netns", "delete", name]);
}

fn ip(arguments: &[&str]) -> Result<String, Impossible> {
    let run = Command::new("ip").args(arguments).output();
    let output = run.map_err(|error| Impossible(format!("the program `ip` cannot be run: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    Err(Impossible(format!("`ip {}` failed: {}", arguments.join(" "), reason.trim())))
}
