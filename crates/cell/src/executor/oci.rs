//! Containers of an OCI runtime such as `crun` or `runc`.
//!
//! The runtime is asked for as little as possible: to make one process in a root file system, to start it, to start another
//! beside it, and to remove what is left; in between it does not run. The root file system of a stack is never written to; each container has an overlay above it. Each
//! process of an action is a container of the runtime of its own, with namespaces of its own for processes, mounts and names, in
//! the same files; looks that a monitor takes join the namespaces of the app. The network is the host's (see [`super::local`]).
//!
//! Whether this works depends on the machine: its kernel, its control groups, who we are. It is tried once at the start, and if it
//! does not work, the cell says why and takes no containers.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use api::models;
use rustix::mount::{MountFlags, UnmountFlags};
use serde_json::{Value, json};

use super::actions::Step;
use super::local::Place;
use super::process::{Launch, Made, runtime};
use super::records::{cell_name, folder_name};

/// A program that is in no root file system. A runtime that gets as far as missing it can run containers.
const PROBE_PROGRAM: &str = "/no-such-program-for-a-probe";
const PROBE: &str = "probe";
/// Enough for any runtime; what matters is that limits can be set.
const PROBE_MEMORY_MB: i32 = 64;
const PROBE_PIDS: i32 = 64;
const PROBE_CPU_WEIGHT: u32 = 100;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What most apps need, and what containers are commonly given.
const CAPABILITIES: &[&str] = &[
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

const MB_BYTES: i64 = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Oci {
    stacks: BTreeMap<String, PathBuf>,
    /// Where the runtime keeps what it knows.
    state: PathBuf,
    /// How the names of control groups of this cell begin. They lie side by side, so that the runtime removes all it made.
    group: String,
    /// The program, or why there is none.
    runtime: Result<String, String>,
}

/// How a process is to be started inside.
pub(crate) struct Inside<'a> {
    pub(crate) dir: &'a str,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) owner: Option<(u32, u32)>,
    pub(crate) nofile: Option<u64>,
}

impl Oci {
    pub(crate) fn new(stacks: BTreeMap<String, PathBuf>, runtimes: &[String], root: &Path, is_root: bool) -> Self {
        let state = root.join("oci");
        let group = format!("/corkboard-{}-", cell_name(root));
        let runtime = choose(&stacks, runtimes, &state, &group, is_root);
        match &runtime {
            Ok(program) => tracing::info!(program, "containers are run by this runtime"),
            Err(why) => tracing::error!(why, "containers cannot be run"),
        }
        Self { stacks, state, group, runtime }
    }

    pub(crate) fn health(&self) -> Result<(), String> {
        self.runtime.as_ref().map(drop).map_err(Clone::clone)
    }

    /// Lays the overlay of a container over its stack.
    pub(crate) fn make(&self, folder: &Path, rootfs: &str) -> io::Result<()> {
        let stack = self.stack(rootfs).map_err(io::Error::other)?;
        lay(folder, stack)
    }

    /// Takes a container apart, up to its files.
    pub(crate) fn unmake(&self, folder: &Path) -> io::Result<()> {
        self.clear(folder)?;
        lift(folder)
    }

