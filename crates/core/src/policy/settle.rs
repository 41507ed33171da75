//! The CPUs of a step's tasks by default: near their GPUs if every task keeps its part, else where Slurm put
//! them.
//!
//! A private slice costs a task's helper threads some per cent, and a NUMA-wide mask costs nothing.  But on a
//! busy node with one free core near the GPUs, four tasks of four CPUs each on that core lose nearly all.  So
//! tasks take near CPUs only if these hold the parts of all tasks that will share them.
#![forbid(unsafe_code)]

use super::crew::Crew;
use super::flow::served;
use super::ladder::Ladder;
use crate::topology::{CpuSet, NodeSet, Topology};
use std::cmp::Reverse;

/// The tasks' CPUs, if all of them decide by this rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settled {
    /// `[task]`
    pub(super) masks: Vec<CpuSet>,
    /// `[task]`: the rung of its ladder that it reached
    pub(super) rungs: Vec<usize>,
}

/// A task while we settle it.
struct Mover {
    id: usize,
    ladder: Ladder,
    /// the rung of Slurm's mask
    here: usize,
    /// the rung it should reach; it stays if that is `here`
    target: usize,
}

/// Settles all tasks of a crew if every task's home is known.  Every task of the step computes the same.
pub(super) fn settle(topology: &Topology, crew: &Crew) -> Settled {
    let homes = crew.homes.as_deref().unwrap_or_default();
    let mut movers: Vec<Mover> = homes
        .iter()
        .take(crew.len())
        .enumerate()
        .map(|(id, home)| {
            let ladder = Ladder::around(topology, home);
            let here = ladder.rung_of(&crew.masks[id]);
            Mover { id, ladder, here, target: 0 }
        })
        .collect();
    let before = served(&crew.masks, &crew.parts);
    // each turn sends a task one rung farther, so the loop ends
    loop {
        let give_way = match try_targets(crew, &movers) {
            Err(too_many) => too_many,
            Ok(masks) if served(&masks, &crew.parts) >= before => {
                let rungs = movers.iter().map(|mover| mover.target.min(mover.here)).collect();
                return Settled { masks, rungs };
            }
            Ok(masks) => in_the_way(crew, &movers, &masks, before),
        };
        for mover in movers.iter_mut().filter(|mover| give_way.contains(&mover.id)) {
            mover.target += 1;
        }
    }
}

/// The movers by region, the farthest region first: those who gain least give way first.
fn groups<'a>(crew: &Crew, movers: &'a [Mover]) -> Vec<Vec<&'a Mover>> {
    let mut groups: Vec<Vec<&Mover>> = Vec::new();
    for mover in movers.iter().filter(|mover| mover.moves()) {
        let same = |group: &&mut Vec<&Mover>| {
            group[0].target == mover.target && group[0].region(crew) == mover.region(crew)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(mover),
            None => groups.push(vec![mover]),
        }
    }
    groups.sort_by_key(|group| Reverse(group[0].target));
    groups
}

/// The movers that give way if not all tasks have their parts: in the smallest crowded region, those that
/// came farthest; if no region is crowded by itself, the group without which all others have their parts.
fn in_the_way(crew: &Crew, movers: &[Mover], masks: &[CpuSet], before: usize) -> Vec<usize> {
    let groups = groups(crew, movers);
    let mut regions: Vec<CpuSet> = groups.iter().map(|group| group[0].region(crew)).collect();
    regions.sort_by_key(CpuSet::len);
    for region in &regions {
        let confined: Vec<usize> = (0..crew.len()).filter(|&id| masks[id].is_subset(region)).collect();
        let crowd = movers.iter().filter(|mover| mover.moves() && confined.contains(&mover.id));
        let need: usize = confined.iter().map(|&id| crew.parts[id]).sum();
        if let (true, Some(farthest)) = (need > region.len(), crowd.clone().map(|mover| mover.target).max()) {
            return crowd.filter(|mover| mover.target == farthest).map(|mover| mover.id).collect();
        }
    }
    let ids = |group: &Vec<&Mover>| group.iter().map(|mover| mover.id).collect::<Vec<usize>>();
    let is_enough = |group: &&Vec<&Mover>| {
        let mut without = masks.to_vec();
        ids(group).into_iter().for_each(|id| without[id] = crew.masks[id].clone());
        served(&without, &crew.parts) >= before
    };
    groups.iter().find(is_enough).or(groups.first()).map(ids).unwrap_or_default()
}

impl Mover {
    fn moves(&self) -> bool {
        self.target < self.here
    }

    /// The step's CPUs on the rung that it should reach.
    fn region(&self, crew: &Crew) -> CpuSet {
        crew.cpus.intersection(&self.ladder.rungs()[self.target].cpus)
    }
}

