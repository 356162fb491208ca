//! What the kernel knows about a process of this machine: processor time and memory.

use std::fs;

use anyhow::Context;

/// Linux reports processor time in these, whatever the kernel was built with.
const TICKS_PER_SECOND: f64 = 100.0;
/// Fields of `/proc/<pid>/stat`, counted from the one after the name, which is the third.
const USER_TIME_AT: usize = 11;
const SYSTEM_TIME_AT: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(pub u32);

impl Process {
    /// User and system time of all threads since the start of the process.
    pub fn cpu_seconds(self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0))?;
        cpu_seconds(&stat).with_context(|| format!("the kernel's line about process {} has another form", self.0))
    }

    /// The most memory it ever had, in bytes.
    pub fn memory_peak_bytes(self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0))?;
        memory_line_bytes(&status, "VmHWM:")
            .with_context(|| format!("the kernel says nothing of the memory of process {}", self.0))
    }

    /// The memory that it has now, in bytes.
    pub fn memory_bytes(self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0))?;
        memory_line_bytes(&status, "VmRSS:")
            .with_context(|| format!("the kernel says nothing of the memory of process {}", self.0))
    }

    /// What it had written to disks so far.
    pub fn written_bytes(self) -> anyhow::Result<u64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.0))?;
        written_bytes(&io).with_context(|| format!("the kernel says nothing of what process {} wrote", self.0))
    }
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name is in parentheses and may itself hold spaces and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(USER_TIME_AT)? + ticks(SYSTEM_TIME_AT)?) / TICKS_PER_SECOND)
}

/// What all processes of this machine together used of its processors, in seconds since it was started.
pub fn busy_seconds() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    busy_seconds_of(&stat).context("the kernel's line about all processors has another form")
}

fn busy_seconds_of(stat: &str) -> Option<f64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // User, nice, system; then idle and waiting for disks; then interrupts.
    let busy = ticks.get(..3)?.iter().chain(ticks.get(5..7)?).sum::<f64>();
    Some(busy / TICKS_PER_SECOND)
}

fn memory_line_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1_024)
}

fn written_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("write_bytes:"))?.trim().parse().ok()
}

/// Facts about the machine for the head of a report: no names, no addresses, no paths.
#[derive(Clone, Debug)]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub memory_bytes: u64,
    pub kernel: String,
}

impl Machine {
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = value(&text("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kilobytes: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: value(&text("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
            memory_bytes: kilobytes * 1_024,
            kernel: text("/proc/sys/kernel/osrelease").trim().split('-').next().unwrap_or_default().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_kernel_is_understood_even_with_a_strange_name() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 4 0 100 0 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("42 (short) S 1"), None);
        assert_eq!(memory_line_bytes("VmPeak:\t 5 kB\nVmHWM:\t   2048 kB\n", "VmHWM:"), Some(2_097_152));
        assert_eq!(memory_line_bytes("VmRSS: 1 kB", "VmHWM:"), None);
        assert_eq!(busy_seconds_of("cpu  100 10 90 7 8 30 20 0 0 0\ncpu0 1"), Some(2.5));
        assert_eq!(written_bytes("wchar: 7\nwrite_bytes: 4096\ncancelled_write_bytes: 9\n"), Some(4_096));
    }

    #[test]
    fn we_ourselves_can_be_measured() {
        let ourselves = Process(std::process::id());
        assert!(ourselves.memory_peak_bytes().unwrap() > 1_000_000);
        let before = ourselves.cpu_seconds().unwrap();
        let mut noise = crate::noise::Noise::new(1);
        while ourselves.cpu_seconds().unwrap() < before + 0.02 {
            std::hint::black_box(noise.bytes(100_000));
        }
        assert!(Machine::read().cores >= 1);
    }
}
