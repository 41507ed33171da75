//! `bind=auto`: near CPUs for a step's tasks if every task keeps its share, else Slurm's masks.
//!
//! A task must keep the share of CPUs and of cores that Slurm's masks give it, or its `-c` if less.
//! Otherwise four tasks of four CPUs each would all move to the one free core near their GPUs.
//!
//! Unless Slurm's masks are private, tasks that move to the same CPUs share them, since private
//! cores slow helper threads by some per cent. A mask of one NUMA node costs nothing while all
//! tasks compute, but costs a task that computes alone up to half of its speed (docs/figures.md;
//! meta-pytorch/torchcomms#2906). Sites with such tasks use `bind=none` or `rollout=`. A private
//! mask may shrink, but not below the task's `-c`.

use super::exchange::exchanged;
use super::shares::{ONE, fair};
use super::tasks::{StepTasks, union};
use crate::order::Order;
use crate::policy::ladder::Ladder;
use crate::topology::{CpuSet, NodeSet};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) struct LeastShares {
    cores: Vec<CpuSet>,
    /// `[task]`: its shares of CPUs and of cores by Slurm's masks
    by_slurm: Vec<[u64; 2]>,
    /// `[task]`: the lesser of `by_slurm` and the task's `-c`
    least: Vec<[u64; 2]>,
}

impl LeastShares {
    pub fn new(tasks: &StepTasks) -> Self {
        let cores = tasks.node.cores();
        let threads = cores
            .iter()
            .map(|core| core.intersection(&tasks.cpus).len());
        let asked = tasks.asked.map_or(u64::MAX, |asked| asked as u64 * ONE);
        let asked_cores = asked / threads.max().unwrap_or(1).max(1) as u64;
        let mut shares = Self {
            cores,
            by_slurm: Vec::new(),
            least: Vec::new(),
        };
        shares.by_slurm = shares.of(&tasks.all_masks());
        let by_slurm = shares.by_slurm.iter();
        shares.least = by_slurm
            .map(|&[cpus, cores]| [cpus.min(asked), cores.min(asked_cores)])
            .collect();
        shares
    }

    /// `[task]`: its shares of CPUs and of cores under `masks`.
    fn of(&self, masks: &[CpuSet]) -> Vec<[u64; 2]> {
        let in_cores: Vec<CpuSet> = masks.iter().map(|mask| self.in_cores(mask)).collect();
        let shares = fair(masks).into_iter().zip(fair(&in_cores));
        shares.map(Into::into).collect()
    }

    pub fn are_kept(&self, masks: &[CpuSet]) -> bool {
        let shares = self.of(masks);
        let mut both = shares.iter().zip(&self.least);
        both.all(|(has, least)| has[0] >= least[0] && has[1] >= least[1])
    }

    /// True if `cpus` are enough CPUs and cores for the least shares of all tasks `ids` together.
    fn fit(&self, cpus: &CpuSet, ids: impl IntoIterator<Item = usize>) -> bool {
        let least = ids.into_iter().map(|id| self.least[id]);
        let [all, cores] = least.fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
        cpus.len() as u64 * ONE >= all.max(1) && self.in_cores(cpus).len() as u64 * ONE >= cores
    }

    /// A task's least share in CPUs, rounded up.
    pub fn cpus_of(&self, id: usize) -> usize {
        let least = self.least.get(id);
        least.map_or(0, |least| least[0].div_ceil(ONE) as usize)
    }

    /// The first thread of each core that `mask` touches; `mask` itself if no cores were read.
    fn in_cores(&self, mask: &CpuSet) -> CpuSet {
        if self.cores.is_empty() {
            return mask.clone();
        }
        let cores = self.cores.iter().filter(|core| core.intersects(mask));
        cores.filter_map(CpuSet::first).collect()
    }
}

struct Mover<'t> {
    id: usize,
    gpu_nodes: &'t NodeSet,
    /// the step's CPUs on each rung of the [`Ladder`] around `gpu_nodes`, nearest first
    regions: Rc<[CpuSet]>,
    /// index of the smallest region that holds the task's mask
    here: usize,
    /// index of the region to reach; `here` to stay
    target: usize,
}

