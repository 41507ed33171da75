//! `rollout=`: for which jobs the admin's `default=` holds, by their ids, so that all nodes and steps of a job agree.
#![forbid(unsafe_code)]

use super::Words;
use super::words::Switch;

/// The admin's `rollout=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rollout {
    /// of a hundred jobs, 0 to 100
    pub percent: u8,
    /// are the other jobs observed, and not off?
    pub observes_others: bool,
}

impl Default for Rollout {
    fn default() -> Rollout {
        Rollout { percent: 100, observes_others: false }
    }
}

impl Rollout {
    /// Reads `10%` or `10%,observe`.
    pub fn parse(text: &str) -> Option<Rollout> {
        let (share, observes_others) =
            text.strip_suffix(",observe").map_or((text, false), |share| (share, true));
        let digits = share.strip_suffix('%')?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let percent = digits.parse().ok().filter(|percent| is_number && *percent <= 100)?;
        Some(Rollout { percent, observes_others })
    }

    /// Is a job one of them?  A job that is in a share is in every larger one.
    pub fn has(self, job: u32) -> bool {
        place(job) < self.percent
    }

    /// The words of `default=` for a job.  A default that places no step is the same for all jobs.
    pub fn default_of(self, job: u32, default: &Words) -> Words {
        if self.has(job) || !matches!(default.policy, Some(Switch::On(_))) || default.observe {
            return default.clone();
        }
        match self.observes_others {
            true => Words { observe: true, ..default.clone() },
            false => Words { policy: Some(Switch::Off), ..default.clone() },
        }
    }
}

/// A job's place among a hundred, 0 to 99: `(id * 2654435761 mod 2^32) * 100 / 2^32`, rounded down.
///
/// The factor is 2^32 divided by the golden ratio (Knuth, The Art of Computer Programming, volume 3, section 6.4): ids that
/// follow each other are spread over the hundred about as evenly as can be.
fn place(job: u32) -> u8 {
    let spread = job.wrapping_mul(2_654_435_761);
    // below 100
    ((u64::from(spread) * 100) >> 32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(percent: u8) -> Rollout {
        Rollout { percent, observes_others: false }
    }

    #[test]
    fn a_share_is_a_whole_number_of_percent_and_says_what_the_others_are() {
        assert_eq!(Rollout::parse("10%"), Some(share(10)));
        assert_eq!(Rollout::parse("0%"), Some(share(0)));
        assert_eq!(Rollout::parse("100%,observe"), Some(Rollout { percent: 100, observes_others: true }));
        for bad in ["", "%", "10", "101%", "-1%", "+1%", "1.5%", "10%,off", "10%,", "999999999999%"] {
            assert_eq!(Rollout::parse(bad), None, "`{bad}`");
        }
    }

    #[test]
    fn a_share_of_the_jobs_is_that_share_of_any_hundred_that_follow_each_other() {
        for first in [1, 4_711, 67_000_000] {
            for percent in [1, 10, 50, 90] {
                let count = (first..first + 1000).filter(|job| share(percent).has(*job)).count();
                let wanted = usize::from(percent) * 10;
                assert!(count.abs_diff(wanted) <= 5, "{count} of 1000 jobs from {first} for {percent}%");
            }
        }
        assert!((1..10_000).all(|job| share(100).has(job) && !share(0).has(job)));
    }

    #[test]
    fn a_job_that_is_in_a_share_stays_in_it_as_it_grows() {
        for job in 1..2000 {
            let first = (0..=100).find(|percent| share(*percent).has(job)).unwrap();
            assert!((first..=100).all(|percent| share(percent).has(job)), "job {job}");
        }
    }

    #[test]
    fn the_share_is_the_documented_formula() {
        // echo $(( (ID * 2654435761 % 4294967296) * 100 / 4294967296 ))
        for (job, expected) in [(1u32, 61), (2, 23), (3, 85), (100, 80), (1234, 65), (67_043_327, 67)] {
            let by_hand = (u64::from(job) * 2_654_435_761 % 4_294_967_296) * 100 / 4_294_967_296;
            assert_eq!(u64::from(place(job)), by_hand, "job {job}");
            assert_eq!(place(job), expected, "job {job}");
        }
    }

    #[test]
    fn outside_the_share_a_default_that_places_is_off_or_observed() {
        let words = |text: &str| Words::parse(text).unwrap();
        let outside = Rollout { percent: 0, observes_others: false };
        let of = |rollout: Rollout, text: &str| rollout.default_of(1, &words(text));
        assert_eq!(of(outside, "rail,strict"), words("off,strict"));
        assert_eq!(of(Rollout { observes_others: true, ..outside }, "rail"), words("rail,observe"));
        for same in ["off", "observe", "rail,observe", "verbose", ""] {
            assert_eq!(of(outside, same), words(same), "`{same}` places nobody");
        }
        assert_eq!(of(Rollout::default(), "rail"), words("rail"));
    }
}
