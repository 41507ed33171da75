//! PyTorch's torchrun, a node's part started by each task of srun, whose workers meet by gloo: nothing of ours disturbs it, and
//! `env=sockets` helps it where a node's name leads to an address that no other node reaches.

use crate::cases_ucx::{by, none};
use crate::nodes::{NODES, Nodes, Task};
use crate::{Case, Command, cases};

pub const COMMANDS: &[Command] = &[
    (
        "torchrun.bare",
        "srun -K -N2 -n2 --gpus-per-task=1 /guest/torch.sh",
    ),
    (
        "torchrun",
        "srun -K -N2 -n2 --gpus-per-task=1 --nic-placement /guest/torch.sh",
    ),
    (
        "astray.bare",
        "timeout 400 srun -K -N2 -n2 --gpus-per-task=1 --nic-placement /guest/torch.sh astray",
    ),
    (
        "astray",
        "srun -K -N2 -n2 --gpus-per-task=1 --nic-placement=env=default,sockets /guest/torch.sh astray",
    ),
];

pub const CASES: &[Case] = cases![
    a_training_of_two_nodes_over_gloo_comes_out_the_same_and_goes_the_same_way,
    where_names_lead_nowhere_gloo_fails_and_with_the_interface_of_slurm_it_trains,
];

/// The gradients of step.py's model are 271 KB, and it takes two steps; on its first a worker has sent no more.
const GRADIENTS: u64 = 2 * 270_000;

fn a_training_of_two_nodes_over_gloo_comes_out_the_same_and_goes_the_same_way(nodes: &Nodes) {
    if nodes.other("host").is_none() {
        println!("skipped: there is no `/usr/bin/torchrun`: tests/exec/install.sh");
        return;
    }
    let (bare, placed) = (nodes.tasks("torchrun.bare", 2), nodes.tasks("torchrun", 2));
    let learnt = |task: &Task| {
        (
            task.word("losses").to_string(),
            task.word("weights").to_string(),
        )
    };
    for (bare, placed) in bare.iter().zip(&placed) {
        assert_eq!(learnt(bare), learnt(placed));
    }
    assert_eq!(
        placed[0].word("weights"),
        placed[1].word("weights"),
        "both workers have the same"
    );
    assert_ne!(
        placed[0].word("losses"),
        placed[1].word("losses"),
        "of data that are not"
    );
    // the plugin was there, and said nothing of gloo's
    assert!(placed[0].word("ucx").starts_with("mlx5_1:1,"), "{placed:?}");
    for task in bare.iter().chain(&placed) {
        assert_eq!(task.word("gloo"), "-", "{task:?}");
    }
    for name in ["torchrun.bare", "torchrun"] {
        let sent = nodes.sent(name);
        for node in NODES {
            assert!(by(&sent, node, "eth0") > GRADIENTS, "{name}: {sent:?}");
            let rails = sent
                .iter()
                .filter(|((on, nic), _)| on == node && nic != "eth0");
            assert!(
                rails.into_iter().all(|(_, bytes)| none(*bytes)),
                "{name}: {sent:?}"
            );
        }
    }
}

fn where_names_lead_nowhere_gloo_fails_and_with_the_interface_of_slurm_it_trains(nodes: &Nodes) {
    if nodes.other("host").is_none() {
        println!("skipped: there is no `/usr/bin/torchrun`: tests/exec/install.sh");
        return;
    }
    let said = nodes.said("astray.bare");
    assert!(
        !nodes.succeeded("astray.bare") && said.contains("connect [127.0.1.1]"),
        "{said}"
    );
    let (told, usual) = (nodes.tasks("astray", 2), nodes.tasks("torchrun", 2));
    let sent = nodes.sent("astray");
    for (node, (task, usual)) in NODES.iter().zip(told.iter().zip(&usual)) {
        assert_eq!(task.word("gloo"), "GLOO_SOCKET_IFNAME", "{task:?}");
        assert_eq!(task.word("weights"), usual.word("weights"));
        assert!(by(&sent, node, "eth0") > GRADIENTS, "{sent:?}");
    }
}
