//! A record's files in a directory.
//!
//! Each file is written beside its place and renamed, so that a reader never sees half a file. Its one
//! surprise: a reserve of a few MiB is kept in the directory while a run lasts; when the disk is full it is
//! given up, so that the trial just measured and the report still fit.

use record::Store;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const RESERVE: &str = ".reserve";
const RESERVE_BYTES: usize = 8 << 20;

/// A directory as a [`Store`].
#[derive(Debug)]
pub struct DirStore {
    root: PathBuf,
    /// The disk was full and the reserve has been used: nothing new may be begun.
    full: Option<String>,
}

impl DirStore {
    /// An existing directory, to be read.
    pub fn open(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            full: None,
        }
    }

    /// Makes the directory and its reserve, to be written.
    ///
    /// # Errors
    /// The system's, when the directory or the reserve cannot be written.
    pub fn create(root: &Path) -> std::io::Result<Self> {
        fs::create_dir_all(root)?;
        let mut reserve = File::create(root.join(RESERVE))?;
        // Written, not only allocated: a file system that compresses or over-commits must take real blocks.
        reserve.write_all(&vec![0x5a; RESERVE_BYTES])?;
        Ok(Self::open(root))
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Why the reserve had to be used, when it had to be.
    pub fn full(&self) -> Option<&str> {
        self.full.as_deref()
    }

    /// Gives the reserve back; `true` when there was one.
    pub fn give_up_reserve(&self) -> bool {
        fs::remove_file(self.root.join(RESERVE)).is_ok()
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let beside = path.with_extension("partial");
        let written = File::create(&beside)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_data()))
            .and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // The half file would only take the space that is short; its loss is the error reported.
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

impl Drop for DirStore {
    /// The reserve is of use only while something may still be written.
    fn drop(&mut self) {
        self.give_up_reserve();
    }
}

impl Store for DirStore {
    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        let full = self.root.join(path);
        let first = self.write(&full, bytes).map_err(|e| e.to_string());
        match first {
            Err(cause) if self.give_up_reserve() => {
                self.full = Some(format!("writing `{path}`: {cause}"));
                self.write(&full, bytes).map_err(|e| e.to_string())
            }
            settled => settled,
        }
    }

    fn get(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        match fs::read(self.root.join(path)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        let mut pending = vec![self.root.join(prefix)];
        while let Some(dir) = pending.pop() {
            let within = dir.strip_prefix(&self.root).unwrap_or(&dir).display();
            let unreadable = |e: std::io::Error| format!("the directory `{within}`: {e}");
            let entries = match fs::read_dir(&dir) {
                Ok(entries) => entries,
                // What was never written is empty; what is there and cannot be read is not.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(unreadable(e)),
            };
            for entry in entries {
                let path = entry.map_err(unreadable)?.path();
                if path.is_dir() {
                    pending.push(path);
                } else if let Ok(relative) = path.strip_prefix(&self.root) {
                    found.push(relative.to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_gets_and_lists() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = DirStore::create(&dir.path().join("new")).unwrap();
        store.put("trials/0001/trial.json", b"{}").unwrap();
        assert_eq!(store.get("trials/0001/trial.json").unwrap().unwrap(), b"{}");
        assert_eq!(store.get("nothing").unwrap(), None);
        assert_eq!(store.list("trials/").unwrap(), ["trials/0001/trial.json"]);
        assert!(store.give_up_reserve());
        assert!(!store.give_up_reserve());
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_not_empty() {
        let dir = tempfile::tempdir().unwrap();
        let store = DirStore::open(dir.path());
        assert_eq!(store.list("trials/").unwrap(), [""; 0], "there is none");
        // Refused to everybody, root included.
        std::os::unix::fs::symlink("trials", dir.path().join("trials")).unwrap();
        let error = store.list("trials/").unwrap_err();
        assert!(error.starts_with("the directory `trials"), "{error}");
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(store.list("file").is_err());
    }

    #[test]
    fn a_refused_write_names_the_cause_and_leaves_no_half_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = DirStore::create(dir.path()).unwrap();
        store.put("a", b"file").unwrap();
        let error = store.put("a/b", b"below a file").unwrap_err();
        assert!(!error.is_empty());
        assert!(!dir.path().join("a/b.partial").exists());
    }
}
