//! The reader on what real lldpd heard in network namespaces: `n2` has two cables to `sw`, and eth0 hears `n1` too.

use super::super::read;
use super::{Cabling, cables, cabling};

const JSON0: &str = include_str!("lldpctl-json0.json");
const JSON: &str = include_str!("lldpctl-json.json");
const ONE: &str = include_str!("lldpctl-json-one.json");

const CABLES: [&str; 2] = [
    "n2 eth0:1 ? -> sw.example.org:swp20",
    "n2 eth1:1 ? -> sw.example.org:swp21",
];

fn of_file(name: &str, text: &str) -> Cabling {
    let mut cabling = Cabling::default();
    read(name, text, &mut cabling).unwrap();
    cabling
}

fn labelled(label: &str, text: &str) -> String {
    let lines = text.lines().map(|line| format!("{label}: {line}\n"));
    lines.collect()
}

#[test]
fn the_switch_is_told_from_another_node_on_the_same_wire() {
    let fabric = of_file("/tmp/lldp/n2.json", JSON0);
    assert_eq!(cables(&fabric), CABLES);
    let switch = ("0e:36:65:4d:f4:aa".into(), "sw.example.org".into());
    assert!(fabric.switches.into_iter().eq([switch]));
    assert!(fabric.whole.is_empty());
    assert_eq!(fabric.notes, [""; 0]);
    assert_eq!(cables(&of_file("n2", JSON)), CABLES);
    assert_eq!(cables(&of_file("n2", ONE)), CABLES[1..]);
}

#[test]
fn the_node_is_known_by_label_or_file() {
    for (label, text) in [("n2", JSON0), ("n2.example.org", JSON0), (" n2", JSON)] {
        let text = labelled(label, text);
        assert_eq!(cables(&of_file("all.txt", &text)), CABLES, "{text}");
    }
    // two nodes in one file
    let other = labelled("n9", JSON0) + &labelled("n2", JSON0);
    assert_eq!(cables(&of_file("all.txt", &other)).len(), 4);
    for text in [JSON0.to_string(), labelled("0", JSON0)] {
        let fabric = of_file("-", &text);
        assert!(fabric.cables.is_empty());
        assert!(fabric.notes[0].contains("name the file as"));
    }
}

#[test]
fn what_is_no_switch_is_noted() {
    let bluefield = "\"Ubuntu 22.04 LTS Linux 5.15.0-1042-bluefield aarch64\"";
    let dpu = ONE.replace("\"Cumulus\"", bluefield);
    let other = "\"Other\"";
    let hub = JSON0.replace("\"Bridge\"", other);
    let hub = hub.replace("\"Router\"", other);
    let hears = "`eth0` of `n2` hears `n1.example.org`, and other neighbours";
    let missing = labelled("n2", JSON0) + "n3: bash: lldpctl: command not found\n";
    for (text, note) in [
        (&*dpu, "`eth1` of `n2` hears `sw.example.org`, a DPU: "),
        (&hub, hears),
        ("{\"lldp\": {}}", "`n2` hears no neighbour"),
        (&missing, "of `n3`: expected JSON"),
        (&JSON0[..300], "of `n2`: it is cut short"),
    ] {
        let fabric = of_file("n2.json", text);
        assert!(fabric.notes[0].contains(note), "{:?}", fabric.notes);
    }
    // a VF hears its own node's PF
    let fabric = of_file("sw.json", ONE);
    assert_eq!((fabric.cables.len(), fabric.notes.len()), (0, 0));
}

#[test]
fn a_port_has_the_name_that_people_use() {
    for (kind, id, description, expected) in [
        ("ifname", "swp21", "to n2", "swp21"),
        ("local", "Eth1/1", "Ethernet0", "Eth1/1"),
        ("local", "512", "et-0/0/1", "et-0/0/1"),
        ("mac", "0e:36:65:4d:f4:aa", "swp21", "swp21"),
    ] {
        let mut text = ONE.replace("\"ifname\"", &format!("\"{kind}\""));
        for (key, value) in [("descr", description), ("value", id)] {
            let to = format!("\"{key}\": \"{value}\"");
            text = text.replace(&format!("\"{key}\": \"swp21\""), &to);
        }
        let fabric = cabling(&labelled("n2", &text));
        assert_eq!(fabric.cables.first().unwrap().to.port, expected);
    }
}
