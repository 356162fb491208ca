//! `corkboard cell`, also called `rep`: takes work, runs it in containers, and tells the state server what became of it.
//!
//! The first signal evacuates: the state server places everything elsewhere, and the cell ends when nothing runs here any
//! more. The second one ends the cell and leaves its containers running; the next start finds them, as after SIGKILL.
//!
//! To Locket the cell is the same before and after a restart: its name there is kept in its folder, which one process at a
//! time can have. So a restart leaves no gap in its presence.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::client::{Client, ClientConfig, TlsFiles};
use api::locket::Options;
use cell::executor::{LocalConfig, LocalExecutor, Room, Sandbox};
use cell::presence::LocketPresence;
use cell::rep::clock::MachineClock;
use cell::rep::{Config, Ending as Ended, Parts, ServerTls, Times};
use model::CellId;
use tokio::sync::watch;
use toml::Value;

use super::lock::fresh_id;
use super::raw::{RawCapacity, RawCell, RawCellTiming, RawExecutor, RawTags};
use super::sheet::{Identity, Sheet};
use super::{Ending, announce, machine};
use crate::config::check::without_slash;
use crate::config::raw::Raw;
use crate::config::values::{address, duration, number, text, text_list, web_url, word, wrong_type};
use crate::config::{self, ConfigError};
use crate::duration::show;
use crate::server::stop_signals;

const CLIENT: &str = "cell";
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1801);
const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1800);
/// Tried in this order.
const RUNTIMES: [&str; 2] = ["crun", "runc"];
/// The file in the folder of a cell that holds its name in Locket.
const OWNER_FILE: &str = "locket-owner";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Process,
    Oci,
}

const KINDS: &[(&str, Kind)] = &[("process", Kind::Process), ("oci", Kind::Oci)];

/// A file that was understood.
#[derive(Debug)]
pub(super) struct Plan {
    config: Config,
    executor: LocalConfig,
    /// For what cells download over https.
    tls: Option<TlsFiles>,
    bbs: ClientConfig,
    locket: Options,
}

pub(super) fn load(file: &Path) -> Result<Plan, ConfigError> {
    config::read(file, |reader, raw: RawCell, folder| understand(&mut Sheet { reader, folder }, raw))
}

fn understand(sheet: &mut Sheet<'_>, raw: RawCell) -> Option<Plan> {
    sheet.reader.refuse_unknown("", RawCell::KEYS, &raw.unknown);
    if raw.cell_id.is_none() {
        sheet.reader.note("cell_id", "is missing; expected a name that no other cell has, such as \"cell-1\"");
    }
    let cell_id = sheet.reader.optional("cell_id", raw.cell_id, cell_id);
    let index = sheet.reader.or("index", raw.index, 0, number);
    let zone = sheet.reader.optional("zone", raw.zone, text).unwrap_or_default();
    let listen = sheet.reader.or("listen", raw.listen, DEFAULT_LISTEN, address);
    let listen_admin = sheet.reader.or("admin", raw.admin, DEFAULT_ADMIN, address);
    let tls = sheet.tls(raw.tls);
    sheet.refuse_plain_off_loopback("listen", listen, &tls);
    sheet.refuse_plain_off_loopback("admin", listen_admin, &tls);
    sheet.refuse_same_port("admin", listen_admin, ("listen", listen));
    let rep_url = understand_url(sheet, raw.rep_url, listen, &tls);
    let dir = sheet.path("dir", raw.dir).or_else(|| Some(sheet.folder.join(cell_id.as_ref()?.as_str())));
    let bbs = sheet.bbs(raw.bbs, &tls, CLIENT);
    if raw.locket.is_none() {
        let what = "is missing; in Locket a cell says that it is there, and without it nobody gives it work";
        sheet.reader.note("locket.address", what);
    }
    let locket = sheet.locket(raw.locket, &tls);
    let times = understand_timing(sheet, raw.timing.unwrap_or_default());
    let (tags, optional_tags) = understand_tags(sheet, raw.placement.unwrap_or_default());
    let total = understand_room(sheet, raw.capacity.unwrap_or_default(), dir.as_deref());
    let executor = understand_executor(sheet, raw.executor.unwrap_or_default(), dir, total);
    let server_tls = tls.files.as_ref().map(|files| ServerTls {
        ca: files.ca.clone(),
        cert: files.cert.clone(),
        key: files.key.clone(),
    });
    let config = Config {
        cell_index: index.into(),
        zone,
        listen,
        listen_admin,
        tls: server_tls,
        rep_url,
        placement_tags: tags,
        optional_placement_tags: optional_tags,
        times,
        ..Config::new(cell_id?)
    };
    Some(Plan { config, executor: executor?, tls: tls.files, bbs: bbs?, locket: locket? })
}

