//! The table of known machines: the files of their topologies, and the marks by which each is recognised.
#![forbid(unsafe_code)]

use super::Model;
use nic_placement_topology::GpuVendor;

#[derive(Debug)]
pub(super) struct GpuKind {
    pub(super) vendor: GpuVendor,
    /// PCI device id
    pub(super) id: u16,
    /// NVIDIA's driver's names for it; the others' have none
    pub(super) names: &'static [&'static str],
}

/// The DMI fields that all virtual machines of a cloud share.
#[derive(Debug)]
pub(super) struct Cloud {
    /// DMI `sys_vendor`, where it is always the same
    pub(super) vendor: Option<&'static str>,
    /// DMI `chassis_asset_tag`, where it is always the same
    pub(super) asset_tag: Option<&'static str>,
}

/// The tag is "MSFT AZURE VM" in ASCII; cloud-init and WALinuxAgent recognise Azure by it.
const AZURE: Option<Cloud> = Some(Cloud {
    vendor: Some("Microsoft Corporation"),
    asset_tag: Some("7783-7084-3265-9085-8269-3286-77"),
});
const AWS: Option<Cloud> = Some(Cloud {
    vendor: Some("Amazon EC2"),
    asset_tag: None,
});
/// cloud-init recognises Oracle's cloud by this tag, on bare metal too.
const ORACLE: Option<Cloud> = Some(Cloud {
    vendor: None,
    asset_tag: Some("OracleCloud.com"),
});
const GOOGLE: Option<Cloud> = Some(Cloud {
    vendor: Some("Google"),
    asset_tag: None,
});

const fn nvidia(id: u16, names: &'static [&'static str]) -> GpuKind {
    GpuKind {
        vendor: GpuVendor::Nvidia,
        id,
        names,
    }
}

const fn amd(id: u16) -> GpuKind {
    GpuKind {
        vendor: GpuVendor::Amd,
        id,
        names: &[],
    }
}

const fn intel(id: u16) -> GpuKind {
    GpuKind {
        vendor: GpuVendor::Intel,
        id,
        names: &[],
    }
}

