//! Readers on texts that real programs printed of `small.net`, a fabric that ibsim played to them.

mod lldp;

use super::super::cabling::{Cable, Cabling, SwitchPort};
use super::{SourceKind, read};

const IBNETDISCOVER: &str = include_str!("tests/ibnetdiscover.txt");
const GROUPED: &str = include_str!("tests/ibnetdiscover-g-f.txt");

fn cabling(text: &str) -> (SourceKind, Cabling) {
    let mut cabling = Cabling::default();
    let kind = read("fabric.txt", text, &mut cabling).unwrap();
    (kind, cabling)
}

/// `node1 mlx5_0:1 0000000a00000001 -> leaf0:1`
fn shown(cabling: &Cabling, cable: &Cable) -> String {
    let nic = &cable.nic;
    let guid = nic.guid.as_deref().unwrap_or("?");
    let to = cable.to.as_ref().map(|to| end(cabling, to));
    let to = to.unwrap_or("?".to_string());
    format!("{} {}:{} {guid} -> {to}", nic.node, nic.nic, nic.port)
}

fn end(cabling: &Cabling, end: &SwitchPort) -> String {
    format!("{}:{}", cabling.switches[&end.switch], end.port)
}

fn cables(cabling: &Cabling) -> Vec<String> {
    let cables = cabling.cables.iter();
    cables.map(|cable| shown(cabling, cable)).collect()
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
    let unnamed = cabling.unnamed.iter().map(|cable| shown(&cabling, cable));
    assert!(unnamed.eq([" 0000000a00003001:1 0000000a00003001 -> leaf 1:3"]));
    assert!(cabling.tells_trunks);
    let trunks = cabling.trunks.iter();
    let trunks = trunks.map(|(one, other)| [one, other].map(|of| end(&cabling, of)).join(" - "));
    assert!(trunks.eq([
        "leaf0:7 - spine/S01/U1:1",
        "leaf0:8 - spine/S01/U1:2",
        "leaf 1:7 - spine/S01/U1:3",
    ]));
    let switches = ["0000000000900000", "0000000000910000", "0000000000b00000"];
    assert!(cabling.switches.keys().eq(&switches));
    let [note] = &cabling.notes[..] else {
        panic!("{:?}", cabling.notes)
    };
    assert!(note.contains("names no node: 1"));
}

#[test]
fn groups_and_full_information_tell_the_same_fabric() {
    let (_, expected) = cabling(IBNETDISCOVER);
    let kind = SourceKind::Ibnetdiscover;
    assert_eq!(cabling(GROUPED), (kind, expected.clone()));
    let mut both = expected.clone();
    read("fabric.txt", GROUPED, &mut both).unwrap();
    assert_eq!(both.cables, expected.cables);
    assert_eq!(both.trunks, expected.trunks);
}

#[test]
fn links_of_routers_and_between_nics_are_left_out() {
    let stanza = "rtguid=0xc00000000\nRt\t2 \"R-0000000c00000000\"\t\t# \"router\"\n[1](c00000001) \t\"S-0000000000b00000\"[5]\t\t\
        # lid 0 lmc 0 \"MF0;spine:CS9500/S01/U1\" lid 3 4xSDR\n";
    let (_, routed) = cabling(stanza);
    let direct = "caguid=0x1\nCa\t1 \"H-1\"\t\t# \"n1 mlx5_0\"\n[1](1) \t\"H-2\"[1](2)\t\t# lid 1 lmc 0 \"n2 mlx5_0\" lid 2 4xEDR\n";
    let (_, direct) = cabling(direct);
    for (found, note) in [
        (routed, "links of routers"),
        (direct, "links from NIC to NIC"),
    ] {
        assert!(found.cables.is_empty() && found.trunks.is_empty());
        assert!(found.notes.len() == 1 && found.notes[0].contains(note));
    }
}

#[test]
fn what_is_odd_in_a_text_is_noted_and_costs_nothing_else() {
    let twin = IBNETDISCOVER.replace("\"node3 mlx5_0\"", "\"node1 mlx5_0\"") + "SW 1\nmore\n";
    let (_, cabling) = cabling(&twin);
    assert_eq!(cabling.cables.len(), 5);
    let notes = cabling.notes.join("\n");
    for part in [
        "port 1 of `mlx5_0` of node `node1`",
        "line 79 is not understood: `SW 1`, and 1",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
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
    for text in [IBNETDISCOVER, GROUPED] {
        let renamed = text.replace("MF0;leaf0:MQM9700/U1", same);
        let (_, told) = cabling(&renamed.replace("leaf 1", same));
        let names = told.switches.values().take(2);
        let guids = ["0000000000900000", "0000000000910000"];
        assert!(names.eq(&guids.map(|guid| format!("{same} {guid}"))));
        assert_eq!(told.cables, cabling(text).1.cables);
    }
}

#[test]
fn a_text_of_no_known_format_is_named() {
    for text in [
        "",
        "hello\n",
        "Ca\t: 0x0000000a00003000 ports 1 devid 0x0 vendid 0x0 \"node1 mlx5_0\"\n",
        "CA     5  1 0x0000000a00000001 4x NDR - SW     1  1 0x0000000000900000 ( 'node1 mlx5_0' - 'leaf0' )\n",
        "Switch: 0x0000000000900000 leaf0:\n",
        "CA: node1 mlx5_0:\n",
        "SwitchName=leaf0 Nodes=n[01-02]\n",
        "- topology: a\n  tree:\n",
    ] {
        let mut cabling = Cabling::default();
        let why = read("a\u{1b}b", text, &mut cabling).unwrap_err();
        assert!(why.starts_with("`a\\u{1b}b` is no text"), "{why}");
        assert_eq!(cabling, Cabling::default());
    }
}
