//! `nic-placement agree`: compares the nodes of a job, before it runs for a week.

mod pmi;

use super::page::Page;
use super::request;
use super::variables::ProgramEnvironment;
use super::{Failure, ending};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::placement::agreement::Agreement;
use nic_placement_core::plan::Wish;
use nic_placement_core::step::{NODE_NAME, Step};
use nic_placement_fleet::agree::{Compared, NodeWord, compare};
use nic_placement_launch::caller::callers_author;
use nic_placement_launch::launched::PARTITION;
use nic_placement_launch::plugstack;
use nic_placement_process::admin;
use nic_placement_process::session::Session;
use nic_placement_program as program;
use std::path::PathBuf;
use std::time::Duration;

/// The status if nodes disagree, as of `check` on a node worse than its kind.
const DISAGREE: u8 = 4;

/// do the nodes of a job have the same GPUs and rails, in one order?
///
/// Each node decides alone: none sees that another has lost a NIC, has its rails in another order or subnet, or runs another
/// version. With a task for each node this compares them by Slurm's PMI-2: the first task names the nodes that differ from
/// most, in what, and what to write. IPv4 networks are not compared. Without Slurm it prints this node's word.
///
/// Ends with 0 where the nodes agree, or only NICs have other names; with 4 where one differs, and with 1 where they could not
/// be compared.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  srun -K --mpi=pmi2 --ntasks-per-node=1 nic-placement agree || exit")]
pub(super) struct AgreeOptions {
    #[arg(hide = true)]
    files: Vec<PathBuf>,
    /// seconds that each node is waited for
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    #[arg(value_parser = request::number(1, 3600))]
    within: u32,
}

pub(super) fn run(options: &AgreeOptions, page: &mut Page) -> Result<(), Failure> {
    if !options.files.is_empty() {
        return Err("agree: reports are compared by `nic-placement audit FILE…`".into());
    }
    let Some(compared) = of_the_step(options.within)?.and_then(compare) else {
        return Ok(());
    };
    print(&compared, page);
    match compared.harmful() {
        0 => Ok(()),
        differing => {
            let said = format!(
                "agree: {differing} of {} do not fit the others",
                counted(compared.nodes, "node")
            );
            Err(ending(DISAGREE, said))
        }
    }
}

fn print(compared: &Compared, page: &mut Page) {
    let usual = &compared.usual;
    let rails: Vec<&str> = usual.rails.iter().map(|rail| rail.nic.as_str()).collect();
    let or_none = |text: &str| if text.is_empty() { "none" } else { text }.to_string();
    page.line(format!(
        "{} of {} agree: {}, GPUs {}, rails {}",
        compared.alike,
        counted(compared.nodes, "node"),
        usual.digest(),
        or_none(&usual.gpus),
        or_none(&rails.join(" "))
    ));
    for of in &compared.dissents {
        page.blank();
        page.line(&of.nodes);
        let differences = of.differences.iter();
        differences.for_each(|difference| page.item("    ", difference.as_str()));
        // to be copied whole
        let write = of.write.iter();
        write.for_each(|write| page.exact(&format!("    do   {write}\n")));
    }
}

/// The words of the step's tasks, in its first task alone.
fn of_the_step(within: u32) -> Result<Option<Vec<NodeWord>>, Failure> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    // before anything is opened here, so that the number means what Slurm gave
    let socket = number("PMI_FD")
        .and_then(|number| i32::try_from(number).ok())
        .map(program::given_socket)
        .transpose();
    let (rank, size) = (number("PMI_RANK"), number("PMI_SIZE"));
    let socket = match (socket, number("SLURM_NTASKS")) {
        (Ok(None), Some(tasks)) if tasks > 1 && number("SLURM_PROCID").is_some() => {
            return Err(
                "agree: the tasks of this step cannot talk to each other: write `srun --mpi=pmi2`"
                    .into(),
            );
        }
        (socket, _) => socket.map_err(|error| format!("agree: PMI_FD: {error}"))?,
    };
    let own = own_word()?;
    let (Some(socket), Some(rank), Some(size)) = (socket, rank, size) else {
        return Ok(Some(vec![own]));
    };
    // a space ends a value; inside of JSON's strings it can be written so
    let text = serde_json::to_string(&own)?.replace(' ', "\\u0020");
    let patience = Duration::from_secs(within.into());
    let gathered = pmi::Pmi::new(socket, rank, size, patience).and_then(|pmi| pmi.gather(&text));
    let texts = gathered.map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            format!("agree: a node has said nothing within {within} s, which may be its hardware")
        }
        _ => format!("agree: Slurm's PMI: {error}"),
    })?;
    let read = |(task, text): (usize, &String)| {
        let word: Option<NodeWord> = serde_json::from_str(text).ok();
        word.filter(NodeWord::is_plain)
            .ok_or_else(|| format!("agree: task {task} told nothing that can be read"))
    };
    let words: Option<Result<Vec<NodeWord>, String>> =
        texts.map(|texts| texts.iter().enumerate().map(read).collect());
    Ok(words.transpose()?)
}

fn own_word() -> Result<NodeWord, Failure> {
    let mut present = ProgramEnvironment::of_this_process().values();
    let (found, _) = plugstack::admin(None, present.get(PARTITION).map(String::as_str), |name| {
        std::env::var_os(name)
    });
    let wish = Wish {
        admin: found.admin,
        wordless: true,
        ..Wish::default()
    };
    let scope = wish.scope();
    let author = callers_author();
    let step = |_: &mut _, _: &_, _: Option<&_>| Ok::<_, Failure>((Step::default(), ()));
    let (session, ()) = Session::of_this_node(wish, scope, author, step)?;
    let (plan, _) = session.plan_here(false);
    let host = present.remove(NODE_NAME);
    Ok(NodeWord {
        host: host.unwrap_or_else(admin::hostname),
        agreement: Agreement::of(&plan.node, &plan.map),
    })
}
