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
use crate::order::Order;
use crate::topology::{CpuSet, NodeSet, Topology};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A task while we settle it.
struct Mover {
    id: usize,
    /// the step's CPUs on each rung of its ladder
    regions: Rc<Vec<CpuSet>>,
    /// the rung of Slurm's mask
    here: usize,
    /// the rung it should reach; it stays if that is `here`
    target: usize,
}

/// Settles all tasks of a crew if every task's home is known: the CPUs of one of them, and the rung of its ladder that it
/// reaches.  Every task of the step computes the same for all.
pub(super) fn settle(topology: &Topology, crew: &Crew, id: usize) -> (CpuSet, usize) {
    let homes = crew.homes.as_deref().unwrap_or_default();
    // many tasks share few homes
    let mut known: BTreeMap<&NodeSet, (Ladder, Rc<Vec<CpuSet>>)> = BTreeMap::new();
    let mut movers: Vec<Mover> = Vec::with_capacity(crew.len());
    for (id, home) in homes.iter().take(crew.len()).enumerate() {
        let (ladder, regions) = known.entry(home).or_insert_with(|| {
            let ladder = Ladder::around(topology, home);
            let regions = ladder.rungs().iter().map(|rung| crew.cpus.intersection(&rung.cpus)).collect();
            (ladder, Rc::new(regions))
        });
        let here = ladder.rung_of(crew.mask(id));
        movers.push(Mover { id, regions: Rc::clone(regions), here, target: 0 });
    }
    let before = served(crew.all_masks(), &crew.parts);
    // each turn sends a task one rung farther, so the loop ends
    loop {
        let give_way = match try_targets(crew, &movers) {
            Err(too_many) => too_many,
            Ok(mut masks) if served(masks.iter().map(|mask| &**mask), &crew.parts) >= before => {
                let mask = masks.swap_remove(id).into_owned();
                // a seat may be nearer than the region in which it was dealt
                let rung = known.get(&homes[id]).map_or(0, |(ladder, _)| ladder.rung_of(&mask));
                return (mask, rung.min(movers[id].target).min(movers[id].here));
            }
            Ok(masks) => in_the_way(crew, &movers, &masks, before),
        };
        // a mover stands at the place of its task
        give_way.into_iter().for_each(|id| movers[id].target += 1);
    }
}

/// The movers by region, the farthest region first: those who gain least give way first.
fn groups(movers: &[Mover]) -> Vec<Vec<&Mover>> {
    let mut groups: Vec<Vec<&Mover>> = Vec::new();
    for mover in movers.iter().filter(|mover| mover.moves()) {
        let same =
            |group: &&mut Vec<&Mover>| group[0].target == mover.target && group[0].region() == mover.region();
        match groups.iter_mut().find(same) {
            Some(group) => group.push(mover),
            None => groups.push(vec![mover]),
        }
    }
    groups.order_by_key(|group| Reverse(group[0].target));
    groups
}

/// The movers that give way if not all tasks have their parts: in the smallest crowded region, those that
/// came farthest; if no region is crowded by itself, the group without which all others have their parts.
fn in_the_way(crew: &Crew, movers: &[Mover], masks: &[Cow<CpuSet>], before: usize) -> Vec<usize> {
    let groups = groups(movers);
    let mut regions: Vec<&CpuSet> = groups.iter().map(|group| group[0].region()).collect();
    regions.order_by_key(|region| region.len());
    for region in regions {
        let is_confined: Vec<bool> = masks.iter().map(|mask| mask.is_subset(region)).collect();
        let crowd = movers.iter().filter(|mover| mover.moves() && is_confined[mover.id]);
        let need: usize = (0..crew.len()).filter(|&id| is_confined[id]).map(|id| crew.parts[id]).sum();
        if let (true, Some(farthest)) = (need > region.len(), crowd.clone().map(|mover| mover.target).max()) {
            return crowd.filter(|mover| mover.target == farthest).map(|mover| mover.id).collect();
        }
    }
    let ids = |group: &Vec<&Mover>| group.iter().map(|mover| mover.id).collect::<Vec<usize>>();
    let is_enough = |group: &&Vec<&Mover>| {
        let mut without = masks.to_vec();
        ids(group).into_iter().for_each(|id| without[id] = Cow::Borrowed(crew.mask(id)));
        served(without.iter().map(|mask| &**mask), &crew.parts) >= before
    };
    groups.iter().find(is_enough).or(groups.first()).map(ids).unwrap_or_default()
}

impl Mover {
    fn moves(&self) -> bool {
        self.target < self.here
    }

    /// The step's CPUs on the rung that it should reach.
    fn region(&self) -> &CpuSet {
        &self.regions[self.target]
    }
}

