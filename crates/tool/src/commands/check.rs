//! `nic-placement check`: what an admin or a user would want to know before a step shows it: Slurm's release, the lines of
//! plugstack.conf, the node, and the variables of this environment.  The doctor judges; here it is read and printed.

mod caller;
mod facts;
mod health;
mod installed;
pub(super) use installed::release;
mod neighbours;

use super::page::{Page, Text};
use super::request::{self, NodeOptions};
use super::variables::ProgramEnvironment;
use super::{Failure, ending};
use clap::builder::PossibleValuesParser;
use nic_placement_core::config::{Admin, NodeFileUse, NodeSource};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::plan::Wish;
use nic_placement_core::step::NODE_NAME;
use nic_placement_core::topology::Topology;
use nic_placement_fleet::audit::report::{Finding, Level, Report};
use nic_placement_fleet::doctor::facts::{Caller, Installation};
use nic_placement_fleet::doctor::table::{CHECKS, Check, codes, widest_code};
use nic_placement_fleet::doctor::{Examined, examine};
use nic_placement_fleet::gather;
use nic_placement_formats::describe;
use nic_placement_node as node;
use nic_placement_node::discover::Scope;
use nic_placement_node::discover::root::Author;
use nic_placement_sys as sys;
use std::path::PathBuf;
use std::time::Duration;

const LOOKED_AT: &str = "What is looked at";
const OUTPUT: &str = "Output";

const WARN: u8 = 3;
const FAIL: u8 = 4;

/// what is wrong with Slurm's release, plugstack.conf, the node and this environment
///
/// Each line is ok, note (may be meant so, or is not known), warn (put it right) or fail (this node is worse than its kind:
/// drain it). Root learns more: users may not read all of a PCI function's configuration.
///
/// Ends with 0 at worst with a note, 3 with a warn, 4 with a fail; with 1 where no check could be made, and 2 where the command
/// line was not understood.
///
/// For slurm.conf's HealthCheckProgram, --health prints nothing, or one line of less than 100 plain characters, a reason for
/// scontrol. It ends in time, also where hardware does not answer. As root it leaves an empty lock file,
/// /run/nic-placement/.check.lock, so that no second check waits beside it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement check
  nic-placement check --off memlock,nic-slower
  nic-placement check --explain pcie-link
  srun -K0 -l -N 16 --ntasks-per-node=1 nic-placement check --json | nic-placement audit -
  nic-placement check --plugstack 90-nic-placement.conf --variable NCCL_IB_HCA=mlx5_1")]
pub(super) struct CheckOptions {
    #[command(flatten)]
    node: NodeOptions,
    /// this file, with what it includes, instead of the one that Slurm reads
    #[arg(long, value_name = "FILE", help_heading = LOOKED_AT)]
    plugstack: Option<PathBuf>,
    /// a variable to look at, instead of this environment; again for more
    #[arg(long, value_name = "NAME=VALUE", action = clap::ArgAction::Append, help_heading = LOOKED_AT)]
    variable: Vec<String>,
    /// checks to leave out, by their codes
    #[arg(long, value_name = "CODE,…", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(codes()), help_heading = LOOKED_AT)]
    off: Vec<String>,
    /// the only checks to make, by their codes
    #[arg(long, value_name = "CODE,…", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(codes()), conflicts_with = "off", help_heading = LOOKED_AT)]
    only: Vec<String>,
    /// the findings and the node's facts as versioned JSON, which `nic-placement audit` compares
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// nothing, or one line with what fails, for HealthCheckProgram and a drain reason
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    health: bool,
    /// print as --json, behind an empty line once the admin's settings are read: of --health, for its own process
    #[arg(long, hide = true, requires = "health")]
    settled: bool,
    /// the folder of the lock of --health, instead of the node file's: for a check beside this node's own
    #[arg(long, value_name = "FOLDER", hide = true, requires = "health")]
    lock: Option<PathBuf>,
    /// seconds after which --health says that the hardware does not answer (default 20)
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "health",
        default_value = "20"
    )]
    #[arg(hide_default_value = true, help_heading = OUTPUT)]
    #[arg(value_parser = request::number(1, 600))]
    within: u32,
    /// all checks and what they ask, and nothing else
    #[arg(long, conflicts_with_all = ["json", "health"], help_heading = OUTPUT)]
    list: bool,
    /// what one check reads, when it is what, why it matters, what to do
    #[arg(long, value_name = "CODE", value_parser = PossibleValuesParser::new(codes()))]
    #[arg(conflicts_with_all = ["json", "health", "list"], help_heading = OUTPUT)]
    explain: Option<String>,
}

impl CheckOptions {
    /// The folder of --health's lock: beside the node file, for root. A described node has no hardware to wait for.
    fn folder_of_the_lock(&self) -> Option<PathBuf> {
        let beside = PathBuf::from(NodeFileUse::default().path);
        let is_roots = self.node.source() == NodeSource::Live && sys::is_root();
        let beside = beside.parent().filter(|_| is_roots);
        self.lock.clone().or(beside.map(PathBuf::from))
    }

    fn is_on(&self, code: &str) -> bool {
        let has = |list: &[String]| list.iter().any(|of| of == code);
        has(&self.only) || self.only.is_empty() && !has(&self.off)
    }
}

