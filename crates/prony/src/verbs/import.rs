//! `prony import FORMAT FILE...`: results of other tools become a record that `report` and `compare` take; requests of
//! a browser, of curl and of a description go to `import_workload`.

use super::import_workload;
use crate::cli::ImportArgs;
use crate::executor::run::analyse;
use crate::exit::{Exit, Failure};
use crate::host;
use crate::store::DirStore;
use crate::terminal;
use ::import::{Format, Imported, Making, Options, Source, WorkloadFormat, import};
use std::io::Read;
use std::path::{Path, PathBuf};

/// More than any text that a person saved; a log that is larger is cut into parts first.
const LARGEST: u64 = 64 << 20;

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when a file cannot be read or holds no result, or the record cannot be written.
pub fn run(args: &ImportArgs) -> Result<Exit, Failure> {
    if let Some(format) = WorkloadFormat::named(&args.format) {
        return import_workload::run(format, args);
    }
    let usage = |e: &::import::ImportError| Failure::new(Exit::Usage, e.to_string(), e.remedy());
    let given = [
        (args.secrets, "--secrets"),
        (!args.host.is_empty(), "--host"),
    ];
    if let Some((_, flag)) = given.iter().find(|(is_given, _)| *is_given) {
        return Err(Failure::new(
            Exit::Usage,
            format!(
                "{flag} is of a workload file, and `{}` is no such format",
                args.format
            ),
            "leave it out, or import har, curl or openapi",
        ));
    }
    let format = Format::named(&args.format).map_err(|e| usage(&e))?;
    let read: Result<Vec<(String, Vec<u8>)>, Failure> =
        args.files.iter().map(|path| content(path)).collect();
    let read = read?;
    let sources: Vec<Source> = read
        .iter()
        .map(|(file, bytes)| Source { file, bytes })
        .collect();
    let making = Making {
        prony: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args().collect(),
        at: host::timestamp(),
    };
    let imported = import(format, &sources, &options(args), &making).map_err(|e| usage(&e))?;
    let out = args.out.clone().unwrap_or_else(|| default_out(args));
    save(&imported, &out)?;
    show(args, &imported, &out)?;
    Ok(Exit::Valid)
}

pub(super) fn content(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let failed = |cause: String| {
        Failure::new(
            Exit::Usage,
            format!("reading `{}`: {cause}", path.display()),
            "give a file with the output of a tool, or `-` for standard input",
        )
    };
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(LARGEST + 1)
            .read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|f| f.take(LARGEST + 1).read_to_end(&mut bytes))
    };
    read.map_err(|e| failed(e.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(failed(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    let name = match path == Path::new("-") {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    Ok((name, bytes))
}

fn options(args: &ImportArgs) -> Options {
    Options {
        levels: args.level.clone(),
        map: args.map.clone(),
        names: args.name.clone(),
        factor: args.factor.clone(),
        baseline: args.baseline.clone(),
        select: args.select.clone(),
        question: args.question.clone(),
    }
}

fn default_out(args: &ImportArgs) -> PathBuf {
    let stem = args.files.first().and_then(|f| f.file_stem());
    let stem = stem.map_or_else(|| "imported".into(), |s| s.to_string_lossy().into_owned());
    let stem = if stem == "-" {
        "imported".to_owned()
    } else {
        stem
    };
    PathBuf::from("results").join(format!("{stem}-{}", host::timestamp_for_name()))
}

/// A record is never written over another one.
fn save(imported: &Imported, out: &Path) -> Result<(), Failure> {
    if out.join("manifest.json").exists() {
        return Err(Failure::new(
            Exit::Usage,
            format!("`{}` holds a record already", out.display()),
            "give another directory with --out, or delete that one",
        ));
    }
    let failed = |cause: String| {
        Failure::new(
            Exit::Environment,
            format!("writing the record `{}`: {cause}", out.display()),
            "check the free space and the permissions of the directory",
        )
    };
    let mut store = DirStore::create(out).map_err(|e| failed(e.to_string()))?;
    imported
        .record
        .save(&mut store)
        .map_err(|e| failed(e.to_string()))
}

fn show(args: &ImportArgs, imported: &Imported, out: &Path) -> Result<(), Failure> {
    let analysis = analyse(&imported.record)?;
    let directory = out.display().to_string();
    let document = report::json::import_document(imported, &analysis, &directory);
    if args.json {
        return terminal::result(&super::to_json(&document));
    }
    let text = report::text::import_text(&document, terminal::style());
    terminal::result(&text)?;
    for warning in &analysis.warnings {
        terminal::warning(warning);
    }
    terminal::result(&format!(
        "record: {directory} (see it with `prony report {directory}`)"
    ))
}
