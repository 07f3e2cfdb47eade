//! DPDK's own runtime (EAL), which a process starts once, and what stands in its way.
//!
//! EAL makes no threads for packets here: ours call it. It shares nothing with other processes and leaves no file
//! behind (`--in-memory`, or `--no-shconf` without huge pages), and its words are kept for messages. A device is probed
//! when it is opened, not by a list at the start, and let go when it is closed. The surprise: EAL moves the thread that
//! starts it to the CPUs of its list, so that list is all that this thread may use.

use super::ffi;
use crate::error::Error;
use std::ffi::{CString, c_char};
use std::fs;
use std::sync::Mutex;

/// EAL's options when it runs; none when it does not yet.
static STARTED: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Memory without huge pages: enough for the buffers of some queues.
const PLAIN_MIB: &str = "512";

/// A device as it is typed: `0000:01:00.0` or `net_tap0,iface=tap9`, and options for EAL behind a blank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// With its own arguments, as EAL probes it.
    pub device: String,
    /// What the user adds to EAL's options.
    pub options: Vec<String>,
}

impl Named {
    pub fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace().map(str::to_owned);
        Self {
            device: words.next().unwrap_or_default(),
            options: words.collect(),
        }
    }

    /// The device's name without arguments.
    pub fn name(&self) -> &str {
        self.device.split(',').next().unwrap_or_default()
    }

    /// It sits on the PCI bus.
    fn is_pci(&self) -> bool {
        let mut parts = self.name().rsplit(':');
        let is_hex = |text: &str| text.len() >= 2 && text.chars().all(|c| c.is_ascii_hexdigit());
        let slot = parts.next().and_then(|text| text.split_once('.'));
        slot.is_some_and(|(slot, function)| is_hex(slot) && function.len() == 1)
            && parts.next().is_some_and(is_hex)
    }

    /// The PCI address with its domain, as sysfs has it.
    fn pci_address(&self) -> String {
        match self.name().matches(':').count() {
            1 => format!("0000:{}", self.name()),
            _ => self.name().to_owned(),
        }
    }

    /// Refuses what EAL would fail at without saying why.
    pub fn check(&self) -> Result<(), Error> {
        let drivers = "virtual devices are named by their driver, such as net_tap0,iface=tap9 or \
                       net_af_packet0,iface=eth1; PCI addresses are listed by `dpdk-devbind.py --status`";
        if !self.is_pci() {
            let known = ["net_", "virtio_user", "eth_", "vdev:net_"];
            if known.iter().any(|prefix| self.name().starts_with(prefix)) {
                return Ok(());
            }
            return Err(self.unsupported("it is no device of DPDK's", drivers));
        }
        let address = self.pci_address();
        let place = format!("/sys/bus/pci/devices/{address}");
        if fs::metadata(&place).is_err() {
            return Err(self.unsupported("there is no such PCI device", drivers));
        }
        let driver = fs::read_link(format!("{place}/driver")).ok();
        let driver = driver.as_deref().and_then(|path| path.file_name());
        let driver = driver.map(|name| name.to_string_lossy().into_owned());
        // The last two share their device with the kernel.
        let fit = [
            "vfio-pci",
            "uio_pci_generic",
            "igb_uio",
            "mlx5_core",
            "mlx4_core",
        ];
        match driver {
            None => Err(self.unsupported(
                "no driver holds it",
                &format!("give it to one that DPDK uses: `dpdk-devbind.py --bind vfio-pci {address}`"),
            )),
            Some(driver) if !fit.contains(&driver.as_str()) => Err(Error::Busy {
                interface: self.device.clone(),
                cause: format!("the kernel's driver {driver} holds it"),
                remedy: format!(
                    "take it from the kernel: `modprobe vfio-pci; dpdk-devbind.py --bind vfio-pci {address}`; \
                     --bind {driver} gives it back"
                ),
            }),
            Some(_) if self.options.iter().any(|it| it == "--no-huge") || has_huge_pages() => {
                Ok(())
            }
            Some(_) => Err(self.unsupported(
                "no huge page is free, and a NIC needs them",
                "reserve some: `sysctl vm.nr_hugepages=512`, or use hugepages=512 on the kernel's command line",
            )),
        }
    }

    pub fn unsupported(&self, cause: &str, remedy: &str) -> Error {
        Error::Unsupported {
            device: "dpdk",
            interface: self.device.clone(),
            cause: cause.to_owned(),
            remedy: remedy.to_owned(),
        }
    }

    /// EAL's options for this device.
    fn eal_options(&self) -> Vec<String> {
        let mut all: Vec<String> = ["prony", "--no-telemetry"].map(str::to_owned).to_vec();
        let given = |name: &str| {
            let mut options = self.options.iter();
            options.any(|it| it == name || it.starts_with(&format!("{name}=")))
        };
        if !["-l", "-c", "--lcores"].iter().any(|name| given(name)) {
            all.push(format!("--lcores=0@({})", allowed_cpus()));
        }
        match self.is_pci() {
            true => all.extend(["-a".to_owned(), self.device.clone()]),
            false => all.push("--no-pci".to_owned()),
        }
        match given("--no-huge") || !self.is_pci() && !has_huge_pages() {
            true => {
                all.extend(["--no-huge", "--no-shconf", "--iova-mode=va"].map(str::to_owned));
                if !given("-m") {
                    all.extend(["-m", PLAIN_MIB].map(str::to_owned));
                }
            }
            false => all.push("--in-memory".to_owned()),
        }
        all.extend(self.options.iter().cloned());
        all
    }

    /// Starts EAL, once in a process; a second device has the options of the first.
    fn start(&self) -> Result<(), Error> {
        let mut started = STARTED.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(options) = &*started {
            if self.options.iter().all(|it| options.contains(it)) {
                return Ok(());
            }
            return Err(self.unsupported(
                "EAL runs in this process already, with other options",
                "give all devices of a run the same options",
            ));
        }
        let options = self.eal_options();
        let texts: Vec<CString> = options
            .iter()
            .filter_map(|it| CString::new(it.as_str()).ok())
            .collect();
        let mut pointers: Vec<*mut c_char> =
            texts.iter().map(|it| it.as_ptr().cast_mut()).collect();
        let count = pointers.len() as libc::c_int;
        pointers.push(std::ptr::null_mut());
        // SAFETY: as many texts as are said, and a null pointer behind them; EAL writes to the array of pointers only,
        // and copies what it keeps.
        let failure = unsafe { ffi::prony_dpdk_start(count, pointers.as_mut_ptr()) };
        let words = printed();
        match failure {
            0 => {
                *started = Some(options);
                Ok(())
            }
            libc::EACCES | libc::EPERM => Err(Error::NotPermitted {
                doing: "starting DPDK for",
                interface: self.device.clone(),
                capability: "CAP_SYS_ADMIN",
            }),
            libc::EALREADY => Err(self.unsupported(
                "EAL has failed in this process before, and starts only once",
                "start again",
            )),
            cause => Err(self.unsupported(
                &format!("EAL does not start ({}){words}", reason(cause)),
                &format!("see what it was given: {}", options[1..].join(" ")),
            )),
        }
    }

    /// The number of the device's port, with EAL running.
    pub fn probe(&self) -> Result<u16, Error> {
        self.check()?;
        self.start()?;
        let text = CString::new(self.device.as_str()).unwrap_or_default();
        // SAFETY: a text that lives through the call.
        let port = unsafe { ffi::prony_dpdk_probe(text.as_ptr()) };
        let words = printed();
        u16::try_from(port).map_err(|_| match -port {
            libc::EACCES => Error::NotPermitted {
                doing: "probing",
                interface: self.device.clone(),
                capability: "CAP_NET_ADMIN",
            },
            cause => {
                // Drivers return -1 for whatever they have printed.
                let number = match cause {
                    libc::EPERM => String::new(),
                    cause => format!(" ({})", reason(cause)),
                };
                self.unsupported(
                    &format!("DPDK finds no port there{number}{words}"),
                    "see that its driver is installed and its arguments are right (doc.dpdk.org, NIC drivers), and \
                     that nobody else has it",
                )
            }
        })
    }
}

