//! The candidates: ports that carry the fabric between GPUs, and the evidence against each other port.
#![forbid(unsafe_code)]

use super::Selection;
use super::broken::Likeness;
use super::evidence::{self, Candidate, Physical, most_bandwidth};
use crate::diagnostic::Diagnostic;
use crate::order::Order;
use crate::placement::{Excluded, Rail};
use crate::topology::{Nic, NicIndex, NicKind, NicRole, PortRef, PortState, Topology};

/// The most rails of a node: UCX marks the entries of its device list in a mask of 64 bits
/// (src/ucp/core/ucp_context.c). NCCL's own limit is in `libraries::nccl`.
pub(crate) const MAX_RAILS: usize = super::solve::MOST_RAILS;

/// The fields are as in `NodePlacement`.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// in PCI order
    pub(crate) rails: Vec<Rail>,
    pub(crate) broken: Vec<Rail>,
    pub(crate) degraded: Vec<Rail>,
    pub(crate) excluded: Vec<Excluded>,
    pub(crate) left_to_libfabric: Vec<NicIndex>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Judges every port of the node.  Failed ports in `were` count as broken rails: they were rails when more worked.
pub(crate) fn rails(topology: &Topology, selection: &Selection, were: &[Rail]) -> Candidates {
    let mut judging = Judging::new(topology, selection);
    judging.say_what_means_no_nic(selection);
    let failed = judging.leave_out_what_fails(selection);
    judging.leave_out_other_namespaces();
    // The fabric between GPUs is what most ports have in common; ports that differ serve something else.
    // Ports under suspicion do not vote.
    judging.leave_out_other_layers();
    let (fabrics_rate, slower) = judging.leave_out_far_slower();
    judging.leave_out_by_evidence(fabrics_rate);
    let rails = judging.first_rails();
    let mut broken = Vec::new();
    if !failed.is_empty() || !slower.is_empty() {
        let (likeness, others) = (Likeness::new(topology, &rails), judging.without_facts());
        let would_be_left_out = |candidate: &Candidate| {
            let facts = evidence::facts(topology, &judging.good, &judging.physical, candidate);
            !candidate.wanted && evidence::are_enough(topology, &others, candidate.nic, facts.len())
        };
        let would_be_a_rail = |candidate: &&Candidate| {
            !rails.is_empty() && were.iter().any(|rail| rail.at() == candidate.at())
                || likeness.would_be_a_rail(candidate) && !would_be_left_out(candidate)
        };
        // a port without a link may tell a lower rate than it had
        let rate = |candidate: &Candidate| fabrics_rate.max(candidate.port.rate_mbps);
        let slower = slower
            .iter()
            .filter(|slower| likeness.is_missed(slower.nic));
        let lost = failed.iter().chain(slower).filter(would_be_a_rail);
        broken = lost
            .map(|candidate| rail(topology, candidate, rate(candidate)))
            .collect();
        broken.order_by_key(Rail::at);
    }
    let degraded = degraded(topology, &rails, fabrics_rate);
    let Judging {
        mut excluded,
        left_to_libfabric,
        diagnostics,
        ..
    } = judging;
    excluded.order_by_key(|excluded| (topology.nic_index(&excluded.name), excluded.port));
    Candidates {
        rails,
        broken,
        degraded,
        excluded,
        left_to_libfabric,
        diagnostics,
    }
}

