//! The parent of one process: starts it, reads what it writes, and notes how it ended.
//!
//! It leaves the session of the cell, so that nothing that is sent to the cell reaches it. Whatever its process leaves behind
//! becomes its own child, even what went into a session of its own, and is killed when the process has ended: nothing escapes.
//! It never makes the process wait for a reader. What was written and not read yet is bounded by [`OUTPUT_BYTES_MAX`], twice.
//!
//! It runs alone in its program and has no part in anything asynchronous; threads read the two pipes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};

use super::super::logs::LINE_BYTES_MAX;
use super::files::{Ended, Identity, Launch, ProcessName, StepFiles};
use super::{cgroup, proc, runtime};

/// The most of the output that waits in one file; there are two.
const OUTPUT_BYTES_MAX: u64 = 1024 * 1024;

/// Runs the process of the step in this folder to its end. What went wrong is noted in the folder.
pub fn main(folder: &Path) -> ExitCode {
    let files = StepFiles::new(folder.to_owned());
    // Another shim has this step already, and the cell will find that one.
    let Ok(_lock) = files.lock() else { return ExitCode::from(EXIT_TAKEN) };
    if files.was_started() {
        return ExitCode::from(EXIT_TAKEN);
    }
    let ended = match files.launch().and_then(|launch| run(&files, &launch)) {
        Ok(ended) => ended,
        Err(error) => Ended { status: 0, error: Some(error.to_string()), out_of_memory: false },
    };
    match files.set_exit(&ended) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

const EXIT_TAKEN: u8 = 3;

fn run(files: &StepFiles, launch: &Launch) -> io::Result<Ended> {
    // Fails only for one that leads a session already, which is as good.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    if let Some(nofile) = launch.nofile {
        let most = rustix::process::getrlimit(Resource::Nofile).maximum;
        let most = if rustix::process::getuid().is_root() { Some(nofile.max(most.unwrap_or(nofile))) } else { most };
        let wanted = Some(most.map_or(nofile, |most| nofile.min(most)));
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: wanted })?;
    }
    let output = Arc::new(Mutex::new(Lines::open(files.output())?));
    let child = enter(launch).and_then(|()| spawn(launch));
    leave(launch);
    let mut child = child?;
    let begun = match begin(files, launch, &mut child) {
        Ok(begun) => begun,
        Err(error) => {
            // Nobody could ever find what is there.
            end_rest(None);
            afterwards(launch);
            let complaint = launch.made.as_ref().and_then(|_| runtime::complaint(&mut child));
            return Err(complaint.map_or(error, io::Error::other));
        }
    };
    say_started();
    let readers = [
        child.stdout.take().map(|pipe| follow(pipe, 'O', output.clone())),
        child.stderr.take().map(|pipe| follow(pipe, 'E', output)),
    ];
    let status = reap(begun.pid)?;
    end_rest(Some(begun.pid));
    let out_of_memory = begun.group.is_some_and(|group| cgroup::has_killed(&group));
    afterwards(launch);
    for reader in readers.into_iter().flatten() {
        let _ = reader.join();
    }
    Ok(Ended { status, error: None, out_of_memory })
}

/// A process that was started, by the shim or by a runtime.
struct Begun {
    pid: i32,
    /// The control group of a container, for as long as the runtime has not removed it.
    group: Option<PathBuf>,
}

fn begin(files: &StepFiles, launch: &Launch, child: &mut Child) -> io::Result<Begun> {
    let pid = match &launch.made {
        Some(made) => runtime::process_of(child, &made.pid_file)?,
        None => i32::try_from(child.id()).map_err(io::Error::other)?,
    };
    files.set_identity(&Identity {
        boot: proc::boot(),
        shim: ProcessName::of(i32::try_from(std::process::id()).map_err(io::Error::other)?)?,
        process: ProcessName::of(pid)?,
    })?;
    let Some(made) = &launch.made else { return Ok(Begun { pid, group: None }) };
    // What runs beside an app is in the group of the app, and does not answer for it.
    let group = if made.start.is_empty() { None } else { cgroup::memory_group(pid) };
    runtime::tell(launch, &made.start)?;
    Ok(Begun { pid, group })
}

fn enter(launch: &Launch) -> io::Result<()> {
    let own = std::process::id().to_string();
    launch.groups.iter().try_for_each(|(inside, _)| fs::write(inside, &own))
}

/// The shim is not the app's, and does not count for what the app uses. One that cannot leave stays and is small.
fn leave(launch: &Launch) {
    let own = std::process::id().to_string();
    for (_, outside) in &launch.groups {
        let _ = fs::write(outside, &own);
    }
}

fn spawn(launch: &Launch) -> io::Result<Child> {
    let (program, arguments) = launch.command.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(launch.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&launch.dir).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some((user, group)) = launch.user {
        command.uid(user).gid(group);
    }
    let dir = launch.dir.display();
    command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{program} in {dir}: {error}")))
}

/// The cell waits for this word.
fn say_started() {
    let mut out = io::stdout();
    let _ = out.write_all(b"started\n").and_then(|()| out.flush());
}

/// Waits for the process, and takes care of what others left on the way.
fn reap(pid: i32) -> io::Result<i32> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended.as_raw_pid() == pid => return Ok(code(status)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// As a shell says it.
fn code(status: WaitStatus) -> i32 {
    const SIGNAL_OFFSET: i32 = 128;
    status.exit_status().or_else(|| status.terminating_signal().map(|signal| SIGNAL_OFFSET + signal)).unwrap_or(-1)
}

/// Kills everything that is left. What is born meanwhile becomes a child of this process as well and is met the next time.
fn end_rest(pid: Option<i32>) {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    if let Some(group) = pid.and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    loop {
        for left in proc::Snapshot::take().unwrap_or_default().below(own) {
            if let Some(left) = Pid::from_raw(left.pid) {
                let _ = rustix::process::kill_process(left, Signal::KILL);
            }
        }
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// What fails here is left for the cell, which looks for it before it forgets a container.
fn afterwards(launch: &Launch) {
    let _ = runtime::tell(launch, &launch.afterwards);
}

fn follow(pipe: impl Read + Send + 'static, kind: char, output: Arc<Mutex<Lines>>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        loop {
            line.clear();
            match reader.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
                        line.pop();
                    }
                    output.lock().unwrap_or_else(PoisonError::into_inner).write(kind, &line);
                }
            }
        }
    })
}

/// Lines that wait for the cell, in a file that gives way to a new one when it is full.
struct Lines {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Lines {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = Self::file(&path)?;
        Ok(Self { path, file, bytes: 0 })
    }

    fn file(path: &Path) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).mode(0o600).open(path)
    }

    /// A line that cannot be written, because the disk is full perhaps, is lost: the process must not notice.
    fn write(&mut self, kind: char, line: &[u8]) {
        if self.bytes >= OUTPUT_BYTES_MAX
            && fs::rename(&self.path, self.path.with_added_extension("old")).is_ok()
            && let Ok(file) = Self::file(&self.path)
        {
            (self.file, self.bytes) = (file, 0);
        }
        let whole = [&[kind as u8, b' '], line, b"\n"].concat();
        if self.file.write_all(&whole).is_ok() {
            self.bytes += whole.len() as u64;
        }
    }
}
