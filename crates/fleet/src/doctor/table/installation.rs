//! The table's checks of what is installed.
#![forbid(unsafe_code)]

use super::super::{Check, installation as judge};
use crate::audit::report::Level::{Fail, Note, Ok, Warn};

pub(super) const SLURM: Check = Check {
    code: Check::RELEASE,
    title: "was the plugin tested with this release of Slurm?",
    reads: "what srun, slurmd or sinfo print for -V",
    rules: &[
        (Ok, "the release is one of the tested ones in docs/releases.md"),
        (Note, "the plugin answers to it and was not tested with it, or no program tells"),
        (Warn, "the plugin does not know it"),
    ],
    why: "Slurm refuses a plugin whose stamp is not its own release; the plugin answers to those that it knows",
    remedy: "install a version of nic-placement that knows the release, or build it with NIC_PLACEMENT_SLURM_RELEASE",
    source: "Slurm's src/common/spank.c and src/common/plugin.c: the release is compared when a plugin is loaded",
    judge: judge::slurm,
};

pub(super) const PLUGSTACK: Check = Check {
    code: "plugstack",
    title: "does plugstack.conf load the plugin, once?",
    reads: "slurm.conf's PlugStackConfig, plugstack.conf and the files that it includes",
    rules: &[
        (Ok, "one `optional` line loads it"),
        (Note, "no line does, there is no plugstack.conf, or the line is `required`"),
        (Warn, "a line or file cannot be read, or the plugin is listed twice"),
    ],
    why: "without a line no step is placed; with two each of srun's users is told of an option that is registered twice",
    remedy: "one line `optional libnic_placement.so` in plugstack.conf.d/90-nic-placement.conf",
    source: "spank(8), \"SPANK CONFIGURATION\"; Slurm's src/common/spank.c",
    judge: judge::plugstack,
};

pub(super) const PLUGSTACK_ORDER: Check = Check {
    code: "plugstack-order",
    title: "does the plugin stand after pyxis?",
    reads: "the lines of plugstack.conf in the order in which Slurm loads them",
    rules: &[(Ok, "it does"), (Warn, "pyxis comes after it")],
    why: "pyxis gives every task the environment that the container has in its first task, and so replaces what we set",
    remedy: "list nic-placement after pyxis: name its file 90-nic-placement.conf",
    source: "NVIDIA/pyxis, pyxis_slurmstepd.c, slurm_spank_task_init",
    judge: judge::plugstack_order,
};

pub(super) const PLUGIN_FILE: Check = Check {
    code: "plugin-file",
    title: "is the plugin's file there, on login nodes too?",
    reads: "the path of the plugin's line; where it has no folder, slurm.conf's PluginDir",
    rules: &[
        (Ok, "it is there"),
        (Warn, "it is not, and the line is `optional`"),
        (Fail, "it is not, and the line is `required`"),
    ],
    why: "srun, sbatch and salloc load it too: without it `--nic-placement` is an unknown option there, and a `required` line \
          ends every call of them",
    remedy: "install the package on login nodes as well, and keep the line `optional`",
    source: "spank(8); aws/aws-eda-slurm-cluster issue 259",
    judge: judge::plugin_file,
};

pub(super) const CONFIGLESS: Check = Check {
    code: "configless",
    title: "did a configless slurmd get the plugin's line?",
    reads: "/run/slurm/conf, where slurmd keeps what slurmctld sent, and the patterns of `include` there",
    rules: &[
        (Ok, "plugstack.conf is there, and each `include` with a slash means a file"),
        (
            Note,
            "an `include` means no file and the plugin is loaded all the same, or /etc/slurm/slurm.conf hides what was sent",
        ),
        (Warn, "an `include` means no file, and no line loads the plugin"),
    ],
    why: "slurmctld sends plugstack.conf at a start and at `scontrol reconfigure`, but no file that it includes by a path with a \
          slash, and not /etc/nic-placement.conf",
    remedy: "write the line into plugstack.conf itself, or install the included file on every node; then `scontrol reconfigure`",
    source: "Slurm's doc/html/configless_slurm.shtml and src/common/fetch_config.c",
    judge: judge::configless,
};

pub(super) const OWNER: Check = Check {
    code: "config-owner",
    title: "may only root say what root loads?",
    reads: "owner and mode of plugstack.conf, the files that it includes, the plugin, and the configuration file",
    rules: &[
        (Ok, "they are root's, and only root may write to them"),
        (Note, "another user or group may, such as Slurm's own"),
        (Warn, "everybody may"),
    ],
    why: "slurmstepd loads and obeys them as root",
    remedy: "chown root:root FILE; chmod go-w FILE",
    source: "Slurm's src/common/spank.c opens plugins as slurmstepd, which is root",
    judge: judge::owner,
};

pub(super) const CONFIGURATION: Check = Check {
    code: "configuration",
    title: "is what the admin says understood?",
    reads: "the plugin's arguments in plugstack.conf, /etc/nic-placement.conf with its lines for every node, the switch beside it",
    rules: &[
        (Ok, "it says this for steps that do not ask"),
        (Note, "placement is switched off, or lines name nodes and none of them this one"),
        (
            Warn,
            "a word is not understood, the file cannot be gone by, or the description of the node cannot be read",
        ),
    ],
    why: "a word that is not understood does nothing, and while the file cannot be gone by no step is placed",
    remedy: "correct the word that the line names; `srun --nic-placement=help` lists all",
    source: "nic-placement(8)",
    judge: judge::configuration,
};

pub(super) const NODE_FILE: Check = Check {
    code: "node-file",
    title: "does a step have the node without asking hardware?",
    reads: "the node file, /run/nic-placement/node.cache or what `node-file=` says, and what the kernel has registered",
    rules: &[
        (Ok, "a step would use it"),
        (Note, "there is none, the admin wants none, or a device came or went since"),
        (Warn, "it is too old, broken, or not root's"),
    ],
    why: "without it each step asks the NICs' firmware, and a sick card can hold a step for a minute",
    remedy: "nic-placement refresh, by nic-placement-watch.service or the timer; if it is too old, see why that has stopped",
    source: "the kernel's drivers/infiniband/core/sysfs.c: `state` and `rate` ask the card's firmware",
    judge: judge::node_file,
};
