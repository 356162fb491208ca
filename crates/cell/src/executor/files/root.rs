//! The root folder of a container, and nothing outside it.
//!
//! Apps own what is in their container, so that any part of a path may be a link to somewhere else. All paths are resolved by
//! the kernel as if the folder were `/` (`RESOLVE_IN_ROOT`): an absolute link, and any number of `..`, stay inside.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

/// User and group of what is made.
pub(crate) type Owner = Option<(u32, u32)>;

const FOLDER: Mode = Mode::from_raw_mode(0o755);

#[derive(Debug)]
pub(crate) struct RootDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl RootDir {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let fd = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// The same once more, for another thread.
    pub(crate) fn reopen(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, path: self.path.clone() })
    }

    /// Where it is on the host.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn at(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let inside = path.strip_prefix("/").unwrap_or(path);
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.fd, inside, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    /// Where a path leads to on the host. It may lead elsewhere a moment later: this is for starting programs as the owner of
    /// the container, and never for writing.
    pub(crate) fn host_path(&self, path: &str) -> io::Result<PathBuf> {
        let fd = self.at(Path::new(path), OFlags::PATH)?;
        std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd)))
    }

    pub(crate) fn read(&self, path: &str) -> io::Result<File> {
        // A pipe in the place of a file must not block.
        let file = File::from(self.at(Path::new(path), OFlags::RDONLY | OFlags::NONBLOCK)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        Ok(file)
    }

    /// A folder, made with everything above it where it is missing.
    pub(crate) fn folder(&self, path: &Path, owner: Owner) -> io::Result<OwnedFd> {
        let mut at = PathBuf::from(".");
        let mut fd = self.at(&at, OFlags::PATH | OFlags::DIRECTORY)?;
        for part in parts(path)? {
            at.push(part);
            fd = match self.at(&at, OFlags::PATH | OFlags::DIRECTORY) {
                Err(Errno::NOENT) => {
                    rustix::fs::mkdirat(&fd, part, FOLDER)?;
                    own(&fd, part, owner)?;
                    self.at(&at, OFlags::PATH | OFlags::DIRECTORY)?
                }
                found => found?,
            };
        }
        Ok(fd)
    }

    /// The folder above a path, and its last part.
    pub(crate) fn place<'a>(&self, path: &'a Path, owner: Owner) -> io::Result<(OwnedFd, &'a Path)> {
        let name = path.file_name().ok_or_else(|| io::Error::other("the path has no last part"))?;
        Ok((self.folder(path.parent().unwrap_or(Path::new("")), owner)?, Path::new(name)))
    }

    pub(crate) fn write(&self, path: &Path, content: &[u8], owner: Owner) -> io::Result<()> {
        let (folder, name) = self.place(path, owner)?;
        let mut file = create(&folder, name, 0o600, owner)?;
        io::Write::write_all(&mut file, content)
    }
}

/// A new file in the place of whatever had this name.
pub(crate) fn create(folder: &OwnedFd, name: &Path, mode: u32, owner: Owner) -> io::Result<File> {
    remove(folder, name)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(mode & 0o777))?;
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode & 0o777))?;
    if let Some((user, group)) = owner {
        rustix::fs::fchown(&fd, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    }
    Ok(File::from(fd))
}

pub(crate) fn remove(folder: &OwnedFd, name: &Path) -> io::Result<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn own(folder: impl AsFd, name: &Path, owner: Owner) -> io::Result<()> {
    if let Some((user, group)) = owner {
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        rustix::fs::chownat(folder, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// The parts of a path that goes down only.
fn parts(path: &Path) -> io::Result<Vec<&Path>> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(Path::new(part)),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::Error::other(format!("the path {} leads upwards", path.display())));
            }
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_leads_out() {
        let (outside, inside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "s").unwrap();
        symlink(outside.path(), inside.path().join("absolute")).unwrap();
        symlink("../../../../../../../../etc", inside.path().join("relative")).unwrap();
        let root = RootDir::open(inside.path()).unwrap();
        assert!(root.read("absolute/secret").is_err());
        assert!(root.read("relative/passwd").is_err());
        assert!(root.read("/../../etc/passwd").is_err());
        // What is written through a link lands inside, or nowhere.
        let _ = root.write(Path::new("/absolute/new"), b"x", None);
        assert!(!outside.path().join("new").exists());
        assert!(root.write(Path::new("/a/../../x"), b"x", None).is_err());
        root.write(Path::new("/a/b/c"), b"inside", None).unwrap();
        assert_eq!(fs::read(inside.path().join("a/b/c")).unwrap(), b"inside");
        assert!(root.read("/a/b").is_err());
        assert_eq!(root.host_path("/a/b").unwrap(), fs::canonicalize(inside.path()).unwrap().join("a/b"));
    }
}
