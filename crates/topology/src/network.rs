//! InfiniBand subnets, IPv4 networks and the kernel's IPv4 routes.

use super::text::{hex, serde_as_text};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

const NETWORK: &str = "an IPv4 network such as `10.1.0.0/16`";
const PREFIX: &str = "an InfiniBand subnet's prefix such as `fe80:0000:0000:0001`";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    address: Ipv4Addr,
    bits: u8,
}

serde_as_text!(
    Network,
    NETWORK,
    (u32, u8),
    |network| (network.address.to_bits(), network.bits),
    |(address, bits)| Network::new(Ipv4Addr::from_bits(address), bits)
);

/// The error for bad text: the expected form, `NETWORK` or `PREFIX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadNetwork(&'static str);

impl fmt::Display for BadNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

impl Network {
    pub fn new(address: Ipv4Addr, bits: u8) -> Option<Network> {
        (bits <= 32).then_some(Network { address, bits })
    }

    pub fn address(self) -> Ipv4Addr {
        self.address
    }

    pub fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0))
    }

    pub fn contains(self, other: Network) -> bool {
        let first = |network: Network| network.address & self.mask();
        self.bits <= other.bits && first(self) == first(other)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Network, BadNetwork> {
        let read = || {
            let (address, bits) = text.split_once('/')?;
            Network::new(address.parse().ok()?, bits.parse().ok()?)
        };
        read().ok_or(BadNetwork(NETWORK))
    }
}

/// A route of `/proc/net/route` (the kernel's net/ipv4/fib_trie.c, `fib_route_seq_show`).
#[derive(Debug, Clone, Copy)]
pub struct Ipv4Route<'t> {
    /// `*` for a route without an interface
    pub interface: &'t str,
    pub destination: Ipv4Addr,
    pub mask: Ipv4Addr,
    /// 0.0.0.0 without a gateway, or with an IPv6 gateway
    pub gateway: Ipv4Addr,
    flags: u32,
    pub metric: u32,
}

impl<'t> Ipv4Route<'t> {
    /// Parses `eth0 00000000 0101000A 0003 0 0 100 00000000 0 0 0`: interface, destination,
    /// gateway, flags, references, use, metric, mask, three unused columns; `None` for the heading.
    pub fn of_line(line: &'t str) -> Option<Ipv4Route<'t>> {
        let mut words = line.split_whitespace();
        let mut next = || words.next();
        let [interface, destination, gateway, flags] = [next()?, next()?, next()?, next()?];
        let (metric, mask) = (words.nth(2)?, words.next()?);
        let hex = |text: &str| u32::from_str_radix(text, 16).ok();
        // the kernel prints the address's bytes as a number in the processor's byte order
        let address = |text: &str| Some(Ipv4Addr::from(hex(text)?.to_ne_bytes()));
        Some(Ipv4Route {
            interface,
            destination: address(destination)?,
            mask: address(mask)?,
            gateway: address(gateway)?,
            flags: hex(flags)?,
            // older kernels print a signed number
            metric: metric.parse::<i64>().ok()? as u32,
        })
    }

    pub fn is_usable(&self) -> bool {
        is_usable(self.flags)
    }

    pub fn has_gateway(&self) -> bool {
        /// `RTF_GATEWAY` of include/uapi/linux/route.h
        const GATEWAY: u32 = 0x2;
        self.flags & GATEWAY != 0
    }
}

/// True if a route's flags have `RTF_UP` and not `RTF_REJECT` (include/uapi/linux/route.h).
pub fn is_usable(flags: u32) -> bool {
    flags & 0x201 == 0x1
}

/// The prefix of an InfiniBand subnet: the first half of its ports' GIDs (InfiniBand Architecture
/// Specification 1, 4.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubnetPrefix(pub u64);

serde_as_text!(SubnetPrefix, PREFIX, u64, |prefix| prefix.0, |prefix| Some(
    SubnetPrefix(prefix)
));

impl SubnetPrefix {
    /// The prefix of a GID in the kernel's form, `fe80:0000:0000:0000:b859:9f03:00d4:1a2e`.
    pub fn of_gid(gid: &str) -> Option<SubnetPrefix> {
        /// A GID's length: eight groups of four digits (`%pI6`, the kernel's
        /// Documentation/core-api/printk-formats.rst).
        const GID: usize = 39;
        let is_gid = gid.len() == GID && gid.is_ascii();
        gid.get(..19).filter(|_| is_gid)?.parse().ok()
    }
}

impl fmt::Display for SubnetPrefix {
    /// `fe80:0000:0000:0001`, as in the kernel's GIDs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| self.0 >> shift & 0xffff);
        write!(f, "{a:04x}:{b:04x}:{c:04x}:{d:04x}")
    }
}