fn understand_url(sheet: &mut Sheet<'_>, raw: Raw, listen: SocketAddr, tls: &Identity) -> Option<String> {
    let is_missing = raw.is_none();
    let url = sheet.reader.optional("rep_url", raw, web_url);
    if is_missing && listen.ip().is_unspecified() {
        let what = format!(
            "is missing, and `listen` is {listen}, which is every address of this machine; expected the one at which others \
             reach it, such as \"https://10.0.0.7:1801\""
        );
        sheet.reader.note("rep_url", what);
    }
    match url.as_ref().map(url::Url::scheme) {
        Some("http") if tls.is_given => {
            sheet.reader.note("rep_url", "begins with http://, but this cell serves TLS; expected https://");
        }
        Some("https") if !tls.is_given => {
            sheet
                .reader
                .note("rep_url", "begins with https://, but this cell has no table [tls]; add one, or use http://");
        }
        _ => {}
    }
    url.as_ref().map(without_slash)
}

fn understand_timing(sheet: &mut Sheet<'_>, raw: RawCellTiming) -> Times {
    sheet.reader.refuse_unknown("timing.", RawCellTiming::KEYS, &raw.unknown);
    let usual = Times::default();
    let mut time = |name: &str, raw, read| sheet.reader.optional(&format!("timing.{name}"), raw, read);
    let polling = time("polling", raw.polling, duration).unwrap_or(usual.polling);
    let evacuation = time("evacuation", raw.evacuation, duration).unwrap_or(usual.evacuation);
    let is_usual = (raw.presence.is_none(), raw.presence_ttl.is_none());
    let presence = time("presence", raw.presence, duration).or(is_usual.0.then_some(usual.presence));
    let ttl = time("presence_ttl", raw.presence_ttl, whole_seconds).or(is_usual.1.then_some(usual.presence_ttl));
    if let (Some(presence), Some(ttl)) = (presence, ttl)
        && presence >= ttl
    {
        let what = format!(
            "{} is not longer than `presence`, {}, so that this cell would count as gone again and again; expected more",
            show(ttl),
            show(presence)
        );
        sheet.reader.note("timing.presence_ttl", what);
    }
    Times {
        polling,
        polling_evacuating: usual.polling_evacuating.min(polling),
        evacuation,
        presence: presence.unwrap_or(usual.presence),
        presence_ttl: ttl.unwrap_or(usual.presence_ttl),
        ..usual
    }
}

fn understand_tags(sheet: &mut Sheet<'_>, raw: RawTags) -> (Vec<String>, Vec<String>) {
    sheet.reader.refuse_unknown("placement.", RawTags::KEYS, &raw.unknown);
    let tags = sheet.reader.optional("placement.tags", raw.tags, text_list).unwrap_or_default();
    (tags, sheet.reader.optional("placement.optional_tags", raw.optional_tags, text_list).unwrap_or_default())
}

fn understand_room(sheet: &mut Sheet<'_>, raw: RawCapacity, dir: Option<&Path>) -> Room {
    sheet.reader.refuse_unknown("capacity.", RawCapacity::KEYS, &raw.unknown);
    let memory_mb = sheet.reader.optional("capacity.memory_mb", raw.memory_mb, megabytes);
    let disk_mb = sheet.reader.optional("capacity.disk_mb", raw.disk_mb, megabytes);
    let containers = sheet.reader.or("capacity.containers", raw.containers, machine::CONTAINERS, megabytes);
    let machine = match machine::room(dir.unwrap_or(Path::new("."))) {
        Ok(room) => room,
        Err(error) => {
            if memory_mb.is_none() || disk_mb.is_none() {
                let what = format!(
                    "is missing, and this machine does not tell what it has ({error}); expected memory_mb and disk_mb"
                );
                sheet.reader.note("capacity", what);
            }
            Room::default()
        }
    };
    Room { memory_mb: memory_mb.unwrap_or(machine.memory_mb), disk_mb: disk_mb.unwrap_or(machine.disk_mb), containers }
}

