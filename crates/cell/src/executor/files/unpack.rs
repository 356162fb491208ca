//! Archives into containers: tar, gzipped tar and zip, told apart by their first bytes.
//!
//! Nothing of an archive lands outside the container: names that lead upwards are refused, links are laid as they are and never
//! followed out ([`RootDir`]). Devices and pipes are refused. What comes out is bounded in bytes and in number, whatever the
//! archive says of itself.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode};

use super::root::{Owner, RootDir, create, own, remove};

const ENTRIES_MAX: u64 = 1_000_000;

/// Room for the longest target of a link that Linux knows.
const TARGET_BYTES_MAX: u64 = 4_096;

const COPY_BYTES_MAX: usize = 64 * 1024;

/// Unpacks an archive into a folder of a container. What was written stays there when it fails.
pub(crate) fn unpack(mut archive: File, root: &RootDir, to: &str, owner: Owner, bytes_max: u64) -> io::Result<()> {
    let mut magic = [0; 4];
    archive.rewind()?;
    let read = Read::by_ref(&mut archive).take(4).read(&mut magic)?;
    archive.rewind()?;
    let mut into = Into { root, to: Path::new(to), owner, bytes_left: bytes_max, entries_left: ENTRIES_MAX };
    root.folder(Path::new(to), owner)?;
    match &magic[..read] {
        [0x1f, 0x8b, ..] => into.tar(flate2::read::MultiGzDecoder::new(BufReader::new(archive))),
        [b'P', b'K', 3 | 5, ..] => into.zip(archive),
        _ => into.tar(BufReader::new(archive)),
    }
}

struct Into<'a> {
    root: &'a RootDir,
    to: &'a Path,
    owner: Owner,
    bytes_left: u64,
    entries_left: u64,
}

impl Into<'_> {
    fn tar(&mut self, reader: impl Read) -> io::Result<()> {
        let mut archive = tar::Archive::new(reader);
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = self.path(&entry.path()?)?;
            let mode = entry.header().mode().unwrap_or(0o644);
            let kind = entry.header().entry_type();
            let target = entry.link_name()?.map(|name| name.into_owned());
            if kind.is_dir() {
                self.folder(&path, mode)?;
            } else if kind.is_file() || kind == tar::EntryType::Continuous {
                self.file(&path, mode, &mut entry)?;
            } else if kind.is_symlink() {
                self.link(&path, &target.ok_or_else(|| refused(&path, "is a link to nothing"))?)?;
            } else if kind.is_hard_link() {
                let target = self.path(&target.ok_or_else(|| refused(&path, "is a link to nothing"))?)?;
                self.hard_link(&path, &target)?;
            } else if !kind.is_pax_global_extensions() {
                return Err(refused(&path, "is neither a file, a folder nor a link"));
            }
        }
        Ok(())
    }

    fn zip(&mut self, archive: File) -> io::Result<()> {
        let mut archive = zip::ZipArchive::new(archive).map_err(io::Error::other)?;
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index).map_err(io::Error::other)?;
            let name = entry.name().map_err(io::Error::other)?.into_owned();
            let path = self.path(Path::new(&name))?;
            let mode = entry.unix_mode().unwrap_or(if entry.is_dir() { 0o755 } else { 0o644 });
            if entry.is_dir() {
                self.folder(&path, mode)?;
            } else if entry.is_symlink() {
                let mut target = String::new();
                entry.by_ref().take(TARGET_BYTES_MAX).read_to_string(&mut target)?;
                self.link(&path, Path::new(&target))?;
            } else {
                self.file(&path, mode, &mut entry)?;
            }
        }
        Ok(())
    }

    /// Where an entry goes, below the folder that all of it goes to.
    fn path(&mut self, name: &Path) -> io::Result<PathBuf> {
        self.entries_left = self
            .entries_left
            .checked_sub(1)
            .ok_or_else(|| io::Error::other(format!("the archive has more than {ENTRIES_MAX} entries")))?;
        if name.components().any(|part| matches!(part, std::path::Component::ParentDir)) {
            return Err(refused(name, "leads upwards"));
        }
        Ok(self.to.join(name.strip_prefix("/").unwrap_or(name)))
    }

    fn folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        let fd = self.root.folder(path, self.owner)?;
        // A folder that its owner cannot use would only be in the way of what follows.
        let mode = Mode::from_raw_mode((mode & 0o777) | 0o700);
        if path != self.to {
            rustix::fs::chmodat(&fd, ".", mode, AtFlags::empty())?;
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, mode: u32, content: &mut dyn Read) -> io::Result<()> {
        let (folder, name) = self.root.place(path, self.owner)?;
        let mut file = create(&folder, name, mode, self.owner)?;
        let mut buffer = vec![0; COPY_BYTES_MAX];
        loop {
            let bytes = content.read(&mut buffer)?;
            if bytes == 0 {
                return Ok(());
            }
            self.bytes_left = self
                .bytes_left
                .checked_sub(bytes as u64)
                .ok_or_else(|| io::Error::other("what is in the archive does not fit into the container"))?;
            file.write_all(&buffer[..bytes])?;
        }
    }

    fn link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let (folder, name) = self.root.place(path, self.owner)?;
        remove(&folder, name)?;
        rustix::fs::symlinkat(target, &folder, name)?;
        own(&folder, name, self.owner)
    }

    fn hard_link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let (folder, name) = self.root.place(path, self.owner)?;
        let (from, source) = self.root.place(target, self.owner)?;
        remove(&folder, name)?;
        Ok(rustix::fs::linkat(&from, source, &folder, name, AtFlags::empty())?)
    }
}

