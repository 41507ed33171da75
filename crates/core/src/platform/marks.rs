//! The marks by which each known machine is recognised, in addition to its topology.
#![forbid(unsafe_code)]

use crate::topology::GpuVendor;

/// The marks of one model.
#[derive(Debug)]
pub(super) struct Marks {
    /// the model's name
    pub model: &'static str,
    /// beginnings of such machines' DMI product or board names
    pub products: &'static [&'static str],
    /// the cloud, for a virtual machine
    pub provider: Option<Provider>,
    /// its GPUs' vendor
    pub gpu_vendor: GpuVendor,
    /// the kinds of GPU that it may have
    pub kinds: &'static [GpuKind],
    /// GPUs, as PCI functions
    pub gpus: usize,
    /// do its sources state the PCI addresses?  Assumed ones identify no live machine.
    pub addresses: bool,
    /// NICs whose addresses are assumed although the others are stated
    pub assumed: &'static [&'static str],
}

/// A kind of GPU.
#[derive(Debug)]
pub(super) struct GpuKind {
    /// PCI device id
    pub id: u16,
    /// NVIDIA's driver's names for it; AMD's has none
    pub names: &'static [&'static str],
}

/// The DMI fields that all virtual machines of a cloud share.
#[derive(Debug)]
pub(super) struct Provider {
    /// DMI `sys_vendor`, where it is always the same
    pub vendor: Option<&'static str>,
    /// DMI `chassis_asset_tag`, where it is always the same
    pub asset_tag: Option<&'static str>,
}

/// The tag is "MSFT AZURE VM" in ASCII; cloud-init and WALinuxAgent recognise Azure by it.
const AZURE: Option<Provider> = Some(Provider {
    vendor: Some("Microsoft Corporation"),
    asset_tag: Some("7783-7084-3265-9085-8269-3286-77"),
});
const AWS: Option<Provider> = Some(Provider { vendor: Some("Amazon EC2"), asset_tag: None });
/// cloud-init recognises Oracle's cloud by this tag, on bare metal too.
const ORACLE: Option<Provider> = Some(Provider { vendor: None, asset_tag: Some("OracleCloud.com") });
const GOOGLE: Option<Provider> = Some(Provider { vendor: Some("Google"), asset_tag: None });

const UNMARKED: Marks = Marks {
    model: "",
    products: &[],
    provider: None,
    gpu_vendor: GpuVendor::Nvidia,
    kinds: &[],
    gpus: 8,
    addresses: false,
    assumed: &[],
};

// PCI device ids and names of GPUs: NVIDIA's list of supported GPUs (open GPU kernel modules), and pci.ids
const A10G: &[GpuKind] = &[GpuKind { id: 0x2237, names: &["NVIDIA A10G", "A10G"] }];
const A100: &[GpuKind] = &[
    GpuKind { id: 0x20b0, names: &["NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"] },
    GpuKind { id: 0x20b2, names: &["NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "A100-SXM-80GB"] },
];
const H100: &[GpuKind] = &[GpuKind { id: 0x2330, names: &["NVIDIA H100 80GB HBM3"] }];
const H200: &[GpuKind] = &[GpuKind { id: 0x2335, names: &["NVIDIA H200"] }];
const B200: &[GpuKind] = &[GpuKind { id: 0x2901, names: &["NVIDIA B200"] }];
const GB200: &[GpuKind] = &[GpuKind { id: 0x2941, names: &["NVIDIA GB200"] }];
const GB300: &[GpuKind] = &[GpuKind { id: 0x31c2, names: &["NVIDIA GB300"] }];
const GH200: &[GpuKind] = &[GpuKind { id: 0x2342, names: &["NVIDIA GH200 480GB"] }];
const GB10: &[GpuKind] = &[GpuKind { id: 0x2e12, names: &["NVIDIA GB10"] }];
const MI250X: &[GpuKind] = &[GpuKind { id: 0x7408, names: &[] }];
const MI300X: &[GpuKind] = &[GpuKind { id: 0x74a1, names: &[] }];

/// In the order of the models.  EC2's product name is the instance type.
pub(super) const MARKS: &[Marks] = &[
    Marks {
        model: "aws-g5",
        products: &["g5.48xlarge"],
        provider: AWS,
        kinds: A10G,
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "aws-p4d",
        products: &["p4d.24xlarge", "p4de.24xlarge"],
        provider: AWS,
        kinds: A100,
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "aws-p5",
        products: &["p5.48xlarge"],
        provider: AWS,
        kinds: H100,
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "azure-nd128isr-gb300-v6",
        provider: AZURE,
        kinds: GB300,
        gpus: 4,
        addresses: true,
        ..UNMARKED
    },
    Marks { model: "azure-nd96asr-a100-v4", provider: AZURE, kinds: A100, addresses: true, ..UNMARKED },
    Marks { model: "azure-nd96isr-h100-v5", provider: AZURE, kinds: H100, addresses: true, ..UNMARKED },
    Marks { model: "azure-nd96isr-h200-v5", provider: AZURE, kinds: H200, addresses: true, ..UNMARKED },
    Marks { model: "dgx-a100", products: &["DGXA100"], kinds: A100, addresses: true, ..UNMARKED },
    Marks { model: "dgx-b200", products: &["DGXB200"], kinds: B200, ..UNMARKED },
    Marks { model: "dgx-h100", products: &["DGXH100"], kinds: H100, addresses: true, ..UNMARKED },
    Marks { model: "dgx-h200", products: &["DGXH200"], kinds: H200, addresses: true, ..UNMARKED },
    Marks {
        model: "dgx-spark",
        products: &["NVIDIA_DGX_Spark"],
        kinds: GB10,
        gpus: 1,
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "frontier",
        products: &["HPE_CRAY_EX235A", "HPE CRAY EX235A"],
        gpu_vendor: GpuVendor::Amd,
        kinds: MI250X,
        addresses: true,
        ..UNMARKED
    },
    Marks { model: "gb200-nvl72", kinds: GB200, gpus: 4, addresses: true, ..UNMARKED },
    Marks { model: "gh200", kinds: GH200, gpus: 1, ..UNMARKED },
    Marks { model: "gke-a3-ultra", provider: GOOGLE, kinds: H200, ..UNMARKED },
    Marks { model: "hgx-h100-bf3", kinds: H100, ..UNMARKED },
    Marks { model: "juwels-booster", kinds: A100, gpus: 4, ..UNMARKED },
    Marks { model: "levante", kinds: A100, gpus: 4, ..UNMARKED },
    Marks { model: "mi300x-8", gpu_vendor: GpuVendor::Amd, kinds: MI300X, addresses: true, ..UNMARKED },
    Marks {
        model: "oci-bm-gpu-h100-8",
        provider: ORACLE,
        kinds: H100,
        addresses: true,
        assumed: &["mlx5_2", "mlx5_11"],
        ..UNMARKED
    },
    Marks { model: "oci-bm-gpu-h200-8", provider: ORACLE, kinds: H200, ..UNMARKED },
];
