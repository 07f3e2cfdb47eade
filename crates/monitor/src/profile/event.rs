//! perf_event_open(2): which event, on which CPUs and tasks, and what the kernel is to write with each sample.
//!
//! In the flow: [`open`] gives one [`Ring`] a CPU, switched off until [`enable`]. Why the events belong to CPUs and
//! not to threads stands in [`super`]. The surprise: what an unprivileged caller may not do differs by errno.
//! EACCES is `kernel.perf_event_paranoid`, EPERM is a seccomp filter or the limit of locked memory, ENOENT a kernel
//! without the event.

use super::ring::Ring;
use perf_event_open_sys as perf;
use perf_event_open_sys::bindings as sys;
use record::ProfileKind;
use record::Unavailable;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Stack that is copied with each sample, bytes.
pub const STACK_BYTES: u32 = 8 * 1024;
/// Memory for all rings together, bytes.
const RINGS_BYTES: usize = 64 << 20;
/// Smallest ring that is tried where the limit of locked memory is low, bytes.
const SMALLEST_RING_BYTES: usize = 128 * 1024;
/// Largest ring, bytes.
const LARGEST_RING_BYTES: usize = 4 << 20;

/// User registers of a sample, in the order of their bits in [`REGISTER_MASK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers(pub [u64; REGISTERS]);

/// Registers that are taken: base pointer, stack pointer, instruction pointer (arch/x86/include/uapi/asm/perf_regs.h).
#[cfg(target_arch = "x86_64")]
const REGISTER_MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;
#[cfg(target_arch = "x86_64")]
/// Number of them.
pub const REGISTERS: usize = 3;

/// Registers that are taken: x29, lr, sp, pc (arch/arm64/include/uapi/asm/perf_regs.h).
#[cfg(target_arch = "aarch64")]
const REGISTER_MASK: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
#[cfg(target_arch = "aarch64")]
/// Number of them.
pub const REGISTERS: usize = 4;

#[cfg(target_arch = "x86_64")]
impl Registers {
    /// Instruction pointer.
    pub fn ip(&self) -> u64 {
        self.0[2]
    }

    /// Stack pointer.
    pub fn sp(&self) -> u64 {
        self.0[1]
    }

    /// As the unwinder takes them.
    pub fn for_unwinding(&self) -> framehop::UnwindRegsNative {
        framehop::UnwindRegsNative::new(self.ip(), self.sp(), self.0[0])
    }
}

#[cfg(target_arch = "aarch64")]
impl Registers {
    /// Instruction pointer.
    pub fn ip(&self) -> u64 {
        self.0[3]
    }

    /// Stack pointer.
    pub fn sp(&self) -> u64 {
        self.0[2]
    }

    /// As the unwinder takes them.
    pub fn for_unwinding(&self) -> framehop::UnwindRegsNative {
        framehop::UnwindRegsNative::new(self.0[1], self.sp(), self.0[0])
    }
}

/// What was opened.
#[derive(Debug)]
pub struct Events {
    /// One ring a CPU.
    pub rings: Vec<Ring>,
    /// Events beside those of the rings, which write into the same rings.
    pub others: Vec<OwnedFd>,
    /// The kernel's part of the stacks may not be seen.
    pub user_only: bool,
}

/// Opens the event on every CPU that is online, or, when the kernel keeps that for the privileged, on every CPU for
/// each of `threads`.
///
/// # Errors
/// Why there is no profile, with what the administrator can change.
pub fn open(kind: ProfileKind, hz: u32, threads: &[i32]) -> Result<Events, Unavailable> {
    let cpus = online_cpus();
    match open_by_cpu(kind, hz, &cpus) {
        Err(cause) if cause.raw_os_error() == Some(libc::EACCES) => {
            open_by_thread(kind, hz, &cpus, threads).map_err(|cause| refused(kind, &cause))
        }
        opened => opened.map_err(|cause| refused(kind, &cause)),
    }
}

