//! PCIe links: speed, width, and the bandwidth that they give.
#![forbid(unsafe_code)]

use super::text::serde_as_text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Lanes of a PCIe link: the register has six bits (Link Status, "Negotiated Link Width").
pub const MAX_WIDTH: u32 = 63;
/// Tenths of GT/s of a PCIe lane: eight times PCIe 7.0, and far from overflow when multiplied by lanes.
pub const MAX_TENTHS_GT: u32 = 10_000;

/// Speed and width of a PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRate {
    /// transfer rate of a lane: 2.5 GT/s is 25
    pub tenths_gt: u32,
    pub width: u32,
}

impl LinkRate {
    /// `None` for a rate that no link can have.
    fn new(tenths_gt: u32, width: u32) -> Option<LinkRate> {
        let is_one = (1..=MAX_TENTHS_GT).contains(&tenths_gt) && (1..=MAX_WIDTH).contains(&width);
        is_one.then_some(LinkRate { tenths_gt, width })
    }

    /// The link's bandwidth in one direction, in Mbit/s, after the line code: 8b/10b up to 5 GT/s and
    /// 128b/130b from 8 GT/s on (PCI Express Base Specification, "Encoding").
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
        write!(
            f,
            "{}.{} GT/s x{}",
            self.tenths_gt / 10,
            self.tenths_gt % 10,
            self.width
        )
    }
}

impl FromStr for LinkRate {
    type Err = ();

    /// Reads `32.0 GT/s x16` or `8 GT/s x4`.
    fn from_str(text: &str) -> Result<LinkRate, ()> {
        let digits = |text: &str, most| {
            (1..=most).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit())
        };
        let read = || {
            let (speed, width) = text.split_once(" GT/s x")?;
            let (whole, tenth) = speed.split_once('.').unwrap_or((speed, "0"));
            let is_rate = digits(whole, 4) && digits(tenth, 1) && digits(width, 4);
            let number = |text: &str| text.parse::<u32>().ok().filter(|_| is_rate);
            LinkRate::new(number(whole)? * 10 + number(tenth)?, number(width)?)
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

/// A PCIe link as the function at its lower end reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcieLink {
    /// `current_link_speed`, `current_link_width`
    pub current: Option<LinkRate>,
    /// the function's own limit (`max_link_speed`, `max_link_width`)
    pub max: Option<LinkRate>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gen5_x16_link_moves_504_gbit_and_a_gen1_x1_link_2() {
        assert_eq!(
            LinkRate {
                tenths_gt: 320,
                width: 16
            }
            .mbps(),
            504_123
        );
        assert_eq!(
            LinkRate {
                tenths_gt: 25,
                width: 1
            }
            .mbps(),
            2_000
        );
    }
}
