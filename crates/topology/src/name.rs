//! Device names.

use super::text::serde_as_text;
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// A device's name without characters that are special to libraries or in paths.
///
/// `,` `:` `=` `^` and spaces are special in variables (NCCL's src/misc/utils.cc,
/// `parseStringList`; UCX's src/ucs/config/parser.c), `/` and `..` in paths below `/sys` and
/// `/dev`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceName(String);

impl DeviceName {
    /// Most characters: `IB_DEVICE_NAME_MAX` of the kernel's include/uapi/rdma/ib_user_verbs.h is
    /// 64 with the final NUL, as is `prefix[64]` of NCCL's `struct netIf` (src/include/socket.h).
    pub const MAX: usize = 63;

    /// True for 1 to 63 of the characters `A-Za-z0-9_.-`, the first a letter, a digit or `_`.
    pub fn is_one(text: &str) -> bool {
        !text.is_empty()
            && !text.starts_with(['.', '-'])
            && text.len() <= DeviceName::MAX
            && text.chars().all(DeviceName::may_hold)
    }

    pub fn may_hold(c: char) -> bool {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

serde_as_text!(
    DeviceName,
    &BadDeviceName.to_string(),
    String,
    |name| name.0.clone(),
    |text| text.parse().ok()
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadDeviceName;

impl fmt::Display for BadDeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = DeviceName::MAX;
        write!(
            f,
            "1 to {most} of the characters `A-Za-z0-9_.-`, the first a letter, a digit or `_`"
        )
    }
}

impl FromStr for DeviceName {
    type Err = BadDeviceName;

    fn from_str(text: &str) -> Result<DeviceName, BadDeviceName> {
        DeviceName::is_one(text)
            .then(|| DeviceName(text.to_string()))
            .ok_or(BadDeviceName)
    }
}

impl Deref for DeviceName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Borrow<str> for DeviceName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for DeviceName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for DeviceName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl From<&DeviceName> for String {
    fn from(name: &DeviceName) -> String {
        name.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_list_or_a_path_would_misread_is_none() {
        let (longest, longer) = ("x".repeat(63), "x".repeat(64));
        for good in ["mlx5_0", "roceP6p3s0", "a", "_x", "0", "hsi0.1-b", &longest] {
            assert_eq!(good.parse::<DeviceName>().unwrap(), *good);
        }
        for bad in [
            "", "mlx5,0", "a:b", "x y", "^a", "=a", "a=b", ".", "..", "-a", "a/b", "é", "a\0",
            "a\n", &longer,
        ] {
            assert_eq!(bad.parse::<DeviceName>(), Err(BadDeviceName), "`{bad}`");
        }
    }
}
