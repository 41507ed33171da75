//! Slurm's releases by the versions that its programs print.

use nic_placement_core::config::releases::{RELEASES, Release};

/// `22.05`
pub fn name(release: &Release) -> String {
    format!("{}.{:02}", release.major, release.minor)
}

/// The release in a text such as `slurm-wlm 24.11.5`.
pub fn of_version(text: &str) -> Option<&'static Release> {
    let mut parts = text
        .split([' ', '-'])
        .find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()))?
        .split('.')
        .map(|part| part.parse::<u32>().ok());
    let version = (parts.next()??, parts.next()??);
    RELEASES
        .iter()
        .find(|release| (release.major, release.minor) == version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_known_by_its_version() {
        for release in &RELEASES {
            let version = format!("slurm-wlm {}.3", name(release));
            assert_eq!(of_version(&version), Some(release));
        }
        let unknown = "|slurm|slurm-wlm|slurm 21.08.8|22|22.x|227.05";
        for unknown in unknown.split('|') {
            assert_eq!(of_version(unknown), None, "`{unknown}`");
        }
        let candidate = of_version("slurm 25.11.0-rc1").map(name);
        assert_eq!(candidate.as_deref(), Some("25.11"));
    }
}
