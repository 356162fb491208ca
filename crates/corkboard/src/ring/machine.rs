//! What a cell has if nobody says it: what this machine has.

use std::io;
use std::path::Path;

use cell::executor::Room;

/// As many as a Diego cell takes.
pub(super) const CONTAINERS: i32 = 250;
const KB_PER_MB: u64 = 1024;
const MB_BYTES: u64 = 1024 * 1024;

/// All memory, and all of the disk that holds `dir` or the folder in which it will be.
pub(crate) fn room(dir: &Path) -> io::Result<Room> {
    let there = dir.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let disk = rustix::fs::statvfs(there)?;
    let disk_mb = disk.f_blocks.saturating_mul(disk.f_frsize) / MB_BYTES;
    let memory_mb = total_kb(&std::fs::read_to_string("/proc/meminfo")?)
        .ok_or_else(|| io::Error::other("/proc/meminfo does not say how much memory there is"))?
        / KB_PER_MB;
    let small = |mb: u64| i32::try_from(mb).unwrap_or(i32::MAX);
    Ok(Room { memory_mb: small(memory_mb), disk_mb: small(disk_mb), containers: CONTAINERS })
}

fn total_kb(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// How this machine calls itself.
pub(super) fn name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_memory_and_a_disk() {
        assert_eq!(total_kb("MemFree: 1 kB\nMemTotal:       16252928 kB\n"), Some(16_252_928));
        assert_eq!(total_kb("MemFree: 1 kB\n"), None);
        let room = room(Path::new("/no/such/folder")).unwrap();
        assert!(room.memory_mb > 0 && room.disk_mb > 0, "{room:?}");
    }
}
