//! Network interfaces as the kernel names them: index, link address, MTU, flags, and who has which address.
//!
//! By the old ioctls of netdevice(7), which every kernel has and which need no more than a socket. All of it is of the
//! network namespace of the calling thread.

use crate::address::AddressRange;
use crate::error::Error;
use crate::wire::ethernet::MacAddress;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An interface by name, and the socket through which the kernel is asked about it.
#[derive(Debug)]
pub struct Interface {
    name: String,
    socket: OwnedFd,
}

/// A descriptor that the kernel has just given, or its error.
pub fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The kernel's error when a call has returned below 0.
pub fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// A request about the interface `name`; `None` when the name is longer than the kernel's are.
pub fn request(name: &str) -> Option<libc::ifreq> {
    // SAFETY: all of it are integers and arrays of such, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= request.ifr_name.len() || bytes.contains(&0) {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Some(request)
}

impl Interface {
    /// The interface with that name.
    ///
    /// # Errors
    /// [`Error::NoInterface`] with those that there are.
    pub fn named(name: &str) -> Result<Self, Error> {
        // SAFETY: the call takes integers only.
        let socket =
            owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
                .map_err(|cause| Error::device("opening a socket for", name, cause))?;
        let interface = Self {
            name: name.to_owned(),
            socket,
        };
        match interface.index() {
            Ok(_) => Ok(interface),
            Err(_) => Err(Error::NoInterface {
                interface: name.to_owned(),
                known: names(),
            }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn ask(
        &self,
        what: libc::c_ulong,
        set: impl FnOnce(&mut libc::ifreq),
    ) -> io::Result<libc::ifreq> {
        let mut request = request(&self.name).ok_or(io::ErrorKind::InvalidInput)?;
        set(&mut request);
        // A request is a `c_int` with musl, a `c_ulong` with glibc.
        // SAFETY: the requests below read and write an `ifreq`, which outlives the call.
        checked(unsafe { libc::ioctl(self.socket.as_raw_fd(), what as _, &mut request) })?;
        Ok(request)
    }

    /// Its number.
    ///
    /// # Errors
    /// It is gone.
    pub fn index(&self) -> io::Result<u32> {
        let request = self.ask(libc::SIOCGIFINDEX, |_| ())?;
        // SAFETY: this request fills the index.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
    }

    /// Its link address.
    ///
    /// # Errors
    /// It is gone, or is no Ethernet.
    pub fn mac(&self) -> io::Result<MacAddress> {
        let request = self.ask(libc::SIOCGIFHWADDR, |_| ())?;
        // SAFETY: this request fills the link address.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "it is no Ethernet",
            ));
        }
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok(mac)
    }

    /// Bytes of the largest IP packet.
    ///
    /// # Errors
    /// It is gone.
    pub fn mtu_bytes(&self) -> io::Result<u32> {
        let request = self.ask(libc::SIOCGIFMTU, |_| ())?;
        // SAFETY: this request fills the MTU.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    /// Sets the MTU.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_mtu(&self, bytes: u32) -> io::Result<()> {
        self.ask(libc::SIOCSIFMTU, |request| {
            request.ifr_ifru.ifru_mtu = bytes as libc::c_int;
        })?;
        Ok(())
    }

    /// It is switched on.
    ///
    /// # Errors
    /// It is gone.
    pub fn is_up(&self) -> io::Result<bool> {
        Ok(self.flags()? & libc::IFF_UP as libc::c_short != 0)
    }

    /// Switches it on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_up(&self) -> io::Result<()> {
        let flags = self.flags()? | libc::IFF_UP as libc::c_short;
        self.ask(libc::SIOCSIFFLAGS, |request| {
            request.ifr_ifru.ifru_flags = flags;
        })?;
        Ok(())
    }

    fn flags(&self) -> io::Result<libc::c_short> {
        let request = self.ask(libc::SIOCGIFFLAGS, |_| ())?;
        // SAFETY: this request fills the flags.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }
}

