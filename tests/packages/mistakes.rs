//! What an admin can do wrong, and the line that tells of it: a table in docs/admin.md, recorded from a real Slurm.

use super::{ACTIVATE, FIRST, LINE, NAMES, Root, path, text};
use std::fs;

/// One mistake: what was done, how it is done here, what shows it, and a word of the line.
struct Mistake {
    done: &'static str,
    how: &'static str,
    shown_by: &'static str,
    word: &'static str,
}

const fn mistake(
    done: &'static str,
    how: &'static str,
    shown_by: &'static str,
    word: &'static str,
) -> Mistake {
    Mistake {
        done,
        how,
        shown_by,
        word,
    }
}

/// A step that asks, and what the node's slurmd logged of it.
const STEP: &str = "srun -w n0 --nic-placement -n1 --gpus=1 true";
const CHECK: &str = "nic-placement check | sed -z 's/\\n  *\\([^ ]\\)/ \\1/g'";
/// On a node with GPUs.
const CHECK_OF_NODE: &str =
    "srun -w n0 -n1 nic-placement check | sed -z 's/\\n  *\\([^ ]\\)/ \\1/g'";

const MISTAKES: [Mistake; 17] = [
    mistake(
        "the package is not on the login node, or its line is not in plugstack.conf",
        "sed -i 's/^opt/#opt/' LINE",
        STEP,
        "unrecognized",
    ),
    mistake(
        "the library is not there, on the login node or on the compute node",
        "mv /usr/lib/nic-placement/libnic_placement.so /tmp/gone",
        STEP,
        "dlopen",
    ),
    mistake(
        "the same",
        "mv /usr/lib/nic-placement/libnic_placement.so /tmp/gone",
        CHECK,
        "plugin-file",
    ),
    mistake(
        "the path in the line is wrong",
        "sed -i 's/placement.so/plaecment.so/' LINE",
        CHECK,
        "no line",
    ),
    mistake(
        "no line in plugstack.conf",
        "sed -i 's/^opt/#opt/' LINE",
        CHECK,
        "no line",
    ),
    mistake(
        "two lines",
        "echo 'optional /usr/lib/nic-placement/libnic_placement.so' > /etc/slurm/plugstack.conf.d/99.conf",
        STEP,
        "provided by both",
    ),
    mistake(
        "the same",
        "echo 'optional /usr/lib/nic-placement/libnic_placement.so' > /etc/slurm/plugstack.conf.d/99.conf",
        CHECK,
        "twice",
    ),
    mistake(
        "pyxis comes later",
        "echo 'optional /usr/lib/spank_pyxis.so' > /etc/slurm/plugstack.conf.d/99.conf",
        CHECK,
        "pyxis stands",
    ),
    mistake(
        "an argument that does not exist",
        "sed -i 's/$/ deafult=closest/' LINE",
        STEP,
        "deafult",
    ),
    mistake(
        "`rollout=` without its %",
        "sed -i 's/$/ default=closest rollout=10/' LINE",
        STEP,
        "rollout",
    ),
    mistake(
        "`topology=` names no file",
        "sed -i 's,$, topology=/etc/slurm/node.json,' LINE",
        STEP,
        "node.json",
    ),
    mistake(
        "`conf=` names no file",
        "sed -i 's,$, conf=/etc/slurm/nic.conf,' LINE",
        STEP,
        "nic.conf",
    ),
    mistake(
        "others than root may write the configuration file",
        "echo default=observe > /etc/nic-placement.conf; chmod 664 /etc/nic-placement.conf",
        STEP,
        "nic-placement.conf`",
    ),
    mistake(
        "a line of it is wrong",
        "printf 'default=observe\\nNodeNames=n0 default=off\\n' > /etc/nic-placement.conf",
        STEP,
        "NodeNames",
    ),
    mistake(
        "a path for a partition",
        "echo 'PartitionName=all topology=/etc/node.json' > /etc/nic-placement.conf",
        STEP,
        "topology",
    ),
    mistake(
        "the switch was forgotten",
        "touch /etc/nic-placement.disabled",
        STEP,
        "disabled",
    ),
    mistake(
        "nothing writes the node file",
        ":",
        CHECK_OF_NODE,
        "node.cache",
    ),
];

