//! `rollout=`: for which jobs the admin's `default=` holds, by their ids, so that all nodes and steps of a job agree.
//!
//! Binding, the variables of a node and those of a task are separate decisions of a site, each with its own share of the jobs.
#![forbid(unsafe_code)]

use super::words::Switch;
use super::{Settings, Words};
use crate::libraries::wanted::Parts;
use crate::placement::{Bind, Mem};

/// The admin's `rollout=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rollout {
    /// of a hundred jobs, 0 to 100
    pub(super) percents: Parts<u8>,
    /// true if the other jobs are observed, false if placement is off for them
    pub observes_others: bool,
}

impl Default for Rollout {
    fn default() -> Rollout {
        Rollout::of_all(100)
    }
}

impl Rollout {
    const fn of_all(percent: u8) -> Rollout {
        let percents = Parts { bind: percent, node_env: percent, task_env: percent };
        Rollout { percents, observes_others: false }
    }

    /// Reads `10%`, or parts as `node-env:100%,task-env:10%`; then `,observe`.  A part that is not named holds for no job.
    pub fn parse(text: &str) -> Option<Rollout> {
        let (shares, observes_others) =
            text.strip_suffix(",observe").map_or((text, false), |shares| (shares, true));
        if let Some(percent) = percent(shares) {
            return Some(Rollout { observes_others, ..Rollout::of_all(percent) });
        }
        let mut said: Parts<Option<u8>> = Parts::default();
        for share in shares.split(',') {
            let (name, share) = share.split_once(':')?;
            let part = match name {
                "bind" => &mut said.bind,
                "node-env" => &mut said.node_env,
                "task-env" => &mut said.task_env,
                _ => return None,
            };
            if part.replace(percent(share)?).is_some() {
                return None;
            }
        }
        Some(Rollout { percents: said.map(Option::unwrap_or_default), observes_others })
    }

    /// The parts that do not hold for a job.  A job that is in a share is in every larger one, of any part.
    pub fn held_back(self, job: u32) -> Parts<bool> {
        self.percents.map(|percent| place(job) >= percent)
    }

    /// The words of `default=` for a job.  A default that places no step is the same for all jobs.
    pub fn default_of(self, job: u32, default: &Words) -> Words {
        let places = matches!(default.policy, Some(Switch::On(_))) && !default.observe;
        if !places || self.held_back(job) != Parts::ALL {
            return default.clone();
        }
        match self.observes_others {
            true => Words { observe: true, ..default.clone() },
            false => Words { policy: Some(Switch::Off), ..default.clone() },
        }
    }

    /// Holds parts of a job's placement back where its user says nothing: by its words it would have all of them.
    pub fn hold_back(self, job: u32, settings: &mut Settings) {
        if !settings.enabled || settings.observe || settings.by_user {
            return;
        }
        settings.held_back = self.held_back(job);
        if settings.held_back.bind {
            (settings.bind, settings.mem) = (Bind::None, Mem::None);
        }
    }
}

/// `10%`
fn percent(text: &str) -> Option<u8> {
    let digits = text.strip_suffix('%')?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|percent| is_number && *percent <= 100)
}

