//! Heterogeneous jobs: one option value and one job number, the first component's, count for all
//! components.
//!
//! Each component is a job; Slurm numbers the components consecutively (src/slurmctld/proc_req.c,
//! `_slurm_rpc_allocate_het_job`). srun sends the option's last value to every node
//! (src/common/spank.c, `spank_set_remote_options`).

/// The plugin in srun sets `1` if any component's option has `off`; no task sees the variable.
pub const OFF: &str = "SLURM_NIC_PLACEMENT_OFF";
/// The number of components; unset in ordinary jobs.
const SIZE: &str = "SLURM_HET_SIZE";
/// The job number; in a step of a heterogeneous job, the first component's.
pub const JOB: &str = "SLURM_JOB_ID";

/// `MAX_HET_JOB_COMPONENTS` in Slurm's slurm/slurm.h.
const MAX: u32 = 128;

/// The position of the component with this job number; `None` if it is no component's.
fn of_job(number: u32, read: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let as_number = |name: &str| read(name)?.parse::<u32>().ok();
    let size = as_number(SIZE)?.min(MAX);
    // sbatch and salloc list the components' numbers
    let is_listed = |place: &u32| as_number(&format!("{JOB}_HET_GROUP_{place}")) == Some(number);
    (0..size).find(is_listed).or_else(|| {
        let place = number.checked_sub(as_number(JOB)?)?;
        (place < size).then_some(place)
    })
}

/// The first component's job number; `number` itself in ordinary jobs.
pub fn leader(number: u32, read: impl Fn(&str) -> Option<String>) -> u32 {
    of_job(number, &read)
        .and_then(|_| read(JOB)?.parse().ok())
        .unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_knows_which_component_it_is() {
        let by_srun = [(SIZE, "2"), (JOB, "40")];
        let named = rows! {
            SIZE, "2"; JOB, "40"; "SLURM_JOB_ID_HET_GROUP_0", "40";
            // a number between was taken
            "SLURM_JOB_ID_HET_GROUP_1", "57";
        };
        let (ordinary, odd) = ([(JOB, "40")], [(SIZE, "many"), (JOB, "40")]);
        for (number, variables, component, first) in rows! {
            40, &by_srun[..], Some(0), 40; 41, &by_srun, Some(1), 40;
            // no component of that job
            42, &by_srun, None, 42; 39, &by_srun, None, 39; 57, &named, Some(1), 40;
            7, &ordinary, None, 7; 40, &ordinary, None, 40; 40, &odd, None, 40;
        } {
            let read = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.to_string())
            };
            let found = (of_job(number, read), leader(number, read));
            assert_eq!(found, (component, first), "{number} {variables:?}");
        }
    }
}
