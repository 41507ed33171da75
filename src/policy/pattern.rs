//! How an admin names NICs: a name, a PCI address or a network interface, each with `*` and `?`.
#![forbid(unsafe_code)]

use crate::topology::Nic;
use std::fmt;

/// One word of `include=` or `exclude=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

/// Why a word is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPattern(String);

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` names no NIC: expected a name (`mlx5_0`), a PCI address (`0000:18:00.0`) or a network interface \
             (`ib0`) of at most 64 characters, with `*` and `?` for any",
            self.0
        )
    }
}

impl Pattern {
    /// Reads one word.
    pub fn parse(word: &str) -> Result<Pattern, BadPattern> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:*?".contains(&byte);
        if word.is_empty() || word.len() > 64 || !word.bytes().all(plain) {
            return Err(BadPattern(word.chars().take(80).collect()));
        }
        Ok(Pattern(word.to_string()))
    }

    /// Does it mean this NIC?
    pub fn matches(&self, nic: &Nic) -> bool {
        let address = nic.address.map(|address| address.to_string());
        let names = [Some(&nic.name), address.as_ref()].into_iter().flatten().chain(&nic.netdevs);
        names.into_iter().any(|name| glob(self.0.as_bytes(), name.as_bytes()))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `*` for any text, `?` for any character; linear in the product of the lengths, whatever the pattern.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
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
        for word in ["", "mlx5_0,mlx5_1", "mlx5 0", "^mlx5_0"] {
            assert!(Pattern::parse(word).is_err(), "`{word}`");
        }
    }
}
