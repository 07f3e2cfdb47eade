//! Where a HotSpot JVM keeps what is read of it, as it says itself.
//!
//! In the flow: read once for each process. `libjvm.so` exports tables of the fields, sizes and constants of its own
//! records (`gHotSpotVMStructs`, made for the serviceability agent), so that no version needs numbers of ours. The
//! surprise: names move between records from version to version, and a few forms changed under the same name; such a
//! form is told by the type that the table gives, or by the version.

use crate::process_memory::Memory;
use std::collections::HashMap;
use std::io;

const PAGE: u64 = 4096;
/// Entries of a table at most.
const MOST_ENTRIES: u64 = 1 << 14;
/// A name of a table is read so far, in bytes.
const MOST_LETTERS: usize = 200;
const LIBRARY: &str = "libjvm.so";

/// What a field is, and its place in its record; the address of a static one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    kind: String,
    at: u64,
}

/// The tables of a JVM.
struct Tables {
    fields: HashMap<(String, String), Field>,
    sizes: HashMap<String, u64>,
}

/// Memory of the library, by pages: names lie beside each other.
struct Pages<'a> {
    memory: &'a Memory,
    pages: HashMap<u64, Vec<u8>>,
}

impl Pages<'_> {
    fn byte(&mut self, address: u64) -> io::Result<u8> {
        let start = address & !(PAGE - 1);
        if !self.pages.contains_key(&start) {
            let mut bytes = vec![0; PAGE as usize];
            self.memory.read(start, &mut bytes)?;
            self.pages.insert(start, bytes);
        }
        Ok(self.pages[&start][(address - start) as usize])
    }

    fn word(&mut self, address: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        for (at, byte) in (address..).zip(&mut word) {
            *byte = self.byte(at)?;
        }
        Ok(u64::from_ne_bytes(word))
    }

    /// What the word at an address leads to, up to a zero byte; nothing where it leads nowhere.
    fn text_at(&mut self, address: u64) -> io::Result<String> {
        let address = self.word(address)?;
        let mut text = Vec::new();
        while address != 0 && text.len() < MOST_LETTERS {
            match self.byte(address + text.len() as u64)? {
                0 => break,
                byte => text.push(byte),
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Why there is no layout.
#[derive(Debug)]
pub(super) enum Missing {
    /// No such library, or none that says it.
    Library,
    /// A record that is wanted has no such field.
    Field(&'static str),
    Memory(io::Error),
}

impl From<io::Error> for Missing {
    fn from(cause: io::Error) -> Self {
        Self::Memory(cause)
    }
}

impl Tables {
    fn of(memory: &Memory) -> Result<Self, Missing> {
        let mut pages = Pages {
            memory,
            pages: HashMap::new(),
        };
        let symbols = memory.symbols(LIBRARY, "gHotSpotVM");
        let value = |name: &str| -> Result<u64, Missing> {
            let address = symbols.get(name).ok_or(Missing::Library)?;
            Ok(memory.word(*address)?)
        };
        let mut fields = HashMap::new();
        let [type_name, field_name, kind, is_static, offset, address] = [
            value("gHotSpotVMStructEntryTypeNameOffset")?,
            value("gHotSpotVMStructEntryFieldNameOffset")?,
            value("gHotSpotVMStructEntryTypeStringOffset")?,
            value("gHotSpotVMStructEntryIsStaticOffset")?,
            value("gHotSpotVMStructEntryOffsetOffset")?,
            value("gHotSpotVMStructEntryAddressOffset")?,
        ];
        let first = value("gHotSpotVMStructs")?;
        let stride = value("gHotSpotVMStructEntryArrayStride")?;
        for entry in (0..MOST_ENTRIES).map(|index| first + index * stride) {
            let owner = pages.text_at(entry + type_name)?;
            if owner.is_empty() {
                break;
            }
            let name = pages.text_at(entry + field_name)?;
            let kind = pages.text_at(entry + kind)?;
            let at = match pages.byte(entry + is_static)? {
                0 => pages.word(entry + offset)?,
                _ => pages.word(entry + address)?,
            };
            fields.insert((owner, name), Field { kind, at });
        }
        let mut sizes = HashMap::new();
        let (type_name, size) = (
            value("gHotSpotVMTypeEntryTypeNameOffset")?,
            value("gHotSpotVMTypeEntrySizeOffset")?,
        );
        let first = value("gHotSpotVMTypes")?;
        let stride = value("gHotSpotVMTypeEntryArrayStride")?;
        for entry in (0..MOST_ENTRIES).map(|index| first + index * stride) {
            let name = pages.text_at(entry + type_name)?;
            if name.is_empty() {
                break;
            }
            sizes.insert(name, pages.word(entry + size)?);
        }
        Ok(Self { fields, sizes })
    }

    /// The first of some fields, each as `Record/field`, that there is.
    fn any(&self, names: &[&'static str]) -> Result<&Field, Missing> {
        let find = |name: &&str| {
            let (owner, field) = name.rsplit_once('/')?;
            self.fields.get(&(owner.to_owned(), field.to_owned()))
        };
        let found = names.iter().find_map(find);
        found.ok_or(Missing::Field(names[0]))
    }

    fn at(&self, name: &'static str) -> Result<u64, Missing> {
        Ok(self.any(&[name])?.at)
    }

    fn size(&self, name: &'static str) -> Result<u64, Missing> {
        self.sizes.get(name).copied().ok_or(Missing::Field(name))
    }
}

/// Where a blob says that its code is.
#[derive(Clone, Copy, Debug)]
pub(super) enum CodeAt {
    /// Fields with the addresses of its beginning and its end.
    Addresses(u64, u64),
    /// Fields with the distances of its beginning and of what follows it from the blob's own.
    Offsets(u64, u64),
}

/// Where compiled code says which functions were put into it at which address. Each is the place of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum ScopesAt {
    /// All in the blob: the address of the scopes, and distances of their table, its end, and the methods.
    Blob {
        data: u64,
        table: u64,
        end: u64,
        methods: u64,
    },
    /// In two pieces of memory of their own: what never changes, and, behind relocations, what may.
    Apart {
        fixed: u64,
        table: u64,
        data: u64,
        variable: u64,
        relocations: u64,
    },
}

/// Places of what is read; in bytes from a record's beginning where not said otherwise.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub major: i32,
    /// Address of the list of heaps of code.
    pub heaps: u64,
    pub list_length: u64,
    pub list_data: u64,
    pub heap_memory: u64,
    pub heap_segments: u64,
    pub heap_shift: u64,
    pub space_low: u64,
    pub space_end: u64,
    pub block_bytes: u64,
    pub block_used: u64,
    pub blob_name: u64,
    pub blob_frame: u64,
    pub blob_code: CodeAt,
    pub blob_method: u64,
    pub blob_before: u64,
    pub blob_bytes: u64,
    pub scopes: Option<ScopesAt>,
    pub scope_bytes: u64,
    pub method_code: u64,
    pub code_pool: u64,
    pub code_name: u64,
    pub pool_bytes: u64,
    pub pool_class: u64,
    pub class_name: u64,
    pub class_pool: u64,
    pub class_above: u64,
    pub text_length: u64,
    pub text_letters: u64,
    /// Address of the list of threads.
    pub threads: u64,
    pub threads_length: u64,
    pub threads_data: u64,
    pub thread_sp: u64,
    pub thread_pc: u64,
    pub thread_fp: u64,
    pub thread_state: u64,
    pub thread_task: u64,
    pub thread_object: u64,
    pub thread_object_is_handle: bool,
    pub thread_enters: u64,
    pub thread_waits: u64,
    /// The number by which monitors know it; `None` where they know its address.
    pub thread_owner_id: Option<u64>,
    pub thread_stack: u64,
    pub thread_stack_bytes: u64,
    /// Where a thread keeps the objects that it locked in passing, which their monitors do not say: its own, from the
    /// thread's record on, and that of the place behind the last, which is counted from there too.
    pub thread_locks: Option<(u64, u64)>,
    pub task_id: u64,
    pub anchor_sp: u64,
    pub anchor_pc: u64,
    pub anchor_fp: u64,
    pub wrapper_anchor: u64,
    pub monitor_object: u64,
    pub monitor_owner: u64,
    /// Of an object: its class, as a word, or shortened with a base and a shift.
    pub object_class: u64,
    pub short_class: Option<(u64, u32)>,
    pub short_object: Option<(u64, u32)>,
    /// Whether addresses in objects can be followed as they are.
    pub objects_are_plain: bool,
    pub class_fields: FieldsAt,
}

/// Where a class says which fields its objects have.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldsAt {
    /// Six numbers each, and how many fields there are.
    Numbers { list: u64, count: u64 },
    /// Packed numbers.
    Stream(u64),
}

impl Layout {
    pub(super) fn of(memory: &Memory) -> Result<Self, Missing> {
        let tables = Tables::of(memory)?;
        let at = |name| tables.at(name);
        let static_int = |name| -> Result<i32, Missing> { Ok(memory.int(at(name)?)?) };
        let major = static_int("Abstract_VM_Version/_vm_major_version")?;
        let flags = Flags::of(memory, &tables)?;
        let shortened = |bases: &[&'static str], shifts: &[&'static str]| -> Result<_, Missing> {
            let base = memory.word(tables.any(bases)?.at)?;
            let shift = memory.int(tables.any(shifts)?.at)?;
            Ok((base, shift.cast_unsigned() & 63))
        };
        let anchor = at("JavaThread/_anchor")?;
        let (sp, pc, fp) = (
            at("JavaFrameAnchor/_last_Java_sp")?,
            at("JavaFrameAnchor/_last_Java_pc")?,
            at("JavaFrameAnchor/_last_Java_fp")?,
        );
        let object = tables.any(&["JavaThread/_threadObj"])?;
        Ok(Self {
            major,
            heaps: at("CodeCache/_heaps")?,
            list_length: tables
                .any(&["GrowableArrayBase/_len", "GenericGrowableArray/_len"])?
                .at,
            list_data: at("GrowableArray<int>/_data")?,
            heap_memory: at("CodeHeap/_memory")?,
            heap_segments: at("CodeHeap/_segmap")?,
            heap_shift: at("CodeHeap/_log2_segment_size")?,
            space_low: at("VirtualSpace/_low")?,
            space_end: at("VirtualSpace/_high")?,
            block_bytes: tables.size("HeapBlock")?,
            block_used: at("HeapBlock::Header/_used")?,
            blob_name: at("CodeBlob/_name")?,
            blob_frame: at("CodeBlob/_frame_size")?,
            blob_code: match (at("CodeBlob/_code_begin"), at("CodeBlob/_code_end")) {
                (Ok(begin), Ok(end)) => CodeAt::Addresses(begin, end),
                _ => CodeAt::Offsets(at("CodeBlob/_code_offset")?, at("CodeBlob/_data_offset")?),
            },
            blob_method: tables
                .any(&["CompiledMethod/_method", "nmethod/_method"])?
                .at,
            blob_before: at("nmethod/_orig_pc_offset")?,
            blob_bytes: tables.size("nmethod")?,
            scopes: tables.scopes(),
            scope_bytes: tables.size("PcDesc")?,
            method_code: at("Method/_constMethod")?,
            code_pool: at("ConstMethod/_constants")?,
            code_name: at("ConstMethod/_name_index")?,
            pool_bytes: tables.size("ConstantPool")?,
            pool_class: at("ConstantPool/_pool_holder")?,
            class_name: at("Klass/_name")?,
            class_pool: at("InstanceKlass/_constants")?,
            class_above: at("Klass/_super")?,
            text_length: at("Symbol/_length")?,
            text_letters: at("Symbol/_body")?,
            threads: at("ThreadsSMRSupport/_java_thread_list")?,
            threads_length: at("ThreadsList/_length")?,
            threads_data: at("ThreadsList/_threads")?,
            thread_sp: anchor + sp,
            thread_pc: anchor + pc,
            thread_fp: anchor + fp,
            thread_state: at("JavaThread/_thread_state")?,
            thread_task: tables
                .any(&["JavaThread/_osthread", "Thread/_osthread"])?
                .at,
            thread_object: object.at,
            thread_object_is_handle: object.kind == "OopHandle",
            thread_enters: tables
                .any(&[
                    "JavaThread/_current_pending_monitor",
                    "Thread/_current_pending_monitor",
                ])?
                .at,
            thread_waits: tables
                .any(&[
                    "JavaThread/_current_waiting_monitor",
                    "Thread/_current_waiting_monitor",
                ])?
                .at,
            thread_owner_id: at("JavaThread/_monitor_owner_id").ok(),
            thread_stack: tables
                .any(&["JavaThread/_stack_base", "Thread/_stack_base"])?
                .at,
            thread_stack_bytes: tables
                .any(&["JavaThread/_stack_size", "Thread/_stack_size"])?
                .at,
            thread_locks: tables.locks(),
            task_id: at("OSThread/_thread_id")?,
            anchor_sp: sp,
            anchor_pc: pc,
            anchor_fp: fp,
            wrapper_anchor: at("JavaCallWrapper/_anchor")?,
            monitor_object: at("ObjectMonitor/_object")?,
            monitor_owner: at("ObjectMonitor/_owner")?,
            object_class: at("oopDesc/_metadata._klass")?,
            short_class: flags
                .short_classes
                .then(|| {
                    shortened(
                        &[
                            "CompressedKlassPointers/_base",
                            "CompressedKlassPointers/_narrow_klass._base",
                        ],
                        &[
                            "CompressedKlassPointers/_shift",
                            "CompressedKlassPointers/_narrow_klass._shift",
                        ],
                    )
                })
                .transpose()?,
            short_object: flags
                .short_objects
                .then(|| {
                    shortened(
                        &["CompressedOops/_base", "CompressedOops/_narrow_oop._base"],
                        &["CompressedOops/_shift", "CompressedOops/_narrow_oop._shift"],
                    )
                })
                .transpose()?,
            objects_are_plain: flags.objects_are_plain,
            class_fields: match at("InstanceKlass/_fieldinfo_stream") {
                Ok(stream) => FieldsAt::Stream(stream),
                Err(_) => FieldsAt::Numbers {
                    list: at("InstanceKlass/_fields")?,
                    count: at("InstanceKlass/_java_fields_count")?,
                },
            },
        })
    }
}

impl Tables {
    fn locks(&self) -> Option<(u64, u64)> {
        let at = |name| self.at(name).ok();
        let locks = at("JavaThread/_lock_stack")?;
        Some((
            locks + at("LockStack/_base[0]")?,
            locks + at("LockStack/_top")?,
        ))
    }

    fn scopes(&self) -> Option<ScopesAt> {
        let at = |name| self.at(name).ok();
        let table = at("nmethod/_scopes_pcs_offset")?;
        if let Some(data) = at("CompiledMethod/_scopes_data_begin") {
            return Some(ScopesAt::Blob {
                data,
                table,
                end: at("nmethod/_dependencies_offset")?,
                methods: at("nmethod/_metadata_offset")?,
            });
        }
        Some(ScopesAt::Apart {
            fixed: at("nmethod/_immutable_data")?,
            table,
            data: at("nmethod/_scopes_data_offset")?,
            variable: at("CodeBlob/_mutable_data")?,
            relocations: at("CodeBlob/_relocation_size")?,
        })
    }
}

/// Flags of the virtual machine that change its objects.
struct Flags {
    short_classes: bool,
    short_objects: bool,
    objects_are_plain: bool,
}

impl Flags {
    fn of(memory: &Memory, tables: &Tables) -> Result<Self, Missing> {
        let first = memory.word(tables.at("JVMFlag/flags")?)?;
        let number = memory.word(tables.at("JVMFlag/numFlags")?)?;
        let bytes = tables.size("JVMFlag")?;
        let (name, address) = (tables.at("JVMFlag/_name")?, tables.at("JVMFlag/_addr")?);
        let mut pages = Pages {
            memory,
            pages: HashMap::new(),
        };
        let mut set = HashMap::new();
        for flag in (0..number.min(MOST_ENTRIES)).map(|index| first + index * bytes) {
            let name = pages.text_at(flag + name)?;
            if name.starts_with("Use") {
                let value = pages.word(flag + address)?;
                set.insert(name, pages.byte(value)? != 0);
            }
        }
        let is = |name: &str| set.get(name).copied().unwrap_or(false);
        Ok(Self {
            short_classes: is("UseCompressedClassPointers"),
            short_objects: is("UseCompressedOops"),
            // Addresses with colours, and classes in the head of an object, are others' work.
            objects_are_plain: !is("UseZGC") && !is("UseCompactObjectHeaders"),
        })
    }
}
