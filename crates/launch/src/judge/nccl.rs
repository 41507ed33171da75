//! NCCL's variables of the user's that undo what the placement is for, or that this machine gives no reason for (NCCL 2.30).

use super::lists::NameList;
use super::{Checked, Doubt, entries_in_doubt, number, space_in, when};
use nic_placement_core::diagnostic::Shown;
use nic_placement_core::topology::{GpuVendor, Nic, PathType, PortState};

pub const DOUBTS: &[Doubt] = &[
    ("NCCL_P2P_DISABLE", |_, value| {
        switch(value, "GPUs of this node then talk through host memory")
    }),
    ("NCCL_SHM_DISABLE", |_, value| {
        switch(value, "tasks of this node then talk through the network")
    }),
    ("NCCL_IB_DISABLE", |checked, value| {
        if checked.has_verbs() {
            switch(value, "NCCL then uses sockets in place of this node's NICs")
        } else {
            Vec::new()
        }
    }),
    ("NCCL_DEBUG", |_, value| {
        let is_verbose = ["INFO", "TRACE"]
            .iter()
            .any(|level| value.eq_ignore_ascii_case(level));
        when(
            is_verbose,
            "every task writes much: use `WARN` for production",
        )
    }),
    ("NCCL_IB_HCA", list),
    // a channel uses one NIC (src/graph/search.cc)
    ("NCCL_MAX_NCHANNELS", |checked, value| {
        let (nics, gpus) = (checked.node.rails.len(), checked.topology.gpus.len());
        let is_few = number(value).is_some_and(|most| most > 0 && (most as u64) < nics as u64);
        when(
            is_few && gpus > 1,
            format!(
                "a channel uses one NIC, so with {value} NCCL cannot use all {nics} of this node at once: unset it"
            ),
        )
    }),
    ("NCCL_MIN_NCHANNELS", |checked, value| {
        let most = checked
            .number("NCCL_MAX_NCHANNELS")
            .filter(|most| *most > 0);
        let most = most.filter(|most| number(value).is_some_and(|least| least > *most));
        most.map(|most| format!("more than `NCCL_MAX_NCHANNELS={most}`: unset one of them"))
            .into_iter()
            .collect()
    }),
    ("NCCL_BUFFSIZE", |_, value| {
        match number(value).unwrap_or_default() {
            ..1 => Vec::new(),
            bytes if bytes.count_ones() != 1 => when(true, "NCCL asks for a power of 2"),
            bytes => when(
                bytes < 4 << 20,
                "smaller than NCCL's own 4 MiB: more steps for each message; unset it if memory is not short",
            ),
        }
    }),
    ("NCCL_NET_GDR_LEVEL", gpudirect),
    ("NCCL_NVLS_ENABLE", in_network),
    // src/graph/xml.cc, `ncclTopoGetXmlFromFile`; programs hand files over as descriptors, which mean nothing in another process
    ("NCCL_TOPO_FILE", |checked, file| {
        let is_missing = !file.starts_with("/proc/") && (checked.read)(file).is_none();
        when(
            is_missing,
            "no such file can be read here; NCCL then goes by the bus, and does not say so",
        )
    }),
    // src/transport/net_socket.cc, `MAX_SOCKETS`
    (
        "NCCL_NSOCKS_PERTHREAD NCCL_SOCKET_NTHREADS",
        |checked, value| {
            let threads = checked
                .number("NCCL_SOCKET_NTHREADS")
                .unwrap_or_default()
                .max(0);
            let text = format!(
                "times `NCCL_SOCKET_NTHREADS={threads}` is more than the 64 sockets that NCCL opens: lower one"
            );
            when(
                number(value).is_some_and(|sockets| sockets.saturating_mul(threads) > 64),
                text,
            )
        },
    ),
    ("NCCL_SOCKET_IFNAME", |checked, value| {
        let list = NameList::new(value);
        let is_nowhere = !list.excludes
            && !checked.interfaces.is_empty()
            && !list.names().any(|name| {
                checked
                    .interfaces
                    .iter()
                    .any(|interface| list.means(name, interface))
            });
        when(
            is_nowhere,
            "no interface of this node has this name, so NCCL cannot start: name one that it has, or unset it",
        )
    }),
];