impl FromStr for SubnetPrefix {
    type Err = BadNetwork;

    /// Parses the first half of a GID, `fe80:0000:0000:0001`, or opensm.conf's `subnet_prefix`,
    /// `0xfe80000000000001`.
    fn from_str(text: &str) -> Result<SubnetPrefix, BadNetwork> {
        let read = || {
            if let Some(digits) = text.strip_prefix("0x").filter(|_| text.len() == 18) {
                return hex(digits, 16);
            }
            let mut groups = text.split(':');
            let join = |prefix, _| Some(prefix << 16 | hex::<u64>(groups.next()?, 4)?);
            let prefix = (0..4).try_fold(0, join)?;
            groups.next().is_none().then_some(prefix)
        };
        read().map(SubnetPrefix).ok_or(BadNetwork(PREFIX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_and_written_and_holds_its_parts() {
        let network = |text: &str| text.parse::<Network>();
        for text in "10.1.0.0/16 0.0.0.0/0 192.168.7.1/32 10.1.99.99/16".split(' ') {
            assert_eq!(network(text).unwrap().to_string(), text);
        }
        for text in "|10.1.0.0|10.1/16|10.1.0.0/33|10.1.0.0/-1|10.1.0.0/|fe80::/64|a/8".split('|') {
            assert_eq!(network(text), Err(BadNetwork(NETWORK)), "`{text}`");
        }
        let mask = |text: &str| network(text).unwrap().mask();
        assert_eq!(mask("10.1.0.0/20"), Ipv4Addr::new(255, 255, 240, 0));
        assert_eq!(mask("10.1.0.0/0"), Ipv4Addr::UNSPECIFIED);
        let inner = network("10.1.2.0/24").unwrap();
        for (outer, holds) in rows! {
            "10.1.0.0/16", true; "10.1.99.99/16", true; "10.1.2.0/24", true; "10.1.2.0/25", false;
            "10.2.0.0/16", false; "0.0.0.0/0", true;
        } {
            assert_eq!(network(outer).unwrap().contains(inner), holds, "{outer}");
        }
    }

    #[test]
    fn a_prefix_has_two_spellings_and_is_written_as_the_kernel_does() {
        let prefix = SubnetPrefix(0xfe80_0000_0000_00a1);
        for text in ["fe80:0000:0000:00a1", "fe80:0:0:A1", "0xfe800000000000a1"] {
            assert_eq!(text.parse(), Ok(prefix), "`{text}`");
        }
        assert_eq!(prefix.to_string(), "fe80:0000:0000:00a1");
        let bad = "|fe80|fe80:0:0|fe80:0:0:1:2|fe80:0:0:+1|fe80::1:1|fe80:0:0:00001|0xfe80";
        for text in bad.split('|') {
            let read = text.parse::<SubnetPrefix>();
            assert_eq!(read, Err(BadNetwork(PREFIX)), "`{text}`");
        }
        let gid = "fe80:0000:0000:00a1:b859:9f03:00d4:1a2e";
        assert_eq!(SubnetPrefix::of_gid(gid), Some(prefix));
        let odd = gid.replace("00a1", "0g00");
        for bad in [&gid[1..], &gid[..19], &odd, ""] {
            assert_eq!(SubnetPrefix::of_gid(bad), None, "`{bad}`");
        }
    }
}
