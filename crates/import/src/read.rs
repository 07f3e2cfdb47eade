//! Sources to one record: every reader of a format goes over the text, and what they found is put together.
//!
//! The order of the text is kept; what one reader has taken is not another's too.

use crate::assemble::{self, Imported, Making, Options};
use crate::error::ImportError;
use crate::format::Format;
use crate::found::{Found, Harvest};
use crate::text::{Word, plain, words};
use crate::{ab, hdr, host, json, plainly, strace, table, trex, wrk};

impl Format {
    /// The format of that name.
    ///
    /// # Errors
    /// [`ImportError::UnknownFormat`] with the near miss.
    pub fn named(name: &str) -> Result<Self, ImportError> {
        let lower = name.to_lowercase();
        let known = Self::ALL.iter().find(|(_, n)| *n == lower);
        known
            .map(|(format, _)| *format)
            .ok_or_else(|| ImportError::UnknownFormat {
                name: name.to_owned(),
                near: plan::near_miss(name, Self::names()),
            })
    }
}

/// A text to import.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its file's name, for messages and for the record.
    pub file: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// Reads sources and makes one record of all their results.
///
/// # Errors
/// [`ImportError`] when a source holds nothing that can be imported, or an option names what is not there. Parts that
/// cannot be read do not stop the rest: they are in [`Imported::left_out`].
pub fn import(
    format: Format,
    sources: &[Source<'_>],
    options: &Options,
    making: &Making,
) -> Result<Imported, ImportError> {
    let mut read = Vec::new();
    for source in sources {
        let text = text_of(source)?;
        let harvest = harvest(format, source.file, &text);
        if harvest.found.is_empty() {
            return Err(nothing(format, source, &text, harvest));
        }
        read.push((source.file.to_owned(), text, harvest));
    }
    assemble::assemble(read, options, making)
}

/// Results of load generators in a text, in its order; for facts of what was pasted.
pub(crate) fn loads(text: &str) -> Vec<record::Reported> {
    let text = plain(text);
    let words = words(&text);
    let mut harvest = tools(Format::Auto, &text, &words);
    harvest.found.sort_by_key(|f| f.reported.lines);
    harvest.found.into_iter().map(|f| f.reported).collect()
}

fn text_of(source: &Source<'_>) -> Result<String, ImportError> {
    let file = source.file.to_owned();
    if source.bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(ImportError::Empty { file });
    }
    let utf16 = source.bytes.starts_with(&[0xff, 0xfe]) || source.bytes.starts_with(&[0xfe, 0xff]);
    let binary = |b: &u8| *b == 0 || *b == 0x1f;
    match source.bytes.iter().position(binary) {
        Some(at) if !utf16 => Err(ImportError::Binary {
            file,
            at,
            byte: source.bytes[at],
        }),
        _ => Ok(plain(&decoded(source.bytes, utf16))),
    }
}