impl Mover<'_> {
    fn region(&self) -> &CpuSet {
        &self.regions[self.target]
    }
}

/// `[task]`: its new mask; all tasks of the step compute the same list.
pub(super) fn near_masks(tasks: &StepTasks) -> Vec<CpuSet> {
    let shares = LeastShares::new(tasks);
    let exchanged = exchanged(tasks, &shares.by_slurm).into_iter();
    let masks: Vec<CpuSet> = exchanged.map(|id| tasks.mask(id).clone()).collect();
    let mut moves = Moves {
        tasks,
        shares,
        movers: movers(tasks, &masks),
    };
    // the loop ends, since each iteration raises a `target`
    loop {
        let mut near = masks.clone();
        let mut give_way = moves.narrow(&mut near);
        if give_way.is_empty() {
            let is_farther = |mover: &&Mover| {
                let away = |mask: &CpuSet| tasks.distance(mask, mover.gpu_nodes);
                away(&near[mover.id]) > away(&masks[mover.id])
            };
            // nothing is nearer than target 0, the GPUs' own NUMA nodes
            let not_there = moves.moving().filter(|mover| mover.target > 0);
            give_way = not_there.filter(is_farther).map(|mover| mover.id).collect();
        }
        if give_way.is_empty() {
            if moves.shares.are_kept(&near) {
                return near;
            }
            give_way = moves.in_the_way(&masks, &near);
        }
        for mover in &mut moves.movers {
            if !give_way.contains(&mover.id) {
                continue;
            }
            mover.target += 1;
            if !tasks.may_run(tasks.mask(mover.id), mover.region()) {
                mover.target = mover.here;
            }
        }
    }
}

/// The tasks with known GPUs, with the nearest region as target if `--mem-bind` allows it.
fn movers<'a>(tasks: &'a StepTasks, masks: &[CpuSet]) -> Vec<Mover<'a>> {
    let mut known: BTreeMap<&NodeSet, Rc<[CpuSet]>> = BTreeMap::new();
    let mover = |(id, gpu_nodes): (usize, &'a NodeSet)| {
        let regions = known.entry(gpu_nodes).or_insert_with(|| {
            let ladder = Ladder::around(tasks.node, gpu_nodes);
            let rungs = ladder.rungs().iter();
            rungs
                .map(|rung| tasks.cpus.intersection(&rung.cpus))
                .collect()
        });
        let here = regions
            .iter()
            .position(|region| masks[id].is_subset(region));
        let here = here.unwrap_or(regions.len() - 1);
        let may_come = tasks.may_run(tasks.mask(id), &regions[0]);
        Mover {
            id,
            gpu_nodes,
            regions: Rc::clone(regions),
            here,
            target: if may_come { 0 } else { here },
        }
    };
    tasks.with_known_gpus().map(mover).collect()
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

    /// The moving tasks, grouped by region, farthest region first: tasks there gain least, and give
    /// way first.
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

    /// Moves the masks of moving tasks to their regions; if a region is too small for its tasks'
    /// shares, returns the tasks that must give way.
    fn narrow(&self, masks: &mut [CpuSet]) -> Vec<usize> {
        let groups = self.by_region();
        // a moving task may take CPUs that another moving task leaves
        let pool = union(groups.iter().flatten().map(|mover| &masks[mover.id]));
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
                // the caller checks `are_kept`, since other tasks may have some of these CPUs
                vec![region.clone(); group.len()]
            } else {
                return self.last_ones(&group, ids().collect(), region);
            };
            for (id, near) in ids().zip(near) {
                masks[id] = near;
            }
        }
        Vec::new()
    }

    /// `[mover]`: whole cores if Slurm's masks are private and each part suffices, else all of
    /// `cpus`.
    fn core_parts(&self, cpus: CpuSet, group: &[&Mover]) -> Vec<CpuSet> {
        let cores = self.shares.cores.iter();
        let mut cores: Vec<CpuSet> = cores.map(|core| core.intersection(&cpus)).collect();
        cores.retain(|core| !core.is_empty());
        let count = group.len();
        let mut parts = even_parts(&cores, count);
        let is_enough = |(part, mover): (&CpuSet, &&Mover)| self.shares.fit(part, [mover.id]);
        if !self.tasks.are_private() || !parts.iter().zip(group).all(is_enough) {
            return vec![cpus; count];
        }
        for (at, mover) in group.iter().enumerate() {
            let near = |part: usize| parts[part].intersection(&mover.regions[0]).len();
            // of equally near parts the first is best, so parts move only for a gain
            let best = (at..count)
                .max_by_key(|&part| (near(part), Reverse(part)))
                .unwrap_or(at);
            parts[at..=best].rotate_right(1);
        }
        parts
    }

    /// The tasks that must move less, since `masks` do not keep all shares. By priority: the
    /// `last_ones` of the smallest overfull region; the farthest group whose return to `before`
    /// would keep all shares; the farthest group.
    fn in_the_way(&self, before: &[CpuSet], masks: &[CpuSet]) -> Vec<usize> {
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
            let mut without = masks.to_vec();
            for mover in *group {
                without[mover.id] = before[mover.id].clone();
            }
            self.shares.are_kept(&without)
        };
        let group = groups.iter().find(is_enough).or(groups.first());
        group.into_iter().flatten().map(|mover| mover.id).collect()
    }

    /// Movers with the farthest target, from the last task id down, until `region` holds the shares
    /// of the remaining tasks of `inside`.
    fn last_ones(&self, movers: &[&Mover], mut inside: Vec<usize>, region: &CpuSet) -> Vec<usize> {
        let farthest = movers.iter().map(|mover| mover.target).max();
        let mut leave = Vec::new();
        for mover in movers.iter().rev() {
            if Some(mover.target) != farthest {
                continue;
            }
            leave.push(mover.id);
            inside.retain(|id| *id != mover.id);
            if self.shares.fit(region, inside.iter().copied()) {
                break;
            }
        }
        leave
    }
}

