//! `nic-placement explain`: for each GPU and NIC what stands between them, what the GPU would get, and why it got or did
//! not get that NIC.
#![forbid(unsafe_code)]

use super::page::{Page, Style, Table, Text};
use super::request::{self, NodeOptions, PlanOptions};
use super::{Failure, shortfalls};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::libraries::FileText;
use nic_placement_core::placement::{NodePlacement, Pair};
use nic_placement_core::plan::Plan;
use nic_placement_core::policy::{Through, gbps};
use nic_placement_core::step::Step;
use nic_placement_core::topology::{GpuIndex, PathType, Topology};
use nic_placement_core::wish::Wish;
use nic_placement_launch::answers;
use nic_placement_launch::explain::Explain;

/// why each GPU got its NICs and none of the others
///
/// For each GPU and NIC it names the path, what the path lets through when no other GPU shares it, the GPUs that use the NIC, and
/// why the GPU got it or not. For a NIC that was not chosen it says what the node would lose if this GPU alone moved there. A line
/// below tells where the choice hangs on an estimate of what a kind of path lets through.
/// Ends with 1 where a strict word would fail a task with that GPU.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement explain --gpu 3
  nic-placement explain --machine dgx-h100 --gpu 3 --exclude mlx5_5")]
pub(super) struct ExplainOptions {
    #[command(flatten)]
    node: NodeOptions,
    /// one GPU, by its position in PCI order or its PCI address (default: all)
    #[arg(long, value_name = "N", help_heading = "What is asked for")]
    gpu: Option<String>,
    #[command(flatten)]
    request: PlanOptions,
    /// the same as versioned JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(super) fn run(options: &ExplainOptions, page: &mut Page) -> Result<(), Failure> {
    let (wish, _) = options.request.wish(&[])?;
    let (topology, diagnostics) = options.node.read()?;
    let gpus = match &options.gpu {
        Some(word) => vec![request::gpu("--gpu", word, &topology)?],
        None => topology.gpu_indices().collect(),
    };
    let plan = Plan::new(topology, wish, Step::default(), &|_| {
        Some(FileText::default())
    });
    let explained: Vec<(GpuIndex, Vec<Pair>)> =
        gpus.iter().map(|&gpu| (gpu, plan.explain(gpu))).collect();
    let lack = |(gpu, _): &(GpuIndex, _)| (gpu.0 as u32, answers::shortfalls_of(&plan, *gpu));
    let lacking: shortfalls::Shortfalls = explained.iter().map(lack).collect();
    if options.json {
        page.exact(&answers::explanation(&plan, &explained));
        return shortfalls::verdict("explain", "a task with GPU", &plan, &lacking);
    }
    if explained.is_empty() {
        page.line(format_args!(
            "{} ({}) has no GPU",
            plan.node.name, plan.node.provenance
        ));
    }
    let others = under_other_estimates(&plan);
    for (gpu, pairs) in &explained {
        page.line(heading(&plan, *gpu));
        page.table(&table(&plan.node, &plan.map, pairs));
        let own = nics(&plan.node, &plan.map, *gpu);
        let differs = |(_, map): &&(String, NodePlacement)| nics(&plan.node, map, *gpu) != own;
        if let Some((estimate, map)) = others.iter().find(differs) {
            page.line(format_args!(
                "  an estimate decides this: with {estimate} it would get {}",
                nics(&plan.node, map, *gpu)
            ));
        }
    }
    page.legend(
        explained
            .iter()
            .flat_map(|(_, pairs)| pairs)
            .filter_map(|pair| pair.path),
    );
    shortfalls::lines("GPU", &lacking, page);
    page.notes(diagnostics.iter().chain(&plan.map.diagnostics));
    shortfalls::verdict("explain", "a task with GPU", &plan, &lacking)
}

fn heading(plan: &Plan, gpu: GpuIndex) -> Text {
    let address = plan.node.gpu(gpu).address;
    let address = address
        .described()
        .map(|address| format!(" {address}"))
        .unwrap_or_default();
    let own = nics(&plan.node, &plan.map, gpu);
    let numa_node = plan
        .map
        .gpu(gpu)
        .numa_node
        .map_or("an unknown NUMA node".to_string(), |node| {
            format!("NUMA node {node}")
        });
    Text::styled(
        format_args!("GPU {gpu}{address} on {numa_node}: {own}"),
        Style::Heading,
    )
}

/// A GPU's NICs, best first.
fn nics(node: &Topology, map: &NodePlacement, gpu: GpuIndex) -> String {
    let own = map
        .gpu(gpu)
        .choices
        .iter()
        .map(|choice| map.rail(choice.rail).to_string());
    let own: Vec<String> = own.collect();
    if own.is_empty() {
        shortfalls::no_nic(node).to_string()
    } else {
        own.join(" ")
    }
}

/// The maps at the measured bounds of each kind of path, one at a time, where the admin has not said what it lets
/// through.
fn under_other_estimates(plan: &Plan) -> Vec<(String, NodePlacement)> {
    let mut maps = Vec::new();
    for (path, (least, most)) in PathType::ALL.into_iter().zip(Through::MEASURED) {
        let mine = plan.wish.admin.through.of(path);
        let is_estimate = mine == Through::default().of(path);
        for bound in [least, most]
            .into_iter()
            .filter(|bound| is_estimate && *bound != mine)
        {
            let mut wish = Wish::clone(&plan.wish);
            wish.admin.through.set(path, bound);
            let node = plan.node.as_ref().clone();
            let other = Plan::new(
                node,
                wish,
                plan.step.clone(),
                &|_| Some(FileText::default()),
            );
            maps.push((
                format!("{path} at {} % and not {} %", bound / 10, mine / 10),
                other.map,
            ));
        }
    }
    maps
}

fn table(topology: &Topology, node: &NodePlacement, pairs: &[Pair]) -> Table {
    let mut table = Table::indented(2);
    for pair in pairs {
        let name = match pair.port {
            Some(port) => format!("{}:{port}", pair.nic),
            None => pair.nic.clone(),
        };
        let users = match pair.users {
            0 => "unused".to_string(),
            users => counted(users, "GPU"),
        };
        let may_be_chosen =
            pair.alone_mbps.is_some() || node.rails.iter().any(|rail| rail.to_string() == name);
        let verdict = match (pair.chosen, may_be_chosen) {
            _ if node.is_left_to_libfabric(topology, &pair.nic) => "left alone",
            (true, _) => "chosen",
            (false, true) => "not chosen",
            (false, false) => "left out",
        };
        table.row([
            name.into(),
            pair.path.map_or("-".into(), Text::of_path),
            pair.alone_mbps
                .map_or("-".into(), |rate| Text::from(gbps(rate)).unbroken()),
            Text::from(users).unbroken(),
            format!("{verdict}: {}", pair.why).into(),
        ]);
    }
    table
}
