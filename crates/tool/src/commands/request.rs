//! Options of several commands: the node, GPUs, words of the plugin's option, the admin's arguments that change a map.

use super::Failure;
use super::import::refuse_nothing;
use super::misunderstood::misunderstood;
use super::threads;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueHint};
use nic_placement_core::config::options::WORDS;
use nic_placement_core::config::{Admin, NodeSource};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::gpus::VARIABLES;
use nic_placement_core::libraries::{FileText, Present};
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::step::{Access, GpuGrant, STEP_GPUS, Step};
use nic_placement_core::topology::Scope;
use nic_placement_core::topology::{GpuIndex, Topology};
use nic_placement_formats::describe;
use nic_placement_launch::gpu_list::gpus_named;
use nic_placement_launch::machine_name::machine_named;
use nic_placement_launch::step;
use nic_placement_node::discover::root::Author;
use nic_placement_node::platform;
use nic_placement_process::devices::{self, DeviceFiles};
use nic_placement_process::node;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::mpsc::Receiver;

#[derive(clap::Args)]
#[command(next_help_heading = "Which node (without one of these, this one)")]
pub(super) struct NodeOptions {
    /// a built-in machine, also by a part of its name: `nic-placement machines` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "topology", value_parser = MachineName)]
    machine: Option<String>,
    /// a file of any format that `nic-placement import` reads
    ///
    /// A topology file, a snapshot, a directory or tar with sys/ and proc/ in it, XML of hwloc or of NCCL, or the text of
    /// nvidia-smi topo -m, rocm-smi --showtopo or amd-smi topology.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    topology: Option<String>,
}

impl NodeOptions {
    pub(super) fn source(&self) -> NodeSource {
        match (&self.machine, &self.topology) {
            (Some(name), _) => NodeSource::Machine(name.clone()),
            (None, Some(path)) => NodeSource::Topology(path.clone()),
            (None, None) => NodeSource::Live,
        }
    }

    pub(super) fn arguments(&self) -> Vec<OsString> {
        match (&self.machine, &self.topology) {
            (Some(name), _) => vec!["--machine".into(), name.into()],
            (None, Some(path)) => vec!["--topology".into(), path.into()],
            (None, None) => Vec::new(),
        }
    }

    pub(super) fn read(&self) -> Result<(Topology, Vec<Diagnostic>), Failure> {
        let read = describe::read_node(&self.source(), Scope::Full)?;
        match &self.topology {
            Some(path) if Path::new(path).is_dir() => refuse_nothing(path, &read.0)?,
            _ => {}
        }
        Ok(read)
    }
}

/// A node, also as the machine's name alone: `plan dgx-h100`.
#[derive(clap::Args)]
pub(super) struct NodeOrMachine {
    /// a built-in machine, as --machine
    #[arg(value_name = "MACHINE", conflicts_with_all = ["machine", "topology"], value_parser = MachineName)]
    first: Option<String>,
    #[command(flatten)]
    node: NodeOptions,
}

impl NodeOrMachine {
    pub(super) fn read(&self) -> Result<(Topology, Vec<Diagnostic>), Failure> {
        match &self.first {
            Some(name) => {
                let machine = NodeSource::Machine(name.clone());
                Ok(describe::read_node(&machine, Scope::Full)?)
            }
            None => self.node.read(),
        }
    }
}

#[derive(Clone)]
struct MachineName;

impl TypedValueParser for MachineName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let is_first = argument.is_some_and(Arg::is_positional);
        let parse = move |said: &str| {
            let name = machine_named(said);
            let word = said.split('=').next().unwrap_or_default();
            name.map(str::to_string).map_err(|why| match said {
                _ if !is_first => why,
                _ if WORDS.iter().any(|spec| spec.name == word) => {
                    format!("no machine, but a word: `--words {said}`")
                }
                _ if Path::new(said).exists() => {
                    format!("no machine, but a file: `--topology {said}`")
                }
                _ => why,
            })
        };
        parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(platform::names().map(PossibleValue::new)))
    }
}

/// Reads the node in a thread: that asks the cards.
pub(super) fn node_in_time(source: NodeSource) -> Receiver<Option<Topology>> {
    threads::answer_of(move || {
        describe::read_node(&source, Scope::Full)
            .ok()
            .map(|(topology, _)| topology)
    })
}

/// The plan of a step without words, on the node as steps have it.
pub(super) fn whole_node(topology: Topology, admin: Admin) -> Result<Plan, String> {
    let topology = match admin.source {
        NodeSource::Live => topology,
        // as the plugin, which is root
        _ => {
            node::read(&admin, Scope::Full, Author::Root)
                .map_err(|why| why.to_string())?
                .0
        }
    };
    let wish = Wish::new(admin, None, None);
    Ok(Plan::new(topology, wish, Step::default(), &|_| None))
}

/// The plan of a step without words; on this system of the NICs that a step finds.
pub(super) fn plan_here(topology: Topology, wish: Wish) -> Plan {
    let read = |_: &str| Some(FileText::default());
    let plan = Plan::new(topology, wish, Step::default(), &read);
    let devices = DeviceFiles::open(&plan.node);
    devices::without_missing(plan, &devices, &read)
}

/// Words that a plan refuses: they switch off, observe or report.
pub(super) const NOT_PLANNED: &[&str] = &["off", "observe", "help", "verbose", "dry-run"];

/// Options of all commands that make a map.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "What is asked for")]
pub(super) struct PlanOptions {
    /// words of srun's option, as rail,nics-per-task=2,bind=core (default: closest)
    #[arg(long, value_name = "WORDS", long_help = words_help("closest", NOT_PLANNED))]
    pub(super) words: Option<String>,
    #[command(flatten)]
    nics: Nics,
}

