//! By what each known machine is told from others, beside its topology.
#![forbid(unsafe_code)]

use crate::topology::GpuVendor;

/// The marks of one model.
#[derive(Debug)]
pub(super) struct Marks {
    /// the model's name
    pub model: &'static str,
    /// how DMI product or board names of such machines begin
    pub products: &'static [&'static str],
    /// the clouds' names for it
    pub shapes: &'static [&'static str],
    /// whose virtual machine it is
    pub provider: Option<Provider>,
    /// who made its GPUs
    pub gpu_vendor: GpuVendor,
    /// PCI device ids that its GPUs may have
    pub gpu_ids: &'static [u16],
    /// GPUs, as PCI functions
    pub gpus: usize,
    /// do its sources state the PCI addresses?  Assumed ones say nothing of a live machine.
    pub addresses: bool,
    /// NICs whose addresses are assumed although the others are stated
    pub assumed: &'static [&'static str],
}

/// What all virtual machines of a cloud say of themselves.
#[derive(Debug)]
pub(super) struct Provider {
    /// DMI `sys_vendor`, where it is always the same
    pub vendor: Option<&'static str>,
    /// DMI `chassis_asset_tag`, where it is always the same
    pub asset_tag: Option<&'static str>,
}

/// The tag stands for "MSFT AZURE VM" in ASCII; cloud-init and WALinuxAgent know Azure by it.
const AZURE: Option<Provider> = Some(Provider {
    vendor: Some("Microsoft Corporation"),
    asset_tag: Some("7783-7084-3265-9085-8269-3286-77"),
});
const AWS: Option<Provider> = Some(Provider { vendor: Some("Amazon EC2"), asset_tag: None });
/// cloud-init knows Oracle's cloud by this tag, on bare metal too.
const ORACLE: Option<Provider> = Some(Provider { vendor: None, asset_tag: Some("OracleCloud.com") });
const GOOGLE: Option<Provider> = Some(Provider { vendor: Some("Google"), asset_tag: None });

const UNMARKED: Marks = Marks {
    model: "",
    products: &[],
    shapes: &[],
    provider: None,
    gpu_vendor: GpuVendor::Nvidia,
    gpu_ids: &[],
    gpus: 8,
    addresses: false,
    assumed: &[],
};

// PCI device ids of GPUs: NVIDIA's list of supported GPUs (open GPU kernel modules) and pci.ids
const A100: &[u16] = &[0x20b0, 0x20b2];
const H100: &[u16] = &[0x2330];
const H200: &[u16] = &[0x2335];

/// In the order of the models.  EC2's product name is the instance type.
pub(super) const MARKS: &[Marks] = &[
    Marks {
        model: "aws-g5",
        products: &["g5.48xlarge"],
        shapes: &["g5.48xlarge"],
        provider: AWS,
        gpu_ids: &[0x2237],
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "aws-p4d",
        products: &["p4d.24xlarge", "p4de.24xlarge"],
        shapes: &["p4d.24xlarge", "p4de.24xlarge"],
        provider: AWS,
        gpu_ids: A100,
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "aws-p5",
        products: &["p5.48xlarge"],
        shapes: &["p5.48xlarge"],
        provider: AWS,
        gpu_ids: H100,
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "azure-nd128isr-gb300-v6",
        shapes: &["Standard_ND128isr_GB300_v6"],
        provider: AZURE,
        gpu_ids: &[0x31c2],
        gpus: 4,
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "azure-nd96asr-a100-v4",
        shapes: &["Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4"],
        provider: AZURE,
        gpu_ids: A100,
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "azure-nd96isr-h100-v5",
        shapes: &["Standard_ND96isr_H100_v5"],
        provider: AZURE,
        gpu_ids: H100,
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "azure-nd96isr-h200-v5",
        shapes: &["Standard_ND96isr_H200_v5"],
        provider: AZURE,
        gpu_ids: H200,
        addresses: true,
        ..UNMARKED
    },
    Marks { model: "dgx-a100", products: &["DGXA100"], gpu_ids: A100, addresses: true, ..UNMARKED },
    Marks { model: "dgx-b200", products: &["DGXB200"], gpu_ids: &[0x2901], ..UNMARKED },
    Marks { model: "dgx-h100", products: &["DGXH100"], gpu_ids: H100, addresses: true, ..UNMARKED },
    Marks { model: "dgx-h200", products: &["DGXH200"], gpu_ids: H200, addresses: true, ..UNMARKED },
    Marks {
        model: "dgx-spark",
        products: &["NVIDIA_DGX_Spark"],
        gpu_ids: &[0x2e12],
        gpus: 1,
        addresses: true,
        ..UNMARKED
    },
    Marks {
        model: "frontier",
        products: &["HPE_CRAY_EX235A", "HPE CRAY EX235A"],
        gpu_vendor: GpuVendor::Amd,
        gpu_ids: &[0x7408],
        addresses: true,
        ..UNMARKED
    },
    Marks { model: "gb200-nvl72", gpu_ids: &[0x2941], gpus: 4, addresses: true, ..UNMARKED },
    Marks { model: "gh200", gpu_ids: &[0x2342], gpus: 1, ..UNMARKED },
    Marks { model: "gke-a3-ultra", shapes: &["a3-ultragpu-8g"], provider: GOOGLE, gpu_ids: H200, ..UNMARKED },
    Marks { model: "hgx-h100-bf3", gpu_ids: H100, ..UNMARKED },
    Marks { model: "juwels-booster", gpu_ids: A100, gpus: 4, ..UNMARKED },
    Marks { model: "levante", gpu_ids: A100, gpus: 4, ..UNMARKED },
    Marks { model: "mi300x-8", gpu_vendor: GpuVendor::Amd, gpu_ids: &[0x74a1], addresses: true, ..UNMARKED },
    Marks {
        model: "oci-bm-gpu-h100-8",
        shapes: &["BM.GPU.H100.8"],
        provider: ORACLE,
        gpu_ids: H100,
        addresses: true,
        assumed: &["mlx5_2", "mlx5_11"],
        ..UNMARKED
    },
    Marks {
        model: "oci-bm-gpu-h200-8",
        shapes: &["BM.GPU.H200.8"],
        provider: ORACLE,
        gpu_ids: H200,
        ..UNMARKED
    },
];
