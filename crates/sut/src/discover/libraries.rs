//! Versions of a running server: its program and every library that it has mapped, by build id and package.
//!
//! Nothing is run for it. The build id and the package that a file names itself stand in its ELF notes, the package of
//! the others in the text databases of dpkg and apk, as the process sees them (`/proc/PID/root`). The surprise: a
//! library that was upgraded under a running program is still the old one there, and the database speaks of the new.

use memchr::memmem::Finder;
use record::{Server, VersionFact};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Most of a segment of notes that is read, bytes.
const MOST_NOTES: u64 = 64 << 10;
/// ELF: program header of notes; GNU's build id; the package metadata of systemd's specification, as JSON.
const PT_NOTE: u32 = 4;
const GNU_BUILD_ID: u32 = 3;
const FDO_PACKAGE: u32 = 0xcafe_1a7e;

/// Notes the versions of a server's program and libraries, as far as they are not known.
pub fn note_versions(server: &mut Server) {
    if server.versions.is_empty() && server.main_pid > 0 {
        server.versions = versions(Path::new("/proc"), server);
    }
}

fn versions(proc: &Path, server: &Server) -> Vec<VersionFact> {
    let process = proc.join(server.main_pid.to_string());
    let mut all = vec![stated(server)];
    let maps = match std::fs::read_to_string(process.join("maps")) {
        Ok(maps) if !maps.trim().is_empty() => maps,
        Ok(_) => {
            all.push(hidden(
                "it maps no file, or they are hidden from this user".to_owned(),
            ));
            return all;
        }
        Err(e) => {
            all.push(hidden(format!("reading its mappings: {e}")));
            return all;
        }
    };
    let mapped = mapped(&maps, &server.exe);
    let root = process.join("root");
    let paths: BTreeSet<&str> = mapped.keys().map(String::as_str).collect();
    let mut packages = dpkg(&root, &paths);
    packages.extend(apk(&root, &paths));
    for (path, mapping) in &mapped {
        all.push(version(&process, path, mapping, &server.exe, &packages));
    }
    all[1..].sort_by(|a, b| (a.name != "program", &a.name).cmp(&(b.name != "program", &b.name)));
    all
}

/// What the server or its runtime says of itself, as discovery has it.
fn stated(server: &Server) -> VersionFact {
    let reason = match server.version.as_str() {
        "" => format!("a program of kind {} was not made to state it", server.kind),
        _ => String::new(),
    };
    VersionFact {
        name: server.kind.clone(),
        path: server.exe.clone(),
        version: server.version.clone(),
        source: if reason.is_empty() {
            "as it states it"
        } else {
            ""
        }
        .to_owned(),
        reason,
        ..VersionFact::default()
    }
}

fn hidden(reason: String) -> VersionFact {
    VersionFact {
        name: "program and libraries".to_owned(),
        reason,
        ..VersionFact::default()
    }
}

/// A mapped file.
struct Mapping {
    /// `7f00-7f10`: the name below `map_files`.
    range: String,
    /// The file has been removed or replaced since.
    deleted: bool,
}