fn refused(path: &Path, what: &str) -> io::Error {
    io::Error::other(format!("the archive is refused: {} {what}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Cursor;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const ROOM: u64 = 1 << 20;

    enum Put {
        File(&'static str, &'static [u8], u32),
        Link(&'static str, &'static str),
        Hard(&'static str, &'static str),
        Pipe(&'static str),
    }

    fn tar(entries: &[Put]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for entry in entries {
            let mut header = tar::Header::new_gnu();
            // The name is written as it is: the crate's own setter refuses what these tests are about.
            let mut put = |name: &str, kind, link: &str, mode, content: &[u8]| {
                header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
                header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
                header.set_entry_type(kind);
                header.set_mode(mode);
                header.set_size(content.len() as u64);
                header.set_cksum();
                builder.append(&header, content).unwrap();
            };
            match entry {
                Put::File(name, content, mode) => put(name, tar::EntryType::Regular, "", *mode, content),
                Put::Link(name, target) => put(name, tar::EntryType::Symlink, target, 0o777, b""),
                Put::Hard(name, target) => put(name, tar::EntryType::Link, target, 0o644, b""),
                Put::Pipe(name) => put(name, tar::EntryType::Fifo, "", 0o644, b""),
            }
        }
        builder.into_inner().unwrap()
    }

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in entries {
            let options = zip::write::SimpleFileOptions::default().unix_permissions(0o750);
            writer.start_file(*name, options).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    /// What happens to a container when an archive is unpacked into its folder `/app`, with a file `outside` beside it.
    fn check(archive: &[u8], bytes_max: u64) -> (tempfile::TempDir, Result<(), String>) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("outside"), "untouched").unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(archive).unwrap();
        let root = RootDir::open(&folder.path().join("root")).unwrap();
        let outcome = unpack(file, &root, "/app", None, bytes_max).map_err(|error| error.to_string());
        assert_eq!(fs::read(folder.path().join("outside")).unwrap(), b"untouched");
        (folder, outcome)
    }

    #[test]
    fn the_three_kinds_come_out_the_same() {
        let plain =
            tar(&[Put::File("bin/run", b"#!", 0o755), Put::Link("latest", "bin"), Put::Hard("again", "bin/run")]);
        for archive in [plain.clone(), gz(&plain), zip(&[("bin/run", b"#!"), ("latest/x", b"")])] {
            let (folder, outcome) = check(&archive, ROOM);
            outcome.unwrap();
            let run = folder.path().join("root/app/bin/run");
            assert_eq!(fs::read(&run).unwrap(), b"#!");
            assert_eq!(fs::metadata(&run).unwrap().permissions().mode() & 0o700, 0o700);
            assert!(folder.path().join("root/app/latest").is_dir());
        }
    }

    #[test]
    fn nothing_comes_out_anywhere_else() {
        let refusals: [(&[Put], &str); 4] = [
            (&[Put::File("../../outside", b"x", 0o644)], "leads upwards"),
            (&[Put::Hard("x", "../../outside")], "leads upwards"),
            (&[Put::Pipe("pipe")], "is neither"),
            (&[Put::Link("up", "../.."), Put::File("up/outside", b"x", 0o644)], ""),
        ];
        for (entries, why) in refusals {
            let (_folder, outcome) = check(&tar(entries), ROOM);
            assert!(why.is_empty() || outcome.unwrap_err().contains(why));
        }
        let (folder, outcome) = check(&tar(&[Put::File("/absolute", b"x", 0o644)]), ROOM);
        outcome.unwrap();
        assert!(folder.path().join("root/app/absolute").exists());
        let (_folder, outcome) = check(&zip(&[("../../outside", b"x")]), ROOM);
        assert!(outcome.is_err());
    }

    #[test]
    fn a_bomb_does_not_go_off() {
        let bomb = gz(&tar(&[Put::File("zeros", &[0; 1 << 19], 0o644)]));
        assert!(bomb.len() < 1 << 14);
        let (folder, outcome) = check(&bomb, 1 << 18);
        assert!(outcome.unwrap_err().contains("does not fit"));
        assert!(fs::metadata(folder.path().join("root/app/zeros")).unwrap().len() <= 1 << 18);
        assert!(check(&bomb, ROOM).1.is_ok());
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        assert!(check(&[b'x'; 2_000], ROOM).1.is_err());
        assert!(check(b"PK\x03\x04broken", ROOM).1.is_err());
        assert!(check(b"\x1f\x8bbroken", ROOM).1.is_err());
    }
}
