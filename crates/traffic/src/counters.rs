//! Which counter tells a port's bytes, by driver, and what a file of one holds.
//!
//! `counters/port_xmit_data` counts words of four bytes (Documentation/ABI/stable/sysfs-class-infiniband of the kernel), and is
//! there where the driver answers performance queries: mlx4, mlx5, hfi1, ocrdma.  hfi1 passes the flits of Omni-Path on, which
//! have eight bytes (drivers/infiniband/hw/hfi1/mad.c, `pma_get_opa_port_dctrs`).  Others have names of their own below
//! `hw_counters`.  Soft RoCE counts packets alone (drivers/infiniband/sw/rxe/rxe_hw_counters.c), and soft iWARP nothing: their
//! bytes pass through the interface, which counts them.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

type Names = &'static [&'static str];

/// A counter of RDMA, with the files of what was sent and what was received, below `ports/N`.
#[derive(Debug, PartialEq, Eq)]
pub struct Counter {
    /// the drivers of the PCI functions that have it; none: any
    drivers: Names,
    folder: &'static str,
    /// of several the sum counts
    sent: Names,
    received: Names,
    unit: u64,
    /// does node_exporter's own collector have it?
    pub is_exported: bool,
}

/// Of bytes: the driver's own.
const fn own(drivers: Names, sent: Names, received: Names) -> Counter {
    Counter {
        drivers,
        folder: "hw_counters",
        sent,
        received,
        unit: 1,
        is_exported: false,
    }
}

/// As the specification of InfiniBand has it.
const fn standard(
    drivers: Names,
    folder: &'static str,
    sent: Names,
    received: Names,
    unit: u64,
) -> Counter {
    Counter {
        drivers,
        folder,
        sent,
        received,
        unit,
        is_exported: true,
    }
}

/// In order: the first that can be read tells.
///
/// A driver's own counter comes first: some drivers answer the standard query and count nothing.
const COUNTERS: [Counter; 7] = [
    // `EFA_DEFINE_PORT_STATS` of drivers/infiniband/hw/efa; drivers/infiniband/hw/bnxt_re/hw_counters.c
    own(&["efa", "bnxt_en"], &["tx_bytes"], &["rx_bytes"]),
    // drivers/infiniband/hw/irdma/verbs.c; its PCI functions are those of Ethernet's drivers
    own(
        &["ice", "i40e", "idpf", "irdma"],
        &["ip4OutOctets", "ip6OutOctets"],
        &["ip4InOctets", "ip6InOctets"],
    ),
    // drivers/infiniband/hw/ionic
    own(
        &["ionic"],
        &["tx_rdma_ucast_bytes"],
        &["rx_rdma_ucast_bytes"],
    ),
    // drivers/infiniband/hw/erdma/erdma_hw.h
    own(&["erdma"], &["hw_tx_bytes_cnt"], &["hw_rx_bytes_cnt"]),
    standard(
        &["hfi1"],
        "counters",
        &["port_xmit_data"],
        &["port_rcv_data"],
        8,
    ),
    // of old kernels and vendors' drivers, whose port_xmit_data has 32 bits
    standard(
        &[],
        "counters_ext",
        &["port_xmit_data_64"],
        &["port_rcv_data_64"],
        4,
    ),
    standard(&[], "counters", &["port_xmit_data"], &["port_rcv_data"], 4),
];

impl Counter {
    pub(crate) fn name(&self) -> String {
        self.sent.join(" + ")
    }
}

/// A counter of 32 bits stays at its end (InfiniBand Architecture Specification, PortCounters).
const END_OF_32_BITS: u64 = u32::MAX as u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedPort {
    /// the RDMA device's name, or the interface's
    pub device: String,
    /// the port's number; 0 for an interface without one
    pub port: u8,
}

impl CountedPort {
    /// Its name as libraries write it: `mlx5_0:1`, or `eth0`.
    pub fn name(&self) -> String {
        match self.port {
            0 => self.device.clone(),
            port => format!("{}:{port}", self.device),
        }
    }

    /// The port of such a name.
    pub fn named(name: &str) -> CountedPort {
        let port = name
            .split_once(':')
            .and_then(|(device, port)| Some((device, port.parse().ok()?)));
        let (device, port) = port.unwrap_or((name, 0));
        CountedPort {
            device: device.to_string(),
            port,
        }
    }

    /// `mlx5_10` comes after `mlx5_9`, and interfaces without a port come last.
    fn order(&self) -> (bool, &str, u64, &str, u8) {
        let stem = self
            .device
            .trim_end_matches(|letter: char| letter.is_ascii_digit());
        let number = self.device[stem.len()..].parse().unwrap_or(u64::MAX);
        (self.port == 0, stem, number, &self.device, self.port)
    }
}

impl Ord for CountedPort {
    fn cmp(&self, other: &CountedPort) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for CountedPort {
    fn partial_cmp(&self, other: &CountedPort) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub sent: u64,
    pub received: u64,
    /// is one of them at the end of 32 bits, where it stays?
    pub(crate) is_at_end: bool,
}

/// What a port and its interface have counted so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// RDMA, by the driver's counter; `None` where it has none
    pub rdma: Option<(&'static Counter, Count)>,
    /// the interface's name, and what the kernel counted for it
    pub interface: Option<(String, Count)>,
    /// does RDMA pass through the interface, as that of soft RoCE?
    pub is_soft: bool,
}

pub type Sample = BTreeMap<CountedPort, PortCounts>;

/// The counter that a port has, and what it says.  `read` reads a file below `ports/N`.
pub fn rdma(
    driver: Option<&str>,
    read: &dyn Fn(&str) -> Option<String>,
) -> Option<(&'static Counter, Count)> {
    let sum = |counter: &Counter, files: Names| {
        let file = |name: &&str| number(&read(&format!("{}/{name}", counter.folder))?);
        let values: Vec<u64> = files.iter().map(file).collect::<Option<_>>()?;
        let is_at_end = counter.unit > 1 && values.contains(&END_OF_32_BITS);
        let sum = values
            .iter()
            .fold(0u64, |sum, value| sum.saturating_add(*value));
        Some((sum.saturating_mul(counter.unit), is_at_end))
    };
    let fits = |counter: &&Counter| {
        counter.drivers.is_empty() || driver.is_some_and(|driver| counter.drivers.contains(&driver))
    };
    COUNTERS.iter().filter(fits).find_map(|counter| {
        let (sent, sent_at_end) = sum(counter, counter.sent)?;
        let (received, received_at_end) = sum(counter, counter.received)?;
        Some((
            counter,
            Count {
                sent,
                received,
                is_at_end: sent_at_end || received_at_end,
            },
        ))
    })
}

/// What an interface counted.  `read` reads a file of its `statistics`.
pub fn interface(read: &dyn Fn(&str) -> Option<String>) -> Option<Count> {
    let value = |file: &str| number(&read(file)?);
    Some(Count {
        sent: value("tx_bytes")?,
        received: value("rx_bytes")?,
        is_at_end: false,
    })
}

/// The file below `ports/N` that soft RoCE alone has.
pub const OF_SOFT_ROCE: &str = "hw_counters/sent_pkts";

/// A count, and nothing else: `N/A (no PMA)` is what the kernel writes for a device without a performance management agent.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}
