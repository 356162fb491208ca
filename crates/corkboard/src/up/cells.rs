//! The cells of `corkboard up`: plain processes on this machine, which the cells share.
//!
//! Each cell has a folder of its own with everything that it runs. A folder that is left over from a start with more cells is
//! emptied: nobody would look after what runs there.

use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::client::Client;
use bbs::shelf::Shelf;
use cell::executor::{Executor, LocalConfig, LocalExecutor, OpenError, Room, Sandbox, State};
use cell::rep::clock::MachineClock;
use cell::rep::{self, Config, Ending, RunError};
use model::CellId;
use tokio::sync::watch;
use tokio::time::timeout;

use super::presence::OnShelf;
use crate::ring::machine;

/// What apps may take to end when they are asked to.
const GRACE: Duration = Duration::from_secs(10);
/// That, and the time to tell the state server.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// For what does not even end when it is killed.
const DELETE_LIMIT: Duration = Duration::from_secs(5);
/// Between two looks whether everything has ended; events come earlier.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// A cell before anybody knows of it.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) id: CellId,
    pub(super) executor: Arc<LocalExecutor>,
    index: u16,
}

/// How cells are laid out on this machine.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) folder: PathBuf,
    pub(super) cells: u16,
    pub(super) ports: RangeInclusive<u16>,
    pub(super) run_as: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum CellsError {
    #[error(
        "another `corkboard up` uses {}; stop it first, or give this one a directory of its own with --dir", folder.display()
    )]
    Taken { folder: PathBuf },
    #[error("the folder {} for the cells cannot be used", folder.display())]
    Folder {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("--app-ports has fewer ports than there are cells")]
    Ports,
    #[error(transparent)]
    Open(OpenError),
}

/// Why a cell ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub(super) enum CellError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("somebody asked it at its admin port to hand over what it runs, and it has")]
    Evacuated,
}

impl Layout {
    /// Opens all cells, and so finds what runs there from before. Nothing is started yet.
    pub(super) fn open(&self) -> Result<Vec<Cell>, CellsError> {
        let failed = |source| CellsError::Folder { folder: self.folder.clone(), source };
        match std::fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let room = self.room().map_err(failed)?;
        (1..=self.cells).map(|number| self.open_one(number, room)).collect()
    }

    fn open_one(&self, number: u16, room: Room) -> Result<Cell, CellsError> {
        let name = format!("cell-{number}");
        let id = CellId::parse(&name).expect("the name is neither empty nor long");
        let ports = share(&self.ports, number - 1, self.cells).ok_or(CellsError::Ports)?;
        let executor = self.executor(&self.folder.join(name), id.as_str(), room, ports)?;
        Ok(Cell { id, executor: Arc::new(executor), index: number - 1 })
    }

    fn executor(
        &self,
        folder: &Path,
        id: &str,
        room: Room,
        host_ports: RangeInclusive<u16>,
    ) -> Result<LocalExecutor, CellsError> {
        // The program as it was started, also when another one has taken its place on the disk since.
        let shim = vec!["/proc/self/exe".to_owned(), "shim".to_owned()];
        let sandbox = Sandbox::Process { stacks: vec!["cflinuxfs4".to_owned()], run_as: self.run_as.clone() };
        let config = LocalConfig {
            cell_id: id.to_owned(),
            host_ports,
            sandbox,
            grace: GRACE,
            ..LocalConfig::new(folder.to_owned(), room, shim)
        };
        LocalExecutor::open(config).map_err(|error| match error {
            OpenError::Taken { .. } => CellsError::Taken { folder: self.folder.clone() },
            error => CellsError::Open(error),
        })
    }

    /// The share of one cell in this machine.
    fn room(&self) -> io::Result<Room> {
        let all = machine::room(&self.folder)?;
        let cells = i32::from(self.cells);
        Ok(Room { memory_mb: all.memory_mb / cells, disk_mb: all.disk_mb / cells, ..all })
    }

