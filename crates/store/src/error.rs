//! What can go wrong between the state server and its bytes.
//!
//! Promise: every text says what happened, what is safe and what to do next, and never shows a value of a record.
//! Two questions decide what a caller does: [`StoreError::outcome_unknown`] (stop serving and load again) and
//! [`StoreError::retryable`] (the same call may succeed later without anybody changing the call).

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

#[derive(Debug, Error)]
pub enum StoreError {
    #[error(
        "the store in {} is in use by {owner}. Nothing was changed. Only one server may use a directory: stop that one, \
         or give this one its own directory",
        dir.display()
    )]
    Locked { dir: PathBuf, owner: String },

    #[error(
        "the store ({store}) is in use: {owner} is master. Nothing was changed. Ask that server instead (with --bbsURL), or stop \
         it first"
    )]
    InUse { store: String, owner: String },

    #[error(
        "this server is no longer master, so its write was refused. Nothing was written and nothing acknowledged is \
         lost; the present master goes on. This server has to stop serving and campaign again"
    )]
    NotMaster,

    #[error("{what}: {size}, and at most {max} are allowed. Nothing was written. The request has to be made smaller")]
    TooLarge { what: &'static str, size: usize, max: usize },

    #[error("{what}. Nothing was written. This is a mistake in the server, not in the data: please report it")]
    Misuse { what: &'static str },

    #[error(
        "no space left while {doing}. Nothing was written and nothing acknowledged is lost. Make room on that disk (or \
         raise the quota or file size limit): the server goes on by itself as soon as there is some"
    )]
    NoSpace { doing: String },

    #[error(
        "{} is on a file system that is mounted read-only. Nothing was changed. Mount it read-write (a disk with errors \
         is often remounted read-only by the kernel: look at its log first), then start again",
        path.display()
    )]
    ReadOnly { path: PathBuf },

    #[error(
        "no permission for {}. Nothing was changed. Give the directory and the files in it to the user this server \
         runs as, then start again",
        path.display()
    )]
    Permission { path: PathBuf },

    #[error(
        "{} is damaged at byte {offset}: {what}. The store was not opened and nothing on disk was changed. Keep a copy \
         of the directory, check the disk, and restore the whole directory from a backup; do not delete single files, \
         which would lose acknowledged writes",
        file.display()
    )]
    Damaged { file: PathBuf, offset: u64, what: String },

    #[error(
        "{} holds files, but not of a store of this server (for example {example:?}). Nothing was changed. Choose an \
         empty directory, or the one the store is in",
        dir.display()
    )]
    ForeignDirectory { dir: PathBuf, example: String },

    #[error(
        "{} is not a directory. Nothing was changed. Choose a directory for the store",
        path.display()
    )]
    NotADirectory { path: PathBuf },

    #[error(
        "{} cannot be created, because the directory above it does not exist. Nothing was changed. Is a disk not \
         mounted? Otherwise create the directory above, then start again",
        dir.display()
    )]
    NoParent { dir: PathBuf },

    #[error(
        "the store in {} has format {found}, and this server reads format {supported} only. Nothing was changed. Start \
         the server version that wrote it",
        dir.display()
    )]
    Unsupported { dir: PathBuf, found: u64, supported: u64 },

    #[error(
        "etcd could not be reached while {doing}: {why} (asked: {asked}). Nothing was changed. Look at it with \
         `etcdctl --endpoints {asked} endpoint status`: a majority of its members has to run and to reach each other"
    )]
    Unreachable { doing: String, why: String, asked: String },

    #[error(
        "etcd is full: its database has reached the space quota, so it takes no writes. Nothing was written and nothing \
         acknowledged is lost; reads go on. Make room: `etcdctl compact REVISION`, `etcdctl defrag`, then \
         `etcdctl alarm disarm` (docs/how-to/run-on-etcd.md). The server goes on by itself then"
    )]
    QuotaExceeded,

    #[error(
        "etcd does not let this server in while {doing}: {why}. Nothing was changed. Check user, password and certificate \
         under [store] in the configuration, and that this user may read and write below the prefix"
    )]
    NotAllowed { doing: String, why: String },

    #[error(
        "the endpoints under [store] belong to different etcd clusters: {endpoint} is of cluster {found:x}, and the others are \
         of {expected:x}. Nothing was changed. List the members of one cluster only"
    )]
    OtherEtcd { endpoint: String, found: u64, expected: u64 },

    #[error(
        "etcd has compacted the history that this server was reading. Nothing was changed and nothing is lost: it reads the \
         records anew"
    )]
    Compacted,

    #[error("etcd answered what this server does not expect while {doing}: {why}. Nothing was changed")]
    Unexpected { doing: String, why: String },

    #[error("input or output failed while {doing}. Nothing was written and nothing acknowledged is lost")]
    Io { doing: String, source: io::Error },

    #[error(
        "a write could not be confirmed: it failed while {doing}. Everything acknowledged before is safe; whether this \
         write is durable shows only after loading again. This server stops serving: look at the disk and start it again"
    )]
    Unconfirmed { doing: String, source: io::Error },

    #[error(
        "etcd did not confirm a write: {why}. Everything acknowledged before is safe; whether this write took effect shows only \
         after loading again. This server stops serving, and whoever is master next has what is true"
    )]
    InDoubt { why: String },

    #[error(
        "somebody else writes to the store: its revision is {found}, and this server, which is master, left it at {left}. This \
         write was not made. Make sure that no other program writes below this prefix in etcd, then start the server again"
    )]
    ForeignWrite { found: u64, left: u64 },

    #[error(
        "the store stopped after an earlier failure ({why}). Everything acknowledged is safe. It takes no more writes \
         until it is opened again: look at the disk and start the server again"
    )]
    Failed { why: String },
}

