//! Readers on texts that real programs printed of `small.net`, a fabric that ibsim played to them.
#![forbid(unsafe_code)]

mod lldp;
mod slurm;

use super::super::cabling::{Cable, Cabling, SwitchPort};
use super::{SourceKind, read};

const IBNETDISCOVER: &str = include_str!("tests/ibnetdiscover.txt");
const GROUPED: &str = include_str!("tests/ibnetdiscover-g-f.txt");
const PORTS: &str = include_str!("tests/ibnetdiscover-p.txt");
const IBLINKINFO: &str = include_str!("tests/iblinkinfo.txt");
const LINES: &str = include_str!("tests/iblinkinfo-l.txt");
const SWITCHES_ONLY: &str = include_str!("tests/iblinkinfo-switches-only.txt");

fn cabling(text: &str) -> (SourceKind, Cabling) {
    let mut cabling = Cabling::default();
    let kind = read("fabric.txt", text, &mut cabling).unwrap();
    (kind, cabling)
}

/// `node1 mlx5_0:1 0000000a00000001 -> leaf0:1`
fn shown(cabling: &Cabling, cable: &Cable) -> String {
    let nic = &cable.nic;
    let guid = nic.guid.as_deref().unwrap_or("?");
    let to = cable
        .to
        .as_ref()
        .map_or("?".to_string(), |to| end(cabling, to));
    format!("{} {}:{} {guid} -> {to}", nic.node, nic.nic, nic.port)
}

fn end(cabling: &Cabling, end: &SwitchPort) -> String {
    format!("{}:{}", cabling.switches[&end.switch], end.port)
}

fn cables(cabling: &Cabling) -> Vec<String> {
    cabling
        .cables
        .iter()
        .map(|cable| shown(cabling, cable))
        .collect()
}

#[test]
fn ibnetdiscover_tells_cables_switches_and_trunks() {
    let (kind, cabling) = cabling(IBNETDISCOVER);
    assert_eq!(kind, SourceKind::Ibnetdiscover);
    assert_eq!(
        cables(&cabling),
        [
            "node1 mlx5_0:1 0000000a00000001 -> leaf0:1",
            "node1 mlx5_0:2 0000000a00000002 -> leaf 1:1",
            "node2 HCA-2:1 0000000a00001011 -> leaf 1:2",
            "node2 mlx5_0:1 0000000a00001001 -> leaf0:2",
            "node3 mlx5_0:1 0000000a00002001 -> leaf0:3",
        ]
    );
    // the firmware's own description names no node; the switch's aggregation node is no NIC
    let unnamed: Vec<String> = cabling
        .unnamed
        .iter()
        .map(|cable| shown(&cabling, cable))
        .collect();
    assert_eq!(
        unnamed,
        [" 0000000a00003001:1 0000000a00003001 -> leaf 1:3"]
    );
    assert!(cabling.tells_trunks);
    let trunks: Vec<_> = cabling
        .trunks
        .iter()
        .map(|(one, other)| (end(&cabling, one), end(&cabling, other)))
        .collect();
    let expected = [
        ("leaf0:7", "spine/S01/U1:1"),
        ("leaf0:8", "spine/S01/U1:2"),
        ("leaf 1:7", "spine/S01/U1:3"),
    ];
    assert_eq!(
        trunks,
        expected.map(|(one, other)| (one.to_string(), other.to_string()))
    );
    let switches: Vec<&str> = cabling.switches.keys().map(String::as_str).collect();
    assert_eq!(
        switches,
        ["0000000000900000", "0000000000910000", "0000000000b00000"]
    );
    assert_eq!(cabling.notes.len(), 1, "{:?}", cabling.notes);
    assert!(
        cabling.notes[0].contains("names no node: 1"),
        "{:?}",
        cabling.notes
    );
}

