//! What `/proc` says of processes: who is whose child, since when they run, what they use.
//!
//! A process may end between two reads, so that what is missing is not an error but simply gone.

use std::collections::HashMap;
use std::{fs, io};

/// One line of `/proc/<pid>/stat`, as far as it is of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) is_zombie: bool,
    pub(crate) cpu_ticks: u64,
    pub(crate) start_ticks: u64,
}

pub(crate) fn stat(pid: i32) -> io::Result<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse(pid, &text).ok_or_else(|| io::Error::other("a line of /proc that cannot be read"))
}

fn parse(pid: i32, text: &str) -> Option<Stat> {
    // The name of a program may hold spaces and brackets, so that only the last bracket ends it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        cpu_ticks: number(11)? + number(12)?,
        start_ticks: number(19)?,
    })
}

/// All processes of the machine at about one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    children: HashMap<i32, Vec<Stat>>,
}

impl Snapshot {
    pub(crate) fn take() -> io::Result<Self> {
        let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Ok(stat) = stat(pid) {
                children.entry(stat.parent).or_default().push(stat);
            }
        }
        Ok(Self { children })
    }

    /// Everything below a process, without itself.
    pub(crate) fn below(&self, root: i32) -> Vec<Stat> {
        let (mut found, mut queue) = (Vec::new(), vec![root]);
        while let Some(parent) = queue.pop() {
            for child in self.children.get(&parent).into_iter().flatten() {
                found.push(*child);
                queue.push(child.pid);
            }
        }
        found
    }
}

/// Memory that is this process's alone: what is shared with others, such as libraries, is not held against anybody.
pub(crate) fn memory_bytes(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut fields = text.split_ascii_whitespace().skip(1).map(|field| field.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
    resident.saturating_sub(shared) * rustix::param::page_size() as u64
}

/// Changes when the machine is started again.
pub(crate) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_may_hold_anything() {
        let line = "7 (a) b) c) S 3 7 7 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0 999 1 2 3";
        let stat = parse(7, line).unwrap();
        assert_eq!((stat.parent, stat.cpu_ticks, stat.start_ticks, stat.is_zombie), (3, 110, 999, false));
        assert_eq!(parse(7, "7 (x"), None);
    }

    #[test]
    fn this_process_is_below_its_parent() {
        let own = std::process::id() as i32;
        let parent = stat(own).unwrap().parent;
        let below = Snapshot::take().unwrap().below(parent);
        assert!(below.iter().any(|stat| stat.pid == own));
        assert!(memory_bytes(own) > 0 && !boot().is_empty());
    }
}
