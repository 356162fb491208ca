//! What tests of containers need: a root file system, whether a runtime works here, and what is left of a container.
//!
//! Promise: nothing here knows how a cell works. A runtime is tried with a bundle of our own, so that a cell that refuses on a
//! machine where this one ran is at fault; and what is left is looked for in the places where the kernel keeps it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

/// What a cell tries, the first one first, unless it is told otherwise.
pub const RUNTIMES: [&str; 2] = ["crun", "runc"];

const PROGRAMS: [&str; 6] = ["sh", "sleep", "cat", "id", "ls", "touch"];

/// Makes a root file system `rootfs` in a folder: a shell and a few programs of this machine in `/bin`, and `more` where they are.
pub fn rootfs(folder: &Path, more: &[&Path]) -> PathBuf {
    let root = folder.join("rootfs");
    for name in ["bin", "etc", "tmp", "proc", "dev", "sys"] {
        fs::create_dir_all(root.join(name)).expect("a folder of the root file system");
    }
    let users = "root:x:0:0::/:/bin/sh\nvcap:x:2000:2000::/home/vcap:/bin/sh\n";
    fs::write(root.join("etc/passwd"), users).expect("the users of the root file system");
    for name in PROGRAMS {
        let places = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
        let program = places.iter().find_map(|path| fs::canonicalize(path).ok()).expect("a program of every machine");
        copy(&root, &program, &Path::new("/bin").join(name));
    }
    more.iter().for_each(|program| copy(&root, program, program));
    root
}

/// With the libraries that it loads.
fn copy(root: &Path, program: &Path, to: &Path) {
    let put = |from: &Path, to: &Path| {
        let to = root.join(to.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder of the root file system");
        fs::copy(from, to).expect("a file of the root file system");
    };
    put(program, to);
    let output = Command::new("ldd").arg(program).output().expect("ldd is on every machine that compiles");
    for word in String::from_utf8_lossy(&output.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
        put(Path::new(word), Path::new(word));
    }
}

/// Whether containers can be run here, with limits. Says loudly when they cannot.
pub fn is_possible() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    rootfs(folder.path(), &[]);
    let name = format!("corkboard-test{}", folder.path().file_name().unwrap_or_default().display());
    let bundle = json!({
        "ociVersion": "1.0.2",
        "process": { "user": { "uid": 0, "gid": 0 }, "args": ["/bin/sh", "-c", "echo it works"], "cwd": "/" },
        "root": { "path": "rootfs" },
        "mounts": [{ "destination": "/proc", "type": "proc", "source": "proc" }],
        "linux": {
            "cgroupsPath": format!("/{name}"),
            "namespaces": [{ "type": "pid" }, { "type": "ipc" }, { "type": "uts" }, { "type": "mount" }],
            "resources": { "memory": { "limit": 64 << 20 }, "pids": { "limit": 64 } },
        },
    });
    fs::write(folder.path().join("config.json"), bundle.to_string()).expect("the bundle");
    let works = |runtime: &&str| {
        let mut command = Command::new(runtime);
        command.arg("--root").arg(folder.path().join("state"));
        let output = command.args(["run", "--bundle"]).arg(folder.path()).arg(&name).output();
        output.is_ok_and(|output| output.stdout == b"it works\n")
    };
    let is_possible = rustix::process::geteuid().is_root() && RUNTIMES.iter().any(works);
    if !is_possible {
        let text = b"SKIPPED: containers need root and a runtime that works here; as root: apt-get install -y runc\n";
        let _ = std::io::stderr().write_all(text);
    }
    is_possible
}

/// Ids, for this machine, of processes in control groups of the container with this guid.
pub fn processes(guid: &str) -> Vec<String> {
    let name = format!("-{guid}+");
    let is_inside = |pid: &String| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let state = read("stat").rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X')) && read("cgroup").contains(&name)
    };
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let all = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    all.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(is_inside).collect()
}

/// Folders of control groups of the container with this guid.
pub fn groups(guid: &str) -> Vec<PathBuf> {
    let name = format!("-{guid}+");
    let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc");
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let roots = fields.filter(|fields| fields[2].starts_with("cgroup")).map(|fields| fields[1].to_owned());
    let below = |root: String| fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    roots.flat_map(below).filter(|path| path.display().to_string().contains(&name)).collect()
}

/// Mounts below a folder.
pub fn mounts(folder: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc");
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    points.filter(|point| Path::new(point).starts_with(folder)).map(ToOwned::to_owned).collect()
}
