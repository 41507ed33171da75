//! A line of srun, for a plan of the step that it would start.
//!
//! Options that change GPUs, CPUs or tasks are modelled or refused. Options without effect on placement are skipped if they
//! are known (src/common/slurm_opt.c of Slurm 22.05 to 26.05). Variables of srun are not read.

mod cores;
mod step;

pub use step::plan;

use crate::step::MAX_TASKS;
use nic_placement_core::config::Words;
use std::collections::BTreeMap;
use std::slice::Iter;

/// `=` needs a value, `?` may have one, `.` has none; the letter of the short option follows. [`plan`] reads those with
/// an effect.
const OPTIONS: &str = "account=A acctg-freq= bcast? begin=b chdir=D clusters=M comment= compress? constraint=C \
    contiguous cpu-bind= cpu-freq= cpus-per-task=c deadline= dependency=d distribution=m epilog= error=e exact exclude=x \
    exclusive? export= gpu-bind= gpu-freq= gpus=G gpus-per-node= gpus-per-task= gres= hint= immediate?I input=i job-name=J \
    kill-on-bad-exit?K label.l licenses=L mail-type= mail-user= mem= mem-bind= mem-per-cpu= mem-per-gpu= mpi= network= nice? \
    nic-placement? no-kill?k nodelist=w nodes=N ntasks=n ntasks-per-node= open-mode= output=o overlap. partition=p prefer= \
    preserve-env.E profile= prolog= propagate? pty? qos=q quiet.Q quit-on-interrupt reboot reservation= signal= switches= \
    task-epilog= task-prolog= threads-per-core= time=t time-min= tmp= unbuffered.u verbose.v wait=W wckey= \
    x11?";

/// The last value of each option.
#[derive(Debug, Default, PartialEq)]
pub struct SrunLine {
    values: BTreeMap<&'static str, String>,
    program: Vec<String>,
}

impl SrunLine {
    /// `srun` and what follows; options as getopt_long(3) reads them, in full.
    pub fn parse(words: &[String]) -> Result<SrunLine, String> {
        let mut rest = words.iter();
        if rest.next().and_then(|srun| srun.rsplit('/').next()) != Some("srun") {
            return Err("expected `srun`, its options and a program".to_string());
        }
        let mut line = SrunLine::default();
        let is_option = |word: &&String| word.len() > 1 && word.starts_with('-');
        while let Some(word) = rest.clone().next().filter(is_option) {
            rest.next();
            if word == "--" {
                break;
            }
            let mut word = word.clone();
            while line.take(&word, &mut rest)? == '.' && !word.starts_with("--") && word.len() > 2 {
                // `-lN2` is `-l -N2`
                word.remove(1);
            }
        }
        line.program = rest.cloned().collect();
        match line.program.first().filter(|_| line.words() == Some("")) {
            Some(words) if Words::parse(words).is_ok() => {
                Err(format!("expected `--nic-placement={words}`, with `=`"))
            }
            _ => Ok(line),
        }
    }

    /// Takes the first option of a word; returns its kind in `OPTIONS`.
    fn take(&mut self, word: &str, rest: &mut Iter<'_, String>) -> Result<char, String> {
        let letter = word[1..].chars().next().filter(|letter| *letter != '-');
        let (said, attached) = match letter {
            Some(letter) => word.split_at(1 + letter.len_utf8()),
            None => word.split_at(word.find('=').unwrap_or(word.len())),
        };
        let mut rows = OPTIONS.split_whitespace().map(|row| {
            let (name, rest) = row.split_at(row.find(['=', '?', '.']).unwrap_or(row.len()));
            let mut rest = rest.chars();
            (name, rest.next().unwrap_or('.'), rest.next())
        });
        let found = rows.find(|(name, _, short)| match letter {
            Some(_) => *short == letter,
            None => said[2..] == **name,
        });
        let (name, kind, _) = found.ok_or_else(|| {
            format!("srun's `{said}` is not modelled: it may change GPUs, CPUs or tasks")
        })?;
        let value = match kind {
            '=' if attached.is_empty() => rest
                .next()
                .ok_or_else(|| format!("`{said}` needs a value"))?,
            '.' => "",
            _ if letter.is_none() => attached.strip_prefix('=').unwrap_or_default(),
            _ => attached,
        };
        self.values.insert(name, value.to_string());
        Ok(kind)
    }

    pub fn words(&self) -> Option<&str> {
        self.values.get("nic-placement").map(String::as_str)
    }

    /// A number of tasks, CPUs or nodes; or of GPUs, which may have a type, as `h100:8`.
    fn number(&self, name: &str) -> Result<Option<u32>, String> {
        let Some(text) = self.values.get(name) else {
            return Ok(None);
        };
        let list = match name {
            "gres" => text.strip_prefix("gpu:").unwrap_or_default(),
            _ => text,
        };
        let number = match list.rsplit_once(':') {
            Some((_, count)) if name.starts_with('g') && !list.contains(',') => count,
            _ => list,
        };
        match number.parse() {
            Ok(number) if (1..=MAX_TASKS).contains(&number) => Ok(Some(number)),
            _ => Err(format!(
                "`--{name}={text}`: expected a number from 1 to {MAX_TASKS}, of GPUs alone in `--gres`"
            )),
        }
    }

    fn one_of(&self, name: &str, known: &[&'static str]) -> Result<Option<&'static str>, String> {
        let Some(text) = self.values.get(name) else {
            return Ok(None);
        };
        let mut ways = text
            .split(',')
            .filter(|word| !["verbose", "v", "quiet", "q"].contains(word));
        let way = ways
            .next()
            .map(|way| known.iter().find(|known| **known == way).copied());
        match (way, ways.next()) {
            (None, _) => Ok(None),
            (Some(Some(way)), None) => Ok(Some(way)),
            _ => Err(format!(
                "`--{name}={text}` is not modelled: expected {}",
                known.join(" or ")
            )),
        }
    }
}

#[cfg(test)]
mod tests;
