//! The clocks of a measurement, read through the vDSO where the kernel allows it (about 25 ns, no system call).

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_BOOTTIME` in nanoseconds: what /proc counts the start of a process in, sleep of the host included.
pub fn boottime_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// CPU time that the calling thread has used, in nanoseconds; exact, unlike the split of getrusage(2).
#[inline]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time that all threads of this process have used, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that all threads of a process have used, in nanoseconds; `None` for a process that is not there.
pub fn cpu_ns_of(pid: i32) -> Option<u64> {
    let mut clock = 0;
    // SAFETY: `clock` is a valid, writable identifier for the length of the call.
    let unknown = unsafe { libc::clock_getcpuclockid(pid, &mut clock) } != 0;
    if unknown {
        return None;
    }
    look(clock)
}

/// The clocks used here exist on every Linux.
#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    look(clock).unwrap_or(0)
}

#[inline]
fn look(clock: libc::clockid_t) -> Option<u64> {
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `at` is a valid, writable timespec for the length of the call.
    let failed = unsafe { libc::clock_gettime(clock, &mut at) } != 0;
    (!failed).then_some(at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_runs_backwards() {
        for clock in [monotonic_ns, thread_cpu_ns, process_cpu_ns] {
            let (a, b) = (clock(), clock());
            assert!(b >= a && a > 0);
        }
    }

    #[test]
    fn another_process_is_read_by_its_number_and_one_that_is_gone_is_not() {
        let own = cpu_ns_of(std::process::id().cast_signed()).unwrap();
        assert!(own > 0 && own <= process_cpu_ns());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(cpu_ns_of(child.id().cast_signed()), None);
    }
}
