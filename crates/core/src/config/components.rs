//! The components of a heterogeneous job share one wish, and the number of the first one's job.
//!
//! Each component is a job, and they are numbered one after the other (Slurm's src/slurmctld/proc_req.c,
//! `_slurm_rpc_allocate_het_job`).  srun sends every node the option's last value (src/common/spank.c,
//! `spank_set_remote_options`), so the last words hold for all.
#![forbid(unsafe_code)]

/// Set to 1 by srun's process for the nodes if the option of any component says `off`; each task's hook removes it.
pub const OFF: &str = "SLURM_NIC_PLACEMENT_OFF";
/// The number of the job's components; set inside a heterogeneous job alone.
const SIZE: &str = "SLURM_HET_SIZE";
/// For a step: the number of the job's first component.
pub const JOB: &str = "SLURM_JOB_ID";

/// Components of a job, at most (Slurm's src/common/slurm_opt.h, `MAX_HET_JOB_COMPONENTS`).
const MAX: u32 = 128;

/// The position of the job with this number among its components, by the step's environment; `None` if unknown.
fn of_job(number: u32, read: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let as_number = |name: &str| read(name)?.parse::<u32>().ok();
    let size = as_number(SIZE)?.min(MAX);
    // sbatch and salloc name the jobs
    let named =
        (0..size).find(|place| as_number(&format!("{JOB}_HET_GROUP_{place}")) == Some(number));
    named.or_else(|| {
        number
            .checked_sub(as_number(JOB)?)
            .filter(|place| *place < size)
    })
}

/// The first component's job number, which all components of a job share; `number` itself outside such a job.
pub fn leader(number: u32, read: impl Fn(&str) -> Option<String>) -> u32 {
    let first = of_job(number, &read).and_then(|_| read(JOB)?.parse().ok());
    first.unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_knows_which_component_it_is() {
        let found = |number, variables: &[(&str, &str)]| {
            of_job(number, |name| {
                variables
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value.to_string())
            })
        };
        let by_srun = [(SIZE, "2"), (JOB, "40")];
        assert_eq!(
            (found(40, &by_srun), found(41, &by_srun)),
            (Some(0), Some(1))
        );
        assert_eq!(
            (found(42, &by_srun), found(39, &by_srun)),
            (None, None),
            "no component of that job"
        );
        let named = [
            (SIZE, "2"),
            (JOB, "40"),
            ("SLURM_JOB_ID_HET_GROUP_0", "40"),
            ("SLURM_JOB_ID_HET_GROUP_1", "57"),
        ];
        assert_eq!(found(57, &named), Some(1), "a number between was taken");
        assert_eq!(found(40, &[(JOB, "40")]), None, "an ordinary job");
        let first = |number, variables: &[(&str, &str)]| {
            leader(number, |name| {
                variables
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value.to_string())
            })
        };
        assert_eq!(
            (first(40, &by_srun), first(41, &by_srun), first(57, &named)),
            (40, 40, 40)
        );
        assert_eq!(
            (first(7, &by_srun), first(7, &[(JOB, "40")])),
            (7, 7),
            "no component of that job"
        );
        assert_eq!(found(40, &[(SIZE, "many"), (JOB, "40")]), None);
    }
}
