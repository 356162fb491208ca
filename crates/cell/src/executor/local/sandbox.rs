//! What a container is made of: a plain process of the host, or a container of a runtime.
//!
//! A plain process sees the file system of the host. Its container has a folder of its own, which is its home and its working
//! folder; paths of downloads, uploads, results and working folders are taken below that folder. A program is looked for there
//! first, and then on the host. Arguments are left as they are. A cell that runs as root starts processes as the user that the
//! action names; one that does not starts them as itself. Nothing keeps such processes from looking at one another: this is for
//! development and for apps that trust each other.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use api::models;

use super::super::actions::Step;
use super::super::files::root::{Owner, RootDir};
use super::super::oci::Oci;
use super::super::process::cgroup::{Groups, Limits};
use super::super::process::{Launch, StepFiles};
use super::super::records::{cell_name, folder_name};
use super::super::users::{self, User};
use super::super::{Container, Reservation, RunSpec};
use super::environment::environment;

const MB_BYTES: u64 = 1024 * 1024;

/// Room on the disk for a container that has no limit.
const DISK_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

#[derive(Clone, Debug)]
pub enum Sandbox {
    /// Processes of the host. Works for every user.
    Process {
        /// Names that `preloaded:` may have. They all mean this machine as it is.
        stacks: Vec<String>,
        /// As whom everything runs, whatever actions say. Only for a cell that runs as root.
        run_as: Option<String>,
    },
    /// Containers of an OCI runtime, with namespaces and control groups. Needs root.
    Oci {
        /// Root file systems by name.
        stacks: BTreeMap<String, PathBuf>,
        /// Programs, the best first; the first that works here is used.
        runtimes: Vec<String>,
    },
}

impl Sandbox {
    pub(crate) fn stacks(&self) -> Vec<String> {
        match self {
            Sandbox::Process { stacks, .. } => stacks.clone(),
            Sandbox::Oci { stacks, .. } => stacks.keys().cloned().collect(),
        }
    }
}

/// A sandbox after a look at what this machine allows.
#[derive(Debug)]
pub(crate) enum Checked {
    Process { run_as: Option<String>, is_root: bool, groups: Groups },
    Oci(Oci),
}

/// Where a process is to be started.
pub(crate) struct Place<'a> {
    pub(crate) cell_id: &'a str,
    pub(crate) container: &'a Container,
    pub(crate) spec: &'a RunSpec,
    pub(crate) root: &'a RootDir,
    pub(crate) files: &'a StepFiles,
}