    /// Ends what runs in the folders of cells that are not started any more.
    pub(super) async fn clear_former(&self) -> Result<(), CellsError> {
        let failed = |source| CellsError::Folder { folder: self.folder.clone(), source };
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix("cell-").and_then(|number| number.parse::<u16>().ok());
            if number.is_none_or(|number| number <= self.cells) {
                continue;
            }
            let executor = self.executor(&self.folder.join(&name), &name, Room::default(), self.ports.clone())?;
            let left = executor.list().len();
            if left > 0 {
                tracing::info!(cell = name, containers = left, "a cell of a former start is emptied");
                delete(&[&executor]).await;
            }
            executor.close().await;
        }
        Ok(())
    }
}

/// The part of a range that one of several gets.
fn share(all: &RangeInclusive<u16>, index: u16, count: u16) -> Option<RangeInclusive<u16>> {
    let (first, ports) = (u32::from(*all.start()), u32::from(*all.end() - *all.start()) + 1);
    let bound = |index: u16| first + ports * u32::from(index) / u32::from(count);
    let (begin, end) = (bound(index), bound(index + 1));
    let port = |number: u32| u16::try_from(number).ok();
    (begin < end).then(|| Some(port(begin)?..=port(end - 1)?)).flatten()
}

impl Cell {
    /// Runs until told to stop. Containers go on then.
    pub(super) async fn run(self, bbs: Client, shelf: Shelf, mut stop: watch::Receiver<bool>) -> Result<(), CellError> {
        let mut config = Config::new(self.id.clone());
        config.cell_index = i64::from(self.index);
        config.zone = format!("z{}", self.index + 1);
        let parts = rep::Parts {
            bbs,
            executor: self.executor,
            presence: Arc::new(OnShelf { shelf, cell_id: self.id.to_string() }),
            clock: Arc::new(MachineClock),
        };
        let stop = async move {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        let never = std::future::pending::<()>();
        match Box::pin(rep::run(config, parts, never, stop, |_| {})).await? {
            Ending::Stopped => Ok(()),
            Ending::Evacuated => Err(CellError::Evacuated),
        }
    }
}

/// Asks everything that runs to end, and waits until it has ended and the state server knows.
pub(super) async fn stop_all(executors: &[Arc<LocalExecutor>]) {
    for executor in executors {
        for container in executor.list() {
            if container.state != State::Completed
                && let Err(error) = executor.stop(&container.guid).await
            {
                tracing::debug!(container = %container.guid, %error, "a container cannot be stopped");
            }
        }
    }
    let all: Vec<&LocalExecutor> = executors.iter().map(AsRef::as_ref).collect();
    if timeout(STOP_LIMIT, until_empty(&all)).await.is_err() {
        tracing::warn!("some instances did not end in time and are killed");
        delete(&all).await;
    }
}

async fn delete(executors: &[&LocalExecutor]) {
    for executor in executors {
        for container in executor.list() {
            if let Err(error) = executor.delete(&container.guid).await {
                tracing::debug!(container = %container.guid, %error, "a container cannot be deleted");
            }
        }
    }
    if timeout(GRACE + DELETE_LIMIT, until_empty(executors)).await.is_err() {
        let left: usize = executors.iter().map(|executor| executor.list().len()).sum();
        tracing::warn!(
            left,
            "some containers could not be ended and are left behind; the next start looks at them again"
        );
    }
}

async fn until_empty(executors: &[&LocalExecutor]) {
    while executors.iter().any(|executor| !executor.list().is_empty()) {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// A port for something that others must know before it listens. It stays ours while the value lives.
pub(super) fn reserve_port() -> io::Result<(tokio::net::TcpSocket, SocketAddr)> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((std::net::Ipv4Addr::LOCALHOST, 0).into())?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_share_ports_without_a_gap() {
        let all = 61_001..=65_534;
        for cells in 1..=16 {
            let shares: Vec<u16> = (0..cells).flat_map(|index| share(&all, index, cells).unwrap()).collect();
            assert_eq!(shares, all.clone().collect::<Vec<u16>>(), "{cells} cells");
        }
        assert_eq!(share(&(7..=7), 0, 2), None);
        assert_eq!(share(&(7..=7), 1, 2), Some(7..=7));
        assert_eq!(share(&(65_535..=65_535), 0, 1), Some(65_535..=65_535));
    }
}
