//! A server whose disk is full: it says so, goes on reading, goes on writing once there is room, and has lost nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use api::client::{Client, ClientError};
use api::models::DesiredLrPsRequest;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tempfile::TempDir;

use super::server::{Server, log_beside};
use super::world::lrp;
use crate::program::program;

/// What the server may fill. A little more than what it sets aside for itself.
const ROOM_BYTES: u64 = 6 * 1024 * 1024;
/// Of the room on the disk, what the test takes away and gives back.
const BALLAST_BYTES: usize = 2 * 1024 * 1024;
/// An annotation of this size fills the room with some hundred records.
const ANNOTATION_BYTES: usize = 10_000;
/// More writes than fit.
const WRITES_MAX: usize = 2_000;

/// A place that gets full, and a way to make room in it.
trait Room {
    fn board(&self) -> PathBuf;
    fn start(&self) -> Server;
    fn make_room(&self, server: &Server);
}

/// A small file system of its own.
struct Disk {
    mounted: PathBuf,
    _temporary: TempDir,
}

impl Disk {
    /// `None` where we may not mount.
    fn mount() -> Option<Self> {
        let temporary = TempDir::new().unwrap();
        let mounted = temporary.path().join("disk");
        fs::create_dir(&mounted).unwrap();
        let size = format!("size={ROOM_BYTES}");
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&mounted).output();
        let disk =
            output.is_ok_and(|output| output.status.success()).then_some(Self { mounted, _temporary: temporary });
        if let Some(disk) = &disk {
            fs::write(disk.ballast(), vec![1; BALLAST_BYTES]).unwrap();
        }
        disk
    }

    fn ballast(&self) -> PathBuf {
        self.mounted.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mounted).output();
    }
}

impl Room for Disk {
    fn board(&self) -> PathBuf {
        self.mounted.join("board")
    }

    fn start(&self) -> Server {
        let mut command =
            program(&["up", "--board-only", "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--dir"]);
        command.arg(self.board());
        // The log must not compete for the room.
        Server::run(command, &log_beside(&self.mounted))
    }

    fn make_room(&self, _: &Server) {
        if self.ballast().exists() {
            fs::remove_file(self.ballast()).unwrap();
        }
    }
}

/// Files that may not grow beyond a size, which needs no privilege.
struct FileLimit {
    temporary: TempDir,
}

impl Room for FileLimit {
    fn board(&self) -> PathBuf {
        self.temporary.path().join("board")
    }

    fn start(&self) -> Server {
        // With the signal ignored, a write beyond the limit fails instead of killing the process.
        let mut shell = Command::new("sh");
        let script = "trap '' XFSZ; exec \"$0\" up --board-only --listen 127.0.0.1:0 --health 127.0.0.1:0 --dir \"$1\"";
        shell.args(["-c", script, env!("CARGO_BIN_EXE_corkboard")]).arg(self.board()).env_clear();
        let server = Server::run(shell, &log_beside(&self.board()));
        limit_files(&server, Some(ROOM_BYTES));
        server
    }

    fn make_room(&self, server: &Server) {
        limit_files(server, None);
    }
}

/// Sets the soft limit of another process; `None` raises it to what is allowed at most.
fn limit_files(server: &Server, bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let pid = Pid::from_raw(i32::try_from(server.id()).unwrap());
    let limit = Rlimit { current: bytes.or(maximum), maximum };
    prlimit(pid, Resource::Fsize, limit).expect("neither mounting nor limiting file sizes is possible here");
}

async fn write(client: &Client, number: usize) -> Result<(), ClientError> {
    client.desire_lrp(lrp(&guid(number), 1, &"x".repeat(ANNOTATION_BYTES))).await
}

fn guid(number: usize) -> String {
    format!("lrp-{number:05}")
}

/// The numbers of the LRPs that a server shows, from the list and from a look-up of each.
async fn shown(client: &Client) -> Vec<usize> {
    let lrps = client.desired_lrps(DesiredLrPsRequest::default()).await.unwrap();
    let mut numbers = Vec::new();
    for lrp in lrps {
        assert_eq!(client.desired_lrp_by_process_guid(&lrp.process_guid).await.unwrap(), lrp);
        numbers.push(lrp.process_guid.trim_start_matches("lrp-").parse().unwrap());
    }
    numbers.sort_unstable();
    numbers
}

async fn check(room: &impl Room) {
    let mut server = room.start();
    let mut acknowledged = Vec::new();
    let refused = loop {
        let number = acknowledged.len();
        assert!(number < WRITES_MAX, "the disk must become full");
        match write(&server.client, number).await {
            Ok(()) => acknowledged.push(number),
            Err(error) => break error,
        }
    };
    assert!(acknowledged.len() > 10, "{refused:?} after {} writes", acknowledged.len());
    check_refusal(&refused);
    assert_eq!(shown(&server.client).await, acknowledged, "reads go on");
    assert!(server.client.ping().await.unwrap());
    let again = write(&server.client, acknowledged.len() + 1).await;
    check_refusal(&again.expect_err("there is still no room"));

    room.make_room(&server);
    for number in WRITES_MAX..WRITES_MAX + 10 {
        write(&server.client, number).await.expect("there is room again");
        acknowledged.push(number);
    }
    assert_eq!(shown(&server.client).await, acknowledged);

    server.kill();
    let server = room.start();
    assert_eq!(shown(&server.client).await, acknowledged, "after a restart");
    room.make_room(&server);
    write(&server.client, 2 * WRITES_MAX).await.unwrap();
}

/// The answer is one that Diego's clients repeat, and it tells an operator what to do.
fn check_refusal(error: &ClientError) {
    let ClientError::Status { status: 503, retry_after_s: Some(_), body, .. } = error else { panic!("{error:?}") };
    let said: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(said["code"], "store", "{body}");
    let message = said["message"].as_str().unwrap();
    for part in ["no space left", "nothing acknowledged is lost", "Make room"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_and_overcome() {
    match Disk::mount() {
        Some(disk) => check(&disk).await,
        None => {
            println!("no disk can be mounted here, so files are limited instead");
            check(&FileLimit { temporary: TempDir::new().unwrap() }).await;
        }
    }
}

#[tokio::test]
async fn a_file_size_limit_is_reported_and_overcome() {
    check(&FileLimit { temporary: TempDir::new().unwrap() }).await;
}

/// The directory is where the test believes it is: a log elsewhere would make the tests above meaningless.
#[test]
fn the_room_is_what_gets_full() {
    let room = FileLimit { temporary: TempDir::new().unwrap() };
    let _server = room.start();
    assert!(Path::new(&room.board()).join("FORMAT").exists());
}
