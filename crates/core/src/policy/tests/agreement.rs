//! Which differences between two nodes change their word of agreement.

use super::*;
use crate::placement::agreement::Agreement;
use crate::topology::SubnetPrefix;
use std::collections::BTreeSet;

fn word(change: impl FnOnce(&mut Topology)) -> Agreement {
    let mut topology = dgx(&[]);
    change(&mut topology);
    Agreement::of(&topology, &map(&topology, &Wish::default()))
}

#[test]
fn nodes_that_agree_have_one_word_and_any_other_rail_gpu_or_reason_to_leave_one_out_makes_another()
{
    let usual = word(|_| ());
    assert_eq!((usual.gpus.as_str(), usual.rails.len()), ("8 nvidia", 8));
    let release = concat!(env!("CARGO_PKG_VERSION"), "-");
    assert!(usual.digest().starts_with(release), "{}", usual.digest());
    let prefix = SubnetPrefix::of_gid("fe80:0000:0000:00a1:b859:9f03:00d4:1a2e");
    let name = usual.rails[2].nic.split(':').next().unwrap();
    let port = |change: &dyn Fn(&mut Port)| {
        word(|node| {
            let mut nics = node.nics.iter_mut();
            change(&mut nics.find(|nic| nic.name == name).unwrap().ports[0]);
        })
    };
    let mut older = usual.clone();
    older.version = "0.9.0".to_string();
    let others = [
        port(&|port| port.state = PortState::Down),
        port(&|port| port.subnet = prefix),
        port(&|port| port.rate_mbps = Some(200_000)),
        word(|node| drop(node.gpus.pop())),
        older,
    ];
    let all = others.iter().chain([&usual]);
    let digests: BTreeSet<String> = all.map(Agreement::digest).collect();
    assert_eq!(digests.len(), others.len() + 1, "{digests:?}");
    let mut left_out = others[0].left_out.clone();
    left_out.retain(|of| of.nic == usual.rails[2].nic);
    assert_eq!(left_out.len(), 1);
    // an Ethernet NIC, and the reason's words, are nothing that libraries see
    let mut same = word(|node| {
        let port = Port::new(1, PortState::Down, LinkLayer::Ethernet, None);
        node.nics.push(Nic {
            ports: vec![port],
            ..Nic::new("eth0".parse().unwrap(), NicKind::Ethernet)
        });
    });
    same.left_out.iter_mut().for_each(|out| out.why.push('.'));
    assert_eq!(same.digest(), usual.digest());
}
