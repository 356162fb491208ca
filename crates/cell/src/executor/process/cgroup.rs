//! Control groups for plain processes: hard limits of memory and of the number of processes, where this machine lets us set them.
//!
//! Both versions are known. A group is made below the one that the cell is in, which needs root, or a service manager that has
//! handed that group over with its controllers (systemd: `Delegate=memory pids`). Where that is not so, the guard of the cell
//! counts instead, a moment later. A process is born in its group: the shim enters, starts it, and leaves again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where groups can be made, or why they cannot.
#[derive(Debug)]
pub(crate) struct Groups {
    bases: Result<Vec<Base>, String>,
}

/// How the names of groups begin.
const PREFIX: &str = "corkboard";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Base {
    /// The group that the cell is in.
    folder: PathBuf,
    kind: Kind,
    /// The name of the cell, in all its groups.
    cell: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Version 2: all controllers in one.
    Unified,
    /// Version 1: one hierarchy for each.
    Memory,
    Pids,
}

/// What a container may use; zero: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: u64,
    pub(crate) pids: u64,
}

impl Groups {
    /// None, because somebody wants it so.
    pub(crate) fn none() -> Self {
        Self { bases: Err("control groups are switched off".to_owned()) }
    }

    pub(crate) fn find(cell: &str) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let bases = bases(&text("/proc/self/mounts"), &text("/proc/self/cgroup"), cell);
        Self { bases: bases.into_iter().map(Base::tried).collect::<Result<Vec<_>, _>>().and_then(complete) }
    }

    pub(crate) fn health(&self) -> Result<(), &str> {
        self.bases.as_ref().map(drop).map_err(String::as_str)
    }

    fn each(&self) -> impl Iterator<Item = &Base> {
        self.bases.iter().flatten()
    }

    /// Makes the groups of a container. Making them again changes their limits.
    pub(crate) fn make(&self, name: &str, limits: Limits) -> io::Result<()> {
        for base in self.each() {
            let folder = base.group(name);
            fs::create_dir_all(&folder)?;
            for (file, value) in base.kind.limits(limits) {
                fs::write(folder.join(file), value)?;
            }
        }
        Ok(())
    }

    /// The groups that a process of this container is to be born in, and where its shim goes back to.
    pub(crate) fn of(&self, name: &str) -> Vec<(PathBuf, PathBuf)> {
        let procs = |folder: &Path| folder.join("cgroup.procs");
        self.each().map(|base| (procs(&base.group(name)), procs(&base.folder))).collect()
    }

    /// Whether the kernel has killed something in this container because of its memory.
    pub(crate) fn was_out_of_memory(&self, name: &str) -> bool {
        self.each().any(|base| has_killed(&base.group(name)))
    }

    /// Removes the groups of a container in which nothing runs.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        for base in self.each() {
            match fs::remove_dir(base.group(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The group that the memory of a process counts for, in either version.
pub(crate) fn memory_group(pid: i32) -> Option<PathBuf> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let bases = bases(&text("/proc/self/mounts"), &text(&format!("/proc/{pid}/cgroup")), "");
    bases.into_iter().find(|base| base.kind != Kind::Pids).map(|base| base.folder)
}

/// Whether the kernel has killed something in this group because of its memory.
pub(crate) fn has_killed(group: &Path) -> bool {
    let files = ["memory.events", "memory.oom_control"];
    files.iter().filter_map(|file| fs::read_to_string(group.join(file)).ok()).any(|text| kills(&text) > 0)
}

impl Base {
    fn group(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{PREFIX}-{}-{name}", self.cell))
    }

    /// Whether groups can be made here.
    fn tried(self) -> Result<Self, String> {
        let shown = self.folder.display();
        if self.kind == Kind::Unified {
            let given = fs::read_to_string(self.folder.join("cgroup.subtree_control")).unwrap_or_default();
            if !["memory", "pids"].iter().all(|wanted| given.split_whitespace().any(|found| found == *wanted)) {
                return Err(format!("the control group {shown} does not hand on the controllers memory and pids"));
            }
        }
        let probe = self.group(&format!("probe-{}", std::process::id()));
        let tried = fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe));
        tried.map_err(|error| format!("no control groups can be made in {shown}: {error}"))?;
        Ok(self)
    }
}

impl Kind {
    fn limits(self, limits: Limits) -> Vec<(&'static str, String)> {
        let (memory, pids) = (limits.memory_bytes, limits.pids);
        let memory_file = if self == Kind::Unified { "memory.max" } else { "memory.limit_in_bytes" };
        let wanted = [
            (memory > 0 && self != Kind::Pids, memory_file, memory),
            (pids > 0 && self != Kind::Memory, "pids.max", pids),
        ];
        wanted.into_iter().filter(|(is, ..)| *is).map(|(_, file, value)| (file, value.to_string())).collect()
    }
}

fn complete(bases: Vec<Base>) -> Result<Vec<Base>, String> {
    if bases.is_empty() { Err("no control groups are mounted".to_owned()) } else { Ok(bases) }
}

/// The groups that we are in, for the controllers that are of use: those of version 1 where they are there, or the one of
/// version 2.
fn bases(mounts: &str, groups: &str, cell: &str) -> Vec<Base> {
    let own = |controller: &str| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (names, path) = (parts.next()?, parts.next()?);
            names.split(',').any(|name| name == controller).then_some(path)
        })
    };
    let mounted = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, at, found, options, ..] = fields[..] else { return None };
            let has = option.is_empty() || options.split(',').any(|name| name == option);
            (found == kind && has).then_some(at)
        })
    };
    let base = |mount: &str, path: &str, kind| {
        let folder = Path::new(mount).join(path.trim_start_matches('/'));
        Base { folder, kind, cell: cell.to_owned() }
    };
    let first = [("memory", Kind::Memory), ("pids", Kind::Pids)]
        .into_iter()
        .filter_map(|(name, kind)| Some(base(mounted("cgroup", name)?, own(name)?, kind)));
    let first: Vec<Base> = first.collect();
    if !first.is_empty() {
        return first;
    }
    let unified = mounted("cgroup2", "").zip(own(""));
    unified.map(|(mount, path)| base(mount, path, Kind::Unified)).into_iter().collect()
}

/// The line `oom_kill <number>`, which both versions have.
fn kills(text: &str) -> u64 {
    let number = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
    text.lines().find_map(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let check = |mounts: &str, groups: &str, expected: &[(&str, Kind)]| {
            let expected: Vec<Base> = expected
                .iter()
                .map(|(folder, kind)| Base { folder: folder.into(), kind: *kind, cell: "c".into() })
                .collect();
            assert_eq!(bases(mounts, groups, "c"), expected);
        };
        let second = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        check(
            second,
            "0::/system.slice/cell.service\n",
            &[("/sys/fs/cgroup/system.slice/cell.service", Kind::Unified)],
        );
        let first = "cgroup /cg/memory cgroup rw,memory 0 0\ncgroup /cg/pids cgroup rw,pids 0 0\ncgroup2 /cg/u cgroup2 rw 0 0\n";
        check(
            first,
            "8:pids:/\n4:cpu,memory:/a/b\n0::/\n",
            &[("/cg/memory/a/b", Kind::Memory), ("/cg/pids/", Kind::Pids)],
        );
        check("", "", &[]);
    }

    #[test]
    fn kills_are_counted() {
        assert_eq!(kills("low 0\nmax 3\noom 2\noom_kill 1\n"), 1);
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"), 4);
        assert_eq!(kills("oom_kill_disable 0\n"), 0);
    }
}
