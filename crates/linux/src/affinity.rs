//! Which CPUs a process may run on, and who goes first there: thin wrappers of `sched_setaffinity(2)`,
//! `sched_getaffinity(2)` and `setpriority(2)`.

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
        // Pid 0 is the calling thread.
        self.pin(0)
    }

    /// Pins a process's first thread, or a thread of the kernel's.
    ///
    /// # Errors
    /// The system's error: `ESRCH` when there is none, `EPERM` when it is not ours.
    pub fn pin(&self, pid: i32) -> io::Result<()> {
        // SAFETY: the set lives through the call and its size is given.
        match unsafe { libc::sched_setaffinity(pid, size_of::<libc::cpu_set_t>(), &self.0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
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

/// Pins the calling thread to one CPU.
///
/// # Errors
/// The system's error: `EINVAL` when it does not exist or is not allowed.
pub fn pin_to(cpu: u32) -> io::Result<()> {
    CpuSet::new(&[cpu]).pin_this_thread()
}

/// Lets other threads go first where they want the same core: the calling thread gets a niceness of `by` more. Best
/// effort, because whoever runs it runs without it as well.
pub fn give_way(by: i32) {
    // SAFETY: two calls on integers; on Linux `PRIO_PROCESS` with 0 is the calling thread alone.
    unsafe {
        let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, nice.saturating_add(by));
    }
}

/// CPUs that the calling thread may run on, sorted; none where the kernel does not tell.
pub fn allowed() -> Vec<u32> {
    of(0).unwrap_or_default()
}

/// CPUs that this process may run on, sorted, where these are fewer than the host has; none otherwise.
pub fn confined() -> Vec<u32> {
    // SAFETY: the call takes a number and gives one.
    let all = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let cpus = allowed();
    if (cpus.len() as i64) < all {
        cpus
    } else {
        Vec::new()
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

/// CPUs that the threads of a process may run on, thread by thread; of what has ended there are none.
pub fn of_threads(pid: i32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("{}/{pid}/task", crate::procfs::PROC));
    let tids = tasks
        .into_iter()
        .flatten()
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    tids.filter_map(|tid| of(tid).ok()).flatten().collect()
}

/// The CPUs of a NUMA node, sorted.
///
/// # Errors
/// The system's error when there is no such node; `InvalidData` when it has no CPUs of its own.
pub fn of_node(node: u32) -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist"))?;
    let cpus = list(text.trim()).filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it has no CPUs"))
}

/// CPUs in the kernel's list format, `0-3,6`; `None` for what is no such list, empty for an empty one.
pub fn list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
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
    fn only_the_thread_that_asked_gives_way() {
        // SAFETY: a call on integers.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        let other = std::thread::spawn(move || {
            give_way(3);
            nice()
        });
        assert_eq!(other.join().unwrap(), (before + 3).min(19));
        assert_eq!(nice(), before);
    }

    #[test]
    fn nodes_and_lists() {
        for (text, want) in [
            ("0-2,5", Some(vec![0, 1, 2, 5])),
            ("", Some(vec![])),
            ("x", None),
        ] {
            assert_eq!(list(text), want, "{text}");
        }
        assert!(of_node(u32::MAX).is_err());
    }

    #[test]
    fn no_cpu_is_an_error() {
        assert!(CpuSet::new(&[]).pin_this_thread().is_err());
        assert!(of(i32::MAX).is_err());
    }
}