/// The words of an error number.
pub fn reason(number: i32) -> String {
    let text = std::io::Error::from_raw_os_error(number).to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// What EAL and the drivers said last, as the end of a sentence; empty when they were silent.
pub fn printed() -> String {
    let mut bytes = [0u8; 4096];
    // SAFETY: the function writes at most as many bytes as are said.
    let len = unsafe { ffi::prony_dpdk_printed(bytes.as_mut_ptr().cast(), bytes.len()) };
    last_words(&String::from_utf8_lossy(&bytes[..len.min(bytes.len())]))
}

/// Of several lines those that complain, at most three.
fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let complains = |line: &&&str| {
        let words = line.to_lowercase();
        let marks = [
            "fail", "cannot", "error", "invalid", "no ", "not ", "unable",
        ];
        marks.iter().any(|mark| words.contains(mark))
    };
    let found: Vec<&str> = lines.iter().filter(complains).copied().collect();
    match found.len() {
        0 => String::new(),
        n => format!(": {}", found[n.saturating_sub(3)..].join("; ")),
    }
}

/// A huge page of any size is free.
fn has_huge_pages() -> bool {
    let sizes = fs::read_dir("/sys/kernel/mm/hugepages");
    sizes.into_iter().flatten().flatten().any(|size| {
        let free = fs::read_to_string(size.path().join("free_hugepages"));
        free.is_ok_and(|text| text.trim() != "0")
    })
}

/// The CPUs that this thread may use, as EAL reads them: `0-1,4`.
fn allowed_cpus() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    line.map_or_else(|| "0".to_owned(), |list| list.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_told_by_its_name() {
        let check = |text: &str, is_pci: bool, name: &str, options: usize| {
            let named = Named::parse(text);
            assert_eq!(
                (named.is_pci(), named.name(), named.options.len()),
                (is_pci, name, options)
            );
        };
        check("0000:01:00.0", true, "0000:01:00.0", 0);
        check("af:00.1,representor=0 --socket-mem 512", true, "af:00.1", 2);
        check("net_tap0,iface=tap9", false, "net_tap0", 0);
        check("eth0", false, "eth0", 0);
        check("", false, "", 0);
        assert_eq!(Named::parse("01:00.0").pci_address(), "0000:01:00.0");
    }

    #[test]
    fn what_is_no_device_is_refused_before_anything_starts() {
        for (text, cause) in [
            ("eth7", "it is no device of DPDK's"),
            ("ffff:ff:1f.7", "there is no such PCI device"),
        ] {
            let error = Named::parse(text).check().unwrap_err();
            assert!(error.to_string().contains(cause), "{error}");
            assert!(
                error.remedy().contains("dpdk-devbind"),
                "{}",
                error.remedy()
            );
        }
    }

    #[test]
    fn a_message_has_what_complains() {
        let text = "EAL: Detected CPU lcores: 2\nEAL: ioctl failed (SIOCGIFINDEX)\nvdev: bye\n";
        assert_eq!(last_words(text), ": EAL: ioctl failed (SIOCGIFINDEX)");
        assert_eq!(last_words("EAL: Detected CPU lcores: 2\n"), "");
    }
}
