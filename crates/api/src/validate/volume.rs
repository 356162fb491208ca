//! Volume mounts, and files that are mounted into the container.

use super::{Findings, Validate};
use crate::models::{File, VolumeMount};

/// Sum of the contents of all mounted files; the paths do not count.
pub const MOUNTED_FILES_BYTES_MAX: usize = 1024 * 1024;

impl Validate for VolumeMount {
    /// A mount with neither a shared nor a dedicated device is accepted, as it always was.
    fn findings(&self, found: &mut Findings) {
        if self.driver.is_empty() {
            found.text("invalid volume_mount driver");
        }
        if !matches!(self.mode.as_str(), "r" | "rw") {
            found.text("invalid volume_mount mode");
        }
        if self.shared.as_ref().is_some_and(|shared| shared.volume_id.is_empty()) {
            found.text("invalid volume_mount volume id");
        }
        if self.dedicated.as_ref().is_some_and(|dedicated| dedicated.mounter_id.is_empty()) {
            found.text("invalid volume_mount mounter id");
        }
    }
}

/// Reported under the name that Diego uses in its texts, which is not the name of the field.
pub(super) fn mounted_files(files: &[File], found: &mut Findings) {
    let total_bytes = files.iter().map(|file| file.content.len()).sum();
    found.at_most("volumeMountedFiles", total_bytes, MOUNTED_FILES_BYTES_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{DedicatedDevice, SharedDevice};
    use crate::validate::samples::verdict;

    #[test]
    fn mounts() {
        let text = "invalid volume_mount driver, invalid volume_mount mode";
        assert_eq!(verdict(&VolumeMount::default()), text);
        let mount = |mode: &str| VolumeMount { driver: "nfs".into(), mode: mode.into(), ..Default::default() };
        for mode in ["r", "rw"] {
            assert_eq!(verdict(&mount(mode)), "");
        }
        for mode in ["", "w", "RW", "ro", "rw "] {
            assert_eq!(verdict(&mount(mode)), "invalid volume_mount mode", "{mode:?}");
        }
        let devices = |volume_id: &str, mounter_id: &str| VolumeMount {
            shared: Some(SharedDevice { volume_id: volume_id.into(), ..Default::default() }),
            dedicated: Some(DedicatedDevice { mounter_id: mounter_id.into(), ..Default::default() }),
            ..mount("r")
        };
        assert_eq!(verdict(&devices("v", "m")), "");
        assert_eq!(verdict(&devices("", "m")), "invalid volume_mount volume id");
        assert_eq!(verdict(&devices("v", "")), "invalid volume_mount mounter id");
        assert_eq!(verdict(&devices("", "")), "invalid volume_mount volume id, invalid volume_mount mounter id");
    }

    #[test]
    fn file_contents_are_summed() {
        let text = |lengths: &[usize]| {
            let file = |length: &usize| File { path: "p".repeat(100), content: "x".repeat(*length) };
            let mut found = Findings::default();
            mounted_files(&lengths.iter().map(file).collect::<Vec<_>>(), &mut found);
            found.joined().unwrap_or_default()
        };
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[MOUNTED_FILES_BYTES_MAX]), "");
        assert_eq!(text(&[MOUNTED_FILES_BYTES_MAX - 1, 1]), "");
        assert_eq!(text(&[MOUNTED_FILES_BYTES_MAX, 1]), "Invalid field: volumeMountedFiles");
    }
}