    /// Removes what the runtime still knows of a container, with its processes and control groups. Shims have done so, unless
    /// they were killed.
    pub(crate) fn clear(&self, folder: &Path) -> io::Result<()> {
        let prefix = id(&folder.file_name().unwrap_or_default().to_string_lossy(), "");
        let known = match fs::read_dir(&self.state) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            known => known?,
        };
        for entry in known {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with(&prefix) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    fn remove(&self, id: &str) -> io::Result<()> {
        let runtime = self.runtime.as_ref().map_err(|why| io::Error::other(why.clone()))?;
        let output = ask(runtime, &self.state, &["delete", "--force", id])?;
        match self.state.join(id).exists() {
            true => Err(io::Error::other(format!("{runtime} does not remove {id}: {}", complaint(&output)))),
            false => Ok(()),
        }
    }

    fn stack(&self, rootfs: &str) -> Result<&PathBuf, String> {
        let name = rootfs.strip_prefix("preloaded:").unwrap_or(rootfs);
        let known = || self.stacks.keys().cloned().collect::<Vec<_>>().join(", ");
        self.stacks.get(name).ok_or_else(|| format!("this cell has no root file system {rootfs}; it has: {}", known()))
    }

    pub(crate) fn launch(
        &self,
        place: &Place<'_>,
        step: &Step,
        action: &models::RunAction,
        inside: &Inside<'_>,
        joins: Option<&Step>,
    ) -> Result<Launch, String> {
        let runtime = self.runtime.clone()?;
        let id = |step: &Step| id(&folder_name(&place.container.guid), step.as_str());
        let process = process(action, inside, place.spec.privileged);
        let base = vec![runtime, "--root".to_owned(), self.state.display().to_string()];
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let failed = |error: io::Error| format!("the bundle cannot be written: {error}");
        let folder = place.files.folder();
        fs::create_dir_all(folder).map_err(failed)?;
        let was_cut_short = self.state.join(id(step)).exists() && !place.files.was_started();
        if was_cut_short && place.files.lock().is_ok() {
            self.remove(&id(step)).map_err(|error| error.to_string())?;
        }
        let pid_file = folder.join("pid");
        let pid_path = pid_file.display().to_string();
        let write = |name: &str, value: &Value| {
            let path = folder.join(name);
            super::process::files::write(&path, value).map(|()| path.display().to_string())
        };
        let (command, start, afterwards) = match joins {
            Some(joined) => {
                let path = write("process.json", &process).map_err(failed)?;
                let run = ["exec", "--detach", "--pid-file", &pid_path, "--process", &path, &id(joined)];
                (words(&run), Vec::new(), Vec::new())
            }
            None => {
                let group = format!("{}{}", self.group, id(step));
                write("config.json", &bundle(place, &process, &group)).map_err(failed)?;
                let make = ["create", "--bundle", &folder.display().to_string(), "--pid-file", &pid_path, &id(step)];
                let [start, delete] = [words(&["start", &id(step)]), words(&["delete", "--force", &id(step)])];
                (words(&make), [base.clone(), start].concat(), [base.clone(), delete].concat())
            }
        };
        Ok(Launch {
            command: [base, command].concat(),
            dir: folder.to_owned(),
            env: vec![("PATH".to_owned(), PATH.to_owned())],
            user: None,
            nofile: None,
            groups: Vec::new(),
            afterwards,
            made: Some(Made { pid_file, start }),
        })
    }
}

/// What the runtime calls a container. No name of a container or step has this sign in it, so that none begins like another.
fn id(container: &str, step: &str) -> String {
    format!("{container}+{step}")
}

fn process(action: &models::RunAction, inside: &Inside<'_>, is_privileged: bool) -> Value {
    let env: Vec<String> = inside.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let (uid, gid) = inside.owner.unwrap_or((0, 0));
    let args = [vec![action.path.clone()], action.args.clone()].concat();
    let limits = inside.nofile.map(|nofile| json!({ "type": "RLIMIT_NOFILE", "hard": nofile, "soft": nofile }));
    json!({
        "terminal": false,
        "user": { "uid": uid, "gid": gid },
        "args": args,
        "env": env,
        "cwd": inside.dir,
        "capabilities": { "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES },
        "rlimits": limits.into_iter().collect::<Vec<_>>(),
        "noNewPrivileges": !is_privileged,
    })
}

/// The `config.json` of a bundle.
fn bundle(place: &Place<'_>, process: &Value, group: &str) -> Value {
    let reservation = &place.container.reservation;
    let resources = resources(reservation.room.memory_mb, reservation.max_pids, place.spec.cpu_weight);
    config(place.root.path(), process, &resources, group)
}

/// Zero: no limit.
fn resources(memory_mb: i32, max_pids: i32, cpu_weight: u32) -> Value {
    let mut resources = json!({ "devices": [{ "allow": false, "access": "rwm" }] });
    if memory_mb > 0 {
        resources["memory"] = json!({ "limit": i64::from(memory_mb) * MB_BYTES });
    }
    if max_pids > 0 {
        resources["pids"] = json!({ "limit": max_pids });
    }
    if cpu_weight > 0 {
        // As Diego: a weight of 100 is the share that everybody has by default.
        resources["cpu"] = json!({ "shares": (u64::from(cpu_weight) * 1024 / 100).max(2) });
    }
    resources
}

fn config(root: &Path, process: &Value, resources: &Value, group: &str) -> Value {
    let mount = |to: &str, kind: &str, options: &[&str]| json!({ "destination": to, "type": kind, "source": kind, "options": options });
    let bind = |path: &str| json!({ "destination": path, "type": "bind", "source": path, "options": ["bind", "ro", "nosuid", "nodev"] });
    let mut mounts = vec![
        mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
        mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
    ];
    // The network is the host's, and so are its names.
    mounts.extend(["/etc/resolv.conf", "/etc/hosts"].into_iter().filter(|path| Path::new(path).exists()).map(bind));
    let namespaces: Vec<Value> = ["pid", "ipc", "uts", "mount"].iter().map(|kind| json!({ "type": kind })).collect();
    json!({
        "ociVersion": "1.0.2",
        "process": process,
        "root": { "path": root, "readonly": false },
        "hostname": "cell",
        "mounts": mounts,
        "linux": {
            "cgroupsPath": group,
            "namespaces": namespaces,
            "resources": resources,
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/sched_debug", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    })
}

/// The first runtime that works, or what each of them said.
fn choose(
    stacks: &BTreeMap<String, PathBuf>,
    runtimes: &[String],
    state: &Path,
    group: &str,
    is_root: bool,
) -> Result<String, String> {
    if !is_root {
        return Err("containers of an OCI runtime need root: run the cell as root, or use plain processes".to_owned());
    }
    if let Some((name, path)) = stacks.iter().find(|(_, path)| !path.is_dir()) {
        return Err(format!("the root file system {name} is not there: {} is not a folder", path.display()));
    }
    let mut said = Vec::new();
    for runtime in runtimes {
        match probe(runtime, state, group) {
            Ok(()) => return Ok(runtime.clone()),
            Err(why) => said.push(format!("{runtime}: {why}")),
        }
    }
    let said = if said.is_empty() { "none is configured".to_owned() } else { said.join("; ") };
    Err(format!("no OCI runtime works on this machine ({said}); install crun or runc, or use plain processes"))
}

/// Runs a container over an empty root file system, with limits, up to the program that is not there.
fn probe(runtime: &str, state: &Path, group: &str) -> Result<(), String> {
    // Not inside the state: a folder there with the name of a container is that container to the runtime.
    let bundle = state.with_extension(PROBE);
    let outcome = write_probe(&bundle, &format!("{group}{PROBE}")).and_then(|()| {
        // A cell that was killed may have left its own.
        let delete = || ask(runtime, state, &["delete", "--force", PROBE]);
        delete()?;
        let output = ask(runtime, state, &["run", "--bundle", &bundle.display().to_string(), PROBE])?;
        delete()?;
        Ok(complaint(&output))
    });
    let removed = lift(&bundle).and_then(|()| fs::remove_dir_all(&bundle));
    let said = match outcome.and_then(|said| removed.map(|()| said)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err("it is not installed".to_owned()),
        Err(error) => return Err(error.to_string()),
        Ok(said) => said,
    };
    let missed = said.contains(PROBE_PROGRAM)
        && ["no such file", "not found"].iter().any(|what| said.to_lowercase().contains(what));
    if missed { Ok(()) } else { Err(said) }
}

fn write_probe(bundle: &Path, group: &str) -> io::Result<()> {
    let failed = |error: io::Error| {
        let shown = bundle.display();
        io::Error::other(format!("an overlay cannot be laid in {shown} ({error}); is it on ext4, xfs or the like?"))
    };
    let stack = bundle.join("stack");
    fs::create_dir_all(&stack).and_then(|()| lay(bundle, &stack)).map_err(failed)?;
    let action = models::RunAction { path: PROBE_PROGRAM.to_owned(), ..models::RunAction::default() };
    let inside = Inside { dir: "/", env: vec![("PATH".to_owned(), PATH.to_owned())], owner: None, nofile: None };
    let limits = resources(PROBE_MEMORY_MB, PROBE_PIDS, PROBE_CPU_WEIGHT);
    let config = config(&bundle.join("root"), &process(&action, &inside, false), &limits, group);
    super::process::files::write(&bundle.join("config.json"), &config)
}

fn ask(runtime: &str, state: &Path, words: &[&str]) -> io::Result<Output> {
    let mut command = Command::new(runtime);
    command.env("PATH", PATH).arg("--root").arg(state).args(words).stdin(Stdio::null()).output()
}

fn complaint(output: &Output) -> String {
    let said = runtime::message(&String::from_utf8_lossy(&output.stderr));
    said.unwrap_or_else(|| format!("it ended with {} and said nothing", output.status))
}

/// Lays an overlay over a stack, as `root` in this folder. Laying it again does no harm.
fn lay(folder: &Path, stack: &Path) -> io::Result<()> {
    let root = folder.join("root");
    if is_mounted(&root)? {
        return Ok(());
    }
    let [upper, work] = ["upper", "work"].map(|name| folder.join(name));
    for folder in [&root, &upper, &work] {
        fs::create_dir_all(folder)?;
    }
    let part = |path: &Path| path.display().to_string().replace('\\', "\\\\").replace(',', "\\,").replace(':', "\\:");
    let options = format!("lowerdir={},upperdir={},workdir={}", part(stack), part(&upper), part(&work));
    let options = CString::new(options).map_err(io::Error::other)?;
    Ok(rustix::mount::mount("overlay", &root, "overlay", MountFlags::NODEV, options.as_c_str())?)
}

fn lift(folder: &Path) -> io::Result<()> {
    let root = folder.join("root");
    while is_mounted(&root)? {
        rustix::mount::unmount(&root, UnmountFlags::DETACH)?;
    }
    Ok(())
}

fn is_mounted(path: &Path) -> io::Result<bool> {
    let shown = path.display().to_string().replace('\\', "\\134").replace(' ', "\\040");
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    Ok(mounts.lines().any(|line| line.split(' ').nth(1) == Some(shown.as_str())))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_process_is_told_apart_from_root() {
        let action = models::RunAction {
            path: "/bin/app".to_owned(),
            args: vec!["--flag".to_owned()],
            ..models::RunAction::default()
        };
        let env = vec![("PORT".to_owned(), "61001".to_owned())];
        let inside = Inside { dir: "/home", env, owner: Some((2000, 2000)), nofile: Some(16) };
        let mut process = process(&action, &inside, false);
        assert_eq!(process["capabilities"]["bounding"], json!(CAPABILITIES));
        process["capabilities"] = json!("as above");
        expect![[r#"{"args":["/bin/app","--flag"],"capabilities":"as above","cwd":"/home","env":["PORT=61001"],"noNewPrivileges":true,"rlimits":[{"hard":16,"soft":16,"type":"RLIMIT_NOFILE"}],"terminal":false,"user":{"gid":2000,"uid":2000}}"#]].assert_eq(&process.to_string());
    }

    #[test]
    fn a_cell_that_is_not_root_says_so() {
        let oci = Oci::new(BTreeMap::new(), &["runc".to_owned()], Path::new("/nonexistent"), false);
        expect!["containers of an OCI runtime need root: run the cell as root, or use plain processes"]
            .assert_eq(&oci.health().unwrap_err());
        let missing = BTreeMap::from([("stack".to_owned(), PathBuf::from("/no/such/folder"))]);
        let oci = Oci::new(missing, &["runc".to_owned()], Path::new("/nonexistent"), true);
        expect!["the root file system stack is not there: /no/such/folder is not a folder"]
            .assert_eq(&oci.health().unwrap_err());
        expect!["this cell has no root file system docker://busybox; it has: stack"]
            .assert_eq(&oci.stack("docker://busybox").unwrap_err());
        assert!(oci.stack("preloaded:stack").is_ok());
    }
}