fn switch(value: &str, what: &str) -> Vec<String> {
    let is_on = number(value).is_some_and(|number| number > 0);
    when(
        is_on,
        format!("{what}: unset it where it is not for a test"),
    )
}

fn list(checked: &Checked, value: &str) -> Vec<String> {
    let list = NameList::new(value);
    let active: Vec<&Nic> = checked
        .verbs()
        .filter(|nic| nic.ports.iter().any(|port| port.state == PortState::Active))
        .collect();
    if active.is_empty() {
        return Vec::new();
    }
    let names = || list.names().filter(|name| !name.is_empty());
    let mut found = entries_in_doubt(names(), |name: &&str| {
        let shown = Shown::word(name, 64);
        let devices = active
            .iter()
            .map(|nic| nic.name.as_str())
            .filter(|device| list.means(name, device));
        let (own, others): (Vec<&str>, Vec<&str>) = devices.partition(|device| device == name);
        match (own.is_empty(), others.is_empty()) {
            (true, true) => Some(space_in(name, name).unwrap_or_else(|| {
                format!(
                    "`{shown}` names no active NIC of this node: `nic-placement show` lists them"
                )
            })),
            (false, false) => Some(format!(
                "`{shown}` also means {}, which begin with it: write `=` before the list",
                others.join(" ")
            )),
            _ => None,
        }
    });
    // read as port 0 by releases before 2.30.7
    found.extend(entries_in_doubt(list.entries.split(',').filter(|entry| entry.contains("::")), |entry| {
        let shown = Shown::word(entry, 64);
        Some(format!("`{shown}` names no port, and before 2.30.7 NCCL then finds no NIC: write its number"))
    }));
    let is_empty = !active
        .iter()
        .any(|nic| list.excludes != names().any(|name| list.means(name, &nic.name)))
        && !list.entries.is_empty();
    found.extend(when(
        is_empty,
        "it leaves no NIC of this node, so NCCL falls back to sockets",
    ));
    found
}

/// Names in capitals, or the numbers of old releases; anything else is passed over (src/graph/paths.cc, `ncclGetLevel`).
fn gpudirect(checked: &Checked, value: &str) -> Vec<String> {
    let level = match value {
        "LOC" | "NVL" | "NVB" | "C2C" | "0" => None,
        "PIX" | "1" => Some(PathType::Pix),
        "PXB" | "P2C" | "PXN" | "2" => Some(PathType::Pxb),
        "PHB" | "3" => Some(PathType::Phb),
        // `SYS`, `4` and `5` admit all: a path over two NUMA nodes of a socket counts as SYS there
        _ => return Vec::new(),
    };
    let paths = checked
        .node
        .gpus
        .iter()
        .filter_map(|gpu| Some(gpu.choices.first()?.path));
    let (off, on): (Vec<PathType>, Vec<PathType>) =
        paths.partition(|path| level.is_none_or(|level| *path > level));
    let (off, gpus) = (off.len(), off.len() + on.len());
    when(
        off > 0,
        format!(
            "it switches GPUDirect RDMA off for {off} of this node's {gpus} GPUs, whose NICs are farther: unset it"
        ),
    )
}

/// Reductions in the NVSwitch (src/transport/nvls.cc: Hopper and later).
fn in_network(checked: &Checked, value: &str) -> Vec<String> {
    // also of the `GH200`, `GB200` and `GB300`; a mere `GB` would be the memory of an `A100-SXM4-80GB`
    const WITH_NVLS: [&str; 7] = ["H100", "H200", "H800", "H20", "B100", "B200", "B300"];
    let is_off = checked
        .topology
        .gpus
        .iter()
        .filter(|gpu| {
            let model = gpu.model.as_deref().unwrap_or_default();
            gpu.vendor == GpuVendor::Nvidia && WITH_NVLS.iter().any(|name| model.contains(name))
        })
        .count()
        >= 4
        && number(value) == Some(0);
    when(
        is_off,
        "the NVSwitches of this node then reduce nothing: unset it where it is not for a test",
    )
}
