//! `<cpu>` of NCCL's XML: a NUMA node, its CPUs, and everything below it.
#![forbid(unsafe_code)]

use super::{Element, INVENTED_HOSTS, Place, Reader, elements, values};
use crate::import::{BadText, shown};
use nic_placement_core::topology::file::MAX_NUMA_NODES;
use nic_placement_core::topology::{
    Arch, CpuSet, CpuVendor, HostBridge, NumaNode, PciParent, Processor, X86,
};

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
        let number = match cpu.attribute("numaid") {
            None => {
                self.note("<cpu>", "no `numaid`: what is below it has no NUMA node");
                -1
            }
            Some(text) => match text.trim().parse::<i64>() {
                Ok(number) if (-1..MAX_NUMA_NODES as i64).contains(&number) => number,
                _ => {
                    let text = shown(text);
                    let problem = format!(
                        "`numaid` `{text}`: expected -1 or a number below {MAX_NUMA_NODES}"
                    );
                    return Err(self.bad(cpu, problem));
                }
            },
        };
        if let Some(&first) = self.cpus.get(&number) {
            let problem = format!(
                "`numaid` `{number}` a second time, the first is in line {}",
                self.line(first)
            );
            return Err(self.bad(cpu, problem));
        }
        self.cpus.insert(number, cpu.range().start);
        let Ok(os_index) = u32::try_from(number) else {
            return Ok(None);
        };
        let mut cpus = CpuSet::new();
        if let Some(text) = cpu.attribute("affinity") {
            cpus = values::affinity(text).ok_or_else(|| {
                self.bad(
                    cpu,
                    format!(
                        "`affinity` `{}`: expected a mask such as `ffffffff,00000000`",
                        shown(text)
                    ),
                )
            })?;
        }
        // an offset marks a part of a mask, from a system that Slurm does not run on
        if cpu
            .attribute("affinity_offset")
            .is_some_and(|offset| offset != "0")
        {
            self.note(
                format!("numaid {number}"),
                "`affinity` has an offset: its CPUs are not used",
            );
            cpus = CpuSet::new();
        }
        // seen in a cloud provider's file: the same mask for all nodes
        let other = self
            .topology
            .numa_nodes
            .iter()
            .find(|other| other.cpus.intersects(&cpus));
        if let Some(other) = other.map(|other| other.os_index) {
            let finding =
                format!("`affinity` names CPUs of NUMA node {other} too: its CPUs are not used");
            self.note(format!("numaid {number}"), finding);
            cpus = CpuSet::new();
        }
        self.topology.numa_nodes.push(NumaNode {
            os_index,
            cpus,
            distances: Vec::new(),
            package: None,
        });
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
    let x86 = || {
        let vendor = CpuVendor::from_word(cpu.attribute("vendor")?)?;
        Some(X86 {
            vendor,
            family: values::family(number("familyid")?)?,
            model: number("modelid")?,
        })
    };
    match arch {
        Arch::X86 => Some(Processor {
            arch,
            x86: Some(x86()?),
        }),
        Arch::Arm | Arch::Power => Some(Processor { arch, x86: None }),
    }
}
