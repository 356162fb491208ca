//! The files of one step: what was to be started, who runs, how it ended, what it wrote.
//!
//! Each is written whole under another name and then renamed, so that whoever reads sees all of it or nothing. They are
//! readable by their owner alone: environments hold secrets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::proc;

/// What the shim is to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) command: Vec<String>,
    pub(crate) dir: PathBuf,
    pub(crate) env: Vec<(String, String)>,
    /// User and group, where they are others than those of the cell.
    pub(crate) user: Option<(u32, u32)>,
    pub(crate) nofile: Option<u64>,
    /// Control groups that it is born in, and those that the shim goes back to.
    pub(crate) groups: Vec<(PathBuf, PathBuf)>,
    /// What to run when it ended, whatever came of it: a container of a runtime has to be removed.
    pub(crate) afterwards: Vec<String>,
    /// Where the command is a runtime, which only makes the process.
    #[serde(default)]
    pub(crate) made: Option<Made>,
}

/// How to come from a runtime to the process that it makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Made {
    /// Where the runtime writes the id of the process.
    pub(crate) pid_file: PathBuf,
    /// What lets the process begin; nothing where it begins by itself.
    pub(crate) start: Vec<String>,
}

/// One process, and no other that has its id later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessName {
    pub(crate) pid: i32,
    pub(crate) start_ticks: u64,
}

impl ProcessName {
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        Ok(Self { pid, start_ticks: proc::stat(pid)?.start_ticks })
    }

    pub(crate) fn is_there(self) -> bool {
        proc::stat(self.pid).is_ok_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_zombie)
    }
}

/// Who runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) boot: String,
    pub(crate) shim: ProcessName,
    pub(crate) process: ProcessName,
}

impl Identity {
    /// Whether anything of it still runs.
    pub(crate) fn is_there(&self) -> bool {
        self.boot == proc::boot() && (self.shim.is_there() || self.process.is_there())
    }
}

/// How it ended, or why it was never started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) error: Option<String>,
    /// Whether the kernel killed something of it for its memory. Plain processes are asked for that elsewhere.
    #[serde(default)]
    pub(crate) out_of_memory: bool,
}

/// Up to where the output was read: the file and the place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) inode: u64,
    pub(crate) offset: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct StepFiles {
    folder: PathBuf,
}

impl StepFiles {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn create(&self, launch: &Launch) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        write(&self.folder.join("launch.json"), launch)
    }

    pub(crate) fn launch(&self) -> io::Result<Launch> {
        read(&self.folder.join("launch.json"))?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Held by the shim for as long as it lives, so that a step is never run twice at the same time.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.folder.join("lock"))?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }

    pub(crate) fn was_started(&self) -> bool {
        self.folder.join("identity.json").exists() || self.folder.join("ended.json").exists()
    }

    pub(crate) fn identity(&self) -> io::Result<Option<Identity>> {
        read(&self.folder.join("identity.json"))
    }

    pub(crate) fn set_identity(&self, identity: &Identity) -> io::Result<()> {
        write(&self.folder.join("identity.json"), identity)
    }

    pub(crate) fn exit(&self) -> io::Result<Option<Ended>> {
        read(&self.folder.join("ended.json"))
    }

    pub(crate) fn set_exit(&self, ended: &Ended) -> io::Result<()> {
        write(&self.folder.join("ended.json"), ended)
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.folder.join("output")
    }

    pub(crate) fn mark(&self) -> Mark {
        read(&self.folder.join("mark.json")).ok().flatten().unwrap_or_default()
    }

    pub(crate) fn set_mark(&self, mark: Mark) -> io::Result<()> {
        write(&self.folder.join("mark.json"), &mark)
    }
}

/// Writes a whole file, or leaves the one that was there.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    let draft = path.with_added_extension("new");
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&text)?;
    fs::rename(draft, path)
}

/// Nothing when there is no such file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
