//! The running kernel's types, for every program that is loaded.
//!
//! They are read once and kept: there are a hundred thousand of them, which takes longer than checking the programs.
//! The surprise: aya's loader reads them for itself and shows them to nobody, so that they are here twice.

use super::error::{EbpfError, chain};
use aya::{Btf, Ebpf, EbpfLoader};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What `const volatile MASK` of an object may be: `MASKS[n]` has `n` bits.
static MASKS: [u32; 32] = masks();

const fn masks() -> [u32; 32] {
    let mut masks = [0; 32];
    let mut bits = 1;
    while bits < 32 {
        masks[bits] = (1 << bits) - 1;
        bits += 1;
    }
    masks
}

/// The types by which programs find their tracepoints.
pub(crate) fn types() -> Result<&'static Btf, EbpfError> {
    static TYPES: OnceLock<Btf> = OnceLock::new();
    if let Some(types) = TYPES.get() {
        return Ok(types);
    }
    let types = Btf::from_sys_fs().map_err(|error| EbpfError::Btf(chain(&error)))?;
    Ok(TYPES.get_or_init(|| types))
}

/// Loads an object's maps and fits its programs to this kernel. With `bits` it must have a `MASK`, which gets so many.
pub(crate) fn load(object: &[u8], bits: Option<u32>) -> Result<Ebpf, EbpfError> {
    static LOADER: OnceLock<Mutex<EbpfLoader<'static>>> = OnceLock::new();
    let loader = LOADER.get_or_init(|| Mutex::new(EbpfLoader::new()));
    let mut loader = loader.lock().unwrap_or_else(PoisonError::into_inner);
    // What was asked of the object before this one stays in the loader.
    let mask = &MASKS[bits.unwrap_or(0).min(31) as usize];
    loader
        .override_global("MASK", mask, bits.is_some())
        .load(object)
        .map_err(|error| EbpfError::Load(chain(&error)))
}