/// A job's number among a hundred, 0 to 99: `(id * 2654435761 mod 2^32) * 100 / 2^32`, rounded down.
///
/// The factor is 2^32 divided by the golden ratio (Knuth, The Art of Computer Programming, volume 3, section 6.4): ids
/// that follow each other are spread over the hundred about as evenly as can be.
fn place(job: u32) -> u8 {
    let spread = job.wrapping_mul(2_654_435_761);
    // below 100
    ((u64::from(spread) * 100) >> 32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(percent: u8) -> Rollout {
        Rollout::of_all(percent)
    }

    fn has(rollout: Rollout, job: u32) -> bool {
        rollout.held_back(job) == Parts::default()
    }

    #[test]
    fn a_share_is_a_whole_number_of_percent_and_says_what_the_others_are() {
        assert_eq!(Rollout::parse("10%"), Some(share(10)));
        assert_eq!(Rollout::parse("0%"), Some(share(0)));
        assert_eq!(Rollout::parse("100%,observe"), Some(Rollout { observes_others: true, ..share(100) }));
        for bad in ["", "%", "10", "101%", "-1%", "+1%", "1.5%", "10%,off", "10%,", "999999999999%"] {
            assert_eq!(Rollout::parse(bad), None, "`{bad}`");
        }
    }

    #[test]
    fn each_part_has_a_share_of_its_own_and_one_that_is_not_named_holds_for_no_job() {
        let parsed =
            |text: &str| Rollout::parse(text).map(|rollout| (rollout.percents, rollout.observes_others));
        let parts = |bind, node_env, task_env| Parts { bind, node_env, task_env };
        for (text, expected) in [
            ("bind:10%,node-env:100%,task-env:0%", (parts(10, 100, 0), false)),
            ("task-env:5%,node-env:50%,observe", (parts(0, 50, 5), true)),
            ("node-env:100%", (parts(0, 100, 0), false)),
            ("7%,observe", (parts(7, 7, 7), true)),
        ] {
            assert_eq!(parsed(text), Some(expected), "`{text}`");
        }
        for bad in
            ["bind", "bind:", "bind:10", "binding:10%", "bind:10%,bind:20%", "bind:10%,", "bind:10%,5%"]
        {
            assert_eq!(parsed(bad), None, "`{bad}`");
        }
    }

    #[test]
    fn a_job_of_a_small_share_of_one_part_is_in_the_larger_share_of_another() {
        let rollout = Rollout::parse("bind:10%,task-env:30%,node-env:90%").unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for job in 1..1000 {
            let Parts { bind, node_env, task_env } = rollout.held_back(job).map(|held| !held);
            assert!(bind <= task_env && task_env <= node_env, "job {job}");
            seen.insert((bind, task_env, node_env));
        }
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn a_part_that_does_not_hold_is_as_bind_none_or_no_env_and_who_asks_has_it() {
        let held = |text: &str, default: &str, option: Option<&str>| {
            let words = |text: &str| Words::parse(text).unwrap();
            let (rollout, option) = (Rollout::parse(text).unwrap(), option.map(words));
            let default = rollout.default_of(7, &words(default));
            let mut settings = super::super::merge_settings(&default, None, option.as_ref());
            rollout.hold_back(7, &mut settings);
            settings
        };
        let none = held("node-env:100%,task-env:100%", "rail,bind=core,mem=strict", None);
        assert_eq!((none.enabled, none.bind, none.mem), (true, Bind::None, Mem::None));
        assert!(!none.held_back.have("UCX_NET_DEVICES") && !none.held_back.have("NCCL_IB_HCA"));
        let bound = held("bind:100%", "rail,bind=core", None);
        assert_eq!((bound.bind, bound.mem), (Bind::Core, Mem::Prefer));
        for name in ["NCCL_IB_HCA", "NVSHMEM_HCA_LIST", "ROCSHMEM_HCA_LIST", "UCX_NET_DEVICES", "MY_NIC"] {
            assert!(bound.held_back.have(name), "{name}");
        }
        let of_node = held("node-env:100%", "rail", None).held_back;
        assert!(!of_node.have("NVSHMEM_HCA_LIST") && of_node.have("UCX_NET_DEVICES"));
        let asked = held("node-env:100%", "rail,bind=core", Some("verbose"));
        assert_eq!((asked.bind, asked.held_back), (Bind::Core, Parts::default()));
        let observed = held("bind:0%,observe", "rail,bind=core", None);
        assert!(observed.observe && observed.bind == Bind::Core, "what it would have");
        assert!(!held("bind:0%", "rail", None).enabled);
    }

    #[test]
    fn a_share_of_the_jobs_is_that_share_of_any_hundred_that_follow_each_other() {
        for first in [1, 4_711, 67_000_000] {
            for percent in [1, 10, 50, 90] {
                let count = (first..first + 1000).filter(|job| has(share(percent), *job)).count();
                let wanted = usize::from(percent) * 10;
                assert!(count.abs_diff(wanted) <= 5, "{count} of 1000 jobs from {first} for {percent}%");
            }
        }
        assert!((1..10_000).all(|job| has(share(100), job) && !has(share(0), job)));
    }

    #[test]
    fn a_job_that_is_in_a_share_stays_in_it_as_it_grows() {
        for job in 1..2000 {
            let first = (0..=100).find(|percent| has(share(*percent), job)).unwrap();
            assert!((first..=100).all(|percent| has(share(percent), job)), "job {job}");
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
        let outside = share(0);
        let of = |rollout: Rollout, text: &str| rollout.default_of(1, &words(text));
        assert_eq!(of(outside, "rail,strict"), words("off,strict"));
        assert_eq!(of(Rollout { observes_others: true, ..outside }, "rail"), words("rail,observe"));
        for same in ["off", "observe", "rail,observe", "verbose", ""] {
            assert_eq!(of(outside, same), words(same), "`{same}` places nobody");
        }
        assert_eq!(of(Rollout::default(), "rail"), words("rail"));
    }
}