/// Windows' redirection writes UTF-16.
fn decoded(bytes: &[u8], utf16: bool) -> String {
    if !utf16 {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let little = bytes[0] == 0xff;
    let units: Vec<u16> = bytes[2..]
        .chunks_exact(2)
        .map(|pair| match little {
            true => u16::from_le_bytes([pair[0], pair[1]]),
            false => u16::from_be_bytes([pair[0], pair[1]]),
        })
        .collect();
    String::from_utf16_lossy(&units)
}

/// Everything of the format, in the order of the text.
fn harvest(format: Format, file: &str, text: &str) -> Harvest {
    let words = words(text);
    let mut harvest = tools(format, text, &words);
    let auto = format == Format::Auto;
    let only = match format {
        Format::Auto => Some(None),
        Format::Strace => Some(Some("strace")),
        Format::Vmstat => Some(Some("vmstat")),
        Format::Mpstat => Some(Some("mpstat")),
        _ => None,
    };
    if let Some(only) = only {
        let lines: Vec<&str> = text.lines().collect();
        let mut sizes = strace::sizes(file, &lines);
        // Lines of strace between counted lists are examples of what those count.
        if sizes.iter().any(|s| s.asked.is_none()) {
            sizes.retain(|s| s.asked.is_none());
        }
        harvest.add(host::read(&words, &sizes, only));
    }
    if auto || [Format::Table, Format::DpdkHttpperf].contains(&format) {
        let mut sweeps = table::sweeps(&words);
        let dpdk = |f: &Found| f.reported.tool == "dpdk-httpperf";
        sweeps
            .found
            .retain(|f| auto || dpdk(f) == (format == Format::DpdkHttpperf));
        harvest.add(sweeps);
    }
    if auto || format == Format::Trex {
        harvest.add(trex::read(&words));
    }
    if auto || format == Format::Table {
        let mut grids = table::grids(text);
        // A table that another reader took is not taken twice.
        let swept: Vec<u32> = harvest.found.iter().map(|f| f.reported.lines.0).collect();
        grids.found.retain(|f| !swept.contains(&f.reported.lines.0));
        harvest.add(grids);
    }
    harvest.found.sort_by_key(|f| f.reported.lines);
    harvest.left_out.sort();
    harvest
}

/// Load generators.
fn tools(format: Format, text: &str, words: &[Word<'_>]) -> Harvest {
    type Reader = fn(&[Word<'_>]) -> Harvest;
    const READERS: [(Format, Reader); 9] = [
        (Format::Ab, ab::read),
        (Format::Weighttp, plainly::weighttp),
        (Format::H2load, plainly::h2load),
        (Format::Hey, plainly::hey),
        (Format::Oha, plainly::oha),
        (Format::Bombardier, plainly::bombardier),
        (Format::Vegeta, plainly::vegeta),
        (Format::K6, plainly::k6),
        (Format::Fortio, plainly::fortio),
    ];
    let auto = format == Format::Auto;
    let mut harvest = Harvest::default();
    for (of, read) in READERS {
        if auto || of == format {
            harvest.add(read(words));
        }
    }
    if auto || [Format::Wrk, Format::Wrk2].contains(&format) {
        let mut read = wrk::read(words);
        // wrk2 calls itself wrk: `wrk` takes both.
        read.found
            .retain(|f| format != Format::Wrk2 || f.reported.tool == "wrk2");
        harvest.add(read);
    }
    if auto || format == Format::Hdr {
        harvest.add(hdr::read(text, words));
    }
    let tool = (!auto).then(|| format.name());
    harvest.add(json::read(text, tool));
    harvest
}

/// Why a source gave nothing: another tool's, not whole, or not known.
fn nothing(format: Format, source: &Source<'_>, text: &str, read: Harvest) -> ImportError {
    let file = source.file.to_owned();
    let not_whole = |harvest: Harvest| {
        let mut left = harvest.left_out.into_iter();
        left.next().map(|(from, to, why)| ImportError::NotWhole {
            file: file.clone(),
            from,
            to,
            why,
        })
    };
    if format != Format::Auto {
        let other = harvest(Format::Auto, source.file, text);
        if let Some(first) = other.found.first() {
            return ImportError::OtherFormat {
                file,
                format: format.name().to_owned(),
                detected: format_of(first).name().to_owned(),
                line: first.reported.lines.0,
            };
        }
    }
    let lines = text.lines().count();
    not_whole(read).unwrap_or_else(|| ImportError::Unknown {
        file,
        format: match format {
            Format::Auto => "a tool that prony knows".to_owned(),
            format => format.name().to_owned(),
        },
        lines,
    })
}

fn format_of(found: &Found) -> Format {
    let tool = found.reported.tool.as_str();
    let named = |(_, name): &&(Format, &str)| *name == tool;
    match tool {
        "strace -c" | "sizes of calls" => Format::Strace,
        "HdrHistogram" | "HdrHistogram log" => Format::Hdr,
        _ => Format::ALL
            .iter()
            .find(named)
            .map_or(Format::Auto, |(format, _)| *format),
    }
}
