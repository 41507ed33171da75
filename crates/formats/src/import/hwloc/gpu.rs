//! GPUs: PCI functions that look like GPUs, and those in which hwloc's GPU libraries found one.

use super::free_text;
use super::object::Object;
use super::pci::Bus;
use crate::import::{Imported, Result, shown};
use nic_placement_core::topology::file::MAX_GPUS;
use nic_placement_core::topology::{DeviceName, Gpu, GpuVendor, PciFunction};
use std::collections::BTreeMap;

/// Names that hwloc's libraries give to GPUs, the vendor's own first; the first one with a model name wins.
const LIBRARIES: [&str; 5] = ["nvml", "rsmi", "ze", "cuda", "opencl"];

/// ATI chips that only drive a server's console, like Matrox's and ASPEED's: Rage XL, RV100, ES1000.
const CONSOLES: [u16; 3] = [0x4752, 0x5159, 0x515e];

/// `nvml3` -> 3 of `nvml`; subdevices (`ze0.1`) and OpenCL's `opencl0d3` have no number here.
fn number(object: &Object, library: &str) -> Option<u32> {
    object
        .attribute("name")?
        .strip_prefix(library)?
        .parse()
        .ok()
}

/// The library that found this GPU, if one did: not the display driver's `card0`.
fn library(object: &Object, version: u32) -> Option<usize> {
    let name = object.attribute("name")?;
    let found = LIBRARIES.iter().position(|prefix| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })?;
    // OpenCL finds CPUs too
    let is_gpu = object
        .info("OpenCLDeviceType")
        .is_none_or(|kind| kind == "GPU");
    (object.os_types(version).gpu && is_gpu).then_some(found)
}

/// The vendor, if this function is a GPU for computing: discovery's rule.
fn vendor(function: &PciFunction, found_by_library: bool) -> Option<GpuVendor> {
    let vendor = GpuVendor::from_pci(function.vendor?)?;
    let class = function.class? >> 8;
    let console =
        vendor == GpuVendor::Amd && function.device.is_some_and(|id| CONSOLES.contains(&id));
    // an Intel CPU's own graphics on the host bridge; cards of that class stand behind a port
    let built_in =
        vendor == GpuVendor::Intel && class == 0x0300 && function.parent.bridge().is_none();
    let looks_like_one = GpuVendor::of_function(function.class?, function.vendor?).is_some();
    (!console && !built_in && (looks_like_one || found_by_library)).then_some(vendor)
}

pub fn gpus(bus: &Bus, to: &mut Imported) -> Result<()> {
    let file = bus.file;
    let mut inside: BTreeMap<usize, Vec<&Object>> = BTreeMap::new();
    let mut homeless: Vec<&str> = Vec::new();
    for object in file.of("OSDev") {
        match bus.device_of(object.index) {
            Some(device) => inside.entry(device).or_default().push(object),
            None if library(object, file.version).is_some() => {
                homeless.extend(object.attribute("name"))
            }
            None => {}
        }
    }
    let none: Vec<&Object> = Vec::new();
    for index in file.of("PCIDev").map(|device| device.index) {
        let Some(function) = bus.function(index) else {
            continue;
        };
        let devices = inside.get(&index).unwrap_or(&none);
        let found = devices
            .iter()
            .any(|object| library(object, file.version).is_some());
        let Some(vendor) = vendor(function, found) else {
            continue;
        };
        if to.topology.gpus.len() >= MAX_GPUS {
            to.note(
                function.address.to_string(),
                format!("more than {MAX_GPUS} GPUs: this and later ones are left out"),
            );
            break;
        }
        if bus.add(index, to)? {
            let room = MAX_GPUS - to.topology.gpus.len();
            to.topology.gpus.extend(
                partitions(Gpu::new(function.address, vendor), devices, file.version)
                    .into_iter()
                    .take(room),
            );
        }
    }
    if let (true, Some(first)) = (to.topology.gpus.is_empty(), homeless.first()) {
        to.note(
            shown(first),
            format!(
                "{} such devices, none below a PCI device: left out",
                homeless.len()
            ),
        );
    }
    // values that should tell GPUs apart but are equal identify none
    once(to, "uuid", |gpu| gpu.uuid.clone(), |gpu| gpu.uuid = None);
    once(to, "render node", Gpu::device_node, |gpu| gpu.minor = None);
    Ok(())
}

/// A GPU, or several if the driver shows an `rsmi` device for each part of one function (MI300 in
/// DPX, QPX or CPX mode).
fn partitions(gpu: Gpu, devices: &[&Object], version: u32) -> Vec<Gpu> {
    let mut libraries: Vec<(usize, &Object)> = devices
        .iter()
        .filter_map(|object| Some((library(object, version)?, *object)))
        .collect();
    libraries.sort_by_key(|(library, _)| *library);
    let model = libraries
        .iter()
        .find_map(|(_, object)| free_text(object.info("GPUModel")?));
    let info = |name: &str| libraries.iter().find_map(|(_, object)| object.info(name));
    let uuid = match gpu.vendor {
        GpuVendor::Nvidia => info("NVIDIAUUID")
            .filter(|uuid| uuid.starts_with("GPU-") && DeviceName::is_one(uuid))
            .map(str::to_string),
        GpuVendor::Amd => info("AMDUUID").and_then(amd_uuid),
        GpuVendor::Intel => None,
    };
    // only NVIDIA's driver knows its minor numbers: neither CUDA nor NVML counts by them
    let minor = match gpu.vendor {
        GpuVendor::Nvidia => None,
        GpuVendor::Amd | GpuVendor::Intel => {
            let mut nodes = devices
                .iter()
                .filter_map(|object| number(object, "renderD"));
            nodes.next().filter(|_| nodes.next().is_none())
        }
    };
    let gpu = Gpu {
        minor,
        uuid,
        model,
        ..gpu
    };
    let parts = devices
        .iter()
        .filter(|object| number(object, "rsmi").is_some())
        .count();
    if parts < 2 {
        return vec![gpu];
    }
    // the parts share one serial number and one name in /dev, which identify none of them
    (0..)
        .take(parts)
        .map(|partition| Gpu {
            partition: Some(partition),
            minor: None,
            uuid: None,
            ..gpu.clone()
        })
        .collect()
}

/// ROCm prints a serial number as sixteen digits after `GPU-`, and reads that in
/// `ROCR_VISIBLE_DEVICES` (ROCR-Runtime, `HSA_AMD_AGENT_INFO_UUID`); hwloc writes the bare number.
fn amd_uuid(text: &str) -> Option<String> {
    let digits =
        (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(text, 16)
        .ok()
        .filter(|&number| digits && number != 0)?;
    Some(format!("GPU-{number:016x}"))
}

fn once(
    to: &mut Imported,
    what: &str,
    value: impl Fn(&Gpu) -> Option<String>,
    take: impl Fn(&mut Gpu),
) {
    let mut holders: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, gpu) in to.topology.gpus.iter().enumerate() {
        if let Some(value) = value(gpu) {
            holders.entry(value).or_default().push(index);
        }
    }
    for (value, holders) in holders.into_iter().filter(|(_, holders)| holders.len() > 1) {
        to.note(
            value,
            format!("the {what} of {} GPUs: not used", holders.len()),
        );
        holders
            .into_iter()
            .for_each(|index| take(&mut to.topology.gpus[index]));
    }
}