#[test]
fn all_programs_and_options_tell_the_same_fabric() {
    let (_, expected) = cabling(IBNETDISCOVER);
    for (text, kind) in [
        (GROUPED, SourceKind::Ibnetdiscover),
        (PORTS, SourceKind::IbnetdiscoverPorts),
        (IBLINKINFO, SourceKind::Iblinkinfo),
        (LINES, SourceKind::Iblinkinfo),
    ] {
        assert_eq!(cabling(text), (kind, expected.clone()), "{kind:?}");
    }
    let mut both = expected.clone();
    read("fabric.txt", PORTS, &mut both).unwrap();
    assert_eq!(
        (&both.cables, &both.trunks),
        (&expected.cables, &expected.trunks)
    );
}

#[test]
fn iblinkinfo_of_switches_alone_tells_cables_without_guids() {
    let (_, cabling) = cabling(SWITCHES_ONLY);
    assert_eq!(
        cables(&cabling),
        [
            "node1 mlx5_0:1 ? -> leaf0:1",
            "node1 mlx5_0:2 ? -> leaf 1:1",
            "node2 HCA-2:1 ? -> leaf 1:2",
            "node2 mlx5_0:1 ? -> leaf0:2",
            "node3 mlx5_0:1 ? -> leaf0:3",
        ]
    );
    assert_eq!(cabling.trunks.len(), 3);
}

#[test]
fn a_port_that_is_known_without_a_link_is_told() {
    // the programs print these for ports whose far end did not answer; they ask no port of a NIC that nothing leads to
    let ports =
        "CA     0  2 0x0000000a00000002 4x SDR                                    'node1 mlx5_0'\n";
    let down = "CA: node1 mlx5_0:\n      0x0000000a00000002      0    2[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n";
    let silent = down.replace("           [  ] \"\" ( )", "    \"Port not available\"");
    for text in [ports, down, &silent] {
        let (_, cabling) = cabling(text);
        assert_eq!(
            cables(&cabling),
            ["node1 mlx5_0:2 0000000a00000002 -> ?"],
            "{text}"
        );
        assert_eq!(cabling.notes, [""; 0]);
    }
}

#[test]
fn links_of_routers_and_between_nics_are_left_out() {
    let stanza = "rtguid=0xc00000000\nRt\t2 \"R-0000000c00000000\"\t\t# \"router\"\n[1](c00000001) \t\"S-0000000000b00000\"[5]\t\t\
        # lid 0 lmc 0 \"MF0;spine:CS9500/S01/U1\" lid 3 4xSDR\n";
    let line = "RT     0  1 0x0000000c00000001 4x SDR - SW     3  5 0x0000000000b00000 ( 'router' - 'spine' )\n";
    let below = "Router: router:\n  0x0000000c00000001  0  1[  ] ==( 4X 2.5 Gbps Active/  LinkUp)==>  3  5[  ] \"spine\" ( )\n\
        Switch: 0x0000000000b00000 spine:\n  3  5[  ] ==( 4X 2.5 Gbps Active/  LinkUp)==>  0  1[  ] \"router\" ( )\n";
    for text in [stanza, line, below] {
        let (_, cabling) = cabling(text);
        assert!(
            cabling.cables.is_empty() && cabling.trunks.is_empty(),
            "{text}"
        );
        assert_eq!(cabling.notes, ["fabric.txt: links of routers are left out"]);
    }
    let direct = "CA 1 1 0x1 4x EDR - CA 2 1 0x2 ( 'n1 mlx5_0' - 'n2 mlx5_0' )\n";
    let (_, cabling) = cabling(direct);
    assert!(cabling.cables.is_empty());
    assert_eq!(
        cabling.notes,
        ["fabric.txt: links from NIC to NIC are left out"]
    );
}

