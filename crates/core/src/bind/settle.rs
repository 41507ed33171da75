//! The CPUs of a step's tasks by default: near their GPUs if every task keeps its share, else where Slurm put them.
//!
//! A private slice costs a task's helper threads some per cent, and a NUMA-wide mask costs nothing.  But on a
//! busy node with one free core near the GPUs, four tasks of four CPUs each on that core lose nearly all.  So
//! tasks take near CPUs only if each keeps the share of CPUs and of cores that it has by Slurm's masks, or that it asked for.
#![forbid(unsafe_code)]

use super::crew::Crew;
use super::exchange::{distance, exchanged};
use super::shares::{ONE, fair};
use crate::order::Order;
use crate::policy::ladder::Ladder;
use crate::topology::{CpuSet, NodeSet, Topology};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What the tasks of a step are due: no less than this after a move.
pub(super) struct Due {
    /// `[core]`: its threads
    cores: Vec<CpuSet>,
    /// `[task]`: its share of CPUs and of cores by Slurm's masks
    shares: Vec<[u64; 2]>,
    /// `[task]`: the same, or what it asked for if that is less
    of_task: Vec<[u64; 2]>,
}

impl Due {
    pub(super) fn new(topology: &Topology, crew: &Crew) -> Due {
        let mut due = Due { cores: topology.cores(), shares: Vec::new(), of_task: Vec::new() };
        due.shares = due.shares_of(&crew.all_masks());
        let threads = due.cores.iter().map(|core| core.intersection(&crew.cpus).len()).max().unwrap_or(1);
        let asked = crew.asked.map_or(u64::MAX, |asked| asked as u64 * ONE);
        let most = [asked, asked / threads.max(1) as u64];
        due.of_task = due.shares.iter().map(|share| [share[0].min(most[0]), share[1].min(most[1])]).collect();
        due
    }

    /// `[task]`: its share of CPUs and of cores by these masks.
    fn shares_of(&self, masks: &[&CpuSet]) -> Vec<[u64; 2]> {
        let in_cores: Vec<CpuSet> = masks.iter().map(|mask| self.in_cores(mask)).collect();
        let of_cores = fair(&in_cores.iter().collect::<Vec<_>>());
        fair(masks).into_iter().zip(of_cores).map(|(cpus, cores)| [cpus, cores]).collect()
    }

    /// Has every task its due by these masks?
    pub(super) fn is_kept(&self, masks: &[&CpuSet]) -> bool {
        self.shares_of(masks).iter().zip(&self.of_task).all(|(has, due)| has[0] >= due[0] && has[1] >= due[1])
    }

    /// Do these CPUs, and their cores, hold what these tasks are due together?
    fn fits(&self, cpus: &CpuSet, ids: impl IntoIterator<Item = usize>) -> bool {
        let due = ids.into_iter().map(|id| self.of_task[id]).fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
        cpus.len() as u64 * ONE >= due[0].max(1) && self.in_cores(cpus).len() as u64 * ONE >= due[1]
    }

    /// What a task is due, in CPUs, rounded up.
    pub(super) fn cpus_of(&self, id: usize) -> usize {
        self.of_task.get(id).map_or(0, |due| due[0].div_ceil(ONE) as usize)
    }

    /// A mask of cores: each stands for all of its threads by the first of them; a CPU of no known core is one.
    fn in_cores(&self, mask: &CpuSet) -> CpuSet {
        match self.cores.is_empty() {
            true => mask.clone(),
            false => {
                self.cores.iter().filter(|core| core.intersects(mask)).filter_map(CpuSet::first).collect()
            }
        }
    }
}