impl Checked {
    pub(crate) fn new(sandbox: &Sandbox, root: &Path, has_groups: bool) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        match sandbox {
            Sandbox::Process { run_as, .. } => {
                let groups = if has_groups { Groups::find(&cell_name(root)) } else { Groups::none() };
                if let Err(why) = groups.health() {
                    tracing::info!(why, "limits are kept by counting");
                }
                Checked::Process { run_as: run_as.clone(), is_root, groups }
            }
            Sandbox::Oci { stacks, runtimes } => Checked::Oci(Oci::new(stacks.clone(), runtimes, root, is_root)),
        }
    }

    pub(crate) fn health(&self) -> Result<(), String> {
        match self {
            Checked::Process { .. } => Ok(()),
            Checked::Oci(oci) => oci.health(),
        }
    }

    /// Whether a runtime makes processes, in namespaces that nothing escapes from.
    pub(crate) fn has_runtime(&self) -> bool {
        matches!(self, Checked::Oci(_))
    }

    /// Why limits are kept by counting, if they are.
    pub(crate) fn control_groups(&self) -> Result<(), &str> {
        match self {
            Checked::Process { groups, .. } => groups.health(),
            Checked::Oci(_) => Ok(()),
        }
    }

    /// Whether the kernel killed something in the container of this folder for its memory. With a runtime, its shim knows.
    pub(crate) fn was_out_of_memory(&self, folder: &Path) -> bool {
        match self {
            Checked::Process { groups, .. } => groups.was_out_of_memory(&name(folder)),
            Checked::Oci(_) => false,
        }
    }

    /// Makes the root folder of a container and the limits around it; making it again does no harm.
    pub(crate) fn make(&self, folder: &Path, reservation: &Reservation) -> io::Result<()> {
        match self {
            Checked::Process { groups, .. } => {
                fs::DirBuilder::new().recursive(true).mode(0o755).create(folder.join("root"))?;
                let positive = |number: i32| u64::try_from(number).unwrap_or(0);
                let memory_bytes = positive(reservation.room.memory_mb) * MB_BYTES;
                groups.make(&name(folder), Limits { memory_bytes, pids: positive(reservation.max_pids) })
            }
            Checked::Oci(oci) => oci.make(folder, &reservation.rootfs),
        }
    }

    /// Gives back what only running processes need, as soon as there are none.
    pub(crate) fn release(&self, folder: &Path) {
        let released = match self {
            Checked::Process { groups, .. } => groups.remove(&name(folder)),
            Checked::Oci(oci) => oci.clear(folder),
        };
        if let Err(error) = released {
            tracing::warn!(%error, folder = %folder.display(), "the limits of a container cannot be removed yet");
        }
    }

    /// Takes apart what is not a file.
    pub(crate) fn unmake(&self, folder: &Path) -> io::Result<()> {
        match self {
            Checked::Process { groups, .. } => groups.remove(&name(folder)),
            Checked::Oci(oci) => oci.unmake(folder),
        }
    }

    /// Whether the root folder as a whole belongs to the app.
    pub(crate) fn owns_root(&self) -> bool {
        matches!(self, Checked::Process { .. })
    }

    /// Whose the files of a user are.
    pub(crate) fn owner(&self, user: &str, root: &RootDir) -> Result<Owner, String> {
        Ok(self.user(user, root)?.map(|user| (user.uid, user.gid)))
    }

    /// Whose the container is: the first that runs something in it.
    pub(crate) fn first_user(&self, spec: &RunSpec, root: &RootDir) -> Result<Owner, String> {
        let user = [&spec.setup, &spec.action].into_iter().flatten().rev().find_map(first_user);
        self.owner(user.unwrap_or_default(), root)
    }

    /// Nobody in particular where the cell cannot choose, or nobody is named.
    fn user(&self, name: &str, root: &RootDir) -> Result<Option<User>, String> {
        match self {
            Checked::Process { is_root: false, .. } => Ok(None),
            Checked::Process { run_as, is_root: true, .. } => {
                let name = run_as.as_deref().unwrap_or(name);
                if name.is_empty() {
                    return Ok(None);
                }
                let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
                let missing = || {
                    format!(
                        "there is no user {name} on this machine; create it (useradd --system {name}), or have the cell \
                         run everything as one user"
                    )
                };
                users::find(&passwd, name).map(Some).ok_or_else(missing)
            }
            Checked::Oci(_) => {
                if name.is_empty() {
                    return Ok(None);
                }
                let passwd = root.read("/etc/passwd").and_then(io::read_to_string).unwrap_or_default();
                match users::find(&passwd, name) {
                    Some(user) => Ok(Some(user)),
                    None if name == "root" => Ok(None),
                    None => Err(format!("there is no user {name} in the root file system")),
                }
            }
        }
    }

    /// What the shim is to start. With `joins`, beside the process of that step, where the sandbox has an inside.
    pub(crate) fn launch(
        &self,
        place: &Place<'_>,
        step: &Step,
        action: &models::RunAction,
        joins: Option<&Step>,
    ) -> Result<Launch, String> {
        let user = self.user(&action.user, place.root)?;
        let owner = user.as_ref().map(|user| (user.uid, user.gid));
        let dir = if action.dir.is_empty() { "/" } else { &action.dir };
        let failed = |error: io::Error| format!("the working folder {dir}: {error}");
        place.root.folder(Path::new(dir), owner).map_err(failed)?;
        let nofile = action.resource_limits.as_ref().and_then(|limits| limits.nofile);
        match self {
            Checked::Process { run_as, groups, .. } => {
                let name = run_as.as_deref().unwrap_or(&action.user);
                let home = place.root.path().display().to_string();
                Ok(Launch {
                    command: [vec![program(place.root, &action.path)], action.args.clone()].concat(),
                    dir: place.root.host_path(dir).map_err(failed)?,
                    env: environment(place, action, name, &home),
                    user: owner,
                    nofile,
                    groups: groups.of(&folder_name(&place.container.guid)),
                    afterwards: Vec::new(),
                    made: None,
                })
            }
            Checked::Oci(oci) => {
                let home = user.as_ref().map_or("/", |user| user.home.as_str());
                let env = environment(place, action, &action.user, home);
                oci.launch(place, step, action, &super::super::oci::Inside { dir, env, owner, nofile }, joins)
            }
        }
    }
}

/// What a container is called, in its folder and everywhere else.
fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// In the container if it is there, on the host otherwise.
fn program(root: &RootDir, path: &str) -> String {
    let inside = path.starts_with('/').then(|| root.host_path(path).ok()).flatten();
    match inside {
        Some(inside) if inside.is_file() => inside.display().to_string(),
        _ => path.to_owned(),
    }
}

fn first_user(action: &models::Action) -> Option<&str> {
    if let Some(run) = &action.run_action {
        return Some(&run.user);
    }
    let single = [
        action.timeout_action.as_ref().and_then(|above| above.action.as_deref()),
        action.emit_progress_action.as_ref().and_then(|above| above.action.as_deref()),
        action.try_action.as_ref().and_then(|above| above.action.as_deref()),
    ];
    if let Some(below) = single.into_iter().flatten().next() {
        return first_user(below);
    }
    let several = [
        action.serial_action.as_ref().map(|several| &several.actions),
        action.parallel_action.as_ref().map(|several| &several.actions),
        action.codependent_action.as_ref().map(|several| &several.actions),
    ];
    several.into_iter().flatten().flatten().find_map(first_user)
}

pub(crate) fn disk_bytes_max(container: &Container) -> u64 {
    match u64::try_from(container.reservation.room.disk_mb) {
        Ok(mb @ 1..) => mb * MB_BYTES,
        _ => DISK_BYTES_MAX,
    }
}
