//! Drivers' counters of a port's bytes, and the number in a counter's file.
//!
//! `counters/port_xmit_data` counts words of four bytes (Documentation/ABI/stable/sysfs-class-infiniband of the kernel). Drivers
//! that answer performance queries have it: mlx4, mlx5, hfi1, ocrdma. hfi1 passes on the flits of Omni-Path, which have eight
//! bytes (drivers/infiniband/hw/hfi1/mad.c, `pma_get_opa_port_dctrs`). Other drivers have counters of their own below
//! `hw_counters`. Soft RoCE counts packets (drivers/infiniband/sw/rxe/rxe_hw_counters.c) and soft iWARP nothing: their bytes pass
//! through the interface, which counts them.

use std::collections::BTreeMap;

/// Drivers, the files below `ports/N` that count what a port sent and received, and their unit in bytes. The first that can be
/// read counts: a driver's own before the standard query, which some drivers answer with nothing.
const COUNTERS: [(&[&str], &str, &str, u64); 6] = [
    // `EFA_DEFINE_PORT_STATS` of drivers/infiniband/hw/efa; drivers/infiniband/hw/bnxt_re/hw_counters.c
    (
        &["efa", "bnxt_en"],
        "hw_counters/tx_bytes",
        "hw_counters/rx_bytes",
        1,
    ),
    // drivers/infiniband/hw/ionic, by programs that read it
    (
        &["ionic"],
        "hw_counters/tx_rdma_ucast_bytes",
        "hw_counters/rx_rdma_ucast_bytes",
        1,
    ),
    // drivers/infiniband/hw/erdma/erdma_hw.h
    (
        &["erdma"],
        "hw_counters/hw_tx_bytes_cnt",
        "hw_counters/hw_rx_bytes_cnt",
        1,
    ),
    (
        &["hfi1"],
        "counters/port_xmit_data",
        "counters/port_rcv_data",
        8,
    ),
    // old kernels and vendors' drivers, whose port_xmit_data has 32 bits
    (
        &[],
        "counters_ext/port_xmit_data_64",
        "counters_ext/port_rcv_data_64",
        4,
    ),
    (&[], "counters/port_xmit_data", "counters/port_rcv_data", 4),
];

/// A counter of 32 bits stays at its end (InfiniBand Architecture Specification, PortCounters), and then tells nothing.
const END_OF_32_BITS: u64 = u32::MAX as u64;

#[derive(Debug, Clone, PartialEq)]
pub struct Count {
    /// the counter's file, or the interface's name
    pub of: String,
    pub sent: u64,
    pub received: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PortCounts {
    /// `None`: the driver has no counter
    pub rdma: Option<Count>,
    pub interface: Option<Count>,
    /// true if RDMA passes through the interface, as soft RoCE's
    pub is_soft: bool,
}

/// By `mlx5_0:1`, as libraries write it, or by an interface's name, which has no colon (the kernel's net/core/dev.c,
/// `dev_valid_name`).
pub type Sample = BTreeMap<String, PortCounts>;

/// The port's counter. `read` reads a file below `ports/N`.
pub fn rdma(driver: Option<&str>, read: &dyn Fn(&str) -> Option<String>) -> Option<Count> {
    COUNTERS.iter().find_map(|(drivers, sent, received, unit)| {
        if !drivers.is_empty() && !drivers.contains(&driver?) {
            return None;
        }
        let value = |file: &str| {
            let value = number(&read(file)?).filter(|of| *unit == 1 || *of != END_OF_32_BITS);
            Some(value?.saturating_mul(*unit))
        };
        Some(Count {
            of: sent.to_string(),
            sent: value(sent)?,
            received: value(received)?,
        })
    })
}

/// An interface's count. `read` reads a file of its `statistics`.
pub fn interface(of: String, read: &dyn Fn(&str) -> Option<String>) -> Option<Count> {
    Some(Count {
        of,
        sent: number(&read("tx_bytes")?)?,
        received: number(&read("rx_bytes")?)?,
    })
}

/// A file below `ports/N` of soft RoCE alone.
pub const OF_SOFT_ROCE: &str = "hw_counters/sent_pkts";

/// The kernel writes `N/A (no PMA)` for a device without a performance management agent.
fn number(text: &str) -> Option<u64> {
    // `parse` takes a plus sign too
    text.trim().parse().ok().filter(|_| !text.contains('+'))
}
