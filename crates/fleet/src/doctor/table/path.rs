//! The table's checks of the path between GPU and NIC.
#![forbid(unsafe_code)]

use super::super::{Check, gpudirect, links, redirect};
use crate::audit::report::Level::{Fail, Note, Ok, Warn};

pub(super) const PCIE_LINK: Check = Check {
    code: "pcie-link",
    title: "does a PCIe link run slower than its path allows?",
    reads: "current_link_{speed,width} and max_link_{speed,width} of each function up to the root; a path's cap is the least, over \
            its links, of what both ends can do",
    rules: &[
        (Ok, "none does; one below its own maximum and not below the cap costs nothing"),
        (Note, "GPUs' own links do, as they make them while they idle; or the machine is a guest"),
        (Warn, "a GPU's link has fewer lanes than those of GPUs like it"),
        (Fail, "another link does"),
    ],
    why: "NCCL goes by the maximum and does not see it: every collective runs at the pace of that link",
    remedy: "reseat the card or riser; look for AER errors in the kernel's log",
    source: "scitix/sichek, components/infiniband/checker/pcie_tree_speed.go, and its issue 122; NCCL's src/graph/xml.cc",
    judge: links::pcie_link,
};

pub(super) const GPUDIRECT: Check = Check {
    code: "gpudirect",
    title: "will GPUDirect RDMA work between each GPU and its NIC?",
    reads: "loaded modules, /sys/kernel/mm/memory_peers, /proc/driver/nvidia/version, the kernel's release, IOMMU types, path, \
            ACS on the way, BAR 1 of the GPU",
    rules: &[
        (
            Ok,
            "yes: the NIC's driver gets at GPU memory, nothing translates, and the path is PIX, PXB or NVLink-C2C",
        ),
        (
            Note,
            "yes, but over a path that NCCL does not take by default, by a detour, or for little memory at a time; not known; or \
                no, and the GPU is of a kind that cannot",
        ),
        (Warn, "no: no way to GPU memory, or the IOMMU translates"),
    ],
    why: "without it every message goes through the host's memory",
    remedy: "modprobe nvidia_peermem, or use the open kernel modules with Linux 5.12 or newer; iommu=pt on x86",
    source: "NCCL's src/transport/net_ib/gdr.cc and src/graph/paths.cc; NVIDIA's \"GPUDirect RDMA\" guide; ROCm's \"IOMMU\" page",
    judge: gpudirect::gpudirect,
};

pub(super) const ACS: Check = Check {
    code: "acs",
    title: "do switches between GPU and NIC pass packets directly?",
    reads: "the ACS control register (extended capability 0x000d) of the ports between a GPU and its NIC, below the bridge above \
            both; only root may read it",
    rules: &[
        (
            Ok,
            "no port has ReqRedir, CmpltRedir or UpstreamFwd (mask xx000xx), or translated requests go directly (1x111x1, \
              with ATS, on a host of guests), or no switch is shared, or the machine is a guest",
        ),
        (Note, "only root may read it"),
        (Warn, "a port of a bare machine redirects"),
    ],
    why: "redirected packets go up to the root complex and down again: a fraction of the bandwidth, or a hang",
    remedy: "pci=disable_acs_redir=… or config_acs= on the kernel's command line, setpci, or the firmware's ACS setting",
    source: "linux-rdma/rdma-core, kernel-boot/rdma_topo; the kernel's Documentation/admin-guide/kernel-parameters.txt, config_acs=",
    judge: redirect::acs,
};

pub(super) const ATS: Check = Check {
    code: "ats",
    title: "do NICs behind switches keep translations of their own?",
    reads: "the ATS control register (extended capability 0x000f) of NICs behind a switch; only root may read it",
    rules: &[(Ok, "no"), (Note, "yes, on a machine that is no guest")],
    why: "it is for hosts that give the NIC to guests; on a bare machine it adds requests",
    remedy: "nothing on a host of guests; else ATS_ENABLED=0 by mlxconfig",
    source: "linux-rdma/rdma-core, kernel-boot/rdma_topo",
    judge: redirect::ats,
};

pub(super) const IOMMU: Check = Check {
    code: "iommu",
    title: "does the IOMMU translate what GPUs and NICs read and write?",
    reads: "iommu_group/type of GPUs and of the NICs that they are given",
    rules: &[
        (Ok, "`identity`"),
        (Note, "`DMA` or `DMA-FQ`, on an Arm processor, in a guest, or on an unknown processor"),
        (Warn, "`DMA` or `DMA-FQ`, on x86"),
    ],
    why: "GPUDirect RDMA by peer memory needs physical addresses, and translation costs bandwidth",
    remedy: "iommu=pt on the kernel's command line",
    source: "NVIDIA's \"GPUDirect RDMA\" guide, \"Supported Systems\"; ROCm's \"IOMMU\" page; the kernel's \
             Documentation/ABI/testing/sysfs-kernel-iommu_groups",
    judge: redirect::iommu,
};

pub(super) const IOMMU_GROUP: Check = Check {
    code: "iommu-group",
    title: "are a GPU and its NIC behind a switch in one IOMMU group?",
    reads: "iommu_group of both",
    rules: &[(Ok, "they are, or there are no groups"), (Note, "they are not")],
    why: "groups of their own mean that a port between them isolates, which is what acs looks for",
    remedy: "see acs",
    source: "linux-rdma/rdma-core, kernel-boot/rdma_topo",
    judge: redirect::iommu_group,
};

pub(super) const RELAXED_ORDERING: Check = Check {
    code: "relaxed-ordering",
    title: "may the NICs' packets be reordered?",
    reads: "bit 4 of the PCIe device control register of the NICs; only root may read it",
    rules: &[(Ok, "all"), (Note, "at most half of them"), (Warn, "most, and not all")],
    why: "on many processors strict order halves what a NIC writes; NCCL asks for relaxed order where it can",
    remedy: "the firmware's setting; setpci -s NIC CAP_EXP+8.w=10:10 until the next restart",
    source: "NCCL's src/transport/net_ib, IB_PCI_RELAXED_ORDERING; PCI Express Base Specification, Device Control Register",
    judge: redirect::relaxed_ordering,
};

pub(super) const READ_REQUEST: Check = Check {
    code: "read-request",
    title: "may the NICs ask for 4096 bytes at once?",
    reads: "bits 12 to 14 of the PCIe device control register of the NICs; only root may read it",
    rules: &[(Ok, "4096 bytes"), (Note, "less")],
    why: "small requests cost bandwidth of reads on some machines",
    remedy: "setpci -s NIC CAP_EXP+8.w=5000:7000 until the next restart, and measure",
    source: "scitix/sichek, components/infiniband/checker/pcie_mrr.go",
    judge: redirect::read_request,
};