impl StoreError {
    /// Whether the same call may succeed later, without anybody changing the call.
    pub fn retryable(&self) -> bool {
        match self {
            StoreError::Locked { .. }
            | StoreError::InUse { .. }
            | StoreError::NoSpace { .. }
            | StoreError::QuotaExceeded
            | StoreError::Unreachable { .. }
            | StoreError::Compacted
            | StoreError::Io { .. } => true,
            StoreError::NotMaster
            | StoreError::TooLarge { .. }
            | StoreError::Misuse { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Permission { .. }
            | StoreError::Damaged { .. }
            | StoreError::ForeignDirectory { .. }
            | StoreError::NotADirectory { .. }
            | StoreError::NoParent { .. }
            | StoreError::Unsupported { .. }
            | StoreError::NotAllowed { .. }
            | StoreError::OtherEtcd { .. }
            | StoreError::Unexpected { .. }
            | StoreError::InDoubt { .. }
            | StoreError::ForeignWrite { .. }
            | StoreError::Unconfirmed { .. }
            | StoreError::Failed { .. } => false,
        }
    }

    /// True when the caller cannot know whether its steps are durable: it has to stop serving and load again.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, StoreError::Unconfirmed { .. } | StoreError::InDoubt { .. } | StoreError::Failed { .. })
    }

    /// The error for a failed call of the operating system that left nothing behind.
    pub(crate) fn from_io(doing: &str, path: &Path, source: io::Error) -> StoreError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                StoreError::NoSpace { doing: format!("{doing} {}", path.display()) }
            }
            io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path: path.to_owned() },
            io::ErrorKind::PermissionDenied => StoreError::Permission { path: path.to_owned() },
            _ => StoreError::Io { doing: format!("{doing} {}", path.display()), source },
        }
    }

    pub(crate) fn damaged(file: &Path, offset: u64, what: impl Into<String>) -> StoreError {
        StoreError::Damaged { file: file.to_owned(), offset, what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn errors_of_the_operating_system_are_told_apart() {
        let check = |errno: rustix::io::Errno| {
            StoreError::from_io("writing", Path::new("/s/HIGH"), io::Error::from(errno)).to_string()
        };
        let no_space = check(rustix::io::Errno::NOSPC);
        assert_eq!(check(rustix::io::Errno::DQUOT), no_space);
        assert_eq!(check(rustix::io::Errno::FBIG), no_space);
        expect![[r#"no space left while writing /s/HIGH. Nothing was written and nothing acknowledged is lost. Make room on that disk (or raise the quota or file size limit): the server goes on by itself as soon as there is some"#]]
            .assert_eq(&no_space);
        assert!(check(rustix::io::Errno::ROFS).contains("mounted read-only"));
        assert!(check(rustix::io::Errno::ACCESS).contains("no permission for /s/HIGH"));
        assert!(check(rustix::io::Errno::IO).contains("failed while writing /s/HIGH"));
    }

    #[test]
    fn only_a_write_that_nobody_can_judge_has_an_unknown_outcome() {
        let unknown = StoreError::Unconfirmed { doing: "syncing".into(), source: io::Error::other("x") };
        assert!(unknown.outcome_unknown() && !unknown.retryable());
        assert!(StoreError::Failed { why: "x".into() }.outcome_unknown());
        let full = StoreError::NoSpace { doing: "writing".into() };
        assert!(!full.outcome_unknown() && full.retryable());
        assert!(!StoreError::NotMaster.outcome_unknown() && !StoreError::NotMaster.retryable());
    }
}
