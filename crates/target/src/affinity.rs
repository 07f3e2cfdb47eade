//! Which CPUs a process may run on: thin wrappers of `sched_setaffinity(2)` and `sched_getaffinity(2)`.

use std::io;

/// CPUs in the kernel's form. 1024 CPUs is what `cpu_set_t` holds; larger machines need more than pinning.
#[derive(Clone, Copy)]
pub struct CpuSet(libc::cpu_set_t);

/// CPUs that a [`CpuSet`] can hold.
const MOST_CPUS: u32 = libc::CPU_SETSIZE as u32;

impl CpuSet {
    /// A set of these CPUs; those beyond what the kernel's type holds are left out.
    pub fn new(cpus: &[u32]) -> Self {
        // SAFETY: cpu_set_t is an array of integers; all zero is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for cpu in cpus.iter().filter(|c| **c < MOST_CPUS) {
            // SAFETY: the index is below CPU_SETSIZE, and `set` is ours.
            unsafe { libc::CPU_SET(*cpu as usize, &mut set) };
        }
        Self(set)
    }

    /// Pins the calling thread, and what it starts from now on. One system call, no allocation: it may
    /// be used between fork and exec.
    ///
    /// # Errors
    /// The system's error: `EINVAL` when none of the CPUs exists or is allowed.
    pub fn pin_this_thread(&self) -> io::Result<()> {
        // SAFETY: pid 0 is the calling thread; the set lives through the call and its size is given.
        let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// The CPUs in the set, sorted.
    pub fn cpus(&self) -> Vec<u32> {
        (0..MOST_CPUS)
            // SAFETY: the index is below CPU_SETSIZE, and the set is ours.
            .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &self.0) })
            .collect()
    }
}

/// CPUs that a process or thread may run on, sorted; pid 0 is the calling thread.
///
/// # Errors
/// The system's error: `ESRCH` when there is no such process.
pub fn of(pid: i32) -> io::Result<Vec<u32>> {
    let mut set = CpuSet::new(&[]);
    // SAFETY: the set lives through the call and its size is given; the kernel fills it in.
    let result = unsafe { libc::sched_getaffinity(pid, size_of::<libc::cpu_set_t>(), &mut set.0) };
    if result == 0 {
        Ok(set.cpus())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_says_so() {
        let all = of(0).unwrap();
        let last = *all.last().unwrap();
        let pinned = std::thread::spawn(move || {
            CpuSet::new(&[last, u32::MAX]).pin_this_thread().unwrap();
            of(0).unwrap()
        });
        assert_eq!(pinned.join().unwrap(), [last]);
        assert_eq!(of(0).unwrap(), all, "only that thread");
    }

    #[test]
    fn no_cpu_is_an_error() {
        assert!(CpuSet::new(&[]).pin_this_thread().is_err());
        assert!(of(i32::MAX).is_err());
    }
}
