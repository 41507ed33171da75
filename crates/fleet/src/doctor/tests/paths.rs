//! Cases of what lies between a GPU and its NIC.

use super::cases::{Case, case};
use super::world::{World, model, with_function};
use crate::audit::report::Level::{Fail, Note, Ok, Warn};
use crate::doctor::facts::HostFacts;
use nic_placement_core::topology::{LinkRate, PciAddress, Topology};

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
    functions.iter().for_each(|of| {
        with_function(&mut topology, at(of), |of| {
            of.link.current = rate(tenths_gt, width)
        })
    });
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
    vec![
        case(
            "pcie-link",
            "as built",
            World::of_model("dgx-h100"),
            Ok,
            "22 devices",
        ),
        case("pcie-link", "GPUs that idle", all_gpus(), Note, "idles"),
        case(
            "pcie-link",
            "one GPU that idles",
            World::of(now(&[GPU, "0000:17:02.0"], 25, 16)),
            Note,
            GPU,
        ),
        case(
            "pcie-link",
            "a GPU of fewer lanes",
            World::of(now(&[GPU, "0000:17:02.0"], 320, 8)),
            Warn,
            "more lanes",
        ),
        case(
            "pcie-link",
            "a NIC that trained low",
            World::of(now(&[NIC, PORT], 160, 16)),
            Fail,
            NIC,
        ),
        case(
            "pcie-link",
            "a NIC of fewer lanes",
            World::of(now(&[NIC, PORT], 320, 8)),
            Fail,
            "x8",
        ),
        case(
            "pcie-link",
            "a switch that trained low",
            World::of(now(&[UPSTREAM, "0000:15:01.0"], 160, 16)),
            Fail,
            UPSTREAM,
        ),
        case(
            "pcie-link",
            "a card better than its slot",
            World::of(older),
            Ok,
            "",
        ),
        case(
            "pcie-link",
            "one end tells another rate",
            World::of(now(&[NIC], 25, 1)),
            Ok,
            "",
        ),
        case(
            "pcie-link",
            "a guest",
            World::of(now(&[NIC, PORT], 160, 16)).guest(),
            Note,
            "virtual machine",
        ),
    ]
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
    let small = peermem();
    let resource = format!("{}/resource", small.function(at(GPU)));
    let lines = "0x0 0xffffff 0x0\n0x10000000 0x1fffffff 0x14220c";
    let no_switch = World::of_model("levante");
    let amd = || World::of_model("mi300x-8");
    vec![
        case(
            "gpudirect",
            "peer memory",
            peermem(),
            Ok,
            "yes, by nvidia_peermem, ACS on the way not told: GPU 0 with mlx5_0:1",
        ),
        case(
            "gpudirect",
            "a direct way",
            peermem().bridges(0),
            Ok,
            "yes, by nvidia_peermem: GPU 0",
        ),
        case(
            "gpudirect",
            "dma-buf",
            driver(dgx(), OPEN, "6.8.0-31"),
            Ok,
            "by dma-buf",
        ),
        case(
            "gpudirect",
            "neither",
            driver(dgx(), CLOSED, "6.8.0"),
            Warn,
            "nvidia_peermem is not loaded",
        ),
        case(
            "gpudirect",
            "open modules, old kernel",
            driver(dgx(), OPEN, "5.4.0"),
            Warn,
            "before 5.12",
        ),
        case(
            "gpudirect",
            "a distribution's old kernel",
            driver(dgx(), OPEN, "4.18.0-553.el8"),
            Note,
            "not known",
        ),
        case("gpudirect", "nothing told", dgx(), Note, "not known"),
        case(
            "gpudirect",
            "only described",
            World::described(model("dgx-h100")),
            None,
            "",
        ),
        case(
            "gpudirect",
            "the IOMMU translates",
            driver(translated("DMA-FQ"), CLOSED, "6.8.0").folder("sys/module/nvidia_peermem"),
            Warn,
            "iommu=pt",
        ),
        case(
            "gpudirect",
            "the IOMMU passes",
            driver(translated("identity"), CLOSED, "6.8.0").folder("sys/module/nvidia_peermem"),
            Ok,
            "",
        ),
        case(
            "gpudirect",
            "translated dma-buf",
            driver(translated("DMA"), OPEN, "6.8.0"),
            Note,
            "not known: by dma-buf",
        ),
        case(
            "gpudirect",
            "a detour",
            peermem().bridges(0x1d),
            Note,
            "see `acs`",
        ),
        case(
            "gpudirect",
            "a small BAR",
            small.file(&resource, lines),
            Note,
            "256 MiB",
        ),
        case(
            "gpudirect",
            "far",
            driver(no_switch, OPEN, "6.8.0"),
            Note,
            "only up to PXB",
        ),
        case(
            "gpudirect",
            "NVLink-C2C",
            driver(World::of_model("gh200"), OPEN, "6.8.0"),
            Ok,
            "by dma-buf",
        ),
        case(
            "gpudirect",
            "a kind that cannot",
            World::of_model("dgx-spark"),
            Note,
            "does not support it",
        ),
        case(
            "gpudirect",
            "AMD",
            amd().file("sys/kernel/mm/memory_peers/amdkfd/version", "1.0"),
            Ok,
            "amdkfd",
        ),
        case("gpudirect", "AMD without", amd(), Note, "not known"),
        case(
            "gpudirect",
            "EFA",
            driver(World::of_model("aws-p5"), CLOSED, "6.8.0").folder("sys/module/efa_nv_peermem"),
            None,
            "",
        ),
    ]
}