/// Refuses ranges with an address that the kernel has: it would answer our peers itself, with resets.
///
/// # Errors
/// [`Error::HostAddress`] with the first such address.
pub fn refuse_host_addresses(own: &[AddressRange]) -> Result<(), Error> {
    for (interface, address) in host_addresses() {
        if let Some(range) = own.iter().find(|range| range.contains(address)) {
            return Err(Error::HostAddress {
                range: range.to_string(),
                address,
                interface,
            });
        }
    }
    Ok(())
}

/// Refuses an MTU that a host must do better than (RFC 1122 3.3.3; RFC 8200 5 when one of our addresses is IPv6).
///
/// # Errors
/// [`Error::Unsupported`] of the device of that name.
pub fn refuse_small(
    device: &'static str,
    interface: &str,
    mtu_bytes: u32,
    own: &[AddressRange],
) -> Result<(), Error> {
    let has_v6 = own.iter().any(|range| range.first().is_ipv6());
    let least = if has_v6 { 1_280 } else { 576 };
    if mtu_bytes >= least {
        return Ok(());
    }
    Err(Error::Unsupported {
        device,
        interface: interface.to_owned(),
        cause: format!("its MTU is {mtu_bytes} bytes, and {least} are the least"),
        remedy: format!("set it: `ip link set {interface} mtu 1500`"),
    })
}

/// Names of all interfaces that have an address of any kind, packet addresses among them.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    each_address(|name, _| names.push(name.to_owned()));
    names.sort();
    names.dedup();
    names
}

fn host_addresses() -> Vec<(String, IpAddr)> {
    let mut found = Vec::new();
    each_address(|name, address| found.extend(address.map(|a| (name.to_owned(), a))));
    found
}

/// Calls `each` with every interface's name and IP address, by getifaddrs(3).
fn each_address(mut each: impl FnMut(&str, Option<IpAddr>)) {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call writes the head of a list, which is given back below.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return;
    }
    let mut at = list;
    // SAFETY: the list ends with a null pointer; names are C strings and an address has the size of its family.
    while let Some(entry) = unsafe { at.as_ref() } {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        // SAFETY: as above.
        let address = unsafe { address_of(entry.ifa_addr) };
        each(&name.to_string_lossy(), address);
        at = entry.ifa_next;
    }
    // SAFETY: it is the list that the kernel's answer was put into, and nothing of it is kept.
    unsafe { libc::freeifaddrs(list) };
}

/// # Safety
/// `address` is null or points to a socket address that is as long as its family has it.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's promise.
    match i32::from(unsafe { address.as_ref()? }.sa_family) {
        libc::AF_INET => {
            // SAFETY: the caller's promise, of this family.
            let found = unsafe { *address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from_bits(u32::from_be(found.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the caller's promise, of this family.
            let found = unsafe { *address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(found.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Waits until the descriptor can be read, at most `timeout_ns`.
///
/// # Errors
/// The kernel's; an interrupted wait is none.
pub fn wait_readable(fd: &impl AsRawFd, timeout_ns: u64) -> io::Result<()> {
    wait_any(
        &mut [libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }],
        timeout_ns,
    )
}

/// Waits until one of the descriptors is ready, at most `timeout_ns`.
///
/// # Errors
/// The kernel's; an interrupted wait is none.
pub fn wait_any(fds: &mut [libc::pollfd], timeout_ns: u64) -> io::Result<()> {
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000).try_into().unwrap_or(i64::MAX),
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the array and the time live through the call; no signal mask is given.
    let ready = unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            &timeout,
            std::ptr::null(),
        )
    };
    match checked(ready) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_refused_with_those_that_are() {
        for name in ["prony-none0", "a name that is far too long", ""] {
            let error = Interface::named(name).unwrap_err();
            assert!(error.to_string().contains("`lo`"), "{error}");
        }
    }

    #[test]
    fn ranges_with_an_address_of_the_host_are_refused() {
        let of_host: Vec<AddressRange> = vec!["127.0.0.0/8".parse().unwrap()];
        let error = refuse_host_addresses(&of_host).unwrap_err();
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
        let free: Vec<AddressRange> = vec!["240.1.2.3".parse().unwrap()];
        refuse_host_addresses(&free).unwrap();
    }
}
