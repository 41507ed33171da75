//! For GPUs and each NIC the path, what the GPU would get, and why it got or did not get that NIC.

use crate::commands::page::{Page, Table, Text};
use crate::commands::{Failure, shortfalls};
use nic_placement_core::diagnostic::{Diagnostic, counted};
use nic_placement_core::plan::Plan;
use nic_placement_core::policy::gbps;
use nic_placement_core::topology::GpuIndex;
use nic_placement_launch::answers;
use nic_placement_launch::explain::{self, Pair};

pub(super) fn explain(
    plan: &Plan,
    gpus: &[GpuIndex],
    json: bool,
    diagnostics: &[Diagnostic],
    page: &mut Page,
) -> Result<(), Failure> {
    let explained = gpus
        .iter()
        .map(|&gpu| (gpu, explain::pairs(&plan.node, &plan.map, &plan.wish, gpu)));
    let explained: Vec<(GpuIndex, Vec<Pair>)> = explained.collect();
    let lack = |gpu: &GpuIndex| (gpu.0 as u32, answers::shortfalls_of(plan, *gpu));
    let lacking: shortfalls::Shortfalls = gpus.iter().map(lack).collect();
    if json {
        page.exact(&answers::explanation(plan, gpus));
        return shortfalls::verdict("show", "a task with GPU", plan, &lacking);
    }
    if gpus.is_empty() {
        let (name, from) = (&plan.node.name, &plan.node.provenance);
        page.line(format_args!("{name} ({from}) has no GPU"));
    }
    for (gpu, pairs) in &explained {
        page.line(heading(plan, *gpu));
        page.table(&table(plan, pairs));
    }
    let pairs = explained.iter().flat_map(|(_, pairs)| pairs);
    page.legend(pairs.filter_map(|pair| pair.path));
    shortfalls::lines("GPU", &lacking, page);
    page.notes(diagnostics.iter().chain(&plan.map.diagnostics));
    shortfalls::verdict("show", "a task with GPU", plan, &lacking)
}

/// With the GPU's NICs, best first.
fn heading(plan: &Plan, gpu: GpuIndex) -> String {
    let Plan { node, map, .. } = plan;
    let address = node.gpu(gpu).address.described();
    let address = address.map_or(String::new(), |address| format!(" {address}"));
    let numa_node = map.gpu(gpu).numa_node;
    let numa_node = numa_node.map_or("an unknown NUMA node".to_string(), |node| {
        format!("NUMA node {node}")
    });
    let own = map.gpu(gpu).choices.iter();
    let own: Vec<String> = own
        .map(|choice| map.rail(choice.rail).to_string())
        .collect();
    let nics = match own.is_empty() {
        true => shortfalls::no_nic(node).to_string(),
        false => own.join(" "),
    };
    format!("GPU {gpu}{address} on {numa_node}: {nics}")
}

fn table(plan: &Plan, pairs: &[Pair]) -> Table {
    let mut table = Table::indented(2);
    for pair in pairs {
        let port = pair.port.map_or(String::new(), |port| format!(":{port}"));
        let name = format!("{}{port}", pair.nic);
        let users = match pair.users {
            0 => "unused".to_string(),
            users => counted(users, "GPU"),
        };
        let mut rails = plan.map.rails.iter();
        let verdict = if plan.map.is_left_to_libfabric(&plan.node, &pair.nic) {
            "left alone"
        } else if pair.chosen {
            "chosen"
        } else if pair.alone_mbps.is_some() || rails.any(|rail| rail.to_string() == name) {
            "not chosen"
        } else {
            "left out"
        };
        let alone = pair.alone_mbps.map_or("-".to_string(), gbps);
        table.row([
            name.into(),
            pair.path.map_or("-".into(), Text::from),
            Text::from(alone).unbroken(),
            Text::from(users).unbroken(),
            format!("{verdict}: {}", pair.why).into(),
        ]);
    }
    table
}
