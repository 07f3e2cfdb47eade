//! A target's own directory: configuration, files, logs, pid file. Journalled, and gone with the target.

use crate::error::TargetError;
use crate::journal::{Change, ChangeId, DIRECTORY_PREFIX, Journal, remove_directory};
use std::path::{Path, PathBuf};

/// Removed when dropped.
pub(crate) struct WorkDir {
    path: PathBuf,
    id: ChangeId,
    journal: Journal,
}

impl WorkDir {
    /// Creates `parent/prony-MARKER`, and `parent` if need be.
    pub fn create(journal: &Journal, parent: &Path, marker: &str) -> Result<Self, TargetError> {
        let doing = "creating the working directory";
        std::fs::create_dir_all(parent).map_err(|e| TargetError::file(doing, parent, &e))?;
        // The journal and the target's processes must understand the path from anywhere.
        let parent = parent
            .canonicalize()
            .map_err(|e| TargetError::file(doing, parent, &e))?;
        let path = parent.join(format!("{DIRECTORY_PREFIX}{marker}"));
        let id = journal.record(Change::Directory { path: path.clone() })?;
        let dir = Self {
            path,
            id,
            journal: journal.clone(),
        };
        std::fs::create_dir(&dir.path).map_err(|e| TargetError::file(doing, &dir.path, &e))?;
        Ok(dir)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it, with all that lies in it, to the user and group that the target runs as; nothing where it is ours.
    pub fn give_to(&self, owner: (u32, u32)) -> Result<(), TargetError> {
        // SAFETY: the calls take nothing and cannot fail.
        let own = unsafe { (libc::geteuid(), libc::getegid()) };
        if own == owner {
            return Ok(());
        }
        give(&self.path, owner).map_err(|e| TargetError::file("giving away", &self.path, &e))
    }
}

fn give(path: &Path, owner: (u32, u32)) -> std::io::Result<()> {
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), owner)?;
        }
    }
    std::os::unix::fs::lchown(path, Some(owner.0), Some(owner.1))
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if remove_directory(&self.path).is_ok() {
            // Not noted, the next start finds that it is gone.
            let _ = self.journal.undone(self.id);
        }
    }
}
