//! Other releases of UCX: what holds for Debian 12's must hold for them, and what does not is said here.
//!
//! Each stands in the guests as /other/NAME (others.sh).  `mine` is one that
//! somebody unpacked beside the others, into `ucx/mine/usr` of the cache (releases.sh).

use crate::nodes::Nodes;
use crate::{Case, Command, cases};

/// The commands for each of these releases: a step's name, and its words.
macro_rules! commands {
    ($($name:literal),*) => { &[$(
        at!($name, "near.bare", "", "-n2", "pair.sh"),
        at!($name, "own.bare", "", "-n8 --ntasks-per-node=4", "pair.sh parts"),
        at!($name, "own", "", "-n8 --ntasks-per-node=4 --nic-placement", "pair.sh parts"),
        at!($name, "far.bare", "", "-n2 -c8 --cpu-bind=mask_cpu:0xf0", "pair.sh"),
        at!($name, "meet.bare", "", "-n2", "meet.sh 192.168.7.1"),
        at!($name, "meet.alone", "UCX_NET_DEVICES=mlx5_1:1", "-n2", "meet.sh 192.168.7.1"),
        at!($name, "meet", "", "-n2 --nic-placement", "meet.sh 192.168.7.1"),
        (
            concat!($name, ".put.slow"),
            concat!(
                "[ -d /other/", $name, " ] || exit 0; /guest/quick.sh 0 && UCX_RNDV_SCHEME=put_zcopy OTHER_ROOT=/other/", $name,
                " srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh; code=$?; /guest/quick.sh 1; exit $code"
            ),
        ),
        at!(
            $name, "lost.several", "TIMES=9999", "-n2 --nic-placement=numa", "pair.sh", "/guest/lost.sh rail1 "
        ),
    )*] };
}
macro_rules! at {
    ($name:literal, $step:literal, $set:literal, $words:literal, $program:literal $(, $before:literal)?) => {
        (
            concat!($name, ".", $step),
            concat!(
                "[ -d /other/", $name, " ] || exit 0; ", $set, " OTHER_ROOT=/other/", $name, " ", $($before,)?
                "srun -K -N2 --gpus-per-task=1 ", $words, " /guest/", $program
            ),
        )
    };
}

pub const COMMANDS: &[Command] = commands!["trixie", "mine", "sid"];

pub const CASES: &[Case] = cases![];
