//! Readers on texts that real programs printed of `small.net`, a fabric that ibsim played to them.

mod lldp;

use super::super::cabling::{Cable, Cabling, SwitchPort};
use super::read;

const IBNETDISCOVER: &str = include_str!("tests/ibnetdiscover.txt");
const GROUPED: &str = include_str!("tests/ibnetdiscover-g-f.txt");

fn cabling(text: &str) -> Cabling {
    let mut cabling = Cabling::default();
    read("fabric.txt", text, &mut cabling).unwrap();
    cabling
}

/// `node1 mlx5_0:1 0000000a00000001 -> leaf0:1`
fn shown(cabling: &Cabling, cable: &Cable) -> String {
    let nic = &cable.nic;
    let guid = nic.guid.as_deref().unwrap_or("?");
    let to = end(cabling, &cable.to);
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
    let cabling = cabling(IBNETDISCOVER);
    let expected = " 0000000a00003001:1 0000000a00003001 -> leaf 1:3
node1 mlx5_0:1 0000000a00000001 -> leaf0:1
node1 mlx5_0:2 0000000a00000002 -> leaf 1:1
node2 HCA-2:1 0000000a00001011 -> leaf 1:2
node2 mlx5_0:1 0000000a00001001 -> leaf0:2
node3 mlx5_0:1 0000000a00002001 -> leaf0:3";
    // the firmware's own description names no node; the switch's aggregation node is no NIC
    assert_eq!(cables(&cabling).join("\n"), expected);
    let name = |switch: &String| cabling.switches[switch].clone();
    let trunks = cabling.trunks.iter();
    let trunks = trunks.map(|(one, other)| [one, other].map(name).join(" - "));
    assert!(trunks.eq(["leaf0 - spine/S01/U1", "leaf 1 - spine/S01/U1"]));
    assert!(cabling.whole.iter().eq(cabling.switches.keys()));
    let switches = ["0000000000900000", "0000000000910000", "0000000000b00000"];
    assert!(cabling.switches.keys().eq(&switches));
    assert_eq!(cabling.notes.len(), 1);
    assert!(cabling.notes[0].contains("names no node: 1"));
}

#[test]
fn groups_full_information_and_a_node_name_map_tell_the_same_fabric() {
    let expected = cabling(IBNETDISCOVER);
    assert_eq!(cabling(GROUPED), expected);
    let mut both = expected.clone();
    read("fabric.txt", GROUPED, &mut both).unwrap();
    assert_eq!(both.cables, expected.cables);
    assert_eq!(both.trunks, expected.trunks);
    let renamed = IBNETDISCOVER.replace("# \"node3 mlx5_0\" lid", "# \"storage\" lid");
    assert_ne!(renamed, IBNETDISCOVER);
    assert_eq!(cabling(&renamed), cabling(IBNETDISCOVER));
}

#[test]
fn links_of_routers_and_between_nics_are_left_out_and_what_is_odd_is_noted() {
    let stanza = "rtguid=0xc00000000\nRt\t2 \"R-0000000c00000000\"\t\t# \"router\"\n[1](c00000001) \t\"S-0000000000b00000\"[5]\t\t\
        # lid 0 lmc 0 \"MF0;spine:CS9500/S01/U1\" lid 3 4xSDR\n";
    let routed = cabling(stanza);
    let direct = "caguid=0x1\nCa\t1 \"H-1\"\t\t# \"n1 mlx5_0\"\n[1](1) \t\"H-2\"[1](2)\t\t# lid 1 lmc 0 \"n2 mlx5_0\" lid 2 4xEDR\n";
    for found in [routed, cabling(direct)] {
        assert_eq!(found, Cabling::default());
    }
    // an odd line costs nothing else
    let cabling = cabling(&format!("{IBNETDISCOVER}[1] x\n[more\n"));
    assert_eq!(cabling.cables.len(), 6);
    let notes = cabling.notes.join("\n");
    let odd = "not understood: 2, the first in line 79: `[1] x`";
    assert!(notes.contains(odd), "{notes}");
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
