//! A plan as a table of tasks, and its reasons.

use crate::commands::drawing::known_cpus;
use crate::commands::page::{Page, Table, Text};
use crate::commands::shortfalls::{self, named};
use nic_placement_core::libraries::caveats;
use nic_placement_core::placement::{Change, Variable};
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::topology::{Bitmap, PciAddress};
use nic_placement_launch::judge::uses::{Use, others};

pub(super) fn print(plan: &Plan, placed: &[TaskPlan], uses: &[Vec<Use>], page: &mut Page) {
    let Plan { node, map, .. } = plan;
    page.line(format_args!(
        "{} ({}), policy {}",
        node.name, node.provenance, map.policy
    ));
    let mut table = Table::headed(["task", "GPU", "address", "NIC and path", "CPUs", "memory"]);
    let rows = placed.iter().zip(uses);
    let rows = rows.map(|(task, uses)| (task, cells(plan, task, uses)));
    for (numbers, cells) in together(rows) {
        table.row([Text::from(ranges(numbers))].into_iter().chain(cells));
    }
    page.table(&table);
    let rails = placed.iter().flat_map(|task| &task.placement.rails);
    page.legend(rails.map(|(_, path)| *path));
    page.blank();
    let sets = together(placed.iter().map(|task| (task, names_set(&task.variables))));
    let are_alike = sets.len() == 1;
    for (numbers, names) in sets {
        let tasks = match are_alike {
            true => "every task".to_string(),
            false => named("task", numbers),
        };
        page.item(tasks + " sets ", names);
    }
    let value = |variable: &'_ Variable| match &variable.change {
        Change::Set(value) if variable.name == "NCCL_IB_HCA" => Some(value.clone()),
        _ => None,
    };
    let mut variables = placed.iter().flat_map(|task| &task.variables);
    if let Some(list) = variables.find_map(value) {
        page.line(format_args!("every task: NCCL_IB_HCA={list}"));
    }
    shortfalls::left_out(node, map, page);
    if let Some(task) = placed.first() {
        page.notes(caveats(node, &task.variables));
    }
}

fn cells(plan: &Plan, task: &TaskPlan, uses: &[Use]) -> Vec<Text> {
    let Plan { node, map, .. } = plan;
    let placement = &task.placement;
    let gpus = placement.gpus.iter().map(|gpu| gpu.0 as u32);
    let addresses = placement.gpus.iter().map(|&gpu| node.gpu(gpu).address);
    let nics = placement.rails.iter();
    let nics = nics.map(|(rail, path)| Text::from(format_args!("{} {path}", map.rail(*rail))));
    let none = match node.is_left_to_libfabric() {
        true => "libfabric chooses",
        false => "none",
    };
    // what a list of the user's own makes of it
    let nics = Text::joined(nics.map(Text::unbroken), ", ").or(none);
    let addresses = addresses.filter_map(PciAddress::described);
    vec![
        Text::from(ranges(gpus)).or("none"),
        Text::joined(addresses, ", ").or("-"),
        nics.then(others(uses)),
        known_cpus(node, placement).map_or("unknown".into(), Text::from),
        Text::from(&placement.mems).or("any"),
    ]
}

fn ranges(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().collect::<Bitmap>().to_string()
}

pub(super) fn reasons(placed: &[TaskPlan], page: &mut Page) {
    let all: Vec<Vec<String>> = placed.iter().map(TaskPlan::reasons).collect();
    let is_common =
        |reason: &&String| all.len() > 1 && all.iter().all(|reasons| reasons.contains(reason));
    let of_all: Vec<&String> = all.iter().take(1).flatten().filter(is_common).collect();
    let own = |reasons: &'_ Vec<String>| -> Vec<String> {
        let own = reasons.iter().filter(|reason| !is_common(reason));
        own.cloned().collect()
    };
    let groups = together(placed.iter().zip(all.iter().map(own)));
    let each = groups
        .into_iter()
        .map(|(numbers, own)| (named("task", numbers), own));
    let common = of_all.into_iter().cloned().collect();
    let all = [("every task".to_string(), common)].into_iter().chain(each);
    for (heading, reasons) in all.filter(|(_, reasons)| !reasons.is_empty()) {
        page.blank();
        page.line(heading);
        reasons.iter().for_each(|reason| page.indented(reason));
    }
}

fn together<'t, 'v: 't, T: PartialEq>(
    tasks: impl Iterator<Item = (&'t TaskPlan<'v>, T)>,
) -> Vec<(Vec<u32>, T)> {
    let mut groups: Vec<(Vec<u32>, T)> = Vec::new();
    for (task, own) in tasks {
        let number = task.placement.global_id;
        match groups.last_mut() {
            Some((numbers, last)) if *last == own => numbers.push(number),
            _ => groups.push((vec![number], own)),
        }
    }
    groups
}

fn names_set(variables: &[Variable]) -> String {
    let is_set = |variable: &&Variable| matches!(variable.change, Change::Set(_));
    let set = variables.iter().filter(is_set);
    let names: Vec<&str> = set.map(|variable| variable.name.as_ref()).collect();
    match names.is_empty() {
        true => "nothing".to_string(),
        false => names.join(" "),
    }
}
