//! The releases of Slurm: the numbers by which each is known.
#![forbid(unsafe_code)]

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// the result of its programs' `slurm_api_version()`, without the lower 16 bits: `API_CURRENT` in its source's
    /// META.  Slurm's own version number is not exported.
    pub api: i64,
    /// the year, as in 24.11
    pub major: u32,
    /// the month
    pub minor: u32,
}

impl Release {
    /// The number that this release expects in a plugin: `SLURM_VERSION_NUM` of slurm/slurm.h, without the last
    /// part, which the loader masks out (src/common/plugin.c, `_verify_syms`).
    pub fn stamp(&self) -> u32 {
        self.major << 16 | self.minor << 8
    }

    /// As Slurm's authors write it, like `22.05`.
    pub fn name(&self) -> String {
        format!("{}.{:02}", self.major, self.minor)
    }
}

const fn release(api: i64, major: u32, minor: u32) -> Release {
    Release { api, major, minor }
}

/// All releases that the plugin answers to, oldest first.
pub const RELEASES: [Release; 9] = [
    release(38, 22, 5),
    release(39, 23, 2),
    release(40, 23, 11),
    release(41, 24, 5),
    release(42, 24, 11),
    release(43, 25, 5),
    release(44, 25, 11),
    release(45, 26, 5),
    release(46, 26, 11),
];

/// The release whose programs return this from `slurm_api_version()`.
pub fn of_api_version(version: i64) -> Option<&'static Release> {
    RELEASES.iter().find(|release| release.api == version >> 16)
}

/// The release that `srun --version` names, as in `slurm-wlm 24.11.5`.
pub fn of_version(text: &str) -> Option<&'static Release> {
    let number = text
        .split([' ', '-'])
        .find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()))?;
    let mut parts = number.split('.').map(|part| part.parse::<u32>());
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        return None;
    };
    RELEASES
        .iter()
        .find(|release| (release.major, release.minor) == (major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_known_by_its_api_and_by_its_version() {
        for release in &RELEASES {
            assert_eq!(of_api_version(release.api << 16 | 7), Some(release));
            assert_eq!(
                of_version(&format!("slurm-wlm {}.3", release.name())),
                Some(release)
            );
        }
        assert_eq!(RELEASES[0].stamp(), 0x160500);
        for unknown in [
            "",
            "slurm",
            "slurm-wlm",
            "slurm 21.08.8",
            "22",
            "22.x",
            "227.05",
        ] {
            assert_eq!(of_version(unknown), None, "`{unknown}`");
        }
        assert_eq!(
            (
                of_api_version(0),
                of_api_version(47 << 16),
                of_api_version(-1)
            ),
            (None, None, None)
        );
        assert_eq!(
            of_version("slurm 25.11.0-rc1").map(Release::name),
            Some("25.11".to_string())
        );
    }
}