/// All tasks' masks if all movers reach their targets; or the movers whose region does not hold their parts.
fn try_targets<'a>(crew: &'a Crew, movers: &'a [Mover]) -> Result<Vec<Cow<'a, CpuSet>>, Vec<usize>> {
    let mut masks: Vec<Cow<CpuSet>> = crew.all_masks().map(Cow::Borrowed).collect();
    // a mover whose mask has its part of near CPUs gives the rest away and takes nothing
    let mut homeless: Vec<&Mover> = Vec::new();
    for mover in movers.iter().filter(|mover| mover.moves()) {
        let part = match crew.shares_one_mask() {
            true => Cow::Borrowed(mover.region()),
            false => Cow::Owned(crew.mask(mover.id).intersection(mover.region())),
        };
        if part.len() >= crew.parts[mover.id].max(1) {
            masks[mover.id] = part;
        } else {
            homeless.push(mover);
        }
    }
    let mut is_homeless = vec![false; crew.len()];
    homeless.iter().for_each(|mover| is_homeless[mover.id] = true);
    let settled = (0..crew.len()).filter(|&id| !is_homeless[id]);
    let others = match homeless.is_empty() {
        true => CpuSet::new(),
        false => settled.fold(CpuSet::new(), |all, id| all.union(&masks[id])),
    };
    while let Some(first) = homeless.first() {
        let near = first.region();
        let (group, rest): (Vec<&Mover>, Vec<&Mover>) =
            homeless.iter().partition(|mover| mover.region() == near);
        homeless = rest;
        let ids: Vec<usize> = group.iter().map(|mover| mover.id).collect();
        let wanted: Vec<usize> = ids.iter().map(|&id| crew.parts[id]).collect();
        let left = minus(near, &others);
        let need: usize = wanted.iter().sum();
        if left.len() >= need.max(1) {
            let seats = if crew.is_private() { seats(crew, &left, &wanted) } else { None };
            let seats = match seats {
                Some(seats) => nearest_seats(&group, &wanted, seats),
                None => vec![left; ids.len()],
            };
            ids.iter().zip(seats).for_each(|(&id, seat)| masks[id] = Cow::Owned(seat));
        } else if near.len() >= need.max(1) {
            // other tasks have some of these CPUs too; the flow tells whether every task has its part
            ids.iter().for_each(|&id| masks[id] = Cow::Borrowed(near));
        } else {
            return Err(ids);
        }
    }
    Ok(masks)
}

/// A seat of its own for each mover, made of the masks of the tasks that left, which Slurm has cut along
/// cores.  The remaining masks go round.  `None` if the masks are too few or too small.
fn seats(crew: &Crew, left: &CpuSet, wanted: &[usize]) -> Option<Vec<CpuSet>> {
    let units = (0..crew.len()).map(|id| crew.mask(id).intersection(left)).filter(|unit| !unit.is_empty());
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
    let own = crew.mask(id);
    let here = ladder.rung_of(own);
    let most = crew.parts.iter().copied().max().unwrap_or(1).max(1);
    for (number, rung) in ladder.rungs().iter().enumerate().take(here) {
        let near = crew.cpus.intersection(&rung.cpus);
        let part = own.intersection(&near);
        if crew.is_private() && part.len() >= crew.parts[id].max(1) {
            return (part, number);
        }
        let comers = may_be_near(&rung.nodes).clamp(1, crew.len());
        let need = if crew.shares_one_mask() {
            comers * most
        } else {
            // a task that overlaps may stay, and one that does not may come
            let inside: Vec<usize> =
                (0..crew.len()).filter(|&other| other != id && crew.mask(other).intersects(&near)).collect();
            let others = crew.len() - inside.len();
            inside.iter().map(|&other| crew.parts[other]).sum::<usize>() + comers.min(others).max(1) * most
        };
        if near.len() >= need {
            return (near, number);
        }
    }
    (own.clone(), here)
}

/// The same seats where each mover in turn takes, of those that hold its part, the one with most CPUs on its GPUs' own NUMA
/// nodes.  Where parts differ every seat is cut for its mover, and stays as it is.
fn nearest_seats(group: &[&Mover], wanted: &[usize], mut seats: Vec<CpuSet>) -> Vec<CpuSet> {
    if wanted.iter().any(|part| *part != wanted[0]) {
        return seats;
    }
    for (at, mover) in group.iter().enumerate() {
        let near = |seat: usize| seats[seat].intersection(&mover.regions[0]).len();
        // the first of those that are as near: who has nothing to gain leaves the order as it is
        let best = (at..seats.len()).max_by_key(|&seat| (near(seat), Reverse(seat))).unwrap_or(at);
        seats[at..=best].rotate_right(1);
    }
    seats
}

fn minus(cpus: &CpuSet, others: &CpuSet) -> CpuSet {
    cpus.iter().filter(|&cpu| !others.contains(cpu)).collect()
}

#[cfg(test)]
mod tests;
