//! Reading what a shim wrote down, while it goes on writing.
//!
//! How far it was read is kept beside it, so that a cell that starts again misses no line, as long as it was away for less than
//! the two files hold. It repeats none either, unless the one before was killed just after it had handed some on.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

use super::super::logs::Output;
use super::files::{Mark, StepFiles};

/// How much is read at once.
const READ_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Tail {
    files: StepFiles,
    open: Option<File>,
    mark: Mark,
    /// The beginning of a line whose end was not written yet.
    rest: Vec<u8>,
}

impl Tail {
    pub(crate) fn new(files: StepFiles) -> Self {
        let mark = files.mark();
        Self { files, open: None, mark, rest: Vec::new() }
    }

    /// Hands on everything that is there.
    pub(crate) fn drain(&mut self, output: &Output) -> io::Result<()> {
        let before = self.mark;
        loop {
            if self.open.is_none() && !self.find()? {
                break;
            }
            self.read(output)?;
            let newest = std::fs::metadata(self.files.output()).map_or(self.mark.inode, |meta| meta.ino());
            if newest == self.mark.inode {
                break;
            }
            // The shim has gone on to a new file, and may have written to this one until then.
            self.read(output)?;
            self.open = None;
            self.mark = Mark { inode: newest, offset: 0 };
        }
        if self.mark != before {
            let whole = self.mark.offset.saturating_sub(self.rest.len() as u64);
            self.files.set_mark(Mark { offset: whole, ..self.mark })?;
        }
        Ok(())
    }

    /// Opens the file of the mark, or the newest one where there is no mark or its file is gone.
    fn find(&mut self) -> io::Result<bool> {
        let newest = self.files.output();
        let older = newest.with_added_extension("old");
        for path in [&newest, &older] {
            if let Ok(file) = File::open(path)
                && file.metadata()?.ino() == self.mark.inode
            {
                return self.take(file, self.mark.offset);
            }
        }
        // Without its file, everything that still is there is new.
        for path in [&older, &newest] {
            if let Ok(file) = File::open(path) {
                self.mark.inode = file.metadata()?.ino();
                return self.take(file, 0);
            }
        }
        Ok(false)
    }

    fn take(&mut self, mut file: File, offset: u64) -> io::Result<bool> {
        self.mark.offset = file.seek(SeekFrom::Start(offset))?;
        self.rest.clear();
        self.open = Some(file);
        Ok(true)
    }

    fn read(&mut self, output: &Output) -> io::Result<()> {
        let Some(file) = &mut self.open else { return Ok(()) };
        let mut buffer = vec![0; READ_BYTES_MAX];
        loop {
            let bytes = file.read(&mut buffer)?;
            if bytes == 0 {
                return Ok(());
            }
            self.mark.offset += bytes as u64;
            self.rest.extend_from_slice(&buffer[..bytes]);
            let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { continue };
            let after = self.rest.split_off(end + 1);
            for line in self.rest.split(|byte| *byte == b'\n').filter(|line| line.len() > 2) {
                output.line(line[0] == b'E', &String::from_utf8_lossy(&line[2..]));
            }
            self.rest = after;
        }
    }
}
