//! Fabrics that real programs tell: ibsim plays InfiniBand to `ibnetdiscover`, and lldpd runs in network
//! namespaces.  The readers must find the cables that were made.
//!
//! Debian has the programs in `ibsim-utils`, `infiniband-diags` and `lldpd` (tests/slurm/install.sh).  What is missing is said,
//! and its tests pass.  The texts stay in the folder for tests' files, below `fabric`.

#[path = "tool/answer.rs"]
mod answer;
#[path = "fabric/command.rs"]
mod command;
#[path = "fabric/ibsim.rs"]
mod ibsim;
#[path = "fabric/lldpd.rs"]
mod lldpd;
#[path = "fabric/made.rs"]
mod made;

use made::{Made, NicPlace};
use nic_placement_fleet::fabric::cabling::Cabling;
use nic_placement_fleet::fabric::sources::read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where a test's texts stay.
fn folder(name: &str) -> PathBuf {
    let all = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fabric");
    let folder = all.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The cables of a fabric as made.rs has them.
fn cables(cabling: &Cabling) -> Vec<String> {
    let shown = cabling.cables.iter().map(|cable| {
        let nic = &cable.nic;
        let to = &cable.to;
        let switch = &cabling.switches[&to.switch];
        format!("{} {} -> {switch}:{}", nic.node, nic.nic, to.port)
    });
    let mut cables: Vec<String> = shown.collect();
    cables.sort();
    cables
}

/// Plays a fabric: the text of each program gives the same cabling, which has the cables that were made.
fn played(name: &str, fabric: &Made) {
    let Some(texts) = ibsim::play(&folder(name), fabric) else {
        return;
    };
    let mut first: Option<Cabling> = None;
    for (program, text) in &texts {
        let mut cabling = Cabling::default();
        let begin = Instant::now();
        read(program, text, &mut cabling).unwrap();
        let took = begin.elapsed();
        let (kib, count) = (text.len() >> 10, cabling.cables.len());
        println!("{name}: {program}: {kib} KiB, {count} cables in {took:?}");
        assert_eq!(cabling.notes, [""; 0], "{program}");
        // a build for tests reads 8,000 NICs in less than a second
        assert!(took < Duration::from_secs(5), "{program}: {took:?}");
        assert_eq!(cables(&cabling), fabric.cables(), "{program}");
        assert_eq!(cabling.trunks.len(), fabric.trunks(), "{program}");
        match &first {
            Some(first) => assert_eq!(&cabling, first, "{program}"),
            None => first = Some(cabling),
        }
    }
    let first = first.unwrap();
    let mut nics = first.cables.iter().map(|cable| &cable.nic);
    assert!(nics.all(|nic| nic.guid.is_some() && nic.port == 1));
    assert_eq!(first.switches.len(), fabric.linked_switches());
}

#[test]
fn a_fabric_is_told_as_it_was_made_with_cables_exchanged_and_without_a_nic_that_has_no_link() {
    let rails = || Made::rail_optimised(6, 4, 3, 2);
    played("rail-optimised", &rails());
    // all NICs of a node on one leaf
    played("fat-tree", &Made::fat_tree(6, 4, 3, 2));
    let mut exchanged = rails();
    exchanged.exchange(NicPlace { node: 1, nic: 0 }, NicPlace { node: 1, nic: 2 });
    let shown = exchanged.cables();
    assert!(
        shown.contains(&"node2 mlx5_0 -> leaf1-3:2".to_string()),
        "{shown:?}"
    );
    played("exchanged", &exchanged);
    let mut unplugged = rails();
    unplugged.unplug(NicPlace { node: 4, nic: 3 });
    assert_eq!(unplugged.cables().len(), 23);
    played("unplugged", &unplugged);
}

#[test]
fn isolated_rails_are_one_subnet_each() {
    // ibnetdiscover sees what its own port reaches: one rail, and a file for each
    let fabric = Made::rail_optimised(4, 2, 4, 0);
    let mut all = Cabling::default();
    for rail in 0..2 {
        let folder = folder(&format!("isolated-{rail}"));
        let Some(texts) = ibsim::play(&folder, &fabric.starting_at(rail)) else {
            return;
        };
        let before = all.cables.len();
        read("ibnetdiscover", &texts[0].1, &mut all).unwrap();
        assert_eq!(all.cables.len(), before + 4);
    }
    assert_eq!(cables(&all), fabric.cables());
    assert_eq!((all.trunks.len(), all.switches.len()), (0, 2));
}

#[test]
fn a_thousand_nodes_of_eight_nics_are_read_in_a_moment() {
    played("thousand", &Made::rail_optimised(1000, 8, 125, 4));
}

#[test]
fn what_lldpd_hears_is_how_the_links_were_made() {
    let folder = folder("lldpd");
    let Some(texts) = lldpd::heard(&folder) else {
        return;
    };
    let mut cabling = Cabling::default();
    for (name, text) in &texts {
        assert_eq!(read(name, text, &mut cabling), Ok(()), "{text}");
    }
    assert_eq!(cabling.notes, [""; 0]);
    assert_eq!(cables(&cabling), lldpd::CABLES);
    // both forms, and the chassis in place of the file's name
    for form in ["json0", "json"] {
        let mut same = Cabling::default();
        let of_form = std::fs::read_to_string(folder.join(format!("all.{form}"))).unwrap();
        read("-", &of_form, &mut same).unwrap();
        assert_eq!(same, cabling, "{form}");
    }
}