/// As arguments of plugstack.conf.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "What is asked for")]
pub(super) struct Nics {
    /// use only these NICs: names, PCI addresses or interfaces, with * and ?
    ///
    /// As the argument include= of plugstack.conf, which also takes subnets.
    #[arg(long, value_name = "LIST", action = clap::ArgAction::Append)]
    include: Vec<String>,
    /// never use these NICs
    #[arg(long, value_name = "LIST", action = clap::ArgAction::Append)]
    exclude: Vec<String>,
    /// the rails in their order, for the policy rail (default: the good NICs in PCI order)
    #[arg(long, value_name = "LIST", action = clap::ArgAction::Append)]
    rails: Vec<String>,
}

/// Help with all words but some; `default` holds without any.
pub(super) fn words_help(default: &str, but: &[&str]) -> String {
    let words = WORDS.iter().filter(|spec| !but.contains(&spec.name));
    let words: String = words
        .map(|spec| format!("\n  {:<22}  {}", spec.spelling(), spec.help))
        .collect();
    format!("words of srun's option, separated by commas (default: {default}){words}")
}

impl PlanOptions {
    /// The wish, and findings about it. `more` are other arguments of plugstack.conf.
    pub(super) fn wish(
        &self,
        more: &[(&str, &[String])],
    ) -> Result<(Wish, Vec<Diagnostic>), Failure> {
        // a plan binds no process, so it may say what it would bind on any machine
        let admin = Admin {
            trust_topology: true,
            ..Admin::default()
        };
        let words = self.words.as_deref();
        let mut wish = step::wish(words, admin).map_err(|bad| {
            misunderstood(format!("`--words {}`: {bad}", words.unwrap_or_default()))
        })?;
        let mut doubts = self.nics.add_to(&mut wish.admin)?;
        doubts.extend(add(&mut wish.admin, more)?);
        Ok((wish, doubts))
    }
}

impl Nics {
    /// Adds the lists to the admin's; returns findings about them.
    pub(super) fn add_to(&self, admin: &mut Admin) -> Result<Vec<Diagnostic>, Failure> {
        add(
            admin,
            &[
                ("include", &self.include),
                ("exclude", &self.exclude),
                ("rails", &self.rails),
            ],
        )
    }
}

fn add(admin: &mut Admin, arguments: &[(&str, &[String])]) -> Result<Vec<Diagnostic>, Failure> {
    let mut doubts = Vec::new();
    for (name, values) in arguments {
        for value in *values {
            doubts.extend(
                admin
                    .add(&format!("{name}={value}"))
                    .map_err(misunderstood)?,
            );
        }
    }
    Ok(doubts)
}

pub(super) fn variables(given: &[String]) -> Result<Present, Failure> {
    let expected =
        |text: &String| misunderstood(format!("`--variable {text}`: expected NAME=VALUE"));
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| expected(text))?;
        Ok((name.to_string(), value.to_string()))
    };
    given.iter().map(pair).collect()
}

/// A parser of whole numbers; its error names the bounds.
pub(super) fn number(least: u32, most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text
            .parse()
            .ok()
            .filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("expected a whole number from {least} to {most}"))
    }
}

/// GPUs by positions in PCI order (`0-3,5`) or PCI addresses, in the order given; without a list all of the node.
pub(super) fn gpus(
    option: &str,
    list: Option<&str>,
    topology: &Topology,
) -> Result<Vec<GpuIndex>, Failure> {
    let Some(list) = list else {
        return Ok(topology.gpu_indices().collect());
    };
    gpus_named(topology, list).map_err(|bad| misunderstood(format!("`{option} {list}`: {bad}")))
}

pub(super) struct GpuEvidence {
    variables: BTreeMap<&'static str, String>,
    /// `SLURM_STEP_GPUS`, the step's list, which counts for a task without a variable
    pub(super) step_gpus: Option<String>,
    /// GPUs whose device nodes the task may open, as with `--gpus`; `none`
    may_open: Option<String>,
}

impl GpuEvidence {
    /// Of each `--visible VAR=LIST`, and `--may-open`.
    pub(super) fn new(visible: &[String], may_open: Option<&str>) -> Result<GpuEvidence, Failure> {
        let known = VARIABLES.into_iter().chain([STEP_GPUS]);
        let mut variables = BTreeMap::new();
        for word in visible {
            let given = word.split_once('=').and_then(|(name, list)| {
                Some((
                    known.clone().find(|known| *known == name)?,
                    list.to_string(),
                ))
            });
            let Some((name, list)) = given else {
                let expected =
                    "expected VAR=LIST, with a VAR that `nic-placement plan --help` names";
                return Err(misunderstood(format!("`--visible {word}`: {expected}")));
            };
            if variables.insert(name, list).is_some() {
                return Err(misunderstood(format!("`--visible {name}=` is given twice")));
            }
        }
        let step_gpus = variables.remove(STEP_GPUS);
        Ok(GpuEvidence {
            variables,
            step_gpus,
            may_open: may_open.map(str::to_string),
        })
    }

    pub(super) fn grant(&self, topology: &Topology) -> Result<Option<GpuGrant>, Failure> {
        if self.variables.is_empty() && self.step_gpus.is_none() && self.may_open.is_none() {
            return Ok(None);
        }
        let access = match self.may_open.as_deref() {
            None => vec![Access::Unknown; topology.gpus.len()],
            Some(list) => {
                let open = match list {
                    "none" => Vec::new(),
                    list => gpus("--may-open", Some(list), topology)?,
                };
                let access = |gpu| {
                    if open.contains(&gpu) {
                        Access::Allowed
                    } else {
                        Access::Denied
                    }
                };
                topology.gpu_indices().map(access).collect()
            }
        };
        Ok(Some(GpuGrant {
            variables: self.variables.clone(),
            access,
        }))
    }
}