pub(super) fn run(options: &CheckOptions, page: &mut Page) -> Result<(), Failure> {
    if let Some(check) = options.explain.as_deref().and_then(Check::of) {
        page.line(format!("{}: {}", check.code, check.title));
        page.blank();
        let rows = check.rows.iter();
        rows.for_each(|(word, text)| page.item(format!("{word:<8}"), *text));
        return Ok(());
    }
    if options.list {
        let checks = CHECKS.iter();
        checks.for_each(|check| page.item(column(check.code), check.title));
        return Ok(());
    }
    let present = request::variables(&options.variable)?;
    if options.health && !options.settled {
        let patience = Duration::from_secs(options.within.into());
        let folder = options.folder_of_the_lock();
        return health::run(patience, folder.as_deref(), page);
    }
    // another machine's node has neither this one's Slurm nor its environment
    let is_live = options.node.source() == NodeSource::Live;
    // programs of Slurm's and lldpd's may wait for much that is no hardware
    let asks = is_live && !options.settled;
    let mut installation = Installation::default();
    if asks && options.is_on(Check::RELEASE) {
        installation.slurm = Some(installed::release());
    }
    let admin = installed::lines(options.plugstack.as_deref(), is_live, &mut installation);
    let (topology, diagnostics) = match is_live {
        true => as_a_step_has_it(&admin, options, &mut installation)?,
        false => {
            let described = options.node.read()?;
            health::tell_settled(options.settled)?;
            described
        }
    };
    let wish = Wish {
        admin,
        ..Wish::default()
    };
    let plan = request::plan_here(topology, wish);
    let root = describe::root_of(&options.node.source());
    let read = |root| gather::facts(root, &plan.node);
    let facts = root.as_ref().map(read);
    let own = ProgramEnvironment::of_this_process().values();
    let takes_own = is_live && present.is_empty();
    let present = if takes_own { &own } else { &present };
    let here = is_live.then(caller::here);
    let subject = Examined {
        plan: &plan,
        diagnostics: &diagnostics,
        facts: facts.as_ref(),
        installation: &installation,
        caller: &Caller {
            doubts: caller::doubts(&plan, present, is_live),
            ..here.unwrap_or_default()
        },
    };
    let findings = examine(&subject, |code| options.is_on(code));
    let count = |level: Level| findings.iter().filter(|of| of.level == level).count();
    let (fail, warn) = (count(Level::Fail), count(Level::Warn));
    if options.json || options.settled {
        let slurms_name = own.get(NODE_NAME).filter(|_| is_live).cloned();
        let default = match (&installation.off, &installation.unasked) {
            (Some(_), _) => Some("nobody is placed".to_string()),
            (None, Some(said)) if said.is_empty() => Some("no default=".to_string()),
            (None, said) => said.as_ref().map(|said| {
                let said = said.iter().map(|(_, argument)| argument.as_str());
                said.collect::<Vec<_>>().join(" ")
            }),
        };
        let mut report = Report {
            fail,
            warn,
            default,
            findings,
            ..facts::report(&plan, root.as_ref(), slurms_name)
        };
        if asks {
            report.hear(&neighbours::neighbours().unwrap_or_default());
        }
        page.exact(&report.to_json());
    } else {
        let of_a_check = |one: &Finding, next: &Finding| one.code == next.code;
        findings.chunk_by(of_a_check).for_each(|of| print(of, page));
    }
    match (fail, warn) {
        (0, 0) => Ok(()),
        (0, _) => Err(ending(WARN, format!("check: {warn} warn"))),
        _ => Err(ending(FAIL, format!("check: {fail} fail, {warn} warn"))),
    }
}

fn column(code: &str) -> String {
    format!("{code:width$}  ", width = widest_code())
}

/// A line for each finding of a check, then the reason of a fault and the remedy, once for all.
fn print(findings: &[Finding], page: &mut Page) {
    let (mut why, mut remedy) = (None, None);
    for of in findings {
        let is_wrong = of.level >= Level::Warn;
        let level = Text::from(format!("{:<7}", of.level));
        page.item(level.then(column(&of.code)), of.text.as_str());
        why = why.or(of.why.as_ref().filter(|_| is_wrong));
        remedy = remedy.or(of.remedy.as_ref());
    }
    let margin = " ".repeat(9 + widest_code());
    for (word, text) in [("why", why), ("do", remedy)] {
        if let Some(text) = text {
            page.item(format!("{margin}{word:<5}"), text);
        }
    }
}

fn as_a_step_has_it(
    admin: &Admin,
    options: &CheckOptions,
    installation: &mut Installation,
) -> Result<(Topology, Vec<Diagnostic>), Failure> {
    // as the plugin does, which is root in a step; a description may lie on a file system of the network
    let described = (admin.source != NodeSource::Live)
        .then(|| node::read(&admin.source, Scope::Full, Author::Root));
    health::tell_settled(options.settled)?;
    let kept = installed::node_file(&admin.node_file, installation);
    let here = match kept {
        Some(kept) => Ok((kept.topology, kept.diagnostics)),
        None => options.node.read(),
    };
    match described {
        None => here,
        Some(Ok((mut described, mut diagnostics))) => {
            if !matches!(admin.source, NodeSource::Sysfs(_)) {
                diagnostics.extend(node::confirm(&mut described, &here?.0));
            }
            Ok((described, diagnostics))
        }
        Some(Err(why)) => {
            installation.no_node = Some(why.to_string());
            here
        }
    }
}
