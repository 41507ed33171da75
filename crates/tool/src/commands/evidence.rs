//! `nic-placement plan --visible … --may-open …`: a task's evidence, as the command line states it.
#![forbid(unsafe_code)]

use super::misunderstood::misunderstood;
use super::{Failure, gpu_list};
use nic_placement_core::gpus;
use nic_placement_core::step::{Access, GpuGrant};
use nic_placement_core::topology::Topology;
use std::collections::BTreeMap;

/// The step's own list, which counts where a task has no variable.
const STEP_GPUS: &str = "SLURM_STEP_GPUS";

pub(super) struct GpuEvidence {
    variables: BTreeMap<&'static str, String>,
    /// `SLURM_STEP_GPUS`
    pub(super) step_gpus: Option<String>,
    /// GPUs whose device nodes the task may open, as with `--gpus`; `none`
    may_open: Option<String>,
}

impl GpuEvidence {
    /// From each `VAR=LIST` of `--visible`, and `--may-open`.
    pub(super) fn new(visible: &[String], may_open: Option<&str>) -> Result<GpuEvidence, Failure> {
        let may_open = may_open.map(str::to_string);
        let mut evidence = GpuEvidence { variables: BTreeMap::new(), step_gpus: None, may_open };
        visible.iter().try_for_each(|word| evidence.take(word))?;
        Ok(evidence)
    }

    fn take(&mut self, word: &str) -> Result<(), Failure> {
        let known = gpus::VARIABLES.into_iter();
        let found = word.split_once('=').and_then(|(name, list)| {
            let name = known.clone().chain([STEP_GPUS]).find(|known| *known == name)?;
            Some((name, list.to_string()))
        });
        let Some((name, list)) = found else {
            let known: Vec<&str> = known.chain([STEP_GPUS]).collect();
            let expected = format!("expected VAR=LIST, with VAR one of {}", known.join(", "));
            return Err(misunderstood(format!("`--visible {word}`: {expected}")));
        };
        let before = match name {
            STEP_GPUS => self.step_gpus.replace(list),
            name => self.variables.insert(name, list),
        };
        match before {
            Some(_) => Err(misunderstood(format!("`--visible {name}=` is given twice"))),
            None => Ok(()),
        }
    }

    /// The evidence; `None` where no option gives any.
    pub(super) fn grant(&self, topology: &Topology) -> Result<Option<GpuGrant>, Failure> {
        if self.variables.is_empty() && self.step_gpus.is_none() && self.may_open.is_none() {
            return Ok(None);
        }
        let access = match self.may_open.as_deref() {
            None => vec![Access::Unknown; topology.gpus.len()],
            Some(list) => {
                let open = match list {
                    "none" => Vec::new(),
                    list => gpu_list::several("--may-open", Some(list), topology)?,
                };
                let access = |gpu| if open.contains(&gpu) { Access::Allowed } else { Access::Denied };
                topology.gpu_indices().map(access).collect()
            }
        };
        Ok(Some(GpuGrant { variables: self.variables.clone(), access }))
    }
}