/// The ports of a node while they are judged.
struct Judging<'a> {
    topology: &'a Topology,
    /// ports without evidence against them so far
    good: Vec<Candidate<'a>>,
    physical: Physical,
    excluded: Vec<Excluded>,
    left_to_libfabric: Vec<NicIndex>,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> Judging<'a> {
    fn new(topology: &'a Topology, selection: &Selection) -> Judging<'a> {
        let (mut good, mut excluded, mut left_to_libfabric) =
            (Vec::<Candidate>::new(), Vec::new(), Vec::new());
        for (index, nic) in topology.numbered_nics() {
            let wanted = selection.include.iter().any(|pattern| pattern.matches(nic));
            let mut refusal = refusal(topology, nic, wanted, selection);
            if refusal.is_none() && nic.kind == NicKind::Ethernet {
                refusal = Some("it is no RDMA device".to_string());
            } else if refusal.is_none() && nic.kind != NicKind::Verbs {
                left_to_libfabric.push(index);
                let name = if nic.kind == NicKind::Efa {
                    "EFA"
                } else {
                    "Slingshot"
                };
                refusal = Some(format!(
                    "programs use {name} through libfabric, which chooses the NIC"
                ));
            }
            match refusal {
                Some(why) => excluded.push(Excluded {
                    name: nic.name.clone(),
                    port: None,
                    why,
                }),
                None => good.extend(nic.ports.iter().map(|port| Candidate {
                    nic: index,
                    port,
                    wanted,
                })),
            }
        }
        let physical = evidence::physical(topology);
        Judging {
            topology,
            good,
            physical,
            excluded,
            left_to_libfabric,
            diagnostics: Vec::new(),
        }
    }

    fn say_what_means_no_nic(&mut self, selection: &Selection) {
        for pattern in selection.include.iter().chain(&selection.exclude) {
            if !self.topology.nics.iter().any(|nic| pattern.matches(nic)) {
                self.diagnostics.push(Diagnostic::new(
                    pattern.to_string(),
                    "means no NIC of this node",
                ));
            }
        }
    }

    /// Leaves out each port for which `why`, which gets its position and the port, gives a reason.
    fn leave_out(
        &mut self,
        why: impl Fn(usize, &Candidate<'a>) -> Option<String>,
    ) -> Vec<Candidate<'a>> {
        let mut left_out = Vec::new();
        let mut positions = 0..;
        self.good.retain(|candidate| {
            let why = positions
                .next()
                .and_then(|position| why(position, candidate));
            let stays = why.is_none();
            if let Some(why) = why {
                let PortRef { nic, port } = candidate.at();
                let name = self.topology.nic(nic).name.clone();
                self.excluded.push(Excluded {
                    name,
                    port: Some(port),
                    why,
                });
                left_out.push(*candidate);
            }
            stays
        });
        left_out
    }

    /// The ports that do not work: first those without a link or a rate, then those that no task of the job may open.
    fn leave_out_what_fails(&mut self, selection: &Selection) -> Vec<Candidate<'a>> {
        let mut failed =
            self.leave_out(
                |_, candidate| match (candidate.port.state, candidate.port.rate_mbps) {
                    (PortState::Active, Some(0)) => Some("its port says rate 0".to_string()),
                    (PortState::Active, _) => None,
                    (state, _) => Some(format!("its port is {state}")),
                },
            );
        failed.extend(self.leave_out(|_, candidate| {
            let unopenable = selection
                .unopenable
                .iter()
                .find(|(unopenable, _)| *unopenable == candidate.nic);
            unopenable.map(|(_, why)| why.clone())
        }));
        failed
    }

    /// The ports that a container has; where all ports are like that, it is this process that stands in one.
    fn leave_out_other_namespaces(&mut self) {
        if self
            .good
            .iter()
            .all(|candidate| candidate.port.other_namespace)
        {
            return;
        }
        self.leave_out(|_, candidate| {
            let is_away = candidate.port.other_namespace && !candidate.wanted;
            is_away.then(|| {
                "its interface is in another network namespace: a container has it".to_string()
            })
        });
    }

    fn leave_out_other_layers(&mut self) {
        let layer = |candidate: &Candidate| candidate.port.link_layer;
        let Some(many) = most_bandwidth(&self.free_of_suspicion(), layer) else {
            return;
        };
        self.leave_out(|_, candidate| {
            let differs = layer(candidate) != many && !candidate.wanted;
            differs.then(|| format!("it speaks {}, the node's fabric {many}", layer(candidate)))
        });
    }

    /// Leaves out ports with less than half of the fabric's rate: a far NIC gives a GPU as much.  Returns the rate, if
    /// known, and these ports.
    fn leave_out_far_slower(&mut self) -> (Option<u64>, Vec<Candidate<'a>>) {
        let many = most_bandwidth(&self.free_of_suspicion(), |candidate| {
            candidate.port.rate_mbps
        })
        .flatten();
        let is_far_slower = |candidate: &Candidate| {
            candidate
                .port
                .rate_mbps
                .is_some_and(|mine| many.is_some_and(|many| 2 * mine < many))
        };
        let slower = self.leave_out(|_, candidate| {
            let is_left_out = !candidate.wanted && is_far_slower(candidate);
            evidence::slower(candidate.port, many).filter(|_| is_left_out)
        });
        (many, slower)
    }

    fn leave_out_by_evidence(&mut self, fabrics_rate: Option<u64>) {
        let (left_out, notes) =
            evidence::judge(self.topology, &self.good, &self.physical, fabrics_rate);
        self.leave_out(|position, _| left_out[position].clone());
        self.diagnostics.extend(notes);
    }

    fn first_rails(&mut self) -> Vec<Rail> {
        let all = self
            .good
            .iter()
            .map(|candidate| rail(self.topology, candidate, candidate.port.rate_mbps));
        let mut rails: Vec<Rail> = all.collect();
        if rails.len() > MAX_RAILS {
            let finding = format!(
                "{} usable ports: only the first {MAX_RAILS} are used",
                rails.len()
            );
            self.diagnostics
                .push(Diagnostic::new("/sys/class/infiniband", finding));
            self.excluded.extend(rails.drain(MAX_RAILS..).map(|rail| {
                let why = format!("it is beyond the {MAX_RAILS} ports that UCX can use");
                Excluded {
                    name: rail.name,
                    port: Some(rail.port),
                    why,
                }
            }));
        }
        rails
    }

    /// The candidates with no evidence of their own against them; all candidates if each has some.
    fn free_of_suspicion(&self) -> Vec<Candidate<'a>> {
        let free = self.without_facts();
        if free.is_empty() {
            self.good.clone()
        } else {
            free
        }
    }

    fn without_facts(&self) -> Vec<Candidate<'a>> {
        let is_free = |candidate: &Candidate| {
            candidate.wanted
                || evidence::facts(self.topology, &self.good, &self.physical, candidate).is_empty()
        };
        self.good.iter().copied().filter(is_free).collect()
    }
}

