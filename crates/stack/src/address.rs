//! Our own addresses: ranges of them, for which nobody but us answers, and the networks that they lie in.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses from one to another, both in it, of one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

/// Why a text is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no range of addresses: {cause}; write 10.9.0.0/24, 10.9.0.5-10.9.0.9 or one address"
)]
pub struct BadRange {
    text: String,
    cause: &'static str,
}

impl AddressRange {
    /// From `first` to `last`; `None` when they are of two versions or in the wrong order.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        let same = first.is_ipv4() == last.is_ipv4();
        (same && first <= last).then_some(Self { first, last })
    }

    /// The lowest address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The highest address.
    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// How many addresses there are, at most 2^64 - 1.
    pub fn len(&self) -> u64 {
        let distance = number(self.last) - number(self.first);
        u64::try_from(distance).map_or(u64::MAX, |d| d.saturating_add(1))
    }

    /// Never: a range has at least one address.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4() && self.first <= address && address <= self.last
    }

    /// An address is in both.
    pub fn overlaps(&self, other: &AddressRange) -> bool {
        self.contains(other.first) || other.contains(self.first)
    }

    /// The address at this place, counted from 0 and round again from [`AddressRange::len`] on.
    pub fn nth(&self, index: u64) -> IpAddr {
        let offset = index.checked_rem(self.len()).unwrap_or(index);
        let number = number(self.first) + u128::from(offset);
        match self.first {
            // Not above `last`, which is of this version.
            IpAddr::V4(_) => Ipv4Addr::from_bits(number as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(number).into(),
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => a.to_bits().into(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

impl FromStr for AddressRange {
    type Err = BadRange;

    /// `ADDRESS`, `FIRST-LAST` or `ADDRESS/BITS`. Of a network, those addresses that a host may have: not the network's
    /// own and not its broadcast address (IPv6: not the routers' anycast address, RFC 4291 2.6.1).
    fn from_str(text: &str) -> Result<Self, BadRange> {
        let bad = |cause| BadRange {
            text: text.to_owned(),
            cause,
        };
        let address = |part: &str| part.trim().parse::<IpAddr>().ok();
        if text.contains('/') {
            let network: Network = text.parse().map_err(|e: BadRange| bad(e.cause))?;
            return Ok(network.hosts());
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let first = address(first).ok_or_else(|| bad("this is not an IP address"))?;
        let last = address(last).ok_or_else(|| bad("this is not an IP address"))?;
        Self::new(first, last)
            .ok_or_else(|| bad("the two ends are not in order, or of two versions"))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return self.first.fmt(f);
        }
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// A network: addresses that share their first bits, and are reached without a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// The one of which `address` is, with that many bits in common; `None` when the version has not so many.
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        (bits <= width(address)).then_some(Self { address, bits })
    }

    /// The address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differing = number(self.address) ^ number(address);
        let host_bits = u32::from(width(self.address) - self.bits);
        self.address.is_ipv4() == address.is_ipv4()
            && differing.checked_shr(host_bits).is_none_or(|d| d == 0)
    }

    /// The addresses that hosts may have.
    pub fn hosts(&self) -> AddressRange {
        let host_bits = u32::from(width(self.address) - self.bits);
        let rest = 1u128.checked_shl(host_bits).map_or(u128::MAX, |n| n - 1);
        let low = number(self.address) & !rest;
        let high = low | rest;
        let (first, last) = match self.address {
            // Two or fewer addresses are all hosts' (RFC 3021, RFC 6164).
            _ if host_bits <= 1 => (low, high),
            IpAddr::V4(_) => (low + 1, high - 1),
            IpAddr::V6(_) => (low + 1, high),
        };
        let address = |number: u128| match self.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(number as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(number)),
        };
        AddressRange {
            first: address(first),
            last: address(last),
        }
    }
}

impl FromStr for Network {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let bad = |cause| BadRange {
            text: text.to_owned(),
            cause,
        };
        let (address, bits) = text.split_once('/').ok_or_else(|| bad("there is no `/`"))?;
        let address = address.trim().parse();
        let address = address.map_err(|_| bad("this is not an IP address"))?;
        let bits = bits.trim().parse().ok();
        bits.and_then(|bits| Self::new(address, bits))
            .ok_or_else(|| bad("the address has not so many bits"))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_are_read_and_shown() {
        for (text, shown, len) in [
            ("10.9.0.0/24", "10.9.0.1-10.9.0.254", 254),
            ("10.9.0.77/24", "10.9.0.1-10.9.0.254", 254),
            ("10.9.0.4/31", "10.9.0.4-10.9.0.5", 2),
            ("10.9.0.4/32", "10.9.0.4", 1),
            ("10.9.0.4", "10.9.0.4", 1),
            ("10.9.0.5 - 10.9.1.4", "10.9.0.5-10.9.1.4", 256),
            ("0.0.0.0/0", "0.0.0.1-255.255.255.254", 4_294_967_294),
            ("fd00::/120", "fd00::1-fd00::ff", 255),
            ("fd00::9", "fd00::9", 1),
            (
                "::/0",
                "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                u64::MAX,
            ),
        ] {
            assert_eq!(
                (range(text).to_string(), range(text).len()),
                (shown.to_owned(), len)
            );
        }
    }

    #[test]
    fn what_is_no_range_is_refused_with_its_cause() {
        for (text, cause) in [
            ("10.9.0.5-10.9.0.4", "in order"),
            ("10.9.0.5-fd00::1", "two versions"),
            ("10.9.0.0/33", "so many bits"),
            ("10.9.0/24", "not an IP address"),
            ("", "not an IP address"),
        ] {
            let error = text.parse::<AddressRange>().unwrap_err().to_string();
            assert!(
                error.contains(cause) && error.contains(&format!("`{text}`")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_range_has_its_ends_and_nothing_beyond() {
        let r = range("10.9.0.5-10.9.1.4");
        let has = |a: &str| r.contains(a.parse().unwrap());
        assert!(has("10.9.0.5") && has("10.9.0.255") && has("10.9.1.4"));
        assert!(!has("10.9.0.4") && !has("10.9.1.5") && !has("::a09:5"));
        assert_eq!(r.nth(0).to_string(), "10.9.0.5");
        assert_eq!(r.nth(255).to_string(), "10.9.1.4");
        assert_eq!(r.nth(256).to_string(), "10.9.0.5");
        assert!(r.overlaps(&range("10.0.0.0/8")) && range("10.0.0.0/8").overlaps(&r));
        assert!(!r.overlaps(&range("10.9.1.5")));
    }

    #[test]
    fn a_network_has_what_shares_its_bits() {
        let has = |network: &str, address: &str| {
            let network: Network = network.parse().unwrap();
            network.contains(address.parse().unwrap())
        };
        assert!(has("10.9.0.1/16", "10.9.255.255") && !has("10.9.0.1/16", "10.10.0.0"));
        assert!(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "::1"));
        assert!(has("::/0", "fd00::1"));
        assert!(has("fd00::1/64", "fd00::ffff:0:0:1") && !has("fd00::1/64", "fd00:0:0:1::"));
        assert!(has("10.9.0.1/32", "10.9.0.1") && !has("10.9.0.1/32", "10.9.0.0"));
    }
}
