//! The readers of Slurm's two files, on texts as topology.conf(5), topology.yaml(5) and topograph write them.
#![forbid(unsafe_code)]

use super::super::{SourceKind, read};
use super::{Cabling, cabling};

const CONF: &str = "# a tree\nSwitchName=spine Switches=leaf[0-1]\nswitchname=leaf0 nodes=n[01-02] LinkSpeed=800 # rail\n\
    SwitchName=leaf1 \\\n Nodes=n[01,03].example.org\n";
const YAML: &str = "---\n- topology: ib\n  cluster_default: true\n  tree:\n    switches:\n        - switch: spine\n          \
    children: leaf[0-1]\n        - switch: leaf0\n          nodes: n[01-02]\n        - {switch: leaf1, nodes: [n01, n03]}\n\
    - topology: flat\n  flat: true\n";

fn leaves(fabric: &Cabling) -> Vec<String> {
    let leaves = fabric.leaves.iter();
    leaves
        .map(|(node, of)| {
            format!(
                "{node}: {}",
                of.iter().cloned().collect::<Vec<_>>().join(" ")
            )
        })
        .collect()
}

#[test]
fn both_files_tell_the_leaves_of_nodes_and_the_switches_above() {
    let names = CONF.replace("[01,03].example.org", "01,n03");
    let (kind, conf) = cabling(&names);
    assert_eq!(kind, SourceKind::SlurmConf);
    assert_eq!(
        leaves(&conf),
        ["n01: leaf0 leaf1", "n02: leaf0", "n03: leaf1"]
    );
    let above = [("leaf0", "spine"), ("leaf1", "spine")];
    assert_eq!(
        conf.parents,
        above
            .map(|(below, above)| (below.to_string(), above.to_string()))
            .into()
    );
    assert_eq!(conf.switches.len(), 3);
    assert!(!conf.tells_trunks);
    assert_eq!(conf.notes, [""; 0]);
    assert_eq!(
        cabling(CONF),
        (kind, conf.clone()),
        "domains are no part of names"
    );
    assert_eq!(cabling(YAML), (SourceKind::SlurmYaml, conf));
}

#[test]
fn blocks_are_groups_of_nodes_without_switches() {
    let conf = "# b1=nvl1\nBlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n3\nBlockSizes=2\n";
    let yaml = "- topology: nvl\n  block:\n    block_sizes:\n      - 2\n    blocks:\n    - block: b1\n      nodes: n[1-2]\n    - block: b2\n      nodes: n3\n";
    for text in [conf, yaml] {
        let (_, fabric) = cabling(text);
        assert_eq!(leaves(&fabric), ["n1: b1", "n2: b1", "n3: b2"]);
        assert!(fabric.switches.is_empty());
        assert_eq!(
            fabric.notes,
            ["fabric.txt: blocks of nodes, which name no switch: 2"]
        );
    }
}

#[test]
fn what_cannot_be_read_is_noted() {
    // as many ranges as names: each is looked at once
    let ranges: Vec<String> = (0..200_000).map(|nth| (2 * nth).to_string()).collect();
    let (_, many) = cabling(&format!("SwitchName=a Nodes=n[{}]\n", ranges.join(",")));
    assert_eq!(many.leaves.len(), 200_000);
    let deep = "- topology: ".to_string() + &"[".repeat(40);
    for (text, note) in [
        (
            "SwitchName=a Nodes=n[1-9999999]\n",
            "9999999 names, and at most 1048576",
        ),
        ("SwitchName=a Nodes=n[1\n", "has no `]`"),
        (
            "SwitchName=a Nodes=n1\nInclude other.conf\n",
            "line 2 is not understood: `Include other.conf`",
        ),
        ("- topology: a\n  tree: [\n", "not read to its end"),
        ("- topology: &a\n    b: *c\n", "not read to its end"),
        (&deep, "nested more than 32 deep"),
    ] {
        let mut fabric = Cabling::default();
        read("f", text, &mut fabric).unwrap();
        assert!(
            fabric.notes.iter().any(|line| line.contains(note)),
            "{text}: {:?}",
            fabric.notes
        );
    }
}