/// The program and the libraries in the text of `maps`, by path.
fn mapped(maps: &str, exe: &str) -> BTreeMap<String, Mapping> {
    let mut all = BTreeMap::new();
    for line in maps.lines() {
        let Some(at) = line.find('/') else { continue };
        let (path, deleted) = match line[at..].strip_suffix(" (deleted)") {
            Some(path) => (path, true),
            None => (&line[at..], false),
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_library = name.ends_with(".so") || name.contains(".so.");
        if !is_library && path != exe {
            continue;
        }
        let range = line.split(' ').next().unwrap_or_default();
        all.entry(path.to_owned()).or_insert_with(|| Mapping {
            range: range.to_owned(),
            deleted,
        });
    }
    all
}

fn version(
    process: &Path,
    path: &str,
    mapping: &Mapping,
    exe: &str,
    packages: &BTreeMap<String, (String, String)>,
) -> VersionFact {
    let name = path.rsplit('/').next().unwrap_or_default();
    let file = match mapping.deleted {
        // The kernel leads to the file that is mapped, whatever its name leads to now.
        true => process.join("map_files").join(&mapping.range),
        false => process.join("root").join(path.trim_start_matches('/')),
    };
    let notes = notes(&file);
    let mut fact = VersionFact {
        name: if path == exe { "program" } else { name }.to_owned(),
        path: path.to_owned(),
        ..VersionFact::default()
    };
    let (noted, why_no_id) = match notes {
        Ok(notes) => {
            let why = match &notes.build_id {
                Some(_) => String::new(),
                None => "it was built without a build id".to_owned(),
            };
            fact.build_id = notes.build_id.unwrap_or_default();
            (notes.package, why)
        }
        Err(e) => (None, format!("reading it: {e}")),
    };
    let of_name = || {
        name.split_once(".so.")
            .map(|(_, v)| v)
            .filter(|v| v.matches('.').count() > 1)
    };
    let (version, source) = match (noted, packages.get(path), of_name()) {
        (Some((package, version)), ..) => (version, format!("its package note ({package})")),
        (_, Some((package, version)), _) if !mapping.deleted => {
            (version.clone(), format!("package {package}"))
        }
        (.., Some(version)) => (version.to_owned(), "its file name".to_owned()),
        _ => {
            fact.reason = match mapping.deleted {
                true => "the file was replaced since the program started".to_owned(),
                false => {
                    "no package note, no package that dpkg or apk lists, no number in its name"
                        .to_owned()
                }
            };
            if !why_no_id.is_empty() {
                fact.reason = format!("{}; build id: {why_no_id}", fact.reason);
            }
            return fact;
        }
    };
    (fact.version, fact.source, fact.reason) = (version, source, String::new());
    if !why_no_id.is_empty() {
        fact.reason = format!("build id: {why_no_id}");
    }
    fact
}

/// What a file says of itself.
#[derive(Debug, Default, PartialEq)]
struct Notes {
    build_id: Option<String>,
    /// Name and version.
    package: Option<(String, String)>,
}

fn notes(path: &Path) -> std::io::Result<Notes> {
    let mut file = File::open(path)?;
    let bad = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
    let mut head = [0; 64];
    file.read_exact(&mut head)?;
    // 64 bits, little endian: what prony runs on.
    if head[..6] != [0x7f, b'E', b'L', b'F', 2, 1] {
        return Err(bad("it is no ELF file of this machine"));
    }
    let (at, size, number) = (long(&head, 0x20), short(&head, 0x36), short(&head, 0x38));
    let mut table = vec![0; usize::from(size) * usize::from(number)];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut table)?;
    let mut found = Notes::default();
    for header in table
        .chunks_exact(usize::from(size).max(1))
        .filter(|h| h.len() >= 56)
    {
        if word(header, 0) != PT_NOTE {
            continue;
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(long(header, 8)))?;
        (&mut file)
            .take(long(header, 32).min(MOST_NOTES))
            .read_to_end(&mut bytes)?;
        read_notes(&bytes, &mut found);
    }
    Ok(found)
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(short(bytes, at)) | u32::from(short(bytes, at + 2)) << 16
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Notes one behind another: sizes of owner and content, type, then both, each filled up to four bytes.
fn read_notes(mut bytes: &[u8], found: &mut Notes) {
    while bytes.len() >= 12 {
        let (owner, content, kind) = (
            word(bytes, 0) as usize,
            word(bytes, 4) as usize,
            word(bytes, 8),
        );
        let from = 12 + owner.next_multiple_of(4);
        let Some(said) = bytes.get(from..from.saturating_add(content)) else {
            return;
        };
        match (bytes.get(12..12 + owner), kind) {
            (Some(b"GNU\0"), GNU_BUILD_ID) => {
                found.build_id = Some(said.iter().map(|byte| format!("{byte:02x}")).collect());
            }
            (Some(b"FDO\0"), FDO_PACKAGE) => found.package = package(said),
            _ => {}
        }
        bytes = bytes
            .get(from + content.next_multiple_of(4)..)
            .unwrap_or_default();
    }
}

fn package(said: &[u8]) -> Option<(String, String)> {
    let end = said.iter().position(|b| *b == 0).unwrap_or(said.len());
    let json: serde_json::Value = serde_json::from_slice(&said[..end]).ok()?;
    let text = |name: &str| Some(json.get(name)?.as_str()?.to_owned());
    Some((text("name")?, text("version")?))
}

/// The other name of a file where `/lib` is a link to `/usr/lib`, as databases of before may have it.
fn merged(path: &str) -> String {
    match path.strip_prefix("/usr") {
        Some(rest) => rest.to_owned(),
        None => format!("/usr{path}"),
    }
}

/// Package and version of each path that dpkg lists.
fn dpkg(root: &Path, paths: &BTreeSet<&str>) -> BTreeMap<String, (String, String)> {
    let database = root.join("var/lib/dpkg");
    // Most lists name neither a library nor the program, and nothing in them is compared.
    let telling = paths.iter().map(|path| match path.contains(".so") {
        true => ".so",
        false => path.rsplit('/').next().unwrap_or_default(),
    });
    let telling: BTreeSet<&str> = telling.collect();
    let telling: Vec<Finder> = telling.iter().map(Finder::new).collect();
    let wanted: HashMap<Vec<u8>, &str> = paths
        .iter()
        .flat_map(|path| [((*path).into(), *path), (merged(path).into(), *path)])
        .collect();
    let lists = std::fs::read_dir(database.join("info"))
        .into_iter()
        .flatten();
    let lists = lists.flatten().map(|entry| entry.path());
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for list in lists.filter(|path| path.extension().is_some_and(|e| e == "list")) {
        let Ok(text) = std::fs::read(&list) else {
            continue;
        };
        if telling.iter().all(|word| word.find(&text).is_none()) {
            continue;
        }
        let stem = list.file_stem().unwrap_or_default().to_string_lossy();
        let owner = stem.split(':').next().unwrap_or_default();
        let listed = text.split(|byte| *byte == b'\n');
        for path in listed.filter_map(|line| wanted.get(line)) {
            owners.insert((*path).to_owned(), owner.to_owned());
        }
    }
    if owners.is_empty() {
        return BTreeMap::new();
    }
    let status = std::fs::read_to_string(database.join("status")).unwrap_or_default();
    let mut numbers: BTreeMap<&str, &str> = BTreeMap::new();
    for paragraph in status.split("\n\n") {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(name), Some(number)) = (field("Package: "), field("Version: ")) {
            numbers.insert(name, number);
        }
    }
    let known = owners.into_iter().filter_map(|(path, owner)| {
        let number = (*numbers.get(owner.as_str())?).to_owned();
        Some((path, (owner, number)))
    });
    known.collect()
}

