//! `<cpu>` of NCCL's XML: a NUMA node, its CPUs, and everything below it.
#![forbid(unsafe_code)]

use super::{Element, INVENTED_HOSTS, Place, Reader, elements, values};
use crate::import::{BadText, numa_node, shown};
use nic_placement_core::topology::file::MAX_NUMA_NODES;
use nic_placement_core::topology::{Arch, CpuSet, HostBridge, PciParent, Processor};

impl<'a> Reader<'a> {
    pub(super) fn cpu(&mut self, cpu: Element<'a>) -> Result<(), BadText> {
        // a file of a multi-node NVLink domain has all its hosts, with the same addresses in each
        if let Some(host) = cpu.attribute("host_hash") {
            let first = *self.host.get_or_insert(host);
            if first != host {
                let (host, first) = (shown(host), shown(first));
                let problem = format!(
                    "`host_hash` is `{host}` here and `{first}` before: the file describes several hosts, and a topology one"
                );
                return Err(self.bad(cpu, problem));
            }
        }
        if self.topology.processor.is_none() {
            self.topology.processor = processor(cpu);
        }
        let index = self.cpus.len() as u32;
        let numa_node = self.numa_node(cpu)?;
        let host = HostBridge {
            domain: INVENTED_HOSTS + index,
            bus: 0,
        };
        for child in elements(cpu) {
            match child.tag_name().name() {
                "pci" => self.pci(
                    child,
                    Place {
                        parent: PciParent::Host(host),
                        numa_node,
                        level: 1,
                    },
                )?,
                "nic" => self.nic(child, None, None)?,
                _ => self.unknown(child),
            }
        }
        Ok(())
    }

    /// The NUMA node of a `<cpu>`; `None` if the kernel did not tell it (-1).
    fn numa_node(&mut self, cpu: Element<'a>) -> Result<Option<u32>, BadText> {
        let text = cpu.attribute("numaid");
        if text.is_none() {
            self.note("<cpu>", "no `numaid`: what is below it has no NUMA node");
        }
        let text = text.unwrap_or("-1");
        let number = text.trim().parse::<i64>().ok();
        let number = number.filter(|number| (-1..MAX_NUMA_NODES as i64).contains(number));
        let number = number.ok_or_else(|| {
            let text = shown(text);
            let expected = format!("expected -1 or a number below {MAX_NUMA_NODES}");
            self.bad(cpu, format!("`numaid` `{text}`: {expected}"))
        })?;
        if let Some(first) = self.cpus.insert(number, cpu.range().start) {
            return Err(self.second(cpu, format!("`numaid` `{number}`"), first));
        }
        let Ok(os_index) = u32::try_from(number) else {
            return Ok(None);
        };
        let mut cpus = CpuSet::new();
        if let Some(text) = cpu.attribute("affinity") {
            cpus = values::affinity(text).ok_or_else(|| {
                let text = shown(text);
                let expected = "expected a mask such as `ffffffff,00000000`";
                self.bad(cpu, format!("`affinity` `{text}`: {expected}"))
            })?;
        }
        // an offset marks a part of a mask, from a system that Slurm does not run on
        let mut others = self.topology.numa_nodes.iter();
        let finding = if cpu
            .attribute("affinity_offset")
            .is_some_and(|offset| offset != "0")
        {
            Some("has an offset".to_string())
        } else {
            // seen in a cloud provider's file: the same mask for all nodes
            let other = others.find(|other| other.cpus.intersects(&cpus));
            other.map(|other| format!("names CPUs of NUMA node {} too", other.os_index))
        };
        if let Some(finding) = finding {
            let finding = format!("`affinity` {finding}: its CPUs are not used");
            self.note(format!("numaid {number}"), finding);
            cpus = CpuSet::new();
        }
        self.topology.numa_nodes.push(numa_node(os_index, cpus));
        Ok(Some(os_index))
    }
}

/// `arch`, `vendor`, `familyid`, `modelid`.
fn processor(cpu: Element<'_>) -> Option<Processor> {
    let arch = match cpu.attribute("arch")? {
        "x86_64" => Arch::X86,
        "arm64" => Arch::Arm,
        "ppc64" => Arch::Power,
        _ => return None,
    };
    let number = |name: &str| cpu.attribute(name)?.parse::<u16>().ok().map(u32::from);
    crate::import::processor(arch, || {
        let family = values::family(number("familyid")?)?;
        Some((cpu.attribute("vendor")?, family, number("modelid")?))
    })
}