#[test]
fn before_a_subnet_manager_runs_far_ends_may_be_ambiguous() {
    // no port has a LID yet, and two NICs have one description
    let text = "Switch: 0x0000000000900000 leaf:\n  0  1[  ] ==( 4X 2.5 Gbps Init/  LinkUp)==>  0  1[  ] \"localhost mlx5_0\" ( )\n  \
        0  2[  ] ==( 4X 2.5 Gbps Init/  LinkUp)==>  0  1[  ] \"localhost mlx5_0\" ( )\nCA: localhost mlx5_0:\n  0x1  0  1[  ] \
        ==( 4X 2.5 Gbps Init/  LinkUp)==>  0  1[  ] \"leaf\" ( )\nCA: localhost mlx5_0:\n  0x2  0  1[  ] \
        ==( 4X 2.5 Gbps Init/  LinkUp)==>  0  2[  ] \"leaf\" ( )\n";
    let (_, cabling) = cabling(text);
    let told: Vec<String> = cabling
        .unnamed
        .iter()
        .map(|cable| shown(&cabling, cable))
        .collect();
    let guid = |end: u8| format!("000000000000000{end}");
    let expected = [1, 2].map(|port| format!(" {0}:1 {0} -> leaf:{port}", guid(port)));
    assert_eq!(told, expected);
    let notes = cabling.notes.join("\n");
    assert!(
        notes.contains("far ends of 2 links are not known"),
        "{notes}"
    );
}

#[test]
fn what_is_odd_in_a_text_is_noted_and_costs_nothing_else() {
    let twin = PORTS.replace("'node3 mlx5_0'", "'node1 mlx5_0'") + "SW 1\nmore\n";
    let (_, cabling) = cabling(&twin);
    assert_eq!(cabling.cables.len(), 5);
    let notes = cabling.notes.join("\n");
    assert!(
        notes.contains("two NICs of different GUIDs are port 1 of `mlx5_0` of node `node1`"),
        "{notes}"
    );
    assert!(
        notes.contains("line 29 is not understood: `SW 1`, and 1 more lines"),
        "{notes}"
    );
}

#[test]
fn a_node_name_map_renames_no_node() {
    let renamed = IBNETDISCOVER.replace("# \"node3 mlx5_0\" lid", "# \"storage\" lid");
    assert_ne!(renamed, IBNETDISCOVER);
    assert_eq!(cabling(&renamed), cabling(IBNETDISCOVER));
}

#[test]
fn switches_of_one_description_are_told_apart() {
    let same = "SwitchIB Mellanox Technologies";
    let renamed = |text: &str| {
        text.replace("MF0;leaf0:MQM9700/U1", same)
            .replace("leaf 1", same)
    };
    for text in [IBNETDISCOVER, PORTS, IBLINKINFO, LINES] {
        let (_, told) = cabling(&renamed(text));
        let names: Vec<&str> = told.switches.values().map(String::as_str).collect();
        assert_eq!(
            names[..2],
            [
                format!("{same} 0000000000900000"),
                format!("{same} 0000000000910000")
            ]
        );
        assert_eq!(told.cables, cabling(text).1.cables);
    }
    // with --cas-only no line says a switch's GUID
    let cas: Vec<&str> = IBLINKINFO
        .lines()
        .filter(|line| line.starts_with("CA") || line.starts_with("      0x"))
        .collect();
    let (_, told) = cabling(&renamed(&cas.join("\n")));
    let keys: Vec<&str> = told.switches.keys().map(String::as_str).collect();
    assert_eq!(keys, [format!("{same}, LID 1"), format!("{same}, LID 2")]);
    assert_eq!((told.cables.len(), told.notes.len()), (5, 1));
}

#[test]
fn a_text_of_no_known_format_is_named() {
    for text in [
        "",
        "hello\n",
        "Ca\t: 0x0000000a00003000 ports 1 devid 0x0 vendid 0x0 \"node1 mlx5_0\"\n",
    ] {
        let mut cabling = Cabling::default();
        let why = read("a\u{1b}b", text, &mut cabling).unwrap_err();
        assert!(
            why.starts_with("`a\\u{1b}b` is no text of `ibnetdiscover`"),
            "{why}"
        );
        assert_eq!(cabling, Cabling::default());
    }
}