fn understand_executor(
    sheet: &mut Sheet<'_>,
    raw: RawExecutor,
    dir: Option<PathBuf>,
    total: Room,
) -> Option<LocalConfig> {
    sheet.reader.refuse_unknown("executor.", RawExecutor::KEYS, &raw.unknown);
    let shim = vec!["/proc/self/exe".to_owned(), "shim".to_owned()];
    let usual = LocalConfig::new(dir.unwrap_or_default(), total, shim);
    let kind = sheet.reader.or("executor.kind", raw.kind, Kind::Process, |value| word(value, KINDS));
    let address = sheet.reader.or("executor.address", raw.address, usual.address, ip_address);
    let host_ports = sheet.reader.or("executor.host_ports", raw.host_ports, usual.host_ports.clone(), ports);
    let grace = sheet.reader.or("executor.grace", raw.grace, usual.grace, duration);
    let sandbox = match kind {
        Kind::Process => {
            for (key, value) in [("rootfs", raw.rootfs), ("runtime", raw.runtime)] {
                sheet.refuse_with("executor", key, value, "is for kind = \"oci\"; leave it out, or change the kind");
            }
            let stacks = sheet.reader.optional("executor.stacks", raw.stacks, text_list);
            let user = sheet.reader.optional("executor.user", raw.user, text);
            let Sandbox::Process { stacks: usual_stacks, .. } = usual.sandbox.clone() else { return None };
            if user.is_some() && !rustix::process::geteuid().is_root() {
                sheet.reader.note(
                    "executor.user",
                    "needs a cell that runs as root; leave it out, and apps run as the cell does",
                );
            }
            Sandbox::Process { stacks: stacks.unwrap_or(usual_stacks), run_as: user }
        }
        Kind::Oci => {
            for (key, value) in [("stacks", raw.stacks), ("user", raw.user)] {
                sheet.refuse_with(
                    "executor",
                    key,
                    value,
                    "is for kind = \"process\"; leave it out, or change the kind",
                );
            }
            if raw.rootfs.is_none() {
                let what =
                    "is missing; expected root file systems by name, such as { cflinuxfs4 = \"/var/lib/cflinuxfs4\" }";
                sheet.reader.note("executor.rootfs", what);
            }
            let stacks = sheet.reader.optional("executor.rootfs", raw.rootfs, folders).unwrap_or_default();
            let stacks: BTreeMap<String, PathBuf> =
                stacks.into_iter().map(|(name, path)| (name, sheet.folder.join(path))).collect();
            if let Some((name, path)) = stacks.iter().find(|(_, path)| !path.is_dir()) {
                let what = format!("the root file system {name} is not there: {} is not a folder", path.display());
                sheet.reader.note("executor.rootfs", what);
            }
            let runtime = sheet.reader.optional("executor.runtime", raw.runtime, text);
            let runtimes = runtime.map_or_else(|| RUNTIMES.map(str::to_owned).to_vec(), |runtime| vec![runtime]);
            Sandbox::Oci { stacks, runtimes }
        }
    };
    Some(LocalConfig { address, host_ports, grace, sandbox, ..usual })
}

fn cell_id(value: &Value) -> Result<CellId, String> {
    let name = text(value)?;
    if name.contains('/') || name.starts_with('.') {
        return Err(format!("{name:?} cannot be the name of a folder; expected something like \"cell-1\""));
    }
    CellId::parse(&name).map_err(|error| format!("{name:?} {error}; expected something like \"cell-1\""))
}

fn ip_address(value: &Value) -> Result<IpAddr, String> {
    let text = text(value)?;
    text.parse()
        .map_err(|_| format!("{text:?} is not an IP address; expected one at which others reach the containers"))
}

fn ports(value: &Value) -> Result<RangeInclusive<u16>, String> {
    const EXPECTED: &str = "the first and the last port, such as \"61001-65534\"";
    let text = text(value).map_err(|_| wrong_type(value, EXPECTED))?;
    let ends = text.split_once('-').and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)));
    match ends {
        Some((from, to)) if 0 < from && from <= to => Ok(from..=to),
        _ => Err(format!("{text:?} is no range of ports; expected {EXPECTED}")),
    }
}

fn folders(value: &Value) -> Result<BTreeMap<String, String>, String> {
    const EXPECTED: &str = "root file systems by name, such as { cflinuxfs4 = \"/var/lib/cflinuxfs4\" }";
    let Value::Table(table) = value else { return Err(wrong_type(value, EXPECTED)) };
    if table.is_empty() {
        return Err(format!("is empty; expected {EXPECTED}"));
    }
    table.iter().map(|(name, path)| Ok((name.clone(), text(path).map_err(|what| format!("{name} {what}"))?))).collect()
}

/// One or more.
fn megabytes(value: &Value) -> Result<i32, String> {
    match number(value)? {
        0 => Err("is 0; expected more, or leave the key out".to_owned()),
        more => Ok(more),
    }
}

