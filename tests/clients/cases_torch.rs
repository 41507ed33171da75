//! PyTorch's torchrun, a node's part started by each task of srun, whose workers meet by gloo: nothing of ours disturbs it, and
//! `env=sockets` helps it where a node's name leads to an address that no other node reaches.

use super::cases_address::assert_fails;
use super::cases_ucx::none;
use super::nodes::*;

pub const COMMANDS: &str = "\
torchrun.bare srun -K -N2 -n2 --gpus-per-task=1 /guest/torch.sh
torchrun srun -K -N2 -n2 --gpus-per-task=1 --nic-placement /guest/torch.sh
astray.bare timeout 400 srun -K -N2 -n2 --gpus-per-task=1 --nic-placement /guest/torch.sh astray
astray srun -K -N2 -n2 --gpus-per-task=1 --nic-placement=env=default,sockets /guest/torch.sh astray
";

pub const CASES: &[Case] = cases![
    a_training_of_two_nodes_over_gloo_comes_out_the_same_and_goes_the_same_way,
    where_names_lead_nowhere_gloo_fails_and_with_the_interface_of_slurm_it_trains,
];

/// The gradients of step.py's model are 271 KB, and it takes two steps; on its first a worker has sent no more.
const GRADIENTS: u64 = 2 * 270_000;

/// Is there a torchrun?
fn is_here(nodes: &Nodes) -> bool {
    let torchrun = std::path::Path::new("/usr/bin/torchrun");
    let is_here = nodes.other("host").is_some() && torchrun.is_file();
    if !is_here {
        println!("skipped: no `/usr/bin/torchrun` (tests/exec/install.sh)");
    }
    is_here
}

fn a_training_of_two_nodes_over_gloo_comes_out_the_same_and_goes_the_same_way(nodes: &Nodes) {
    if !is_here(nodes) {
        return;
    }
    let (bare, placed) = (nodes.tasks("torchrun.bare", 2), nodes.tasks("torchrun", 2));
    // of ours gloo is told nothing
    each(&bare, &placed, |bare, placed| {
        let is_same = |word| bare.said(word) == placed.said(word);
        is_same("losses")
            && is_same("weights")
            && [bare, placed].map(|task| task.said("gloo")) == ["-"; 2]
    });
    // both workers have the same, of data that are not
    let are_same = |word| placed[0].said(word) == placed[1].said(word);
    assert!(are_same("weights") && !are_same("losses"), "{placed:?}");
    assert!(placed[0].lists("mlx5_1:1,"), "{placed:?}");
    for name in ["torchrun.bare", "torchrun"] {
        let sent = nodes.sent(name);
        let is_so = |(_, nic): &(String, String), bytes| match nic.as_str() {
            "eth0" => bytes > GRADIENTS,
            _ => none(bytes),
        };
        let is_so = sent.0.iter().all(|(nic, bytes)| is_so(nic, *bytes));
        assert!(is_so, "{name}: {:?}", sent.0);
    }
}

fn where_names_lead_nowhere_gloo_fails_and_with_the_interface_of_slurm_it_trains(nodes: &Nodes) {
    if !is_here(nodes) {
        return;
    }
    assert_fails(nodes, "astray.bare", "connect [127.0.1.1]");
    let sent = nodes.sent("astray");
    each(
        &nodes.tasks("torchrun", 2),
        &nodes.tasks("astray", 2),
        |usual, task| {
            task.said("gloo") == "GLOO_SOCKET_IFNAME"
                && task.said("weights") == usual.said("weights")
                && sent.by(task.node(), "eth0") > GRADIENTS
        },
    );
}
