//! Names of kernel functions.
//!
//! In the flow: read when a profile has ended, once for all that ended before. The surprise: where
//! `kernel.kptr_restrict` hides the addresses, kallsyms is there and full of zeros; all kernel code is then one frame.

use record::Frame;
use record::Unavailable;
use std::sync::{Arc, Mutex, PoisonError};

/// File name that stands for the kernel in a frame.
const KERNEL: &str = "kernel";

/// The kernel's functions by rising address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    text: String,
    /// Address, and the range of its line's rest in `text`.
    entries: Vec<(u64, std::ops::Range<usize>)>,
}

/// What was read last, and when, ns. Two hundred thousand lines take the kernel a tenth of a second.
static LAST: Mutex<Option<(u64, Arc<KernelSymbols>)>> = Mutex::new(None);

impl KernelSymbols {
    /// Names as they were at `at_ns` or later.
    ///
    /// # Errors
    /// Why kernel functions have no names.
    pub fn since(at_ns: u64) -> Result<Arc<Self>, Unavailable> {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read_ns, symbols)) = &*last
            && *read_ns >= at_ns
        {
            return Ok(Arc::clone(symbols));
        }
        let read_ns = linux::clock::monotonic_ns();
        let symbols = Arc::new(Self::read()?);
        *last = Some((read_ns, Arc::clone(&symbols)));
        Ok(symbols)
    }

    /// Reads `/proc/kallsyms`.
    ///
    /// # Errors
    /// Why kernel functions have no names.
    fn read() -> Result<Self, Unavailable> {
        let unavailable = |reason: String| Unavailable {
            what: "names of kernel functions".to_owned(),
            reason,
            remedy: "run prony as root, or give it CAP_SYSLOG, or set kernel.kptr_restrict to 0"
                .to_owned(),
        };
        let text = std::fs::read_to_string("/proc/kallsyms")
            .map_err(|cause| unavailable(format!("reading `/proc/kallsyms`: {cause}")))?;
        let symbols = Self::parse(text);
        if symbols.entries.is_empty() {
            let reason = "`/proc/kallsyms` shows no addresses (kernel.kptr_restrict)";
            return Err(unavailable(reason.to_owned()));
        }
        Ok(symbols)
    }

    /// Takes the functions of kallsyms' text; those at address 0 are hidden ones.
    fn parse(text: String) -> Self {
        let mut entries = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let end = at + line.trim_end().len();
            if let Some((address, rest)) = line.split_once(' ')
                && let Ok(address @ 1..) = u64::from_str_radix(address, 16)
                && rest.starts_with(['t', 'T', 'w', 'W'])
            {
                entries.push((address, (at + line.len() - rest.len() + 2).min(end)..end));
            }
            at += line.len();
        }
        entries.sort_by_key(|(address, _)| *address);
        Self { text, entries }
    }

    /// The frame of a kernel address.
    pub fn frame(&self, address: u64) -> Frame {
        let after = self.entries.partition_point(|(start, _)| *start <= address);
        let name = after
            .checked_sub(1)
            .map(|last| &self.text[self.entries[last].1.clone()]);
        let name = name.unwrap_or("[kernel]");
        let (symbol, module) = name.split_once('\t').unwrap_or((name, KERNEL));
        Frame {
            symbol: symbol.to_owned(),
            module: module.to_owned(),
            kernel: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = KernelSymbols::parse(
            "ffffffff81000100 T tcp_sendmsg\nffffffff81000000 t entry\n\
             ffffffff82000000 D data\nffffffffc0000000 t hook\t[nf_tables]\n"
                .to_owned(),
        );
        for (address, symbol, module) in [
            (0xffff_ffff_8100_0000, "entry", "kernel"),
            (0xffff_ffff_8100_0180, "tcp_sendmsg", "kernel"),
            (0xffff_ffff_c000_0004, "hook", "[nf_tables]"),
            (0xffff_ffff_0000_0000, "[kernel]", "kernel"),
        ] {
            let frame = symbols.frame(address);
            assert_eq!(
                (frame.symbol.as_str(), frame.module.as_str()),
                (symbol, module)
            );
            assert!(frame.kernel);
        }
    }

    #[test]
    fn hidden_addresses_are_no_functions() {
        let symbols = KernelSymbols::parse("0000000000000000 T tcp_sendmsg\n".to_owned());
        assert!(symbols.entries.is_empty());
        assert_eq!(symbols.frame(0xffff_ffff_8100_0000).symbol, "[kernel]");
    }
}
