//! What an admin can do wrong, and the line that tells of it: a table in docs/admin.md, recorded from a real Slurm.

use super::{ACTIVATE, FIRST, LINE, NAMES, Root, path, text};
use std::fs;

/// A step that asks, and what the node's slurmd logged of it.
const STEP: &str = "srun -w n0 --nic-placement -n1 --gpus=1 true";
const CHECK: &str = "nic-placement check | sed -z 's/\\n  *\\([^ ]\\)/ \\1/g'";

/// One mistake a line: its description, the command that makes it here, the command that shows it,
/// which is `step`, or `check` here or on a node with GPUs, and a word of the line.
const MISTAKES: &str = r"
the package is not on the login node, or its line is not in plugstack.conf | sed -i 's/^opt/#opt/' LINE | step | unrecognized
the library is not there, on the login node or on the compute node | mv LIBRARY /tmp/gone | step | dlopen
the same | mv LIBRARY /tmp/gone | check | plugin-file
the path in the line is wrong | sed -i 's/placement.so/plaecment.so/' LINE | check | no line
no line in plugstack.conf | sed -i 's/^opt/#opt/' LINE | check | no line
two lines | echo 'optional LIBRARY' > /etc/slurm/plugstack.conf.d/99.conf | step | provided by both
the same | echo 'optional LIBRARY' > /etc/slurm/plugstack.conf.d/99.conf | check | twice
pyxis comes later | echo 'optional /usr/lib/spank_pyxis.so' > /etc/slurm/plugstack.conf.d/99.conf | check | pyxis stands
an argument that does not exist | sed -i 's/$/ deafult=closest/' LINE | step | deafult
`rollout=` without its % | sed -i 's/$/ default=closest rollout=10/' LINE | step | rollout
`topology=` names no file | sed -i 's,$, topology=/etc/slurm/node.json,' LINE | step | node.json
`conf=` names no file | sed -i 's,$, conf=/etc/slurm/nic.conf,' LINE | step | nic.conf
others than root may write the configuration file | echo default=observe > CONF; chmod 664 CONF | step | nic-placement.conf`
a line of it is wrong | printf 'default=observe\nNodeNames=n0 default=off\n' > CONF | step | NodeNames
a path for a partition | echo 'PartitionName=all topology=/etc/node.json' > CONF | step | topology
the switch was forgotten | touch /etc/nic-placement.disabled | step | disabled
nothing writes the node file | : | check of n0 | node.cache
";
const LIBRARY: &str = "/usr/lib/nic-placement/libnic_placement.so";

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
    let line = line.trim_end_matches(": no step is placed until that is put right");
    let line = line.replace("nic-placement: this step runs without placement: ", "… ");
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
    for row in MISTAKES.trim().lines() {
        let [done, how, shown_by, word] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let how = how.replace("LINE", LINE).replace("LIBRARY", LIBRARY);
        let how = how.replace("CONF", "/etc/nic-placement.conf");
        root.ok(&format!("{{ {how}; }} && : > /var/log/slurm/slurmd.n0.log"));
        let said = text(&root.run(&match shown_by {
            "step" => STEP.to_string(),
            "check" => CHECK.to_string(),
            _ => format!("srun -w n0 -n1 {CHECK}"),
        }));
        // the step has ended when srun has; slurmd writes its last lines a moment later
        let log = root.ok("srun -w n0 -n1 true > /dev/null 2>&1; cat /var/log/slurm/slurmd.n0.log");
        root.ok(&format!(
            "cp /tmp/line {LINE}; if [ -e /tmp/gone ]; then mv /tmp/gone {LIBRARY}; fi
             rm -f /etc/slurm/plugstack.conf.d/99.conf /etc/nic-placement.conf /etc/nic-placement.disabled"
        ));
        let told = said.lines().find(|line| line.contains(word));
        let is_of_it = |line: &&str| {
            let is_ours = line.contains("nic-placement: ") || line.contains("dlopen");
            line.contains(word) && is_ours && !line.starts_with("debug")
        };
        let logged = log.lines().map(without_time).find(is_of_it);
        let is_step = shown_by == "step";
        let by = if is_step { "srun" } else { "`check`" };
        let is_told = told.or(logged).is_some();
        assert!(is_told, "{}: {done}:\n{said}\n{log}", root.name);
        let logged = logged.filter(|_| by == "srun");
        // both say the same, each after its own beginning
        let begins = ["error: ", "nic-placement: "];
        let message = logged.map(|line| {
            let all = begins.iter();
            all.fold(line, |line, begin| line.trim_start_matches(begin))
        });
        let both = told.zip(message);
        let both = both.is_some_and(|(told, message)| told.trim().ends_with(message.trim()));
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
        let guide = format!("{before}{begin}{table}{end}{after}");
        fs::write(path("docs/admin.md"), guide).unwrap();
    } else {
        assert!(table == shown, "{}: `BLESS=1` records\n{table}", root.name);
    }
}
