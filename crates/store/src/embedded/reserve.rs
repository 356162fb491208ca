//! `RESERVE`, a file of zeros that is given up on a full disk.
//!
//! Promise: cutting an interrupted write off the log does not fail for lack of space. Shortening a file needs none on
//! most file systems, but those that never overwrite in place may need a block for it; deleting this file frees some.

use std::fs;
use std::io;

use super::directory::Directory;

pub(super) const RESERVE_NAME: &str = "RESERVE";

/// Makes the reserve if it is not there in full. On a disk without room the store goes on without it.
pub(super) fn refill(directory: &Directory, bytes: u64) {
    let path = directory.path().join(RESERVE_NAME);
    if bytes == 0 || fs::metadata(&path).is_ok_and(|metadata| metadata.len() == bytes) {
        return;
    }
    let zeros = vec![0; usize::try_from(bytes).unwrap_or(0)];
    if let Err(error) = directory.publish(RESERVE_NAME, &zeros) {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, "the space reserve could not be made; the store works without it");
    }
}

/// Gives the reserve up. The caller tries again what did not fit.
pub(super) fn release(directory: &Directory) -> io::Result<()> {
    fs::remove_file(directory.path().join(RESERVE_NAME))?;
    directory.sync().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_made_given_up_and_made_again() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path()).unwrap();
        let size = || fs::metadata(temporary.path().join(RESERVE_NAME)).map(|metadata| metadata.len()).ok();
        refill(&directory, 100);
        assert_eq!(size(), Some(100));
        release(&directory).unwrap();
        assert_eq!(size(), None);
        refill(&directory, 50);
        assert_eq!(size(), Some(50));
        refill(&directory, 0);
        assert_eq!(size(), Some(50));
    }
}
