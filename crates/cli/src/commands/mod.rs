//! The admin's tool: shows, plans and records without Slurm what the plugin does with it.
#![forbid(unsafe_code)]

mod check;
mod evidence;
mod explain;
mod import;
mod plan;
mod plugstack;
mod show;
pub mod snapshot;

use crate::describe;
use nic_placement_core::config::NodeSource;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::discover::Scope;
use nic_placement_core::topology::Topology;
use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "\
nic-placement: which NIC, CPUs and memory each GPU task gets, and why

  nic-placement show      the node: NUMA nodes, GPUs, NICs, and how far each is from each
  nic-placement plan      what the tasks of a step would get
  nic-placement explain   why each GPU got its NICs and none of the others
  nic-placement check     what is wrong with Slurm's release, plugstack.conf, the node and this environment
  nic-placement snapshot  record the node as a text that tests and other machines can read
  nic-placement import    turn another program's file into a topology file
  nic-placement machines  list the built-in machines
  nic-placement help      this text

Which node (show, plan, explain, check, snapshot); without one of these, this one:
  --machine NAME          a built-in machine
  --topology FILE         a topology file, a snapshot, a directory or tar with sys/ and proc/, XML of hwloc or
                          NCCL, or the text of nvidia-smi topo -m

show:
  --json                  the topology as JSON, to edit and give to --topology or to the plugin's topology=

plan:
  --ntasks N              tasks on the node (default: one for each GPU)
  --gpus-per-task M       GPUs of each task, in PCI order; without it every task sees all of the allocation
  --gpus LIST             the allocation: indices (0-3,5) or PCI addresses (default: all GPUs)
  --visible VAR=LIST      what a task would get that has this variable, such as CUDA_VISIBLE_DEVICES; again for more
  --may-open LIST         ... and may open the device nodes of these GPUs alone (none: of no GPU)
  --words WORDS           words of the srun option, as rail,nics-per-task=2,bind=core (default: closest)
  --include LIST          use only these NICs       } names, PCI addresses or interfaces,
  --exclude LIST          never use these NICs      } with * and ?
  --rails LIST            the rails in their order  }
  --set NAME=TEMPLATE     } arguments of plugstack.conf
  --fabric WORD           }
  --variable NAME=VALUE   a variable that the tasks have already; again for more
  --json | --env          versioned JSON, or shell exports for each task

explain (and --words, --include, --exclude, --rails):
  --gpu N                 one GPU, by index or PCI address (default: all)
  --json                  the same for programs

check:
  --plugstack FILE        this file, with what it includes, instead of the one that Slurm reads
  --slurm TEXT            what srun --version prints, instead of asking it
  --variable NAME=VALUE   a variable to look at, instead of this environment; again for more

import FILE:
  --from WORD             what the file is: hwloc, nccl, smi, sysfs or json (default: what it looks like)
  --to WORD               what to write: json (default) or nccl
  -o, --output FILE       where to write it (default: stdout)

snapshot:
  --unpack FILE DIR       write a snapshot's files below DIR

The plugin's own words: srun --nic-placement=help
";

/// What ends a command: said on stderr, in one line.
type Failure = Box<dyn std::error::Error>;

/// Runs the tool; 0 done, 1 could not, 2 not understood.
pub fn main() -> ExitCode {
    let mut output = Vec::new();
    let result = run(lexopt::Parser::from_env(), &mut output);
    // a reader that has seen enough (`| head`) is no failure
    let written = io::stdout().write_all(&output);
    match (result, written) {
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
        (Ok(()), Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        (Ok(()), Err(error)) => {
            eprintln!("nic-placement: cannot write: {error}");
            ExitCode::FAILURE
        }
        (Err(failure), _) => {
            eprintln!("nic-placement: {failure}");
            match failure.is::<lexopt::Error>() {
                true => ExitCode::from(2),
                false => ExitCode::FAILURE,
            }
        }
    }
}

fn run(mut arguments: lexopt::Parser, output: &mut Vec<u8>) -> Result<(), Failure> {
    use lexopt::prelude::*;
    let command = match arguments.next()? {
        None | Some(Long("help") | Short('h')) => "help".to_string(),
        Some(Long("version") | Short('V')) => "version".to_string(),
        Some(Value(command)) => command.string()?,
        Some(other) => return Err(other.unexpected().into()),
    };
    match command.as_str() {
        "show" => show::run(arguments, output),
        "plan" => plan::run(arguments, output),
        "check" => check::run(arguments, output),
        "explain" => explain::run(arguments, output),
        "snapshot" => snapshot::run(arguments, output),
        "import" => import::run(arguments, output),
        "machines" => {
            for model in nic_placement_core::platform::MODELS {
                writeln!(output, "{:<14} {}", model.name, model.title)?;
            }
            Ok(())
        }
        "help" => Ok(output.write_all(HELP.as_bytes())?),
        "version" => Ok(writeln!(output, "nic-placement {}", env!("CARGO_PKG_VERSION"))?),
        other => {
            let known = "show, plan, explain, check, snapshot, import, machines, help";
            Err(lexopt::Error::from(format!("unknown command `{other}`, known: {known}")).into())
        }
    }
}

/// `--machine` and `--topology`, of which one at most may be given.
#[derive(Default)]
struct Node {
    source: NodeSource,
}

impl Node {
    fn take(&mut self, option: &str, value: String) -> Result<(), Failure> {
        if self.source != NodeSource::Live {
            return Err(lexopt::Error::from("only one of `--machine` and `--topology` can hold").into());
        }
        self.source = match option {
            "machine" => NodeSource::Machine(value),
            _ => NodeSource::Topology(value),
        };
        Ok(())
    }

    fn read(&self) -> Result<(Topology, Vec<Diagnostic>), Failure> {
        Ok(describe::read_node(&self.source, Scope::Full)?)
    }
}
