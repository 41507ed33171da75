//! The CPUs of a step's tasks by default: near their GPUs if every task keeps its share, else where Slurm put them.
//!
//! A private slice costs a task's helper threads some per cent.  On a busy node with one free core near the GPUs, four tasks of
//! four CPUs each on that core lose nearly all.  So tasks take near CPUs only if each keeps the share of CPUs and of cores that it
//! has by Slurm's masks, or that it asked for.
//!
//! A NUMA-wide mask of tasks that share a node costs nothing while all of them compute, and a task that wants all cores while
//! the others wait up to half of its speed (docs/figures.md; meta-pytorch/torchcomms#2906).  A share is what a task can count on,
//! the rest is its neighbours': so this holds by default, a task with CPUs of its own is never narrowed below what it asked for,
//! and `bind=none` and `rollout=` are for sites whose programs burst.
#![forbid(unsafe_code)]

use super::exchange::exchanged;
use super::shares::{ONE, fair};
use super::tasks::StepTasks;
use crate::order::Order;
use crate::policy::ladder::Ladder;
use crate::topology::{CpuSet, NodeSet};
use std::borrow::{Borrow, Cow};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The shares of CPUs and of cores below which no task of a step may come.
pub(super) struct LeastShares {
    cores: Vec<CpuSet>,
    /// `[task]`: its share by Slurm's masks
    by_slurm: Vec<[u64; 2]>,
    /// `[task]`: `by_slurm`, or what it asked for if that is less
    least: Vec<[u64; 2]>,
}

impl LeastShares {
    pub(super) fn new(tasks: &StepTasks) -> LeastShares {
        let mut shares = LeastShares {
            cores: tasks.topology.cores(),
            by_slurm: Vec::new(),
            least: Vec::new(),
        };
        shares.by_slurm = shares.of(&tasks.all_masks());
        let threads = shares
            .cores
            .iter()
            .map(|core| core.intersection(&tasks.cpus).len())
            .max();
        let asked = tasks.asked.map_or(u64::MAX, |asked| asked as u64 * ONE);
        let asked_cores = asked / threads.unwrap_or(1).max(1) as u64;
        let least = shares
            .by_slurm
            .iter()
            .map(|[cpus, cores]| [*cpus.min(&asked), *cores.min(&asked_cores)]);
        shares.least = least.collect();
        shares
    }

    /// `[task]`: its share of CPUs and of cores by these masks.
    fn of<M: Borrow<CpuSet>>(&self, masks: &[M]) -> Vec<[u64; 2]> {
        let masks: Vec<&CpuSet> = masks.iter().map(Borrow::borrow).collect();
        let in_cores: Vec<CpuSet> = masks.iter().map(|mask| self.in_cores(mask)).collect();
        let of_cores = fair(&in_cores.iter().collect::<Vec<_>>());
        fair(&masks)
            .into_iter()
            .zip(of_cores)
            .map(|(cpus, cores)| [cpus, cores])
            .collect()
    }

    /// True if every task has its least share by these masks.
    pub(super) fn are_kept<M: Borrow<CpuSet>>(&self, masks: &[M]) -> bool {
        self.of(masks)
            .iter()
            .zip(&self.least)
            .all(|(has, least)| has[0] >= least[0] && has[1] >= least[1])
    }

    /// True if these CPUs, and their cores, hold the least shares of these tasks together.
    fn fit(&self, cpus: &CpuSet, ids: impl IntoIterator<Item = usize>) -> bool {
        let sum = ids
            .into_iter()
            .map(|id| self.least[id])
            .fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
        cpus.len() as u64 * ONE >= sum[0].max(1) && self.in_cores(cpus).len() as u64 * ONE >= sum[1]
    }

    /// A task's least share in CPUs, rounded up.
    pub(super) fn cpus_of(&self, id: usize) -> usize {
        self.least
            .get(id)
            .map_or(0, |least| least[0].div_ceil(ONE) as usize)
    }

    /// The mask's cores, each as its first thread; if no cores were read, the mask itself.
    fn in_cores(&self, mask: &CpuSet) -> CpuSet {
        if self.cores.is_empty() {
            return mask.clone();
        }
        self.cores
            .iter()
            .filter(|core| core.intersects(mask))
            .filter_map(CpuSet::first)
            .collect()
    }
}

/// A task that may come nearer to its GPUs.
struct Mover<'t> {
    id: usize,
    gpu_nodes: &'t NodeSet,
    /// the step's CPUs around these nodes, nearest first, each set with the ones before
    regions: Rc<[CpuSet]>,
    /// the region of its mask
    here: usize,
    /// the region that it should reach; it stays if that is `here`
    target: usize,
}

impl Mover<'_> {
    fn region(&self) -> &CpuSet {
        &self.regions[self.target]
    }
}