fn rail(topology: &Topology, candidate: &Candidate, rate_mbps: Option<u64>) -> Rail {
    let PortRef { nic, port } = candidate.at();
    Rail {
        nic,
        name: topology.nic(nic).name.clone(),
        port,
        rate_mbps,
    }
}

/// Rails slower than the fabric whose device does more elsewhere on the node.  Other nodes hardly share such a fault,
/// but they have a slower kind of NIC too.
fn degraded(topology: &Topology, rails: &[Rail], fabrics_rate: Option<u64>) -> Vec<Rail> {
    let is_slower = |rail: &&Rail| rail.rate_mbps.is_some() && rail.rate_mbps < fabrics_rate;
    let device = |rail: &Rail| evidence::device(topology, topology.nic(rail.nic));
    let does_more = |rail: &&Rail| {
        rails
            .iter()
            .any(|other| other.rate_mbps == fabrics_rate && device(other) == device(rail))
    };
    rails
        .iter()
        .filter(is_slower)
        .filter(does_more)
        .cloned()
        .collect()
}

/// The reason why a NIC as a whole may not be chosen.
fn refusal(topology: &Topology, nic: &Nic, wanted: bool, selection: &Selection) -> Option<String> {
    if let Some(pattern) = selection
        .exclude
        .iter()
        .find(|pattern| pattern.matches(nic))
    {
        return Some(format!("the admin's `exclude={pattern}`"));
    }
    let is_verbs = nic.kind == NicKind::Verbs;
    if is_verbs && nic.address.is_none() {
        return Some(
            "no PCI function of it is known: a software device, or the file names none".to_string(),
        );
    }
    if is_verbs && nic.ports.is_empty() {
        return Some("it has no port".to_string());
    }
    if !wanted && topology.manages_nvswitches(nic) {
        return Some("it manages the NVSwitches and leads to no other node".to_string());
    }
    if !wanted && !selection.include.is_empty() {
        return Some("the admin's `include=` does not name it".to_string());
    }
    match nic.role {
        Some(role @ (NicRole::Storage | NicRole::Management)) if !wanted => Some(format!(
            "it is a {role} NIC, as this machine's description says"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
