//! A port's networks: InfiniBand's by subnet prefix, IPv4's by address and mask.
#![forbid(unsafe_code)]

use super::text::serde_as_text;
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
    |(address, bits)| { Network::new(Ipv4Addr::from_bits(address), bits) }
);

/// The expected form of a network or subnet prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadNetwork(&'static str);

impl fmt::Display for BadNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

impl std::error::Error for BadNetwork {}

impl Network {
    /// The network of an address whose hosts have the first `bits` bits in common, 0 to 32.
    pub fn new(address: Ipv4Addr, bits: u8) -> Option<Network> {
        (bits <= 32).then_some(Network { address, bits })
    }

    pub fn address(self) -> Ipv4Addr {
        self.address
    }

    /// The netmask: `255.255.0.0` for a network of 16 bits.
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
    /// the interface's name; `*` where there is none
    pub interface: &'t str,
    pub destination: Ipv4Addr,
    pub mask: Ipv4Addr,
    /// 0.0.0.0 where there is none, or an IPv6 one
    pub gateway: Ipv4Addr,
    flags: u32,
    pub metric: u32,
}

impl<'t> Ipv4Route<'t> {
    /// `eth0 00000000 0101000A 0003 0 0 100 00000000 0 0 0`: interface, destination, gateway, flags, references, use,
    /// metric, mask; `None` of any other line, the heading too.
    pub fn of_line(line: &'t str) -> Option<Ipv4Route<'t>> {
        let mut words = line.split_whitespace();
        let mut next = || words.next();
        let [interface, destination, gateway, flags] = [next()?, next()?, next()?, next()?];
        let (metric, mask) = (words.nth(2)?, words.next()?);
        let hex = |text: &str| u32::from_str_radix(text, 16).ok();
        // printed as a number of this processor's, though it stands in memory in the network's order
        let address = |text: &str| Some(Ipv4Addr::from(hex(text)?.to_ne_bytes()));
        Some(Ipv4Route {
            interface,
            destination: address(destination)?,
            mask: address(mask)?,
            gateway: address(gateway)?,
            flags: hex(flags)?,
            // printed as a signed number, by newer kernels as what it is
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

/// True for a route with these flags that is up and no refusal (`RTF_UP`, `RTF_REJECT` of include/uapi/linux/route.h).
pub fn is_usable(flags: u32) -> bool {
    flags & 0x201 == 0x1
}

/// The prefix of an InfiniBand subnet: the first half of every GID in it (InfiniBand Architecture Specification 1, 4.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubnetPrefix(pub u64);

serde_as_text!(SubnetPrefix, PREFIX, u64, |prefix| prefix.0, |prefix| Some(
    SubnetPrefix(prefix)
));

impl SubnetPrefix {
    /// The prefix of a GID as the kernel writes it, `fe80:0000:0000:0000:b859:9f03:00d4:1a2e`.
    pub fn of_gid(gid: &str) -> Option<SubnetPrefix> {
        /// Eight groups of four digits (`%pI6`, the kernel's Documentation/core-api/printk-formats.rst).
        const GID: usize = 39;
        let prefix = gid
            .get(..19)
            .filter(|_| gid.len() == GID && gid.is_ascii())?;
        prefix.parse().ok()
    }
}

impl fmt::Display for SubnetPrefix {
    /// `fe80:0000:0000:0001`, as the kernel writes the first half of a GID.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| self.0 >> shift & 0xffff);
        write!(f, "{a:04x}:{b:04x}:{c:04x}:{d:04x}")
    }
}

impl FromStr for SubnetPrefix {
    type Err = BadNetwork;

    /// `fe80:0000:0000:0001`, as GIDs have it, or `0xfe80000000000001`, as opensm.conf's `subnet_prefix` has it.
    fn from_str(text: &str) -> Result<SubnetPrefix, BadNetwork> {
        let hex = |digits: &str| {
            // from_str_radix accepts a sign, which no number here has
            let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            u64::from_str_radix(digits, 16).ok().filter(|_| plain)
        };
        let prefix = match text.strip_prefix("0x") {
            Some(digits) => hex(digits).filter(|_| digits.len() == 16),
            None => {
                let groups: Vec<&str> = text.split(':').collect();
                let whole = groups.len() == 4 && groups.iter().all(|group| group.len() <= 4);
                let join = |prefix, group: &&str| Some(prefix << 16 | hex(group)?);
                groups.iter().try_fold(0, join).filter(|_| whole)
            }
        };
        prefix.map(SubnetPrefix).ok_or(BadNetwork(PREFIX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_and_written_and_holds_what_lies_in_it() {
        let network = |text: &str| text.parse::<Network>();
        for text in [
            "10.1.0.0/16",
            "0.0.0.0/0",
            "192.168.7.1/32",
            "10.1.99.99/16",
        ] {
            assert_eq!(network(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "10.1.0.0",
            "10.1/16",
            "10.1.0.0/33",
            "10.1.0.0/-1",
            "10.1.0.0/",
            "fe80::/64",
            "a/8",
        ] {
            assert_eq!(network(text), Err(BadNetwork(NETWORK)), "`{text}`");
        }
        assert_eq!(
            network("10.1.0.0/20").unwrap().mask(),
            Ipv4Addr::new(255, 255, 240, 0)
        );
        assert_eq!(network("10.1.0.0/0").unwrap().mask(), Ipv4Addr::UNSPECIFIED);
        for (outer, inner, holds) in [
            ("10.1.0.0/16", "10.1.2.0/24", true),
            ("10.1.99.99/16", "10.1.2.0/24", true),
            ("10.1.2.0/24", "10.1.2.0/24", true),
            ("10.1.2.0/25", "10.1.2.0/24", false),
            ("10.2.0.0/16", "10.1.2.0/24", false),
            ("0.0.0.0/0", "10.1.2.0/24", true),
        ] {
            assert_eq!(
                network(outer).unwrap().contains(network(inner).unwrap()),
                holds,
                "{inner} in {outer}"
            );
        }
    }

    #[test]
    fn a_prefix_has_two_spellings_and_is_written_as_the_kernel_does() {
        let prefix = SubnetPrefix(0xfe80_0000_0000_00a1);
        for text in ["fe80:0000:0000:00a1", "fe80:0:0:A1", "0xfe800000000000a1"] {
            assert_eq!(text.parse(), Ok(prefix), "`{text}`");
        }
        assert_eq!(prefix.to_string(), "fe80:0000:0000:00a1");
        for text in [
            "",
            "fe80",
            "fe80:0:0",
            "fe80:0:0:1:2",
            "fe80:0:0:+1",
            "fe80::1:1",
            "fe80:0:0:00001",
            "0xfe80",
        ] {
            assert_eq!(
                text.parse::<SubnetPrefix>(),
                Err(BadNetwork(PREFIX)),
                "`{text}`"
            );
        }
        let gid = "fe80:0000:0000:00a1:b859:9f03:00d4:1a2e";
        assert_eq!(SubnetPrefix::of_gid(gid), Some(prefix));
        for bad in [
            &gid[1..],
            &gid[..19],
            "fe80:0000:0000:0g00:b859:9f03:00d4:1a2e",
            "",
        ] {
            assert_eq!(SubnetPrefix::of_gid(bad), None, "`{bad}`");
        }
    }
}
