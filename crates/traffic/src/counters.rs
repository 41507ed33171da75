//! Drivers' counters of a port's bytes, and the number in a counter's file.
//!
//! `counters/port_xmit_data` counts words of four bytes (Documentation/ABI/stable/sysfs-class-infiniband of the kernel). Drivers
//! that answer performance queries have it: mlx4, mlx5, hfi1, ocrdma. hfi1 passes on the flits of Omni-Path, which have eight
//! bytes (drivers/infiniband/hw/hfi1/mad.c, `pma_get_opa_port_dctrs`). Other drivers have counters of their own below
//! `hw_counters`. Soft RoCE counts packets (drivers/infiniband/sw/rxe/rxe_hw_counters.c) and soft iWARP nothing: their bytes pass
//! through the interface, which counts them.

use std::collections::BTreeMap;

type Names = &'static [&'static str];

/// Files below `ports/N` that count what a port sent and received.
#[derive(Debug, PartialEq, Eq)]
pub struct Counter {
    drivers: Names,
    folder: &'static str,
    sent: Names,
    received: Names,
    unit: u64,
}

const fn counter(
    drivers: Names,
    folder: &'static str,
    unit: u64,
    sent: Names,
    received: Names,
) -> Counter {
    Counter {
        drivers,
        folder,
        sent,
        received,
        unit,
    }
}

const OWN: &str = "hw_counters";
const STANDARD: &str = "counters";

/// The first that can be read counts: a driver's own before the standard query, which some drivers
/// answer with nothing.
const COUNTERS: [Counter; 7] = [
    // `EFA_DEFINE_PORT_STATS` of drivers/infiniband/hw/efa; drivers/infiniband/hw/bnxt_re/hw_counters.c
    counter(&["efa", "bnxt_en"], OWN, 1, &["tx_bytes"], &["rx_bytes"]),
    // drivers/infiniband/hw/irdma/verbs.c; its PCI functions are those of Ethernet's drivers; said to miss RoCE on some cards
    counter(
        &["ice", "i40e", "idpf", "irdma"],
        OWN,
        1,
        &["ip4OutOctets", "ip6OutOctets"],
        &["ip4InOctets", "ip6InOctets"],
    ),
    // drivers/infiniband/hw/ionic, by programs that read it
    counter(
        &["ionic"],
        OWN,
        1,
        &["tx_rdma_ucast_bytes"],
        &["rx_rdma_ucast_bytes"],
    ),
    // drivers/infiniband/hw/erdma/erdma_hw.h
    counter(
        &["erdma"],
        OWN,
        1,
        &["hw_tx_bytes_cnt"],
        &["hw_rx_bytes_cnt"],
    ),
    counter(
        &["hfi1"],
        STANDARD,
        8,
        &["port_xmit_data"],
        &["port_rcv_data"],
    ),
    // old kernels and vendors' drivers, whose port_xmit_data has 32 bits
    counter(
        &[],
        "counters_ext",
        4,
        &["port_xmit_data_64"],
        &["port_rcv_data_64"],
    ),
    counter(&[], STANDARD, 4, &["port_xmit_data"], &["port_rcv_data"]),
];

impl Counter {
    pub(crate) fn name(&self) -> String {
        self.sent.join(" + ")
    }

    /// True if node_exporter's own collector reads it.
    pub fn is_exported(&self) -> bool {
        self.folder != OWN
    }

    /// The sum of files, and true if one is at the end of 32 bits.
    fn sum(&self, files: Names, read: &dyn Fn(&str) -> Option<String>) -> Option<(u64, bool)> {
        let (mut sum, mut is_at_end) = (0u64, false);
        for name in files {
            let value = number(&read(&format!("{}/{name}", self.folder))?)?;
            is_at_end |= self.unit > 1 && value == END_OF_32_BITS;
            sum = sum.saturating_add(value);
        }
        Some((sum.saturating_mul(self.unit), is_at_end))
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
    /// `mlx5_0:1`, as libraries write it, or `eth0`.
    pub fn name(&self) -> String {
        match self.port {
            0 => self.device.clone(),
            port => format!("{}:{port}", self.device),
        }
    }

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

    /// `mlx5_10` comes after `mlx5_9`, interfaces without a port last.
    fn order(&self) -> (bool, &str, u64, &str, u8) {
        let stem = self
            .device
            .trim_end_matches(|letter: char| letter.is_ascii_digit());
        (
            self.port == 0,
            stem,
            self.device[stem.len()..].parse().unwrap_or(u64::MAX),
            &self.device,
            self.port,
        )
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
    /// true if one of them is at the end of 32 bits, where it stays
    pub(crate) is_at_end: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// `None`: the driver has no counter
    pub rdma: Option<(&'static Counter, Count)>,
    pub interface: Option<(String, Count)>,
    /// true if RDMA passes through the interface, as soft RoCE's
    pub is_soft: bool,
}

pub type Sample = BTreeMap<CountedPort, PortCounts>;

/// The port's counter and its value. `read` reads a file below `ports/N`.
pub fn rdma(
    driver: Option<&str>,
    read: &dyn Fn(&str) -> Option<String>,
) -> Option<(&'static Counter, Count)> {
    COUNTERS.iter().find_map(|counter| {
        if !counter.drivers.is_empty() && !counter.drivers.contains(&driver?) {
            return None;
        }
        let (sent, sent_at_end) = counter.sum(counter.sent, read)?;
        let (received, received_at_end) = counter.sum(counter.received, read)?;
        let is_at_end = sent_at_end || received_at_end;
        Some((
            counter,
            Count {
                sent,
                received,
                is_at_end,
            },
        ))
    })
}

/// An interface's count. `read` reads a file of its `statistics`.
pub fn interface(read: &dyn Fn(&str) -> Option<String>) -> Option<Count> {
    let value = |file: &str| number(&read(file)?);
    Some(Count {
        sent: value("tx_bytes")?,
        received: value("rx_bytes")?,
        is_at_end: false,
    })
}

/// A file below `ports/N` of soft RoCE alone.
pub const OF_SOFT_ROCE: &str = "hw_counters/sent_pkts";

/// The kernel writes `N/A (no PMA)` for a device without a performance management agent.
fn number(text: &str) -> Option<u64> {
    // `parse` takes a plus sign too
    text.trim().parse().ok().filter(|_| !text.contains('+'))
}