/// A task while it is settled.
struct Mover {
    id: usize,
    /// the step's CPUs on each rung of its ladder
    regions: Rc<Vec<CpuSet>>,
    /// the rung of its mask
    here: usize,
    /// the rung it should reach; it stays if that is `here`
    target: usize,
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

/// The masks of all tasks of a crew.  Every task of the step computes the same.
pub(super) fn settle<'t>(topology: &Topology, crew: &Crew<'t>) -> Vec<Cow<'t, CpuSet>> {
    let due = Due::new(topology, crew);
    let masks: Vec<&CpuSet> =
        exchanged(topology, crew, &due.shares).into_iter().map(|whose| crew.mask(whose)).collect();
    // many tasks share few homes
    let mut known: BTreeMap<&NodeSet, (Ladder, Rc<Vec<CpuSet>>)> = BTreeMap::new();
    let mut movers: Vec<Mover> = Vec::with_capacity(crew.len());
    for (id, home) in crew.homes.iter().enumerate() {
        let Some(home) = home else { continue };
        let (ladder, regions) = known.entry(home).or_insert_with(|| {
            let ladder = Ladder::around(topology, home);
            let regions = ladder.rungs().iter().map(|rung| crew.cpus.intersection(&rung.cpus)).collect();
            (ladder, Rc::new(regions))
        });
        let here = ladder.rung_of(masks[id]);
        let target = if crew.may_run(topology, crew.mask(id), &regions[0]) { 0 } else { here };
        movers.push(Mover { id, regions: Rc::clone(regions), here, target });
    }
    // each turn sends a task one rung farther, so the loop ends
    loop {
        let mut reached: Vec<Cow<CpuSet>> = masks.iter().map(|mask| Cow::Borrowed(*mask)).collect();
        let mut give_way = narrowed(crew, &movers, &due, &mut reached);
        let is_farther = |mover: &&Mover| {
            let home = crew.homes[mover.id].as_ref();
            mover.moves()
                && home.is_some_and(|home| {
                    distance(topology, &reached[mover.id], home) > distance(topology, masks[mover.id], home)
                })
        };
        if give_way.is_empty() {
            give_way = movers.iter().filter(is_farther).map(|mover| mover.id).collect();
        }
        if give_way.is_empty() {
            if due.is_kept(&reached.iter().map(|mask| &**mask).collect::<Vec<_>>()) {
                return reached;
            }
            give_way = in_the_way(crew, &movers, &due, &masks, &reached);
        }
        for mover in movers.iter_mut().filter(|mover| mover.moves() && give_way.contains(&mover.id)) {
            mover.target += 1;
            if !crew.may_run(topology, crew.mask(mover.id), mover.region()) {
                mover.target = mover.here;
            }
        }
    }
}

/// The movers by region, the farthest region first: those that gain least give way first.
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

/// Gives all movers CPUs of the rungs that they should reach; returns the movers whose region does not hold what they are due.
fn narrowed(crew: &Crew, movers: &[Mover], due: &Due, masks: &mut [Cow<CpuSet>]) -> Vec<usize> {
    let groups = groups(movers);
    // what the movers leave is theirs to take
    let pool = groups.iter().flatten().fold(CpuSet::new(), |all, mover| all.union(&masks[mover.id]));
    for group in groups {
        let region = group[0].region();
        let ids = || group.iter().map(|mover| mover.id);
        let own: Vec<CpuSet> = ids().map(|id| masks[id].intersection(region)).collect();
        let near = match own.iter().zip(ids()).all(|(own, id)| due.fits(own, [id])) {
            true => own,
            false => {
                let left = pool.intersection(region);
                match due.fits(&left, ids()) {
                    true => seats(crew, due, left, &group),
                    // other tasks have some of these CPUs too; their shares tell whether there is room
                    false if due.fits(region, ids()) => vec![region.clone(); group.len()],
                    false => return crowd(due, &group, ids().collect(), region),
                }
            }
        };
        ids().zip(near).for_each(|(id, near)| masks[id] = Cow::Owned(near));
    }
    Vec::new()
}

/// Of these CPUs a seat of whole cores for each task of a group, where Slurm's masks are private and the cores go round; else
/// all of them for each.
fn seats(crew: &Crew, due: &Due, cpus: CpuSet, group: &[&Mover]) -> Vec<CpuSet> {
    let cores: Vec<CpuSet> =
        due.cores.iter().map(|core| core.intersection(&cpus)).filter(|core| !core.is_empty()).collect();
    let seat = |place: usize| part(&cores, place, group.len());
    let mut seats: Vec<CpuSet> = (0..group.len()).map(seat).collect();
    if !crew.is_private() || seats.iter().zip(group).any(|(seat, mover)| !due.fits(seat, [mover.id])) {
        return vec![cpus; group.len()];
    }
    for (at, mover) in group.iter().enumerate() {
        let near = |seat: usize| seats[seat].intersection(&mover.regions[0]).len();
        // the first of those that are as near: a task with nothing to gain leaves the order as it is
        let best = (at..seats.len()).max_by_key(|&seat| (near(seat), Reverse(seat))).unwrap_or(at);
        seats[at..=best].rotate_right(1);
    }
    seats
}

