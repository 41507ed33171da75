//! Options of several commands: the node, GPUs, words of the plugin's option, the admin's arguments that change a map.

use super::Failure;
use super::import::refuse_nothing;
use super::misunderstood::misunderstood;
use super::threads;
use super::variables::ProgramEnvironment;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueHint};
use nic_placement_core::config::options::WORDS;
use nic_placement_core::config::{Admin, NodeSource};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::libraries::{FileText, Present};
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::step::Step;
use nic_placement_core::topology::Scope;
use nic_placement_core::topology::{GpuIndex, Topology};
use nic_placement_formats::describe;
use nic_placement_launch::gpu_list::gpus_named;
use nic_placement_launch::launched::{PARTITION, select_as_the_step_did};
use nic_placement_launch::machine_name::machine_named;
use nic_placement_launch::{plugstack, step};
use nic_placement_node::discover::root::Author;
use nic_placement_node::platform;
use nic_placement_process::devices::{self, DeviceFiles};
use nic_placement_process::node;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::mpsc::Receiver;

#[derive(clap::Args, Clone, Default)]
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

    /// The admin's settings for that node: `topology=` describes this one.
    pub(super) fn admin(&self) -> Admin {
        let mut admin = plugstack::admin(None, None, |name| std::env::var_os(name))
            .0
            .admin;
        if self.source() != NodeSource::Live {
            admin.source = NodeSource::Live;
        }
        admin
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
    fn node(&self) -> NodeOptions {
        let mut node = self.node.clone();
        node.machine = self.first.clone().or(node.machine);
        node
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
        let parse = |said: &str| machine_named(said).map(str::to_string);
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
const NOT_PLANNED: &[&str] = &["off", "observe", "help", "verbose", "dry-run"];

#[derive(clap::Args, Clone)]
#[command(next_help_heading = "What is asked for")]
pub(super) struct PlanOptions {
    /// words of srun's option, as rail,nics-per-task=2,bind=core (default: this node's default=, else closest)
    #[arg(long, value_name = "WORDS", long_help = words_help("this node's default=, else closest", NOT_PLANNED))]
    pub(super) words: Option<String>,
    #[command(flatten)]
    arguments: Arguments,
}

#[derive(clap::Args, Clone)]
#[command(next_help_heading = "What is asked for")]
pub(super) struct Arguments {
    /// an argument of plugstack.conf, beside this node's, as exclude=mlx5_5 or fabric=isolated-rails; again for more
    #[arg(long, value_name = "NAME=VALUE", action = clap::ArgAction::Append)]
    argument: Vec<String>,
}

impl Arguments {
    /// Adds them to the admin's; returns findings about them.
    pub(super) fn add_to(&self, admin: &mut Admin) -> Result<Vec<Diagnostic>, Failure> {
        let add = |argument: &String| admin.add(argument).map_err(misunderstood).transpose();
        self.argument.iter().filter_map(add).collect()
    }
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
    /// The wish, the node, and findings about both; of this node as a step here finds the admin's settings.
    pub(super) fn asked(
        &self,
        node: &NodeOrMachine,
    ) -> Result<(Wish, Topology, Vec<Diagnostic>), Failure> {
        let node = node.node();
        let (topology, mut findings) = node.read()?;
        let mut admin = Admin::default();
        if node.source() == NodeSource::Live {
            let present = ProgramEnvironment::of_this_process().values();
            let partition = present.get(PARTITION).map(String::as_str);
            let (found, knows_admin) =
                plugstack::admin(None, partition, |name| std::env::var_os(name));
            admin = found.admin;
            if !knows_admin {
                select_as_the_step_did(&mut admin, &present, &topology);
            }
            findings.extend(match found.off {
                Some(off) => vec![Diagnostic::new("a step here", off.to_string())],
                None => found.findings,
            });
        }
        // a plan binds no process, so it may say what it would bind on any machine
        (admin.source, admin.trust_topology) = (NodeSource::Live, true);
        findings.extend(self.arguments.add_to(&mut admin)?);
        if admin.source != NodeSource::Live {
            return Err(misunderstood("`--machine` or `--topology` names the node"));
        }
        let words = self.words.as_deref();
        let wish = step::wish(words, admin).map_err(|bad| {
            misunderstood(format!("`--words {}`: {bad}", words.unwrap_or_default()))
        })?;
        Ok((wish, topology, findings))
    }
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
