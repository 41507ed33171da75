//! A line of srun, for a plan of the step that it would start.
//!
//! Options that change GPUs, CPUs or tasks are modelled or refused. Options without effect on placement are skipped if they
//! are known (src/common/slurm_opt.c of Slurm 22.05 to 26.05). Variables of srun are not read.
#![forbid(unsafe_code)]

mod cores;
mod step;

pub use step::{Planned, plan};

use crate::step::MAX_TASKS;

/// Options that place nothing. `=` needs a value, `?` may have one, `.` has none; the letter of the short option follows.
const NO_EFFECT: &str = "account=A acctg-freq= bb= bbf= bcast? bcast-exclude= begin=b chdir=D cluster-constraint= \
     clusters=M comment= compress? constraint=C container= container-id= context= contiguous cpu-freq= deadline= \
     debugger-test delay-boot= dependency=d disable-status.X epilog= error=e exact exclude=x export= extra= gid= \
     gpu-freq= help.h hold.H ignore-signals= immediate?I input=i interactive jobid= job-name=J kill-on-bad-exit?K label.l \
     licenses=L mail-type= mail-user= mcs-label= mem= mem-per-cpu= mem-per-gpu= mpi= msg-timeout= network= nice? \
     no-kill?k nodelist=w oom-kill-step? open-mode= output=o partition=p prefer= preserve-env.E priority= profile= prolog= \
     propagate? pty? qos=q quiet.Q quit-on-interrupt reboot reservation= signal= slurmd-debug= switches= task-epilog= \
     task-prolog= threads=T time=t time-min= tmp= treewidth= uid= unbuffered.u verbose.v version.V wait=W \
     wait-for-children wckey= x11?";

const MODELLED: &str = "cpu-bind= cpu_bind= cpus-per-task=c distribution=m exclusive? gpu-bind= gpus=G gpus-per-node= \
     gpus-per-task= gres= hint= mem-bind= nic-placement? nodes=N ntasks=n ntasks-per-gpu= ntasks-per-node= \
     tasks-per-node= threads-per-core=";

const REFUSED: &str = "accel-bind= async cores-per-socket= core-spec=S cpus-per-gpu= extra-node-info=B external-launcher? \
     gpus-per-socket= gres-flags= het-group= mincpus= multi-prog no-allocate.Z nodefile=F ntasks-per-core= \
     ntasks-per-socket= ntasks-per-tres= overcommit.O overlap? oversubscribe.s pack-group= relative=r resv-ports? segment= \
     sockets-per-node= spread-job test-only thread-spec= tres-bind= tres-per-task= use-min-nodes whole";

/// What the line asks for. `None` and `false` without the option.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    pub words: Option<String>,
    pub program: Vec<String>,
    nodes: Option<u32>,
    tasks: Option<u32>,
    tasks_per_node: Option<u32>,
    tasks_per_gpu: Option<u32>,
    cpus_per_task: Option<u32>,
    gpus: Option<u32>,
    gpus_per_node: Option<u32>,
    gpus_per_task: Option<u32>,
    gpu_bind: Option<String>,
    cpu_bind: Option<String>,
    mem_bind: Option<String>,
    by: Distribution,
    exclusive: bool,
    one_thread: bool,
}

/// The order in which tasks and their CPUs go over sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Distribution {
    Block,
    #[default]
    Cyclic,
    FullCyclic,
}