// PCI device ids and names of GPUs: NVIDIA's list of supported GPUs (open GPU kernel modules), and pci.ids
const A10G: &[GpuKind] = &[nvidia(0x2237, &["NVIDIA A10G", "A10G"])];
const A100: &[GpuKind] = &[
    nvidia(0x20b0, &["NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"]),
    nvidia(
        0x20b2,
        &["NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "A100-SXM-80GB"],
    ),
];
const H100: &[GpuKind] = &[nvidia(0x2330, &["NVIDIA H100 80GB HBM3"])];
const H200: &[GpuKind] = &[nvidia(0x2335, &["NVIDIA H200"])];
/// EC2's p5 has H100, its p5e H200.
const P5: &[GpuKind] = &[
    nvidia(0x2330, &["NVIDIA H100 80GB HBM3"]),
    nvidia(0x2335, &["NVIDIA H200"]),
];
const B200: &[GpuKind] = &[nvidia(0x2901, &["NVIDIA B200"])];
const B300: &[GpuKind] = &[nvidia(0x3182, &["NVIDIA B300 SXM6 AC"])];
const GB200: &[GpuKind] = &[nvidia(0x2941, &["NVIDIA GB200"])];
const GB300: &[GpuKind] = &[nvidia(0x31c2, &["NVIDIA GB300"])];
const GH200: &[GpuKind] = &[nvidia(
    0x2342,
    &["NVIDIA GH200 480GB", "NVIDIA GH200 120GB", "GH200 120GB"],
)];
const GB10: &[GpuKind] = &[nvidia(0x2e12, &["NVIDIA GB10"])];
const MI250X: &[GpuKind] = &[amd(0x7408)];
const MI300A: &[GpuKind] = &[amd(0x74a0)];
const MI300X: &[GpuKind] = &[amd(0x74a1)];
const MI325X: &[GpuKind] = &[amd(0x74a5)];
const MI355X: &[GpuKind] = &[amd(0x75a3), amd(0x75a0)];
const MAX_1550: &[GpuKind] = &[intel(0x0bd5), intel(0x0bd6)];
const V100: &[GpuKind] = &[
    nvidia(0x1db1, &["Tesla V100-SXM2-16GB"]),
    nvidia(0x1db5, &["Tesla V100-SXM2-32GB"]),
];

const UNMARKED: Model = Model {
    name: "",
    title: "",
    packed: &[],
    products: &[],
    cloud: None,
    kinds: &[],
    gpus: 8,
    addresses: false,
    assumed: &[],
};

/// A machine whose file has its name, with the marks that differ from [`UNMARKED`].
macro_rules! known {
    ($name:literal, $title:literal, $($marks:tt)*) => {
        Model {
            name: $name,
            title: $title,
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            $($marks)*,
            ..UNMARKED
        }
    };
}

/// All known machines, in order of name.  EC2's product name is the instance type.
pub const MODELS: &[Model] = &[
    known!("alps-gh200", "CSCS Alps: 4 GH200 Grace Hopper superchips, 4 Slingshot NICs", kinds: GH200, gpus: 4),
    known!("aurora", "ALCF Aurora: 6 Data Center GPU Max 1550, 8 Slingshot NICs, 2 Xeon CPU Max 9470C",
        kinds: MAX_1550, gpus: 6),
    known!("aws-g5", "AWS g5.48xlarge: 8 A10G, 1 EFA",
        products: &["g5.48xlarge"], cloud: AWS, kinds: A10G, addresses: true),
    known!("aws-p4d", "AWS p4d.24xlarge: 8 A100, 4 EFA",
        products: &["p4d.24xlarge", "p4de.24xlarge"], cloud: AWS, kinds: A100, addresses: true),
    known!("aws-p5", "AWS p5.48xlarge and p5e.48xlarge: 8 H100 or H200, 32 EFA",
        products: &["p5.48xlarge", "p5e.48xlarge"], cloud: AWS, kinds: P5, addresses: true),
    known!("aws-p5en", "AWS p5en.48xlarge: 8 H200, 16 EFA (200 Gb/s)",
        products: &["p5en.48xlarge"], cloud: AWS, kinds: H200, addresses: true),
    known!("aws-p6-b200", "AWS p6-b200.48xlarge: 8 B200, 8 EFA (400 Gb/s)",
        products: &["p6-b200.48xlarge"], cloud: AWS, kinds: B200, addresses: true),
    known!("aws-p6-b300", "AWS p6-b300.48xlarge: 8 B300, 16 EFA (400 Gb/s)",
        products: &["p6-b300.48xlarge"], cloud: AWS, kinds: B300, addresses: true),
    known!("azure-nd128isr-gb300-v6", "Azure ND128isr GB300 v6: 4 GB300, 4 ConnectX (800 Gb/s)",
        cloud: AZURE, kinds: GB300, gpus: 4, addresses: true),
    known!("azure-nd96asr-a100-v4", "Azure ND96asr and ND96amsr A100 v4: 8 A100, 8 ConnectX-6 (HDR)",
        cloud: AZURE, kinds: A100, addresses: true),
    known!("azure-nd96isr-h100-v5", "Azure ND96isr H100 v5: 8 H100, 8 ConnectX-7 (NDR)",
        cloud: AZURE, kinds: H100, addresses: true),
    known!("azure-nd96isr-h200-v5", "Azure ND96isr H200 v5: 8 H200, 8 ConnectX-7 (NDR)",
        cloud: AZURE, kinds: H200, addresses: true),
    known!("dgx-a100", "NVIDIA DGX A100: 8 A100 SXM4, 8 ConnectX-6 (HDR), 2 EPYC 7742",
        products: &["DGXA100"], kinds: A100, addresses: true),
    known!("dgx-b200", "NVIDIA DGX B200: 8 B200, 8 ConnectX-7 (NDR), 2 BlueField-3, 2 Xeon 8570",
        products: &["DGXB200"], kinds: B200),
    known!("dgx-b300", "NVIDIA DGX B300: 8 B300, 8 ConnectX-8 (XDR), 2 BlueField-3, 2 Xeon 6776P",
        products: &["DGXB300"], kinds: B300),
    known!("dgx-h100", "NVIDIA DGX H100: 8 H100 SXM5, 8 ConnectX-7 (NDR), 2 Xeon 8480C",
        products: &["DGXH100"], kinds: H100, addresses: true),
    known!("dgx-h200", "NVIDIA DGX H200: 8 H200 SXM5, 8 ConnectX-7 (NDR), 2 Xeon 8480C",
        products: &["DGXH200"], kinds: H200, addresses: true),
    known!("dgx-spark", "NVIDIA DGX Spark: 1 GB10, 2 dual-port ConnectX-7",
        products: &["NVIDIA_DGX_Spark"], kinds: GB10, gpus: 1, addresses: true),
    known!("frontier", "HPE Cray EX235a (Frontier, Tioga): 8 GCDs of 4 MI250X, 4 Slingshot NICs",
        products: &["HPE_CRAY_EX235A", "HPE CRAY EX235A"], kinds: MI250X, addresses: true),
    known!("gb200-nvl72", "a compute tray of an NVIDIA GB200 NVL72: 4 GB200, 4 ConnectX-7, 2 BlueField-3",
        kinds: GB200, gpus: 4, addresses: true),
    known!("gb300-nvl72", "a compute tray of an NVIDIA GB300 NVL72: 4 GB300, 4 ConnectX-8 (XDR)",
        kinds: GB300, gpus: 4, addresses: true),
    known!("gh200", "NVIDIA GH200: 1 Grace Hopper superchip, 1 ConnectX-7", kinds: GH200, gpus: 1),
    known!("gke-a3-mega", "Google Cloud A3 Mega: 8 H100, 8 gVNIC (200 Gb/s, no RDMA)", cloud: GOOGLE, kinds: H100),
    known!("gke-a3-ultra", "Google Cloud A3 Ultra: 8 H200, 8 ConnectX-7 (RoCE)", cloud: GOOGLE, kinds: H200),
    known!("gke-a4", "Google Cloud A4: 8 B200, 8 ConnectX-7 (RoCE)", cloud: GOOGLE, kinds: B200),
    known!("hgx-h100-bf3", "HGX H100 with storage beside two of its GPUs: 8 H100, 8 ConnectX-7 (RoCE), 2 BlueField-3",
        kinds: H100),
    known!("juwels-booster", "JUWELS Booster: 4 A100, 4 ConnectX-6 (HDR), 2 EPYC 7402", kinds: A100, gpus: 4),
    known!("levante", "DKRZ Levante GPU node: 4 A100, 2 ConnectX-6 (HDR), 2 EPYC 7763", kinds: A100, gpus: 4),
    known!("mi300x-8", "8 MI300X, 8 ConnectX-7 (NDR), 2 Xeon", kinds: MI300X, addresses: true),
    known!("mi325x-8", "8 MI325X, 8 BCM57608 (400 Gb/s RoCE), 2 EPYC", kinds: MI325X, addresses: true),
    known!("mi355x-8", "8 MI355X or MI350X, 8 Pollara 400 (RoCE), 2 EPYC", kinds: MI355X, addresses: true),
    known!("oci-bm-gpu-h100-8", "OCI BM.GPU.H100.8: 8 H100, 16 ports of ConnectX-7 (200 Gb/s RoCE)",
        cloud: ORACLE, kinds: H100, addresses: true, assumed: &["mlx5_2", "mlx5_11"]),
    known!("oci-bm-gpu-h200-8", "OCI BM.GPU.H200.8: 8 H200, 8 ConnectX-7 (RoCE)", cloud: ORACLE, kinds: H200),
    known!("perlmutter", "NERSC Perlmutter GPU node: 4 A100, 4 Slingshot NICs, 1 EPYC 7763",
        kinds: A100, gpus: 4, addresses: true),
    known!("polaris", "ALCF Polaris: 4 A100, 2 Slingshot NICs, 1 EPYC 7543P", kinds: A100, gpus: 4),
    known!("summit", "OLCF Summit (IBM AC922): 6 V100, 1 dual-port ConnectX-5 (EDR) on both sockets, 2 POWER9",
        kinds: V100, gpus: 6, addresses: true),
    known!("tuolumne", "HPE Cray EX255a (Tuolumne, El Capitan): 4 MI300A, 4 Slingshot NICs",
        kinds: MI300A, gpus: 4, addresses: true),
];