/// `[task]`: its mask by default.  Every task of the step computes the same.
pub(super) fn near_masks<'t>(tasks: &StepTasks<'t>) -> Vec<Cow<'t, CpuSet>> {
    let shares = LeastShares::new(tasks);
    let exchanged = exchanged(tasks, &shares.by_slurm);
    let masks: Vec<&CpuSet> = exchanged
        .into_iter()
        .map(|whose| tasks.mask(whose))
        .collect();
    let mut moves = Moves {
        tasks,
        shares,
        movers: movers(tasks, &masks),
    };
    // each turn sends a task one region farther, so the loop ends
    loop {
        let mut near: Vec<Cow<CpuSet>> = masks.iter().map(|mask| Cow::Borrowed(*mask)).collect();
        let mut give_way = moves.narrow(&mut near);
        if give_way.is_empty() {
            let is_farther = |mover: &&Mover| {
                let away = |mask: &CpuSet| tasks.distance(mask, mover.gpu_nodes);
                away(&near[mover.id]) > away(masks[mover.id])
            };
            // nothing is nearer than the GPUs' own NUMA nodes, and most tasks reach these
            let not_there = moves.moving().filter(|mover| mover.target > 0);
            give_way = not_there.filter(is_farther).map(|mover| mover.id).collect();
        }
        if give_way.is_empty() {
            if moves.shares.are_kept(&near) {
                return near;
            }
            give_way = moves.in_the_way(&masks, &near);
        }
        for mover in moves
            .movers
            .iter_mut()
            .filter(|mover| give_way.contains(&mover.id))
        {
            mover.target += 1;
            if !tasks.may_run(tasks.mask(mover.id), mover.region()) {
                mover.target = mover.here;
            }
        }
    }
}

/// The tasks with known GPUs, each on its way to the nearest region if its memory lets it.
fn movers<'a>(tasks: &'a StepTasks, masks: &[&CpuSet]) -> Vec<Mover<'a>> {
    // many tasks have their GPUs on the same nodes
    let mut known: BTreeMap<&NodeSet, Rc<[CpuSet]>> = BTreeMap::new();
    let with_gpus = tasks
        .gpu_nodes
        .iter()
        .enumerate()
        .filter_map(|(id, nodes)| Some((id, nodes.as_ref()?)));
    let mover = |(id, gpu_nodes): (usize, &'a NodeSet)| {
        let regions: &Rc<[CpuSet]> = known.entry(gpu_nodes).or_insert_with(|| {
            let ladder = Ladder::around(tasks.topology, gpu_nodes);
            ladder
                .rungs()
                .iter()
                .map(|rung| tasks.cpus.intersection(&rung.cpus))
                .collect()
        });
        let here = regions
            .iter()
            .position(|region| masks[id].is_subset(region))
            .unwrap_or(regions.len() - 1);
        let target = if tasks.may_run(tasks.mask(id), &regions[0]) {
            0
        } else {
            here
        };
        Mover {
            id,
            gpu_nodes,
            regions: Rc::clone(regions),
            here,
            target,
        }
    };
    with_gpus.map(mover).collect()
}

struct Moves<'a, 't> {
    tasks: &'a StepTasks<'t>,
    shares: LeastShares,
    movers: Vec<Mover<'a>>,
}

