//! The rules of `SLURMD_TRES_BIND`, by which Slurm gives a step's GPUs to its tasks.
//!
//! The value is srun's `--tres-bind` or `--gpu-bind`, or follows from `--gpus-per-task` and
//! `--tres-per-task`. Other devices may have rules too: `gres/tmp:per_task:10+gres/gpu:per_task:1`
//! (src/common/slurm_opt.c, `_implicitly_bind_tres_per_task`; src/common/tres_bind.c). Before 23.11
//! the separator was `;`, and names had no `gres/`. No release allows a GPU type in a rule.

/// Slurm's GRES for shares of a GPU: a rule for a share also limits a task's GPUs.
const SHARES: [&str; 2] = ["shard", "mps"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule<'a> {
    device: &'a str,
    /// such as `per_task:1`, without `verbose,`
    pub text: &'a str,
    /// true with `gres/`: Slurm 23.11 or later
    pub is_later: bool,
}

fn rules(bind: &str) -> impl Iterator<Item = Rule<'_>> {
    bind.split(['+', ';']).filter_map(|element| {
        let later = element.strip_prefix("gres/");
        let (device, text) = later.unwrap_or(element).split_once(':')?;
        Some(Rule {
            device,
            text: text.strip_prefix("verbose,").unwrap_or(text),
            is_later: later.is_some(),
        })
    })
}

/// The first rule for GPUs, as in Slurm.
pub(crate) fn of_gpus(bind: &str) -> Option<Rule<'_>> {
    rules(bind).find(|rule| rule.device == "gpu")
}

/// True if every task sees all GPUs of the step: each rule for GPUs or their shares, if any, is
/// `none`.
pub(crate) fn shows_all(bind: &str) -> bool {
    let about_gpus = |rule: &Rule| rule.device == "gpu" || SHARES.contains(&rule.device);
    rules(bind)
        .filter(about_gpus)
        .all(|rule| rule.text == "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_for_gpus_is_found_among_those_for_other_devices() {
        for (bind, text, is_later) in rows! {
            "gpu:per_task:1", "per_task:1", false;
            "gres/gpu:per_task:1", "per_task:1", true;
            "gres/tmp:per_task:10+gres/gpu:per_task:1", "per_task:1", true;
            "gres/gpu:map:0,1+gres/nic:closest", "map:0,1", true;
            "gpu:map_gpu:0,1;nic:closest", "map_gpu:0,1", false;
            "gres/gpu:verbose,mask:0x3,0xc", "mask:0x3,0xc", true;
            "gpu:closest", "closest", false;
        } {
            let rule = of_gpus(bind).unwrap();
            let found = (rule.device, rule.text, rule.is_later);
            assert_eq!(found, ("gpu", text, is_later), "{bind}");
        }
        let none = " gres/nic:per_task:1 gres/nic:closest gres/gpus:none gpu per_task:1 +;:";
        for bind in none.split(' ') {
            assert_eq!(of_gpus(bind), None, "{bind}");
        }
    }

    #[test]
    fn a_rule_for_other_devices_leaves_all_gpus_to_every_task_and_one_for_shares_of_gpus_does_not()
    {
        let all = " gres/nic:closest gpu:none gres/gpu:verbose,none gres/gpu:none+gres/nic:closest";
        for bind in all.split(' ') {
            assert!(shows_all(bind), "{bind}");
        }
        let some =
            "gres/nic:none+gres/gpu:closest gres/shard:per_task:1 mps:per_task:50 gpu:single:1";
        for bind in some.split(' ') {
            assert!(!shows_all(bind), "{bind}");
        }
    }
}
