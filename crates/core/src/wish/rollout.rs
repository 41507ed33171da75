//! `rollout=`: the share of jobs that get the admin's `default=`. The job id decides, so all nodes
//! and steps of a job agree.

use super::{Switch, Words};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rollout {
    /// 0 to 100
    percent: u8,
    /// for jobs outside the share: `observe` if true, else `off`
    observes_others: bool,
}

impl Default for Rollout {
    fn default() -> Rollout {
        Rollout {
            percent: 100,
            observes_others: false,
        }
    }
}

impl Rollout {
    /// Parses `10%` or `10%,observe`.
    pub fn parse(text: &str) -> Result<Rollout, String> {
        let (share, observes_others) = text
            .strip_suffix(",observe")
            .map_or((text, false), |share| (share, true));
        let percent = percent(share).ok_or_else(|| {
            // before 1.0 `bind`, `node-env` and `task-env` each had a share, as in `bind:10%`
            let instead = if text.contains(':') { PARTS } else { "" };
            format!("expected `rollout=PERCENT%[,observe]`, as `rollout=10%`{instead}")
        })?;
        Ok(Rollout {
            percent,
            observes_others,
        })
    }

    /// True if the job is in the share, and so in every larger share.
    pub fn has(self, job: u32) -> bool {
        hash(job) < self.percent
    }

    /// `default=` for a job. Outside the share, `observe` is added or the policy becomes `off`; a
    /// `default=` that places no step stays unchanged.
    pub fn default_of(self, job: u32, default: &Words) -> Words {
        let places = matches!(default.policy, Some(Switch::On(_))) && !default.observe;
        let mut words = default.clone();
        if places && !self.has(job) {
            match self.observes_others {
                true => words.observe = true,
                false => words.policy = Some(Switch::Off),
            }
        }
        words
    }
}

const PARTS: &str = "; binding is staged by lines for nodes: `default=closest,bind=none,mem=none` for all, and \
    `NodeName=… default=bind=auto,mem=prefer` for a few";

fn percent(text: &str) -> Option<u8> {
    let digits = text.strip_suffix('%')?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .parse()
        .ok()
        .filter(|percent| is_number && *percent <= 100)
}

/// A number from 0 to 99: `(id * 2654435761 mod 2^32) * 100 / 2^32`, rounded down.
///
/// The factor, 2^32 over the golden ratio, spreads consecutive ids about as evenly as possible
/// (Knuth, The Art of Computer Programming, volume 3, section 6.4).
fn hash(job: u32) -> u8 {
    let spread = job.wrapping_mul(2_654_435_761);
    ((u64::from(spread) * 100) >> 32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(percent: u8) -> Rollout {
        with! { Rollout { percent } }
    }

    fn observing(percent: u8) -> Rollout {
        with! { Rollout { observes_others: true } ..share(percent) }
    }

    #[test]
    fn a_share_is_a_whole_number_of_percent_and_says_whether_the_others_are_observed() {
        assert_eq!(Rollout::parse("10%"), Ok(share(10)));
        assert_eq!(Rollout::parse("0%"), Ok(share(0)));
        assert_eq!(Rollout::parse("100%,observe"), Ok(observing(100)));
        for bad in "|%|10|101%|-1%|+1%|1.5%|10%,off|10%,|999999999999%".split('|') {
            let why = Rollout::parse(bad).unwrap_err();
            let is_right = why.contains("as `rollout=10%`") && !why.contains("bind");
            assert!(is_right, "`{bad}`: {why}");
        }
        for old in ["bind:10%", "node-env:100%,task-env:10%,observe", "bind:"] {
            let why = Rollout::parse(old).unwrap_err();
            let is_right = why.contains("`default=closest,bind=none,mem=none` for all");
            assert!(is_right, "`{old}`: {why}");
        }
    }

    #[test]
    fn a_share_is_that_share_of_any_jobs_in_a_row_and_keeps_its_jobs_as_it_grows() {
        for first in [1, 4_711, 67_000_000] {
            for percent in [1, 10, 50, 90] {
                let jobs = (first..first + 1000).filter(|job| share(percent).has(*job));
                let (count, wanted) = (jobs.count(), usize::from(percent) * 10);
                let is_right = count.abs_diff(wanted) <= 5;
                assert!(is_right, "{count} from {first} for {percent}%");
            }
        }
        assert!((1..10_000).all(|job| share(100).has(job) && !share(0).has(job)));
        // a job that is in a share stays in it as it grows
        for job in 1..2000 {
            let mut percents = (0..=100).skip_while(|percent| !share(*percent).has(job));
            assert!(percents.all(|percent| share(percent).has(job)), "job {job}");
            assert!(share(100).has(job));
        }
    }

    #[test]
    fn the_share_is_the_documented_formula() {
        // echo $(( (ID * 2654435761 % 4294967296) * 100 / 4294967296 ))
        for (job, expected) in rows! {
            1u32, 61; 2, 23; 3, 85; 100, 80; 1234, 65; 67_043_327, 67;
        } {
            let by_hand = (u64::from(job) * 2_654_435_761 % 4_294_967_296) * 100 / 4_294_967_296;
            assert_eq!(u64::from(hash(job)), by_hand, "job {job}");
            assert_eq!(hash(job), expected, "job {job}");
        }
    }

    #[test]
    fn outside_the_share_a_default_that_places_is_off_or_observed() {
        let words = |text: &str| Words::parse(text).unwrap();
        let of = |rollout: Rollout, text: &str| rollout.default_of(1, &words(text));
        assert_eq!(of(share(0), "rail,strict"), words("off,strict"));
        assert_eq!(of(observing(0), "rail"), words("rail,observe"));
        // these place no job
        for same in ["off", "observe", "rail,observe", "verbose", ""] {
            assert_eq!(of(share(0), same), words(same), "`{same}`");
        }
        assert_eq!(of(Rollout::default(), "rail"), words("rail"));
    }
}
