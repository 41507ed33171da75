//! How an admin names NICs: a name, a PCI address or a network interface, each with `*` and `?`; or the subnet of their
//! ports.
#![forbid(unsafe_code)]

use crate::topology::{Nic, Port};
use std::fmt;
use std::net::Ipv4Addr;

/// One word of `include=` or `exclude=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    word: String,
    meaning: Meaning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// of a NIC: its name, address or interface
    Names,
    /// of its ports: the InfiniBand subnet's prefix, as opensm.conf's `subnet_prefix` has it
    Prefix(u64),
    /// of its ports: the IPv4 network that holds theirs
    Network { address: u32, mask: u32 },
}

/// Why a word is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPattern(String);

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` names no NIC: expected a name (`mlx5_0`), a PCI address (`0000:18:00.0`) or a network interface \
             (`ib0`) of at most 64 characters, with `*` and `?` for any; or a subnet: InfiniBand's prefix \
             (`fe80:0000:0000:0001` or `0xfe80000000000001`) or an IPv4 network (`10.1.0.0/16`)",
            self.0
        )
    }
}

impl Pattern {
    /// Reads one word.  No name of a NIC looks like a subnet: names have neither `:` nor `/`, addresses a `.`.
    pub fn parse(word: &str) -> Result<Pattern, BadPattern> {
        let bad = || BadPattern(word.chars().take(80).collect());
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:*?/".contains(&byte);
        if word.is_empty() || word.len() > 64 || !word.bytes().all(plain) {
            return Err(bad());
        }
        let meaning = match (word.contains('/'), prefix(word)) {
            (true, _) => network(word).ok_or_else(bad)?,
            (false, Some(prefix)) => Meaning::Prefix(prefix),
            (false, None) => Meaning::Names,
        };
        Ok(Pattern { word: word.to_string(), meaning })
    }

    /// Does it mean this NIC?
    pub fn matches(&self, nic: &Nic) -> bool {
        match self.meaning {
            Meaning::Names => {
                let address = nic.address.map(|address| address.to_string());
                let names = [Some(&nic.name), address.as_ref()].into_iter().flatten().chain(&nic.netdevs);
                names.into_iter().any(|name| glob(self.word.as_bytes(), name.as_bytes()))
            }
            Meaning::Prefix(wanted) => {
                let is_it = |port: &Port| port.subnet.as_deref().and_then(prefix) == Some(wanted);
                nic.ports.iter().any(is_it)
            }
            Meaning::Network { address, mask } => {
                nic.ports.iter().flat_map(|port| &port.networks).any(|text| {
                    // a port's network lies in the wanted one
                    let Some(Meaning::Network { address: own, mask: narrower }) = network(text) else {
                        return false;
                    };
                    own & mask == address && narrower & mask == mask
                })
            }
        }
    }
}

/// `fe80:0000:0000:0001` or `0xfe80000000000001`
fn prefix(text: &str) -> Option<u64> {
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
    if let Some(number) = text.strip_prefix("0x") {
        return u64::from_str_radix(number, 16).ok().filter(|_| number.len() == 16 && digits(number));
    }
    let groups: Vec<&str> = text.split(':').collect();
    let whole =
        groups.len() == 4 && groups.iter().all(|group| (1..=4).contains(&group.len()) && digits(group));
    whole.then(|| {
        let groups = groups.iter().filter_map(|group| u64::from_str_radix(group, 16).ok());
        groups.fold(0, |prefix, group| prefix << 16 | group)
    })
}

/// `10.1.0.0/16`
fn network(text: &str) -> Option<Meaning> {
    let (address, bits) = text.split_once('/')?;
    let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
    let bits = bits.parse::<u32>().ok().filter(|&bits| bits <= 32)?;
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    Some(Meaning::Network { address: address & mask, mask })
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word)
    }
}

/// `*` for any text, `?` for any character; linear in the product of the lengths, whatever the pattern.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                // the last star takes one character more
                Some((after_star, taken)) => {
                    p = after_star;
                    t = taken + 1;
                    retry = Some((after_star, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::NicKind;

    #[test]
    fn a_pattern_means_a_nic_by_name_address_or_interface() {
        let nic = Nic {
            address: Some("ce:00.0".parse().unwrap()),
            netdevs: vec!["ibp206s0".into()],
            ..Nic::new("mlx5_10", NicKind::Verbs)
        };
        for (word, expected) in [
            ("mlx5_10", true),
            ("mlx5_1", false),
            ("mlx5_1*", true),
            ("mlx5_?", false),
            ("mlx5_??", true),
            ("*", true),
            ("0000:ce:00.0", true),
            ("*:ce:*", true),
            ("ibp206s0", true),
            ("ib*0", true),
            ("en*", false),
        ] {
            assert_eq!(Pattern::parse(word).unwrap().matches(&nic), expected, "`{word}`");
        }
        for word in
            ["", "mlx5_0,mlx5_1", "mlx5 0", "^mlx5_0", "10.1.0.0/33", "10.1/16", "mlx5/0", "fe80::/64"]
        {
            assert!(Pattern::parse(word).is_err(), "`{word}`");
        }
    }

    #[test]
    fn a_pattern_means_the_nics_of_a_subnet() {
        use crate::topology::{LinkLayer, PortState};
        let port = |subnet: Option<&str>, networks: &[&str]| Port {
            subnet: subnet.map(String::from),
            networks: networks.iter().map(ToString::to_string).collect(),
            ..Port::new(1, PortState::Active, LinkLayer::InfiniBand, None)
        };
        let nic = Nic {
            ports: vec![port(Some("fe80:0000:0000:00a1"), &["10.1.2.0/24", "192.168.7.0/24"])],
            ..Nic::new("mlx5_0", NicKind::Verbs)
        };
        let unknown = Nic { ports: vec![port(None, &[])], ..nic.clone() };
        for (word, expected) in [
            ("fe80:0000:0000:00a1", true),
            ("fe80:0:0:A1", true),
            ("0xfe800000000000a1", true),
            ("fe80:0000:0000:0000", false),
            ("0xfe80", false),
            ("10.1.2.0/24", true),
            ("10.1.0.0/16", true),
            ("10.1.99.99/16", true),
            ("192.168.7.0/24", true),
            ("10.1.2.0/25", false),
            ("10.2.0.0/16", false),
            ("0.0.0.0/0", true),
        ] {
            assert_eq!(Pattern::parse(word).unwrap().matches(&nic), expected, "`{word}`");
            assert!(!Pattern::parse(word).unwrap().matches(&unknown), "`{word}`");
        }
    }
}
