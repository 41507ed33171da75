//! PCIe links: speed, width and bandwidth.

use super::text::serde_as_text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most lanes of a PCIe link: Link Status has six bits for "Negotiated Link Width".
pub const MAX_WIDTH: u32 = 63;
/// Highest speed of a lane, in tenths of GT/s: almost 8 times PCIe 7.0's; `mbps` cannot overflow.
pub const MAX_TENTHS_GT: u32 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRate {
    /// transfer rate of a lane: 2.5 GT/s is 25
    pub tenths_gt: u32,
    pub width: u32,
}

impl LinkRate {
    /// `None` if a number is 0 or above its limit.
    fn new(tenths_gt: u32, width: u32) -> Option<LinkRate> {
        let is_one = (1..=MAX_TENTHS_GT).contains(&tenths_gt) && (1..=MAX_WIDTH).contains(&width);
        is_one.then_some(LinkRate { tenths_gt, width })
    }

    /// Bandwidth in one direction in Mbit/s after the line code: 8b/10b up to 5 GT/s, 128b/130b
    /// from 8 GT/s (PCI Express Base Specification, "Encoding").
    pub fn mbps(self) -> u64 {
        let raw = u64::from(self.tenths_gt) * 100 * u64::from(self.width);
        if self.tenths_gt <= 50 {
            raw * 8 / 10
        } else {
            raw * 128 / 130
        }
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, tenth) = (self.tenths_gt / 10, self.tenths_gt % 10);
        write!(f, "{whole}.{tenth} GT/s x{}", self.width)
    }
}

impl FromStr for LinkRate {
    type Err = ();

    /// Parses `32.0 GT/s x16` or `8 GT/s x4`.
    fn from_str(text: &str) -> Result<LinkRate, ()> {
        let number = |text: &str, most| {
            let is_one = text.len() <= most && text.bytes().all(|c| c.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| is_one)
        };
        let read = || {
            let (speed, width) = text.split_once(" GT/s x")?;
            let (whole, tenth) = speed.split_once('.').unwrap_or((speed, "0"));
            LinkRate::new(
                number(whole, 4)? * 10 + number(tenth, 1)?,
                number(width, 4)?,
            )
        };
        read().ok_or(())
    }
}

serde_as_text!(
    LinkRate,
    "speed and lanes such as `32.0 GT/s x16`",
    (u32, u32),
    |rate| (rate.tenths_gt, rate.width),
    |(tenths_gt, width)| LinkRate::new(tenths_gt, width)
);

/// The PCIe link that a function reports: the link below for root and downstream ports, else the
/// link above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcieLink {
    /// `current_link_speed`, `current_link_width`
    pub current: Option<LinkRate>,
    /// `max_link_speed`, `max_link_width`: the function's own limit
    pub max: Option<LinkRate>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gen5_x16_link_moves_504_gbit_and_a_gen1_x1_link_2() {
        for (tenths_gt, width, mbps) in [(320, 16, 504_123), (25, 1, 2_000)] {
            assert_eq!(LinkRate { tenths_gt, width }.mbps(), mbps);
        }
    }
}