pub(super) fn even_parts(cores: &[CpuSet], count: usize) -> Vec<CpuSet> {
    let start = |part: usize| part * cores.len() / count;
    (0..count)
        .map(|part| union(&cores[start(part)..start(part + 1)]))
        .collect()
}

/// A task's mask if the other tasks' GPUs are unknown: the nearest CPUs with room for the least
/// shares of all tasks that may run there, else the present mask. `most_near`: the largest possible
/// number of tasks, this one included, with GPUs on the given NUMA nodes.
pub(super) fn near_mask(
    tasks: &StepTasks,
    id: usize,
    gpu_nodes: &NodeSet,
    most_near: impl Fn(&NodeSet) -> usize,
) -> CpuSet {
    let ladder = Ladder::around(tasks.node, gpu_nodes);
    let own = tasks.mask(id);
    let shares = LeastShares::new(tasks);
    let largest = (0..tasks.len()).max_by_key(|id| shares.least[*id][0]);
    let largest = largest.unwrap_or(id);
    for rung in &ladder.rungs()[..ladder.rung_of(own)] {
        let near = tasks.cpus.intersection(&rung.cpus);
        if !tasks.may_run(own, &near) {
            break;
        }
        let part = own.intersection(&near);
        if tasks.are_private() && shares.fit(&part, [id]) {
            return part;
        }
        // tasks whose masks overlap `near` may stay, and other tasks may come
        let mut there: Vec<usize> = (0..tasks.len()).collect();
        there.retain(|&other| {
            !tasks.share_one_mask() && other != id && tasks.mask(other).intersects(&near)
        });
        let comers = most_near(&rung.nodes).min(tasks.len() - there.len()).max(1);
        there.extend(std::iter::repeat_n(largest, comers));
        if shares.fit(&near, there)
            && tasks.distance(&near, gpu_nodes) <= tasks.distance(own, gpu_nodes)
        {
            return near;
        }
    }
    own.clone()
}

#[cfg(test)]
mod tests;