/// A line of slurmd's log without its time and its step.
fn without_time(line: &str) -> &str {
    let mut rest = line;
    while let Some((_, after)) = rest
        .strip_prefix('[')
        .and_then(|inner| inner.split_once("] "))
    {
        rest = after;
    }
    rest
}

/// The line without what the guide says once, above the table, and without `check`'s reason and advice.
fn shortened(line: &str) -> String {
    let line = line.trim();
    let line = line.split(" why  ").next().unwrap_or(line);
    let line = line
        .trim_end_matches(": no step is placed until that is put right")
        .replace("nic-placement: this step runs without placement: ", "… ");
    // the lists of all that is known are long
    let short: String = line.chars().take(240).collect();
    let dots = if short.len() < line.len() { " …" } else { "" };
    short + dots
}

/// The rows: what was done, the program or the log that tells, and the line.
fn record(root: &Root) -> String {
    let mut table = "| mistake | told by | line |\n|---|---|---|\n".to_string();
    root.ok(&format!(
        "dpkg -i {FIRST} && {ACTIVATE} && cp {LINE} /tmp/line"
    ));
    for Mistake {
        done,
        how,
        shown_by,
        word,
    } in MISTAKES
    {
        root.ok(&format!(
            "{{ {}; }} && : > /var/log/slurm/slurmd.n0.log",
            how.replace("LINE", LINE)
        ));
        let said = text(&root.run(shown_by));
        // the step has ended when srun has; slurmd writes its last lines a moment later
        let log = root.ok("srun -w n0 -n1 true > /dev/null 2>&1; cat /var/log/slurm/slurmd.n0.log");
        root.ok(&format!(
            "cp /tmp/line {LINE}; if [ -e /tmp/gone ]; then mv /tmp/gone /usr/lib/nic-placement/libnic_placement.so; fi; rm -f /etc/slurm/plugstack.conf.d/99.conf /etc/nic-placement.conf /etc/nic-placement.disabled"
        ));
        let told = said.lines().find(|line| line.contains(word));
        let logged = log.lines().map(without_time).find(|line| {
            line.contains(word)
                && (line.contains("nic-placement: ") || line.contains("dlopen"))
                && !line.starts_with("debug")
        });
        let by = if shown_by == STEP { "srun" } else { "`check`" };
        assert!(
            told.or(logged).is_some(),
            "{}: {done}: nothing tells of it:\n{said}\n{log}",
            root.name
        );
        let logged = logged.filter(|_| shown_by == STEP);
        // both say the same, each after its own beginning
        let message = logged.map(|line| {
            line.trim_start_matches("error: ")
                .trim_start_matches("nic-placement: ")
        });
        let both = told
            .zip(message)
            .is_some_and(|(told, message)| told.trim().ends_with(message.trim()));
        let rows = match both {
            true => [("srun, slurmd's log", told), ("", None)],
            false => [(by, told), ("slurmd's log", logged)],
        };
        for (by, line) in rows {
            let Some(line) = line else { continue };
            let own = format!("{}/etc/plugstack.conf", root.dir.display());
            let line = line.replace(&own, "/etc/slurm/plugstack.conf");
            let cell = shortened(&line).replace('|', "\\|");
            let row = format!(" | {by} | `` {cell} `` |\n");
            table = match table.strip_suffix(&row) {
                // the mistake before shows the same line
                Some(before) => format!("{before}, or {done}{row}"),
                None => format!("{table}| {done}{row}"),
            };
        }
    }
    root.ok(&format!("dpkg -P {NAMES}"));
    table
}

pub fn each_mistake_prints_the_line_that_the_guide_shows(root: &Root) {
    let table = record(root);
    let (begin, end) = ("<!-- recorded: mistakes -->\n", "<!-- recorded: end -->");
    let guide = fs::read_to_string(path("docs/admin.md")).expect("the guide");
    let (before, rest) = guide.split_once(begin).expect("its mark");
    let (shown, after) = rest.split_once(end).expect("its end");
    if std::env::var_os("BLESS").is_some() && root.name == "trixie" {
        fs::write(
            path("docs/admin.md"),
            format!("{before}{begin}{table}{end}{after}"),
        )
        .unwrap();
    } else {
        assert!(table == shown, "{}: `BLESS=1` records\n{table}", root.name);
    }
}