pub(super) fn redirect() -> Vec<Case> {
    let dgx = || World::of_model("dgx-h100");
    let live: fn(&mut HostFacts) = |facts| facts.is_live = true;
    vec![
        case(
            "acs",
            "no port redirects",
            dgx().bridges(0),
            Ok,
            "none redirects",
        ),
        case(
            "acs",
            "source validation alone",
            dgx().bridges(0x01),
            Ok,
            "none redirects",
        ),
        case(
            "acs",
            "a bare machine that redirects",
            dgx().bridges(0x1d),
            Warn,
            "ReqRedir+ CmpltRedir+ UpstreamFwd+",
        ),
        case("acs", "a guest", dgx().bridges(0x1d).guest(), Ok, "guest"),
        case(
            "acs",
            "a host of guests",
            dgx().bridges(0x5d).nics(0x5910, Some(0x8000)),
            Ok,
            "none redirects",
        ),
        case(
            "acs",
            "a port without it",
            dgx().config(at(PORT), 0x5910, None, None),
            Ok,
            "",
        ),
        case(
            "acs",
            "no switch is shared",
            World::of_model("gh200").bridges(0x1d),
            Ok,
            "no GPU and its NIC",
        ),
        case(
            "acs",
            "only root may",
            dgx().patched(live),
            Note,
            "only root",
        ),
        case("acs", "a tree without it", dgx(), None, ""),
        case("ats", "off", dgx().nics(0x5910, Some(0)), Ok, "off"),
        case(
            "ats",
            "on",
            dgx().nics(0x5910, Some(0x8000)),
            Note,
            "host of virtual machines",
        ),
        case(
            "ats",
            "a guest",
            dgx().nics(0x5910, Some(0x8000)).guest(),
            None,
            "",
        ),
        case(
            "relaxed-ordering",
            "on",
            dgx().nics(0x5910, None),
            Ok,
            "8 NICs",
        ),
        case(
            "relaxed-ordering",
            "off",
            dgx().nics(0x5900, None),
            Note,
            "keep their order",
        ),
        case(
            "relaxed-ordering",
            "one off",
            dgx().nics(0x5910, None).config(at(NIC), 0x5900, None, None),
            Warn,
            "mlx5_0",
        ),
        case("read-request", "4096", dgx().nics(0x5910, None), Ok, "4096"),
        case(
            "read-request",
            "512",
            dgx().nics(0x2910, None),
            Note,
            "mlx5_0 512",
        ),
    ]
}

pub(super) fn translation() -> Vec<Case> {
    let all = |name: &str, kind: &str| {
        let mut topology = model(name);
        let functions: Vec<PciAddress> = topology.pci.iter().map(|of| of.address).collect();
        functions
            .into_iter()
            .for_each(|of| with_function(&mut topology, of, |of| of.iommu = Some(kind.into())));
        World::of(topology)
    };
    let grouped = |groups: [&str; 2]| {
        [GPU, NIC].iter().zip(groups).fold(
            World::of_model("dgx-h100"),
            |world, (function, group)| {
                let path = format!("{}/iommu_group", world.function(at(function)));
                let up = "../".repeat(path.split('/').count() - 2);
                world.link(&path, &format!("{up}kernel/iommu_groups/{group}"))
            },
        )
    };
    vec![
        case(
            "iommu",
            "passes",
            all("dgx-h100", "identity"),
            Ok,
            "not translated",
        ),
        case(
            "iommu",
            "translates",
            all("dgx-h100", "DMA-FQ"),
            Warn,
            "type DMA-FQ",
        ),
        case(
            "iommu",
            "an Arm processor",
            all("gh200", "DMA"),
            Note,
            "Arm",
        ),
        case(
            "iommu",
            "a guest",
            all("dgx-h100", "DMA").guest(),
            Note,
            "guest",
        ),
        case("iommu", "not told", World::of_model("dgx-h100"), None, ""),
        case(
            "iommu-group",
            "one",
            grouped(["7", "7"]),
            Ok,
            "share a group",
        ),
        case(
            "iommu-group",
            "two",
            grouped(["7", "8"]),
            Note,
            "GPU 0 (7) and mlx5_0 (8)",
        ),
        case("iommu-group", "none", World::of_model("dgx-h100"), None, ""),
    ]
}