/// The `seat`-th of `seats` even parts.
pub(super) fn part(cores: &[CpuSet], seat: usize, seats: usize) -> CpuSet {
    let (from, to) = (seat * cores.len() / seats, (seat + 1) * cores.len() / seats);
    cores[from..to].iter().fold(CpuSet::new(), |all, core| all.union(core))
}

/// The movers that give way if not all tasks have their due: the last of those that crowd the smallest region that is too
/// small; if none is too small by itself, the group without which all others have theirs.
fn in_the_way(
    crew: &Crew,
    movers: &[Mover],
    due: &Due,
    before: &[&CpuSet],
    masks: &[Cow<CpuSet>],
) -> Vec<usize> {
    let groups = groups(movers);
    let mut regions: Vec<&CpuSet> = groups.iter().map(|group| group[0].region()).collect();
    regions.order_by_key(|region| region.len());
    for region in regions {
        let is_confined = |id: &usize| masks[*id].is_subset(region);
        let crowd_here: Vec<&Mover> =
            movers.iter().filter(|mover| mover.moves() && is_confined(&mover.id)).collect();
        let confined: Vec<usize> = (0..crew.len()).filter(is_confined).collect();
        if !crowd_here.is_empty() && !due.fits(region, confined.iter().copied()) {
            return crowd(due, &crowd_here, confined, region);
        }
    }
    let ids = |group: &Vec<&Mover>| group.iter().map(|mover| mover.id).collect::<Vec<usize>>();
    let is_enough = |group: &&Vec<&Mover>| {
        let mut without: Vec<&CpuSet> = masks.iter().map(|mask| &**mask).collect();
        ids(group).into_iter().for_each(|id| without[id] = before[id]);
        due.is_kept(&without)
    };
    groups.iter().find(is_enough).or(groups.first()).map(ids).unwrap_or_default()
}

/// Of the movers that came farthest, as many as must leave so that the region holds what the rest of its tasks are due: the last
/// ones first.
fn crowd(due: &Due, movers: &[&Mover], mut confined: Vec<usize>, region: &CpuSet) -> Vec<usize> {
    let farthest = movers.iter().map(|mover| mover.target).max();
    let mut leave = Vec::new();
    for mover in movers.iter().rev().filter(|mover| Some(mover.target) == farthest) {
        leave.push(mover.id);
        confined.retain(|id| *id != mover.id);
        if due.fits(region, confined.iter().copied()) {
            break;
        }
    }
    leave
}

/// Settles one task of a crew if the others' GPUs are unknown: near CPUs that hold what all are due, however the
/// others decide.
///
/// `may_be_near` gives the most tasks, this one included, that can have their GPUs on some NUMA nodes.
pub(super) fn settle_alone(
    topology: &Topology,
    crew: &Crew,
    id: usize,
    home: &NodeSet,
    may_be_near: impl Fn(&NodeSet) -> usize,
) -> CpuSet {
    let ladder = Ladder::around(topology, home);
    let own = crew.mask(id);
    let due = Due::new(topology, crew);
    let most = (0..crew.len()).max_by_key(|id| due.of_task[*id][0]).unwrap_or(id);
    for rung in ladder.rungs().iter().take(ladder.rung_of(own)) {
        let near = crew.cpus.intersection(&rung.cpus);
        if !crew.may_run(topology, own, &near) {
            break;
        }
        let part = own.intersection(&near);
        if crew.is_private() && due.fits(&part, [id]) {
            return part;
        }
        let comers = may_be_near(&rung.nodes).clamp(1, crew.len());
        let tasks: Vec<usize> = if crew.shares_one_mask() {
            vec![most; comers]
        } else {
            // a task that overlaps may stay, and one that does not may come
            let inside: Vec<usize> =
                (0..crew.len()).filter(|&other| other != id && crew.mask(other).intersects(&near)).collect();
            let others = crew.len() - inside.len();
            inside.into_iter().chain(std::iter::repeat_n(most, comers.min(others).max(1))).collect()
        };
        if due.fits(&near, tasks) && distance(topology, &near, home) <= distance(topology, own, home) {
            return near;
        }
    }
    own.clone()
}

#[cfg(test)]
mod tests;
