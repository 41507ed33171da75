//! Cases of what lies between a GPU and its NIC.

use super::cases::{Case, cases};
use super::world::{World, model, with_function};
use crate::audit::report::Level::{Fail, Note, Ok, Warn};
use crate::doctor::facts::HostFacts;
use nic_placement_core::topology::{LinkRate, PciAddress, PciFunction, Topology};

/// A DGX H100's first GPU, the NIC beside it, the switch's upstream port above both, and its port above the NIC.
const GPU: &str = "0000:1b:00.0";
const NIC: &str = "0000:18:00.0";
const UPSTREAM: &str = "0000:16:00.0";
const PORT: &str = "0000:17:00.0";

fn at(text: &str) -> PciAddress {
    text.parse().unwrap()
}

fn rate(tenths_gt: u32, width: u32) -> Option<LinkRate> {
    Some(LinkRate { tenths_gt, width })
}

/// A DGX H100 on whose links these functions have this rate now.
fn now(functions: &[&str], tenths_gt: u32, width: u32) -> Topology {
    let mut topology = model("dgx-h100");
    for function in functions {
        let change = |of: &mut PciFunction| of.link.current = rate(tenths_gt, width);
        with_function(&mut topology, at(function), change);
    }
    topology
}

pub(super) fn links() -> Vec<Case> {
    let all_gpus = || {
        let mut topology = model("dgx-h100");
        for gpu in topology.gpus.clone() {
            for function in [gpu.address, topology.pci.ancestors(gpu.address).0[0]] {
                with_function(&mut topology, function, |of| of.link.current = rate(25, 16));
            }
        }
        World::of(topology)
    };
    // a card of the fifth generation behind a switch of the fourth
    let mut older = now(&[NIC, PORT], 160, 16);
    with_function(&mut older, at(PORT), |of| of.link.max = rate(160, 16));
    cases! {
        check "pcie-link" {
            "as built": Ok "22 devices", World::of_model("dgx-h100");
            "GPUs that idle": Note "idles", all_gpus();
            "one GPU that idles": Note GPU, World::of(now(&[GPU, "0000:17:02.0"], 25, 16));
            "a GPU of fewer lanes": Warn "more lanes",
                World::of(now(&[GPU, "0000:17:02.0"], 320, 8));
            "a NIC that trained low": Fail NIC, World::of(now(&[NIC, PORT], 160, 16));
            "a NIC of fewer lanes": Fail "x8", World::of(now(&[NIC, PORT], 320, 8));
            "a switch that trained low": Fail UPSTREAM,
                World::of(now(&[UPSTREAM, "0000:15:01.0"], 160, 16));
            "a card better than its slot": Ok "", World::of(older);
            "one end tells another rate": Ok "", World::of(now(&[NIC], 25, 1));
            "a guest": Note "virtual machine", World::of(now(&[NIC, PORT], 160, 16)).guest();
        }
    }
}

/// NVIDIA's driver of that kind, on that kernel.
fn driver(world: World, kind: &str, kernel: &str) -> World {
    let text = format!("NVRM version: NVIDIA UNIX {kind} for x86_64  570.86.15");
    world
        .file("proc/driver/nvidia/version", &text)
        .file("proc/sys/kernel/osrelease", kernel)
        .folder("sys/module/nvidia")
}

const OPEN: &str = "Open Kernel Module";
const CLOSED: &str = "x86_64 Kernel Module";

pub(super) fn gpudirect() -> Vec<Case> {
    let dgx = || World::of_model("dgx-h100");
    let peermem = || driver(dgx(), CLOSED, "5.4.0").folder("sys/module/nvidia_peermem");
    let translated = |kind: &str| {
        let mut topology = model("dgx-h100");
        with_function(&mut topology, at(GPU), |of| of.iommu = Some(kind.into()));
        World::of(topology)
    };
    let no_switch = World::of_model("levante");
    let amd = || World::of_model("mi300x-8");
    cases! {
        check "gpudirect" {
            "peer memory": Ok "yes, by nvidia_peermem: GPU 0", peermem().bridges(0);
            "dma-buf": Ok "by dma-buf", driver(dgx(), OPEN, "6.8.0-31");
            "neither": Warn "nvidia_peermem is not loaded", driver(dgx(), CLOSED, "6.8.0");
            "open modules, old kernel": Note "not known", driver(dgx(), OPEN, "4.18.0-553.el8");
            "nothing told": Note "not known", dgx();
            "only described": None "", World::described(model("dgx-h100"));
            "the IOMMU translates": Warn "iommu=pt",
                driver(translated("DMA-FQ"), CLOSED, "6.8.0").folder("sys/module/nvidia_peermem");
            "the IOMMU passes": Ok "",
                driver(translated("identity"), CLOSED, "6.8.0").folder("sys/module/nvidia_peermem");
            "translated dma-buf": Note "not known: dma-buf",
                driver(translated("DMA"), OPEN, "6.8.0");
            "a detour": Note "see `acs`", peermem().bridges(0x1d);
            "far": Note "only up to PXB", driver(no_switch, OPEN, "6.8.0");
            "NVLink-C2C": Ok "by dma-buf", driver(World::of_model("gh200"), OPEN, "6.8.0");
            "a kind that cannot": Note "does not support it", World::of_model("dgx-spark");
            "AMD": Ok "amdkfd", amd().file("sys/kernel/mm/memory_peers/amdkfd/version", "1.0");
            "AMD without": Note "not known", amd();
            "EFA": None "",
                driver(World::of_model("aws-p5"), CLOSED, "6").folder("sys/module/efa_nv_peermem");
        }
    }
}

pub(super) fn redirect() -> Vec<Case> {
    let dgx = || World::of_model("dgx-h100");
    let live: fn(&mut HostFacts) = |facts| facts.is_live = true;
    cases! {
        check "acs" {
            "no port redirects": Ok "none redirects", dgx().bridges(0);
            "source validation alone": Ok "none redirects", dgx().bridges(0x01);
            "a bare machine that redirects": Warn "could turn in the switch", dgx().bridges(0x1d);
            "a guest": Ok "guest", dgx().bridges(0x1d).guest();
            "a host of guests": Ok "none redirects", dgx().bridges(0x5d).nics(0x5910, Some(0x8000));
            "a port without it": Ok "", dgx().config(at(PORT), 0x5910, None, None);
            "no switch is shared": Ok "no GPU and its NIC", World::of_model("gh200").bridges(0x1d);
            "only root may": Note "only root", dgx().patched(live);
            "a tree without it": None "", dgx();
        }
        check "relaxed-ordering" {
            "on": Ok "8 NICs", dgx().nics(0x5910, None);
            "off": Note "keep their order", dgx().nics(0x5900, None);
            "one off": Warn "mlx5_0", dgx().nics(0x5910, None).config(at(NIC), 0x5900, None, None);
        }
    }
}

pub(super) fn translation() -> Vec<Case> {
    let all = |name: &str, kind: &str| {
        let mut topology = model(name);
        let functions: Vec<PciAddress> = topology.pci.iter().map(|of| of.address).collect();
        for function in functions {
            with_function(&mut topology, function, |of| of.iommu = Some(kind.into()));
        }
        World::of(topology)
    };
    cases! {
        check "iommu" {
            "passes": Ok "not translated", all("dgx-h100", "identity");
            "translates": Warn "is translated", all("dgx-h100", "DMA-FQ");
            "an Arm processor": Note "Arm", all("gh200", "DMA");
            "a guest": Note "guest", all("dgx-h100", "DMA").guest();
            "not told": None "", World::of_model("dgx-h100");
        }
    }
}