/// The same of apk: a paragraph a package, with `F:` for directories and `R:` for the files in them.
fn apk(root: &Path, paths: &BTreeSet<&str>) -> BTreeMap<String, (String, String)> {
    let database: PathBuf = root.join("lib/apk/db/installed");
    let text = std::fs::read_to_string(database).unwrap_or_default();
    let mut known = BTreeMap::new();
    for paragraph in text.split("\n\n") {
        let (mut name, mut number, mut directory) = ("", "", "");
        for line in paragraph.lines() {
            match line.split_once(':') {
                Some(("P", said)) => name = said,
                Some(("V", said)) => number = said,
                Some(("F", said)) => directory = said,
                Some(("R", said)) => {
                    let path = format!("/{directory}/{said}");
                    let path = [path.clone(), merged(&path)]
                        .into_iter()
                        .find(|p| paths.contains(p.as_str()));
                    known.extend(path.map(|path| (path, (name.to_owned(), number.to_owned()))));
                }
                _ => {}
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8; 4], kind: u32, said: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [4, said.len() as u32, kind] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(owner);
        bytes.extend(said);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A header, one program header, and notes.
    fn elf(notes: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 120];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        bytes[0x20] = 64;
        bytes[0x36] = 56;
        bytes[0x38] = 1;
        bytes[64] = 4;
        bytes[72] = 120;
        bytes[96..100].copy_from_slice(&(notes.len() as u32).to_le_bytes());
        bytes.extend(notes);
        bytes
    }

    fn put(root: &Path, path: &str, bytes: &[u8]) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn server(version: &str) -> Server {
        Server {
            kind: "nginx".into(),
            version: version.into(),
            exe: "/usr/sbin/nginx".into(),
            main_pid: 7,
            ..Server::default()
        }
    }

    #[test]
    fn versions_come_from_notes_packages_and_names_and_a_gap_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let id = |byte: u8| note(b"GNU\0", 3, &[byte, 0xcd]);
        let json = br#"{"type":"rpm","name":"pcre2","version":"10.42-1"}"#;
        let maps = "\
55-56 r-xp 0 08:01 1 /usr/sbin/nginx
60-61 r--p 0 08:01 2 /usr/lib/libssl.so.3
61-62 r-xp 0 08:01 2 /usr/lib/libssl.so.3
62-63 r-xp 0 08:01 3 /usr/lib/libpcre2-8.so.0
63-64 r-xp 0 08:01 4 /usr/lib/libz.so.1.2.13
64-65 r-xp 0 08:01 5 /opt/libown.so
65-66 r-xp 0 08:01 6 /usr/lib/libc.so.6 (deleted)
66-67 rw-s 0 08:01 6 /dev/zero
67-68 rw-p 0 00:00 0 [heap]
";
        put(root, "7/maps", maps.as_bytes());
        put(root, "7/root/usr/sbin/nginx", &elf(&id(0xaa)));
        put(root, "7/root/usr/lib/libssl.so.3", &elf(&id(0xbb)));
        let both = [note(b"FDO\0", 0xcafe_1a7e, json), id(0xcc)].concat();
        put(root, "7/root/usr/lib/libpcre2-8.so.0", &elf(&both));
        put(root, "7/root/usr/lib/libz.so.1.2.13", b"text");
        put(root, "7/root/opt/libown.so", &elf(&[]));
        // The new file has the name, the old one is mapped.
        put(root, "7/root/usr/lib/libc.so.6", &elf(&id(0xee)));
        put(root, "7/map_files/65-66", &elf(&id(0xdd)));
        put(
            root,
            "7/root/var/lib/dpkg/info/libssl3:amd64.list",
            b"/.\n/lib/libssl.so.3\n",
        );
        put(
            root,
            "7/root/var/lib/dpkg/info/libc6:amd64.list",
            b"/usr/lib/libc.so.6\n",
        );
        put(
            root,
            "7/root/var/lib/dpkg/status",
            b"Package: libssl3\nStatus: ok\nVersion: 3.0.15-1\n\nPackage: libc6\nVersion: 2.41\n",
        );
        put(
            root,
            "7/root/lib/apk/db/installed",
            b"P:nginx\nV:1.26.2-r0\nF:usr/sbin\nR:nginx\n\n",
        );
        let all = versions(root, &server("nginx/1.26.2"));
        let lines: Vec<String> = all
            .iter()
            .map(|v| {
                format!(
                    "{} {} {} | {} | {}",
                    v.name, v.version, v.build_id, v.source, v.reason
                )
            })
            .collect();
        assert_eq!(
            lines,
            [
                "nginx nginx/1.26.2  | as it states it | ",
                "program 1.26.2-r0 aacd | package nginx | ",
                "libc.so.6  ddcd |  | the file was replaced since the program started",
                "libown.so   |  | no package note, no package that dpkg or apk lists, no number in its name; build id: it was built without a build id",
                "libpcre2-8.so.0 10.42-1 cccd | its package note (pcre2) | ",
                "libssl.so.3 3.0.15-1 bbcd | package libssl3 | ",
                "libz.so.1.2.13 1.2.13  | its file name | build id: reading it: failed to fill whole buffer",
            ]
        );
    }

    #[test]
    fn what_may_not_be_seen_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let all = versions(dir.path(), &server(""));
        assert_eq!(all.len(), 2);
        assert_eq!(
            all[0].reason,
            "a program of kind nginx was not made to state it"
        );
        assert!(
            all[1].reason.starts_with("reading its mappings: "),
            "{all:?}"
        );
    }

    #[test]
    fn cut_notes_are_survived() {
        let whole = note(b"GNU\0", 3, &[1, 2, 3, 4]);
        for end in 0..whole.len() {
            let mut found = Notes::default();
            read_notes(&whole[..end], &mut found);
            assert_eq!(found, Notes::default(), "{end}");
        }
    }

    /// The test's own program and the C library of this machine.
    #[test]
    fn a_live_process_has_its_libraries() {
        let pid = std::process::id() as i32;
        let exe = std::env::current_exe().unwrap();
        let mut server = Server {
            kind: "generic".into(),
            exe: exe.display().to_string(),
            main_pid: pid,
            ..Server::default()
        };
        note_versions(&mut server);
        let libc = server
            .versions
            .iter()
            .find(|v| v.name.starts_with("libc.so") || v.name.starts_with("libc-2"));
        let libc = libc.expect("a test is linked to the C library");
        assert!(
            !libc.build_id.is_empty() || !libc.reason.is_empty(),
            "{libc:?}"
        );
        assert!(
            server
                .versions
                .iter()
                .all(|v| !v.version.is_empty() || !v.reason.is_empty())
        );
    }
}
