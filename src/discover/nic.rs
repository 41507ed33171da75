//! RDMA devices from `/sys/class/infiniband` (Documentation/ABI/stable/sysfs-class-infiniband in the kernel's tree).
#![forbid(unsafe_code)]

use super::pci::function;
use super::{MAX_DEVICES, Root, Scope};
use crate::diagnostic::Diagnostic;
use crate::topology::{LinkLayer, Nic, Port, PortState, Topology};

const CLASS: &str = "sys/class/infiniband";
/// `IB_DEVICE_NAME_MAX` of the kernel's include/uapi/rdma/ib_user_verbs.h, less its NUL; NCCL cuts at the same length.
const MAX_NAME: usize = 63;

pub(super) fn nics(root: &Root, scope: Scope, topology: &mut Topology, diagnostics: &mut Vec<Diagnostic>) {
    let mut names = root.list(CLASS, |_| true);
    if names.len() > MAX_DEVICES {
        let finding = format!("{} RDMA devices: only the first {MAX_DEVICES} are used", names.len());
        diagnostics.push(Diagnostic::new(format!("/{CLASS}"), finding));
        names.truncate(MAX_DEVICES);
    }
    for name in names {
        // a name goes into variables where `,` `:` `=` `^` mean something
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if name.len() > MAX_NAME || !name.bytes().all(plain) {
            let finding = "a name that no library's variable could hold: this NIC is left out";
            diagnostics.push(Diagnostic::new(format!("/{CLASS}/{name}"), finding));
            continue;
        }
        let Some(path) = root.follow(&format!("{CLASS}/{name}")) else {
            diagnostics.push(Diagnostic::new(format!("/{CLASS}/{name}"), "not a link: this NIC is left out"));
            continue;
        };
        // …/0000:18:00.0/infiniband/mlx5_0; software devices stand below devices/virtual
        let address = function(root, scope, topology, &path).map(|(address, _)| address);
        let parent = path.rsplit_once("/infiniband/").map(|(parent, _)| parent).filter(|_| address.is_some());
        let uverbs = parent.and_then(|parent| {
            root.list(&format!("{parent}/infiniband_verbs"), |name| name.starts_with("uverbs"))
                .into_iter()
                .next()
        });
        let netdevs = parent.map(|parent| root.list(&format!("{parent}/net"), |_| true)).unwrap_or_default();
        let ports = root.list(&format!("{path}/ports"), |name| name.parse::<u8>().is_ok_and(|port| port > 0));
        let ports = ports.iter().map(|port| read_port(root, &path, port)).collect();
        topology.nics.push(Nic { name, address, role: None, ports, uverbs, netdevs });
    }
}

fn read_port(root: &Root, path: &str, port: &str) -> Port {
    let file = |name: &str| root.read(&format!("{path}/ports/{port}/{name}"));
    // `4: ACTIVE`
    let state = file("state").unwrap_or_default();
    let state = match state.split(':').next().unwrap_or_default() {
        "1" => PortState::Down,
        "2" => PortState::Init,
        "3" => PortState::Armed,
        "4" => PortState::Active,
        _ => PortState::Unknown,
    };
    let link_layer = match file("link_layer").as_deref() {
        Some("InfiniBand") => LinkLayer::InfiniBand,
        Some("Ethernet") => LinkLayer::Ethernet,
        _ => LinkLayer::Unknown,
    };
    Port { number: port.parse().unwrap_or(1), state, rate_mbps: rate(file("rate")), link_layer }
}

/// `400 Gb/sec (4X NDR)`, `2.5 Gb/sec (1X SDR)` -> Mbit/s
fn rate(text: Option<String>) -> Option<u64> {
    let text = text?;
    let (whole, tenth) = match text.split_whitespace().next()?.split_once('.') {
        Some((whole, fraction)) => (whole.to_string(), fraction.chars().next()?.to_digit(10)?),
        None => (text.split_whitespace().next()?.to_string(), 0),
    };
    let gbps = whole.parse::<u64>().ok().filter(|&gbps| gbps < 1_000_000)?;
    Some(gbps * 1000 + u64::from(tenth) * 100).filter(|&mbps| mbps > 0)
}
