//! Patterns for NICs: a name, PCI address or network interface with `*` and `?`, or a subnet.

use crate::diagnostic::Shown;
use crate::topology::{Network, Nic, SubnetPrefix};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    word: String,
    meaning: Meaning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Names,
    Prefix(SubnetPrefix),
    /// matches a NIC with a port in this IPv4 network
    Network(Network),
}

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
    /// A word that parses as a subnet means a subnet: NIC names have neither `:` nor `/`, and PCI
    /// addresses have a `.`.
    pub fn parse(word: &str) -> Result<Pattern, BadPattern> {
        let bad = || BadPattern(Shown::message(word, 80).to_string());
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:*?/".contains(&byte);
        if word.is_empty() || word.len() > 64 || !word.bytes().all(plain) {
            return Err(bad());
        }
        let meaning = match (word.contains('/'), word.parse()) {
            (true, _) => Meaning::Network(word.parse().map_err(|_| bad())?),
            (false, Ok(prefix)) => Meaning::Prefix(prefix),
            (false, Err(_)) => Meaning::Names,
        };
        Ok(Pattern {
            word: word.to_string(),
            meaning,
        })
    }

    pub fn matches(&self, nic: &Nic) -> bool {
        match self.meaning {
            Meaning::Names => {
                let is_it = |name: &str| glob(self.word.as_bytes(), name.as_bytes());
                // only a word with `:`, `*` or `?` can match a PCI address; formatting the address
                // costs more than the rest of this function
                let address = nic.address.filter(|_| self.word.contains([':', '*', '?']));
                is_it(&nic.name)
                    || nic.netdevs.iter().any(|name| is_it(name))
                    || address.is_some_and(|address| is_it(&address.to_string()))
            }
            Meaning::Prefix(wanted) => nic.ports.iter().any(|port| port.subnet == Some(wanted)),
            Meaning::Network(wanted) => {
                let mut networks = nic.ports.iter().flat_map(|port| &port.networks);
                networks.any(|&own| wanted.contains(own))
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word)
    }
}

/// Matches `*` with any text, `?` with any byte, in time up to the product of both lengths.
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
            _ => {
                let Some((after_star, taken)) = retry else {
                    return false;
                };
                // the last star takes one more byte
                (p, t) = (after_star, taken + 1);
                retry = Some((p, t));
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{LinkLayer, NicKind, Port, PortState};

    fn matches(word: &str, nic: &Nic) -> bool {
        Pattern::parse(word).unwrap().matches(nic)
    }

    #[test]
    fn a_word_of_more_than_64_characters_is_no_pattern_and_the_message_describes_one() {
        assert!(Pattern::parse(&"a".repeat(64)).is_ok());
        let why = Pattern::parse(&"a".repeat(65)).unwrap_err().to_string();
        for part in ["names no NIC: expected a", "(`mlx5_0`)", "64 characters"] {
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn a_pattern_means_a_nic_by_name_address_or_interface() {
        let mut nic = Nic::new("mlx5_10".parse().unwrap(), NicKind::Verbs);
        nic.address = Some("ce:00.0".parse().unwrap());
        nic.netdevs = vec!["ibp206s0".into()];
        for word in "mlx5_10 mlx5_1* mlx5_?? * 0000:ce:00.0 *:ce:* ibp206s0 ib*0".split(' ') {
            assert!(matches(word, &nic), "`{word}`");
        }
        for word in ["mlx5_1", "mlx5_?", "en*"] {
            assert!(!matches(word, &nic), "`{word}`");
        }
        let bad = "|mlx5_0,mlx5_1|mlx5 0|^mlx5_0|10.1.0.0/33|10.1/16|mlx5/0|fe80::/64";
        for word in bad.split('|') {
            assert!(Pattern::parse(word).is_err(), "`{word}`");
        }
    }

    #[test]
    fn a_pattern_means_the_nics_of_a_subnet() {
        let port = Port::new(1, PortState::Active, LinkLayer::InfiniBand, None);
        let mut nic = Nic::new("mlx5_0".parse().unwrap(), NicKind::Verbs);
        nic.ports = vec![port];
        let unknown = nic.clone();
        nic.ports[0].subnet = Some("fe80:0000:0000:00a1".parse().unwrap());
        let networks = ["10.1.2.0/24", "192.168.7.0/24"].map(|text| text.parse().unwrap());
        nic.ports[0].networks = networks.into();
        for (word, expected) in rows! {
            "fe80:0000:0000:00a1", true; "fe80:0:0:A1", true; "0xfe800000000000a1", true;
            "fe80:0000:0000:0000", false; "0xfe80", false; "10.1.2.0/24", true; "10.1.0.0/16", true;
            "10.1.99.99/16", true; "192.168.7.0/24", true; "10.1.2.0/25", false;
            "10.2.0.0/16", false; "0.0.0.0/0", true;
        } {
            assert_eq!(matches(word, &nic), expected, "`{word}`");
            assert!(!matches(word, &unknown), "`{word}`");
        }
    }
}