impl<'a> Moves<'a, '_> {
    fn moving(&self) -> impl Iterator<Item = &Mover<'a>> {
        self.movers.iter().filter(|mover| mover.target < mover.here)
    }

    /// The moving tasks by region, the farthest region first: those that gain least give way first.
    fn by_region(&self) -> Vec<Vec<&Mover<'a>>> {
        let mut groups: Vec<Vec<&Mover>> = Vec::new();
        for mover in self.moving() {
            let is_same =
                |other: &Mover| other.target == mover.target && other.region() == mover.region();
            match groups.iter_mut().find(|group| is_same(group[0])) {
                Some(group) => group.push(mover),
                None => groups.push(vec![mover]),
            }
        }
        groups.order_by_key(|group| Reverse(group[0].target));
        groups
    }

    /// Narrows the masks of the moving tasks to their regions; returns tasks of a region that does not hold their
    /// shares, if any.
    fn narrow(&self, masks: &mut [Cow<CpuSet>]) -> Vec<usize> {
        let groups = self.by_region();
        // what the tasks leave is theirs to take
        let pool = groups
            .iter()
            .flatten()
            .fold(CpuSet::new(), |all, mover| all.union(&masks[mover.id]));
        for group in groups {
            let region = group[0].region();
            let ids = || group.iter().map(|mover| mover.id);
            let own: Vec<CpuSet> = ids().map(|id| masks[id].intersection(region)).collect();
            let left = pool.intersection(region);
            let near = if own
                .iter()
                .zip(ids())
                .all(|(own, id)| self.shares.fit(own, [id]))
            {
                own
            } else if self.shares.fit(&left, ids()) {
                self.core_parts(left, &group)
            } else if self.shares.fit(region, ids()) {
                // other tasks have some of these CPUs too; their shares tell whether there is room
                vec![region.clone(); group.len()]
            } else {
                return self.last_ones(&group, ids().collect(), region);
            };
            ids()
                .zip(near)
                .for_each(|(id, near)| masks[id] = Cow::Owned(near));
        }
        Vec::new()
    }

    /// Whole cores for each task of a group, where Slurm's masks are private and the cores suffice; else all of these
    /// CPUs for each.
    fn core_parts(&self, cpus: CpuSet, group: &[&Mover]) -> Vec<CpuSet> {
        let cores = self
            .shares
            .cores
            .iter()
            .map(|core| core.intersection(&cpus));
        let cores: Vec<CpuSet> = cores.filter(|core| !core.is_empty()).collect();
        let count = group.len();
        let mut parts: Vec<CpuSet> = (0..count)
            .map(|part| even_part(&cores, part, count))
            .collect();
        let is_enough = |(part, mover): (&CpuSet, &&Mover)| self.shares.fit(part, [mover.id]);
        if !self.tasks.are_private() || !parts.iter().zip(group).all(is_enough) {
            return vec![cpus; count];
        }
        for (at, mover) in group.iter().enumerate() {
            let near = |part: usize| parts[part].intersection(&mover.regions[0]).len();
            // the first of those that are as near: a task with nothing to gain leaves the order as it is
            let best = (at..count)
                .max_by_key(|&part| (near(part), Reverse(part)))
                .unwrap_or(at);
            parts[at..=best].rotate_right(1);
        }
        parts
    }

    /// The tasks that move less if not all keep their shares by these masks: the last ones in the smallest region that
    /// is too small; if none is, the group without which all others keep theirs.
    fn in_the_way(&self, before: &[&CpuSet], masks: &[Cow<CpuSet>]) -> Vec<usize> {
        let groups = self.by_region();
        let mut regions: Vec<&CpuSet> = groups.iter().map(|group| group[0].region()).collect();
        regions.order_by_key(|region| region.len());
        for region in regions {
            let is_inside = |id: usize| masks[id].is_subset(region);
            let comers: Vec<&Mover> = self.moving().filter(|mover| is_inside(mover.id)).collect();
            let inside: Vec<usize> = (0..self.tasks.len()).filter(|&id| is_inside(id)).collect();
            if !comers.is_empty() && !self.shares.fit(region, inside.iter().copied()) {
                return self.last_ones(&comers, inside, region);
            }
        }
        let is_enough = |group: &&Vec<&Mover>| {
            let mut without: Vec<&CpuSet> = masks.iter().map(Borrow::borrow).collect();
            group
                .iter()
                .for_each(|mover| without[mover.id] = before[mover.id]);
            self.shares.are_kept(&without)
        };
        let group = groups.iter().find(is_enough).or(groups.first());
        group.into_iter().flatten().map(|mover| mover.id).collect()
    }

    /// The last tasks of those with the farthest target: as many as must leave so that the region holds the shares of
    /// the rest.
    fn last_ones(&self, movers: &[&Mover], mut inside: Vec<usize>, region: &CpuSet) -> Vec<usize> {
        let farthest = movers.iter().map(|mover| mover.target).max();
        let mut leave = Vec::new();
        for mover in movers
            .iter()
            .rev()
            .filter(|mover| Some(mover.target) == farthest)
        {
            leave.push(mover.id);
            inside.retain(|id| *id != mover.id);
            if self.shares.fit(region, inside.iter().copied()) {
                break;
            }
        }
        leave
    }
}

pub(super) fn even_part(cores: &[CpuSet], part: usize, parts: usize) -> CpuSet {
    let (from, to) = (part * cores.len() / parts, (part + 1) * cores.len() / parts);
    cores[from..to]
        .iter()
        .fold(CpuSet::new(), |all, core| all.union(core))
}

/// A task's default mask if the others' GPUs are unknown: near CPUs that hold the shares of all tasks that may have
/// them, however the others decide.
///
/// `most_near` gives the most tasks, this one included, that can have their GPUs on some NUMA nodes.
pub(super) fn near_mask(
    tasks: &StepTasks,
    id: usize,
    gpu_nodes: &NodeSet,
    most_near: impl Fn(&NodeSet) -> usize,
) -> CpuSet {
    let ladder = Ladder::around(tasks.topology, gpu_nodes);
    let own = tasks.mask(id);
    let shares = LeastShares::new(tasks);
    let largest = (0..tasks.len())
        .max_by_key(|id| shares.least[*id][0])
        .unwrap_or(id);
    for rung in ladder.rungs().iter().take(ladder.rung_of(own)) {
        let near = tasks.cpus.intersection(&rung.cpus);
        if !tasks.may_run(own, &near) {
            break;
        }
        let part = own.intersection(&near);
        if tasks.are_private() && shares.fit(&part, [id]) {
            return part;
        }
        // a task that overlaps may stay, and one that does not may come
        let is_there = |other: &usize| *other != id && tasks.mask(*other).intersects(&near);
        let there: Vec<usize> = match tasks.share_one_mask() {
            true => Vec::new(),
            false => (0..tasks.len()).filter(is_there).collect(),
        };
        let comers = most_near(&rung.nodes).min(tasks.len() - there.len()).max(1);
        let sharers = there
            .into_iter()
            .chain(std::iter::repeat_n(largest, comers));
        if shares.fit(&near, sharers)
            && tasks.distance(&near, gpu_nodes) <= tasks.distance(own, gpu_nodes)
        {
            return near;
        }
    }
    own.clone()
}

#[cfg(test)]
mod tests;