impl Line {
    /// The words of a command line, `srun` first. Options are read as getopt_long(3) reads them, up to the program.
    pub fn parse(words: &[String]) -> Result<Line, String> {
        let (first, mut rest) = words.split_first().ok_or("expected a line of srun")?;
        if first.rsplit('/').next() != Some("srun") {
            return Err(format!("`{first}`: expected srun and its options"));
        }
        let mut line = Line::default();
        while let Some((word, after)) = rest.split_first() {
            if word == "--" {
                rest = after;
                break;
            }
            if !word.starts_with('-') || word == "-" {
                break;
            }
            rest = after;
            let mut next = || {
                let (value, after) = rest.split_first()?;
                rest = after;
                Some(value.clone())
            };
            if let Some(long) = word.strip_prefix("--") {
                let (name, value) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_string())),
                    None => (long, None),
                };
                let known = Known::long(name)?;
                line.take(&known, value, &mut next)?;
                continue;
            }
            let mut letters = word[1..].chars();
            while let Some(letter) = letters.next() {
                let known = Known::short(letter)?;
                let attached = letters.as_str();
                let has_value = known.value != '.' && !attached.is_empty();
                // srun reads `-n=8` as the number `=8`, and refuses it
                let value = has_value.then(|| attached.to_string());
                if has_value {
                    letters = "".chars();
                }
                line.take(&known, value, &mut next)?;
            }
        }
        line.program = rest.to_vec();
        Ok(line)
    }

    fn take(
        &mut self,
        known: &Known,
        value: Option<String>,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), String> {
        let name = known.name;
        let value = match known.value {
            '.' if value.is_some() => return Err(format!("`--{name}` takes no value")),
            '=' => {
                let value = value.or_else(next);
                Some(value.ok_or(format!("`--{name}` needs a value"))?)
            }
            _ => value,
        };
        match known.kind {
            Kind::NoEffect => return Ok(()),
            Kind::Refused => {
                return Err(format!(
                    "`--{name}` changes GPUs, CPUs or tasks in a way that is not modelled"
                ));
            }
            Kind::Modelled => {}
        }
        let text = value.clone().unwrap_or_default();
        let bad = |expected: &str| Err(format!("`--{name}={text}`: expected {expected}"));
        let number = || match text.parse() {
            Ok(number) if (1..=MAX_TASKS).contains(&number) => Ok(Some(number)),
            _ => Err(format!(
                "`--{name}={text}`: expected a whole number from 1 to {MAX_TASKS}"
            )),
        };
        let gpus = |list: &str| {
            let last = list.rsplit(':').next().unwrap_or_default();
            match last.parse() {
                _ if list.contains(',') => None,
                Ok(count) => Some(count),
                // a type without a number is one GPU
                Err(_) => (!last.starts_with(|first: char| first.is_ascii_digit())).then_some(1),
            }
        };
        let count = |list: &str| match gpus(list) {
            Some(count @ 1..=MAX_TASKS) => Ok(Some(count)),
            _ => Err(format!(
                "`--{name}={list}`: expected a number of GPUs, as `8` or `h100:8`"
            )),
        };
        match name {
            "nic-placement" => self.words = Some(text),
            "nodes" => self.nodes = number()?,
            "ntasks" => self.tasks = number()?,
            "ntasks-per-node" | "tasks-per-node" => self.tasks_per_node = number()?,
            "ntasks-per-gpu" => self.tasks_per_gpu = number()?,
            "cpus-per-task" => self.cpus_per_task = number()?,
            "gpus" => self.gpus = count(&text)?,
            "gpus-per-node" => self.gpus_per_node = count(&text)?,
            "gpus-per-task" => self.gpus_per_task = count(&text)?,
            "gres" => {
                let named = text
                    .strip_prefix("gres/")
                    .or(text.strip_prefix("gres:"))
                    .unwrap_or(&text);
                match named
                    .strip_prefix("gpu")
                    .map(|of| of.strip_prefix([':', '=']).unwrap_or(of))
                {
                    Some("") => self.gpus_per_node = Some(1),
                    Some(list) if list.len() + 3 < named.len() => self.gpus_per_node = count(list)?,
                    _ => return bad("GPUs alone, as `gpu:8`"),
                }
            }
            "gpu-bind" => {
                let rule = text.strip_prefix("verbose,").unwrap_or(&text);
                let is_known = |known: &&str| {
                    rule == *known || known.ends_with(':') && rule.starts_with(known)
                };
                match ["none", "closest", "single:", "map_gpu:", "per_task:"]
                    .iter()
                    .any(|known| is_known(&known))
                {
                    true => self.gpu_bind = Some(rule.to_string()),
                    false => return bad("none, closest, single:N, per_task:N or map_gpu:LIST"),
                }
            }
            "cpu-bind" | "cpu_bind" => match without_reports(&text).as_str() {
                "" => {}
                way @ ("none" | "no" | "cores" | "core" | "threads" | "thread" | "sockets"
                | "socket") => {
                    let way = way.strip_suffix('s').unwrap_or(way);
                    self.cpu_bind = Some(if way == "no" { "none" } else { way }.to_string());
                }
                _ => return bad("none, cores, threads or sockets: others are not modelled"),
            },
            "mem-bind" => {
                let way = without_reports(&text);
                self.mem_bind = Some(way).filter(|way| !way.is_empty());
            }
            "hint" => match text.as_str() {
                "nomultithread" => self.one_thread = true,
                _ => return bad("nomultithread: others are not modelled"),
            },
            "threads-per-core" => match text.as_str() {
                "1" => self.one_thread = true,
                _ => return bad("1: other numbers are not modelled"),
            },
            "exclusive" => match value {
                None => self.exclusive = true,
                Some(_) => return bad("no value: others are not modelled"),
            },
            _ => {
                let mut parts = text.split([':', ',']);
                let over_nodes = parts.next().unwrap_or_default();
                let by = match parts.next().unwrap_or("*") {
                    "block" => Some(Distribution::Block),
                    "*" | "cyclic" => Some(Distribution::Cyclic),
                    "fcyclic" => Some(Distribution::FullCyclic),
                    _ => None,
                };
                match by.filter(|_| parts.next().is_none_or(|cores| cores == "*")) {
                    Some(by) if ["*", "block", "cyclic"].contains(&over_nodes) => self.by = by,
                    _ => {
                        return bad(
                            "block or cyclic over nodes, and block, cyclic or fcyclic over sockets",
                        );
                    }
                }
            }
        }
        Ok(())
    }
}