/// All tasks' masks if all movers reach their targets; or the movers whose region does not hold their parts.
fn try_targets(crew: &Crew, movers: &[Mover]) -> Result<Vec<CpuSet>, Vec<usize>> {
    let mut masks = crew.masks.clone();
    // a mover whose mask has its part of near CPUs gives the rest away and takes nothing
    let mut homeless: Vec<&Mover> = Vec::new();
    for mover in movers.iter().filter(|mover| mover.moves()) {
        let part = crew.masks[mover.id].intersection(&mover.region(crew));
        if part.len() >= crew.parts[mover.id].max(1) {
            masks[mover.id] = part;
        } else {
            homeless.push(mover);
        }
    }
    let is_homeless = |id: usize| homeless.iter().any(|mover| mover.id == id);
    let settled: Vec<usize> = (0..crew.len()).filter(|&id| !is_homeless(id)).collect();
    while let Some(first) = homeless.first() {
        let near = first.region(crew);
        let (group, rest): (Vec<&Mover>, Vec<&Mover>) =
            homeless.iter().partition(|mover| mover.region(crew) == near);
        homeless = rest;
        let ids: Vec<usize> = group.iter().map(|mover| mover.id).collect();
        let wanted: Vec<usize> = ids.iter().map(|&id| crew.parts[id]).collect();
        let others = settled.iter().fold(CpuSet::new(), |all, &id| all.union(&masks[id]));
        let left = minus(&near, &others);
        let need: usize = wanted.iter().sum();
        if left.len() >= need.max(1) {
            let seats = if crew.is_private() { seats(crew, &left, &wanted) } else { None };
            let seats = seats.unwrap_or_else(|| vec![left; ids.len()]);
            ids.iter().zip(seats).for_each(|(&id, seat)| masks[id] = seat);
        } else if near.len() >= need.max(1) {
            // other tasks have some of these CPUs too; the flow tells whether every task has its part
            ids.iter().for_each(|&id| masks[id] = near.clone());
        } else {
            return Err(ids);
        }
    }
    Ok(masks)
}

/// A seat of its own for each mover, made of the masks of the tasks that left, which Slurm has cut along
/// cores.  The remaining masks go round.  `None` if the masks are too few or too small.
fn seats(crew: &Crew, left: &CpuSet, wanted: &[usize]) -> Option<Vec<CpuSet>> {
    let units = crew.masks.iter().map(|mask| mask.intersection(left)).filter(|unit| !unit.is_empty());
    let mut seats = vec![CpuSet::new(); wanted.len()];
    for (place, unit) in units.enumerate() {
        let seat = &mut seats[place % wanted.len()];
        *seat = seat.union(&unit);
    }
    seats.iter().zip(wanted).all(|(seat, &part)| seat.len() >= part.max(1)).then_some(seats)
}

/// Settles one task of a crew if the others' GPUs are unknown: near CPUs that hold all parts, however the
/// others decide.
///
/// `may_be_near` gives the most tasks, this one included, that can have their GPUs on some NUMA nodes.
pub(super) fn settle_alone(
    topology: &Topology,
    crew: &Crew,
    id: usize,
    home: &NodeSet,
    may_be_near: impl Fn(&NodeSet) -> usize,
) -> (CpuSet, usize) {
    let ladder = Ladder::around(topology, home);
    let own = &crew.masks[id];
    let here = ladder.rung_of(own);
    let most = crew.parts.iter().copied().max().unwrap_or(1).max(1);
    for (number, rung) in ladder.rungs().iter().enumerate().take(here) {
        let near = crew.cpus.intersection(&rung.cpus);
        let part = own.intersection(&near);
        if crew.is_private() && part.len() >= crew.parts[id].max(1) {
            return (part, number);
        }
        let comers = may_be_near(&rung.nodes).clamp(1, crew.len());
        let need = if crew.masks.iter().all(|mask| mask == own) {
            comers * most
        } else {
            // a task that overlaps may stay, and one that does not may come
            let inside: Vec<usize> =
                (0..crew.len()).filter(|&other| other != id && crew.masks[other].intersects(&near)).collect();
            let others = crew.len() - inside.len();
            inside.iter().map(|&other| crew.parts[other]).sum::<usize>() + comers.min(others).max(1) * most
        };
        if near.len() >= need {
            return (near, number);
        }
    }
    (own.clone(), here)
}

fn minus(cpus: &CpuSet, others: &CpuSet) -> CpuSet {
    cpus.iter().filter(|&cpu| !others.contains(cpu)).collect()
}

#[cfg(test)]
mod tests;