/// Locket counts in seconds.
fn whole_seconds(value: &Value) -> Result<Duration, String> {
    let time = duration(value)?;
    if time.subsec_nanos() == 0 {
        Ok(time)
    } else {
        Err(format!("{} is not a number of whole seconds, in which Locket counts", show(time)))
    }
}

impl Plan {
    pub(super) fn summary(&self) -> String {
        let Self { config, executor, bbs, locket, .. } = self;
        let scheme = if config.tls.is_some() { "https, client certificates required" } else { "plain http" };
        let Room { memory_mb, disk_mb, containers } = executor.total;
        let kind = match &executor.sandbox {
            Sandbox::Process { stacks, .. } => format!("plain processes, for {}", stacks.join(", ")),
            Sandbox::Oci { stacks, .. } => {
                let stacks: Vec<&str> = stacks.keys().map(String::as_str).collect();
                format!("an OCI runtime, for {}", stacks.join(", "))
            }
        };
        format!(
            "  program     cell\n  cell        {}\n  API         {} ({scheme})\n  admin       {} ({scheme})\n  \
             dir         {}\n  bbs         {}\n  locket      {}\n  capacity    {memory_mb} MB of memory, {disk_mb} MB of disk, \
             {containers} containers\n  containers  {kind}\n",
            config.cell_id,
            config.listen,
            config.listen_admin,
            executor.root.display(),
            bbs.urls.join(", "),
            locket.address,
        )
    }
}

pub(super) async fn run(plan: Plan) -> Result<(), Ending> {
    let Plan { config, mut executor, tls, bbs, locket } = plan;
    executor.cell_id = config.cell_id.as_str().to_owned();
    let signals = stop_signals().map_err(|source| Ending::Process { doing: "listening for signals", source })?;
    let bbs = Client::new(bbs)?;
    let root = executor.root.clone();
    executor.tls = tls.as_ref().map(api::client::tls::client_config).transpose()?;
    let executor = LocalExecutor::open(executor)?;
    // Only whoever has the folder may use the name in it.
    let owner = owner(&root).map_err(|source| Ending::Process {
        doing: "the name of this cell in Locket cannot be kept in its folder",
        source,
    })?;
    let presence = LocketPresence::new(api::locket::Client::new(&locket)?, config.cell_id.as_str(), &owner);
    let parts =
        Parts { bbs, executor: Arc::new(executor), presence: Arc::new(presence), clock: Arc::new(MachineClock) };
    let id = config.cell_id.clone();
    let ready = |ready: cell::rep::Ready| {
        announce(&format!("The cell {id} listens on {}, admin on {}.", ready.network, ready.admin));
    };
    let [evacuate, stop] = [1, 2].map(|count| reached(signals.clone(), count));
    match cell::rep::run(config, parts, evacuate, stop, ready).await? {
        Ended::Stopped => tracing::info!("the cell has stopped; start it again, and it goes on with its containers"),
        Ended::Evacuated => {}
    }
    Ok(())
}

async fn reached(mut signals: watch::Receiver<u32>, count: u32) {
    if signals.wait_for(|signals| *signals >= count).await.is_err() {
        // The watcher is gone without a signal, which happens only when the runtime shuts down.
        std::future::pending::<()>().await;
    }
}

/// Who holds the presence of the cell in this folder, now and after a restart.
fn owner(root: &Path) -> io::Result<String> {
    let path = root.join(OWNER_FILE);
    match std::fs::read_to_string(&path) {
        Ok(owner) if !owner.trim().is_empty() => return Ok(owner.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let owner = fresh_id();
    let half = root.join(format!("{OWNER_FILE}.new"));
    let mut file = std::fs::File::create(&half)?;
    writeln!(file, "{owner}")?;
    file.sync_all()?;
    std::fs::rename(&half, &path)?;
    Ok(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_in_locket_outlives_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let first = owner(dir.path()).unwrap();
        assert_eq!(owner(dir.path()).unwrap(), first);
        assert_ne!(owner(tempfile::tempdir().unwrap().path()).unwrap(), first);
        std::fs::write(dir.path().join(OWNER_FILE), "\n").unwrap();
        assert_ne!(owner(dir.path()).unwrap(), first);
    }

    #[test]
    fn ranges_of_ports_are_told_from_the_rest() {
        let read = |text: &str| ports(&Value::String(text.to_owned()));
        assert_eq!(read("61001-65534"), Ok(61001..=65534));
        assert_eq!(read("1 - 1"), Ok(1..=1));
        for text in ["", "1", "2-1", "0-1", "1-65536", "a-b", "-"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