/// A list of `--cpu-bind` or `--mem-bind` without `verbose` and `quiet`.
fn without_reports(list: &str) -> String {
    let ways = list
        .split(',')
        .filter(|word| !["verbose", "v", "quiet", "q"].contains(word));
    ways.collect::<Vec<_>>().join(",")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    NoEffect,
    Modelled,
    Refused,
}

struct Known {
    name: &'static str,
    short: Option<char>,
    /// `=`, `?` or `.`, as in the tables
    value: char,
    kind: Kind,
}

impl Known {
    fn all() -> Vec<Known> {
        let row = |row: &'static str, kind| {
            let (name, rest) = row.split_at(row.find(['=', '?', '.']).unwrap_or(row.len()));
            let mut rest = rest.chars();
            Known {
                name,
                value: rest.next().unwrap_or('.'),
                short: rest.next(),
                kind,
            }
        };
        let tables = [
            (NO_EFFECT, Kind::NoEffect),
            (MODELLED, Kind::Modelled),
            (REFUSED, Kind::Refused),
        ];
        let rows =
            tables.map(|(table, kind)| table.split_whitespace().map(move |of| row(of, kind)));
        rows.into_iter().flatten().collect()
    }

    /// The option of this name, or the only one that begins so.
    fn long(name: &str) -> Result<Known, String> {
        let mut found = Known::all();
        found.retain(|known| known.name.starts_with(name));
        if let Some(exact) = found.iter().position(|known| known.name == name) {
            return Ok(found.swap_remove(exact));
        }
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => Err(format!("srun's option `--{name}` is not known")),
            (Some(_), false) => Err(format!("`--{name}` begins several of srun's options")),
        }
    }

    fn short(letter: char) -> Result<Known, String> {
        let mut all = Known::all().into_iter();
        let found = all.find(|known| known.short == Some(letter));
        found.ok_or(format!("srun's option `-{letter}` is not known"))
    }
}

#[cfg(test)]
mod tests;
