//! Changes to inputs that are the same in each run: bytes, words of a dictionary, pieces of the input and of another one.
#![forbid(unsafe_code)]

/// Numbers that only look random (Marsaglia's xorshift).
pub struct Numbers(pub u64);

/// The numbers of every run.
impl Default for Numbers {
    fn default() -> Numbers {
        Numbers(0x9e37_79b9_7f4a_7c15)
    }
}

impl Numbers {
    /// One below the limit; 0 where there is none.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// The words of a dictionary, as libFuzzer reads it.
pub fn dictionary(text: &str) -> Vec<Vec<u8>> {
    let words = text.lines().map(|line| line.trim_matches('"'));
    words.map(unescaped).collect()
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (b'\\', [b'x', high, low, end @ ..]) => {
                let digits = [*high, *low];
                let hex = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(hex, 16).unwrap());
                rest = end;
            }
            (byte, after) => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    bytes
}

/// An input with a few changes.
pub fn changed(
    input: &[u8],
    other: &[u8],
    words: &[Vec<u8>],
    most: usize,
    numbers: &mut Numbers,
) -> Vec<u8> {
    let mut changed = input.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(changed.len() + 1);
        let end = (at + numbers.below(32)).min(changed.len());
        match numbers.below(6) {
            0 if at < changed.len() => changed[at] ^= 1 << numbers.below(8),
            1 => drop(changed.drain(at..end)),
            2 if !words.is_empty() => {
                let word = &words[numbers.below(words.len())];
                drop(changed.splice(at..end.min(at + word.len()), word.iter().copied()));
            }
            3 => {
                let piece = changed[at..end].repeat(1 + numbers.below(20));
                drop(changed.splice(at..at, piece));
            }
            4 => {
                let from = numbers.below(other.len() + 1);
                let piece = other[from..(from + numbers.below(200)).min(other.len())].to_vec();
                drop(changed.splice(at..at, piece));
            }
            _ => changed.insert(
                at,
                [0, b'\n', b',', b'=', 0xff, b'9', b'"', b' '][numbers.below(8)],
            ),
        }
    }
    changed.truncate(most);
    changed
}