fn open_by_cpu(kind: ProfileKind, hz: u32, cpus: &[i32]) -> io::Result<Events> {
    let mut attr = attributes(kind, hz, ring_bytes(cpus.len()));
    let mut rings = Vec::with_capacity(cpus.len());
    for &cpu in cpus {
        match open_one(&mut attr, -1, cpu) {
            Ok(fd) => rings.push(map(&fd, ring_bytes(cpus.len()))?),
            // It went offline since it was listed.
            Err(cause) if cause.raw_os_error() == Some(libc::ENODEV) => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(Events {
        rings,
        others: Vec::new(),
        user_only: false,
    })
}

/// One event a thread and CPU, inherited by what the thread starts. A ring takes the events of its CPU alone: the
/// kernel maps an inherited event only when it belongs to one CPU.
fn open_by_thread(kind: ProfileKind, hz: u32, cpus: &[i32], threads: &[i32]) -> io::Result<Events> {
    let mut attr = attributes(kind, hz, SMALLEST_RING_BYTES);
    attr.set_inherit(1);
    let mut events = Events {
        rings: Vec::with_capacity(cpus.len()),
        others: Vec::new(),
        user_only: false,
    };
    for &cpu in cpus {
        let mut ring: Option<Ring> = None;
        for &tid in threads {
            let mut opened = open_one(&mut attr, tid, cpu);
            if matches!(&opened, Err(cause) if cause.raw_os_error() == Some(libc::EACCES))
                && attr.exclude_kernel() == 0
            {
                attr.set_exclude_kernel(1);
                events.user_only = true;
                opened = open_one(&mut attr, tid, cpu);
            }
            match opened {
                Ok(fd) => match &ring {
                    None => ring = Some(map(&fd, SMALLEST_RING_BYTES)?),
                    Some(first) => {
                        // SAFETY: both descriptors are open events; the call has no memory arguments.
                        let done = unsafe {
                            perf::ioctls::SET_OUTPUT(fd.as_raw_fd(), first.fd().as_raw_fd())
                        };
                        if done < 0 {
                            return Err(io::Error::last_os_error());
                        }
                        events.others.push(fd);
                    }
                },
                // The thread ended, or the CPU went offline.
                Err(cause) if matches!(cause.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => {}
                Err(cause) => return Err(cause),
            }
        }
        events.rings.extend(ring);
    }
    Ok(events)
}

/// Starts the events.
///
/// # Errors
/// What ioctl(2) says.
pub fn enable(events: &Events) -> io::Result<()> {
    each(events, |fd| {
        // SAFETY: the descriptor is an open event; the call has no memory arguments.
        unsafe { perf::ioctls::ENABLE(fd, 0) }
    })
}

/// Stops the events; the rings keep what they hold.
///
/// # Errors
/// What ioctl(2) says.
pub fn disable(events: &Events) -> io::Result<()> {
    each(events, |fd| {
        // SAFETY: the descriptor is an open event; the call has no memory arguments.
        unsafe { perf::ioctls::DISABLE(fd, 0) }
    })
}

fn each(events: &Events, act: impl Fn(i32) -> i32) -> io::Result<()> {
    let rings = events.rings.iter().map(Ring::fd);
    for fd in rings.chain(&events.others) {
        if act(fd.as_raw_fd()) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn attributes(kind: ProfileKind, hz: u32, ring_bytes: usize) -> sys::perf_event_attr {
    let mut attr = sys::perf_event_attr {
        size: size_of::<sys::perf_event_attr>() as u32,
        type_: sys::PERF_TYPE_SOFTWARE,
        sample_type: u64::from(
            sys::PERF_SAMPLE_TID
                | sys::PERF_SAMPLE_TIME
                | sys::PERF_SAMPLE_PERIOD
                | sys::PERF_SAMPLE_CALLCHAIN
                | sys::PERF_SAMPLE_REGS_USER
                | sys::PERF_SAMPLE_STACK_USER,
        ),
        sample_regs_user: REGISTER_MASK,
        sample_stack_user: STACK_BYTES,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attr.config = match kind {
        // Tasks are looked at in memory (`goroutines`); no event is one of them.
        ProfileKind::OnCpu | ProfileKind::Tasks => sys::PERF_COUNT_SW_CPU_CLOCK.into(),
        ProfileKind::OffCpu => sys::PERF_COUNT_SW_CONTEXT_SWITCHES.into(),
    };
    if kind == ProfileKind::OffCpu && hz == 0 {
        attr.__bindgen_anon_1.sample_period = 1;
    } else {
        attr.__bindgen_anon_1.sample_freq = hz.max(1).into();
        attr.set_freq(1);
    }
    // Half a ring: few wake-ups, and room for what comes while the reader is woken.
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = (ring_bytes / 2) as u32;
    attr.set_disabled(1);
    attr.set_exclude_hv(1);
    attr.set_exclude_idle(1);
    // The kernel follows frame pointers, which is what most servers lack.
    attr.set_exclude_callchain_user(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.set_context_switch((kind == ProfileKind::OffCpu).into());
    attr
}

fn open_one(attr: &mut sys::perf_event_attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let flags = sys::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: `attr` is initialised, states its own size, and outlives the call.
    let fd = unsafe { perf::perf_event_open(attr, pid, cpu, -1, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Maps the largest ring up to `bytes` that the limit of locked memory allows.
fn map(fd: &OwnedFd, mut bytes: usize) -> io::Result<Ring> {
    loop {
        match Ring::map(fd.try_clone()?, bytes) {
            Err(cause)
                if bytes > SMALLEST_RING_BYTES && cause.raw_os_error() == Some(libc::EPERM) =>
            {
                bytes /= 2;
            }
            mapped => return mapped,
        }
    }
}

fn ring_bytes(cpus: usize) -> usize {
    let share = (RINGS_BYTES / cpus.max(1)).clamp(SMALLEST_RING_BYTES, LARGEST_RING_BYTES);
    // The largest power of two within the share.
    1 << share.ilog2()
}

/// CPUs in `/sys/devices/system/cpu/online`; all that are configured where that cannot be read.
fn online_cpus() -> Vec<i32> {
    let listed = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    listed
        .and_then(|list| parse_cpus(&list))
        .unwrap_or_else(|| {
            let count = std::thread::available_parallelism().map_or(1, usize::from);
            (0..count as i32).collect()
        })
}

/// Reads `0-3,8`; `None` when it is empty or something else.
fn parse_cpus(list: &str) -> Option<Vec<i32>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<i32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

fn refused(kind: ProfileKind, cause: &io::Error) -> Unavailable {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.as_deref().map_or("not there", str::trim);
    Unavailable {
        what: super::name(kind).to_owned(),
        reason: format!("perf_event_open: {cause} (kernel.perf_event_paranoid is {paranoid})"),
        remedy: remedy(cause.raw_os_error()),
    }
}

fn remedy(errno: Option<i32>) -> String {
    match errno {
        Some(libc::EACCES) => {
            "run prony as root, or give it CAP_PERFMON and CAP_SYS_PTRACE, or set kernel.perf_event_paranoid to -1"
        }
        Some(libc::EPERM) => {
            "allow perf_event_open in the container's seccomp profile and add CAP_PERFMON; raise the limit of locked memory (ulimit -l)"
        }
        Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP) => {
            "use a kernel with CONFIG_PERF_EVENTS"
        }
        Some(libc::EINVAL) => "sample at a rate below kernel.perf_event_max_sample_rate",
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n)",
        _ => "",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_cpus("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_cpus("7"), Some(vec![7]));
        assert_eq!(parse_cpus(""), None);
    }

    #[test]
    fn rings_are_powers_of_two_within_their_memory() {
        for (cpus, bytes) in [
            (1, 4 << 20),
            (16, 4 << 20),
            (17, 2 << 20),
            (4096, 128 << 10),
        ] {
            assert_eq!(ring_bytes(cpus), bytes, "{cpus} CPUs");
        }
    }

    #[test]
    fn each_refusal_has_its_remedy() {
        for (errno, word) in [
            (libc::EACCES, "kernel.perf_event_paranoid"),
            (libc::EPERM, "seccomp"),
            (libc::ENOENT, "CONFIG_PERF_EVENTS"),
            (libc::EMFILE, "ulimit -n"),
            (libc::EINVAL, "kernel.perf_event_max_sample_rate"),
        ] {
            let said = refused(ProfileKind::OnCpu, &io::Error::from_raw_os_error(errno));
            assert!(said.remedy.contains(word), "{said:?}");
            assert!(said.reason.contains("perf_event_paranoid is "), "{said:?}");
        }
    }
}
