//! Which differences between two nodes change their word of agreement.

use super::*;
use crate::placement::agreement::{Agreement, LeftOut};
use crate::topology::SubnetPrefix;

fn word(change: impl FnOnce(&mut Topology)) -> Agreement {
    let mut topology = platform::model("dgx-h100").unwrap();
    change(&mut topology);
    Agreement::of(&topology, &map(&topology, &Wish::default()))
}

#[test]
fn nodes_that_agree_have_one_word_and_any_other_rail_gpu_or_reason_to_leave_one_out_makes_another()
{
    let usual = word(|_| ());
    assert_eq!((usual.gpus.as_str(), usual.rails.len()), ("8 nvidia", 8));
    assert!(
        usual
            .digest()
            .starts_with(concat!(env!("CARGO_PKG_VERSION"), "-")),
        "{}",
        usual.digest()
    );
    let prefix = SubnetPrefix::of_gid("fe80:0000:0000:00a1:b859:9f03:00d4:1a2e");
    let name = usual.rails[2].nic.split(':').next().unwrap();
    let third = platform::model("dgx-h100")
        .unwrap()
        .nic_index(name)
        .unwrap()
        .0;
    let others = [
        word(|node| node.nics[third].ports[0].state = PortState::Down),
        word(|node| node.nics[third].ports[0].subnet = prefix),
        word(|node| node.nics[third].ports[0].rate_mbps = Some(200_000)),
        word(|node| drop(node.gpus.pop())),
        Agreement {
            version: "0.9.0".to_string(),
            ..usual.clone()
        },
    ];
    let digests: std::collections::BTreeSet<String> = others
        .iter()
        .chain([&usual])
        .map(Agreement::digest)
        .collect();
    assert_eq!(digests.len(), others.len() + 1, "{digests:?}");
    assert_eq!(
        others[0]
            .left_out
            .iter()
            .filter(|of| of.nic == usual.rails[2].nic)
            .count(),
        1
    );
    // a management NIC's name, and the reason's words, are nothing that libraries see
    let mut same = word(|node| {
        node.nics
            .iter_mut()
            .filter(|nic| nic.kind == NicKind::Ethernet)
            .for_each(|nic| nic.name = "x0".parse().unwrap())
    });
    same.left_out
        .iter_mut()
        .for_each(|LeftOut { why, .. }| why.push('.'));
    assert_eq!(same.digest(), usual.digest());
}
