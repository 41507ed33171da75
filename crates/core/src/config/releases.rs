//! Slurm's releases, by the numbers that its programs export.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// `slurm_api_version() >> 16`: `API_CURRENT` in META of Slurm's source. Programs do not export
    /// the version number.
    pub api: i64,
    pub major: u32,
    pub minor: u32,
}

impl Release {
    /// The `plugin_version` that this release accepts: `SLURM_VERSION_NUM` (slurm/slurm.h) without
    /// its last part, which the loader masks out (src/common/plugin.c, `_verify_syms`).
    pub fn stamp(&self) -> u32 {
        self.major << 16 | self.minor << 8
    }
}

const fn release(api: i64, major: u32, minor: u32) -> Release {
    Release { api, major, minor }
}

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

pub fn of_api_version(version: i64) -> Option<&'static Release> {
    RELEASES.iter().find(|release| release.api == version >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_known_by_its_api() {
        for release in &RELEASES {
            assert_eq!(of_api_version(release.api << 16 | 7), Some(release));
        }
        assert_eq!(RELEASES[0].stamp(), 0x160500);
        let unknown = [0, 47 << 16, -1];
        assert_eq!(unknown.map(of_api_version), [None; 3]);
    }
}
