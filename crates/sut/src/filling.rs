//! The files of a target: given texts, and filling that no server can compress.

use crate::TargetError;
use plan::FileContent;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Lays the files into `dir`, with the directories that they need.
pub(crate) fn lay_out(
    dir: &Path,
    files: &BTreeMap<String, FileContent>,
) -> Result<(), TargetError> {
    for (name, content) in files {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent)
            .and_then(|()| write(&path, content))
            .map_err(|e| TargetError::file("writing", path, &e))?;
    }
    Ok(())
}

fn write(path: &Path, content: &FileContent) -> io::Result<()> {
    match content {
        FileContent::Text(text) => std::fs::write(path, text),
        FileContent::Size(size) => {
            let mut file = BufWriter::with_capacity(1 << 16, File::create(path)?);
            fill(&mut file, size.0)?;
            file.flush()
        }
    }
}

/// Writes `size` bytes of xorshift64 (Marsaglia, Xorshift RNGs, 2003): the same every time, so that
/// runs compare, and incompressible, so that a server's gzip cannot make a small body of it.
fn fill(to: &mut impl Write, size: u64) -> io::Result<()> {
    let mut state: u64 = 0x2545_f491_4f6c_dd1d;
    let mut left = size;
    while left > 0 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let bytes = state.to_le_bytes();
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        to.write_all(&bytes[..take])?;
        left -= take as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Bytes;

    #[test]
    fn lays_out_texts_and_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let files = BTreeMap::from([
            (
                "html/a/index.html".to_owned(),
                FileContent::Size(Bytes(2649)),
            ),
            ("empty".to_owned(), FileContent::Size(Bytes(0))),
            ("hello".to_owned(), FileContent::Text("hi\n".to_owned())),
        ]);
        lay_out(dir.path(), &files).unwrap();
        let filled = std::fs::read(dir.path().join("html/a/index.html")).unwrap();
        assert_eq!(filled.len(), 2649);
        let different: std::collections::BTreeSet<u8> = filled.into_iter().collect();
        assert!(
            different.len() > 250,
            "only {} byte values",
            different.len()
        );
        assert_eq!(std::fs::read(dir.path().join("empty")).unwrap(), b"");
        assert_eq!(std::fs::read(dir.path().join("hello")).unwrap(), b"hi\n");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("html"), "").unwrap();
        let files = BTreeMap::from([("html/a".to_owned(), FileContent::Text(String::new()))]);
        let error = lay_out(dir.path(), &files).unwrap_err().to_string();
        assert!(
            error.starts_with("writing ") && error.contains("html/a: "),
            "{error}"
        );
    }
}
