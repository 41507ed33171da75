//! A plan as a table of tasks, and its reasons.

use crate::commands::drawing::known_cpus;
use crate::commands::page::{Page, Table, Text};
use crate::commands::shortfalls;
use nic_placement_core::libraries::caveats;
use nic_placement_core::placement::{Change, RailIndex, Variable};
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::topology::{Bitmap, PathType, PciAddress};
use nic_placement_launch::judge::uses::{Use, others};

pub(super) fn print(plan: &Plan, placed: &[TaskPlan], uses: &[Vec<Use>], page: &mut Page) {
    let Plan { node, map, .. } = plan;
    page.line(format_args!(
        "{} ({}), policy {}",
        node.name, node.provenance, map.policy
    ));
    let sets: Vec<String> = placed
        .iter()
        .map(|task| names_set(&task.variables))
        .collect();
    let sets_alike = sets.windows(2).all(|two| two[0] == two[1]);
    page.table(&table(
        plan,
        placed,
        uses,
        (!sets_alike).then_some(&sets[..]),
    ));
    let rails = placed.iter().flat_map(|task| &task.placement.rails);
    page.legend(rails.map(|(_, path)| *path));
    page.blank();
    if let Some(sets) = sets.first().filter(|_| sets_alike) {
        page.item("every task sets ", sets);
    }
    if let Some(list) = placed
        .iter()
        .find_map(|task| value(&task.variables, "NCCL_IB_HCA"))
    {
        page.line(format_args!("every task: NCCL_IB_HCA={list}"));
    }
    shortfalls::left_out(node, map, page);
    if let Some(task) = placed.first() {
        page.notes(caveats(node, &task.variables));
    }
}

fn table(plan: &Plan, placed: &[TaskPlan], uses: &[Vec<Use>], sets: Option<&[String]>) -> Table {
    let mut headings = vec!["task", "GPU", "address", "NIC and path", "CPUs", "memory"];
    headings.extend(sets.map(|_| "sets"));
    let nic_width = placed
        .iter()
        .filter_map(|task| match task.placement.rails.as_slice() {
            [(rail, _)] => Some(plan.map.rail(*rail).to_string().chars().count()),
            _ => None,
        });
    let nic_width = nic_width.max().unwrap_or(0);
    let rows = placed.iter().enumerate().map(|(index, task)| {
        let mut cells = cells(plan, task, &uses[index], nic_width);
        cells.extend(sets.map(|sets| Text::from(&sets[index])));
        (task, cells)
    });
    let mut table = Table::headed(&headings);
    for (numbers, cells) in together(rows) {
        table.row([Text::from(ranges(numbers))].into_iter().chain(cells));
    }
    table
}

fn cells(plan: &Plan, task: &TaskPlan, uses: &[Use], nic_width: usize) -> Vec<Text> {
    let Plan { node, map, .. } = plan;
    let placement = &task.placement;
    let gpus = placement
        .gpus
        .iter()
        .filter_map(|gpu| u32::try_from(gpu.0).ok());
    let addresses = placement.gpus.iter().map(|&gpu| node.gpu(gpu).address);
    let nic = |&(rail, path): &(RailIndex, PathType), width: usize| {
        let name = map.rail(rail).to_string();
        Text::from(format_args!("{name:<width$} "))
            .then(path)
            .unbroken()
    };
    let nics = match placement.rails.as_slice() {
        [] if node.is_left_to_libfabric() => Text::from("libfabric chooses").unbroken(),
        [] => "none".into(),
        [one] => nic(one, nic_width),
        several => Text::joined(several.iter().map(|rail| nic(rail, 0)), ", "),
    };
    // what a list of the user's own makes of it
    let nics = nics.then(others(uses));
    let addresses = addresses.filter_map(PciAddress::described).map(Text::from);
    vec![
        Text::from(ranges(gpus)).or("none"),
        Text::joined(addresses, ", ").or("-"),
        nics,
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
    let each = groups.into_iter().map(|(numbers, own)| {
        let word = if numbers.len() == 1 { "task" } else { "tasks" };
        (format!("{word} {}", ranges(numbers)), own)
    });
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

fn value<'a>(variables: &'a [Variable], name: &str) -> Option<&'a str> {
    variables
        .iter()
        .find_map(|variable| match &variable.change {
            Change::Set(value) if variable.name == name => Some(value.as_str()),
            _ => None,
        })
}
