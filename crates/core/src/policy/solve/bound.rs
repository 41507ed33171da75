//! What no answer that begins in a certain way can be better than.
#![forbid(unsafe_code)]

use super::MOST_RAILS;
use super::level::level;
use super::load::Load;
use super::problem::{PARTS, Problem};
use super::score::{Score, path_digit, total};
use std::cmp::Ordering;

/// The beginning of an answer: some GPUs have their rails.
pub(super) struct Begun<'a> {
    pub(super) problem: &'a Problem,
    /// the load of the GPUs that have theirs
    pub(super) load: &'a Load<'a>,
    /// the rails of each GPU, none where they are open
    pub(super) rails_of: &'a [Vec<usize>],
    /// `[gpu * rails + rail]`: what an open way can still give, in parts of a Mbit/s
    pub(super) most: &'a [u64],
    /// for each GPU the least that its paths add to [`Score::path`]
    pub(super) nearest: &'a [u128],
}

/// What a problem's bound rests on before any GPU has a rail.
pub(super) struct Bounds<'p> {
    load: Load<'p>,
    rails_of: Vec<Vec<usize>>,
    most: Vec<u64>,
    nearest: Vec<u128>,
}

impl<'p> Bounds<'p> {
    pub(super) fn new(problem: &'p Problem) -> Bounds<'p> {
        let (load, rails_of) = (Load::new(problem), vec![Vec::new(); problem.gpus()]);
        load.count(4 * problem.gpus() * problem.rails());
        Bounds { load, rails_of, most: most(problem), nearest: nearest(problem) }
    }

    /// An answer that has not begun.
    pub(super) fn begun(&self) -> Begun<'_> {
        let Bounds { load, rails_of, most, nearest } = self;
        Begun { problem: load.problem(), load, rails_of, most, nearest }
    }
}

impl Begun<'_> {
    /// What no answer that begins like this gives the worst-off GPU more than, in whole Mbit/s.
    pub(super) fn most_for_the_worst(&self) -> u64 {
        let shares = [self.most_for_each(0), self.most_if_all_alike()];
        shares.iter().flatten().filter_map(|shares| shares.first()).copied().min().unwrap_or(0)
    }

    /// How the best conceivable answer that begins like this compares with a known one: `Greater` where it is worse.
    pub(super) fn compare(&self, best: &Score) -> Ordering {
        let Some(shares) = self.most_for_each(best.worst_mbps()) else { return Ordering::Greater };
        if shares < best.shares {
            return Ordering::Greater;
        }
        let shares = match self.most_if_all_alike() {
            Some(alike) => shares.min(alike),
            None => shares,
        };
        match best.shares.cmp(&shares) {
            Ordering::Equal => self.path().cmp(&best.path).then_with(|| self.users().cmp(&best.users)),
            unequal => unequal,
        }
    }

    fn open(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.rails_of.len()).filter(|&gpu| self.rails_of[gpu].is_empty())
    }

    /// What each GPU can get at most, and all together no more than the rails carry: in whole Mbit/s, ascending.  A GPU
    /// that has its rails counts with what it gets there now, any other with the best of its open ways.  `None` where one
    /// gets less than `worst`.
    fn most_for_each(&self, worst: u64) -> Option<Vec<u64>> {
        let problem = self.problem;
        let (gpus, rails) = (problem.gpus(), problem.rails());
        self.load.count(gpus * (8 + rails / 2));
        let mut most: Vec<u64> = Vec::with_capacity(gpus);
        let mut several: Vec<u64> = Vec::new();
        for gpu in 0..gpus {
            let row = &self.most[gpu * rails..][..rails];
            let share = match problem.wants(gpu) {
                _ if !self.rails_of[gpu].is_empty() => total(self.load, gpu, &self.rails_of[gpu]),
                1 => row.iter().copied().max().unwrap_or(0) / PARTS,
                wants => {
                    several.clear();
                    several.extend(row);
                    several.sort_unstable_by(|a, b| b.cmp(a));
                    several.iter().take(wants).sum::<u64>().min(problem.narrowest(gpu)) / PARTS
                }
            };
            if share < worst {
                return None;
            }
            most.push(share);
        }
        most.sort_unstable();
        let mut left: u64 = (0..rails).map(|rail| problem.capacity(rail)).sum();
        let mut users = gpus as u64;
        for share in &mut most {
            *share = (*share).min(left.div_ceil(users) / PARTS);
            (left, users) = (left.saturating_sub(*share * PARTS), users - 1);
        }
        Some(most)
    }

    /// The best way to deal GPUs that all reach each rail as well as the best of them does.  One after the other takes the
    /// rail where it does least harm; since each further one on a rail does more harm than the one before, that is the best
    /// of all.  `None` where some want several rails.
    fn most_if_all_alike(&self) -> Option<Vec<u64>> {
        let problem = self.problem;
        if (0..problem.gpus()).any(|gpu| problem.wants(gpu) != 1) {
            return None;
        }
        let mut owns: [Option<u64>; MOST_RAILS] = [None; MOST_RAILS];
        for gpu in self.open() {
            for rail in problem.open_to(gpu) {
                owns[rail] = owns[rail].max(Some(problem.most(gpu, rail)));
            }
        }
        let port = |rail: usize| {
            let users = self.load.users(rail).iter().map(|&(_, gpu)| self.load.share(gpu as usize, rail));
            Port::new(problem.capacity(rail), users.collect(), owns[rail].unwrap_or(0))
        };
        let mut ports: Vec<Port> = Vec::with_capacity(problem.rails());
        for rail in 0..problem.rails() {
            let port = port(rail);
            // equal ones are compared by a number
            let like = ports.iter().position(|known| {
                (known.capacity, known.own, &known.users) == (port.capacity, port.own, &port.users)
            });
            ports.push(Port { like: like.unwrap_or(rail), ..port });
        }
        let mut open = 0;
        for _ in self.open() {
            open += 1;
            let reached = (0..ports.len()).filter(|&at| owns[at].is_some());
            if let Some(best) = reached.min_by(|&a, &b| ports[a].harm(&ports[b], self.load)) {
                ports[best].take_one();
                self.load.count(ports[best].users.len() + ports[best].more);
            }
        }
        self.load.count(open * (4 + ports.len()) + 8 * problem.gpus());
        let mut shares: Vec<u64> = Vec::with_capacity(problem.gpus());
        ports.iter().for_each(|port| shares.extend(port.shares(port.more)));
        shares.iter_mut().for_each(|share| *share /= PARTS);
        shares.sort_unstable();
        Some(shares)
    }

    /// The least of [`Score::path`].
    fn path(&self) -> u128 {
        let of_gpu = |(gpu, rails): (usize, &Vec<usize>)| match rails.as_slice() {
            [] => self.nearest[gpu],
            rails => rails.iter().map(|&rail| path_digit(self.problem.kind(gpu, rail))).sum(),
        };
        self.rails_of.iter().enumerate().map(of_gpu).sum()
    }

    /// The least of [`Score::users`].
    fn users(&self) -> u64 {
        let users = (0..self.problem.rails()).map(|rail| self.load.users(rail).len()).collect();
        even_squares(users, self.open().map(|gpu| self.problem.wants(gpu)).sum())
    }
}

/// For each GPU the least that its paths can add to [`Score::path`].
pub(super) fn nearest(problem: &Problem) -> Vec<u128> {
    let nearest = |gpu: usize| {
        let digits = problem.open_to(gpu).map(|rail| path_digit(problem.kind(gpu, rail)));
        if problem.wants(gpu) == 1 {
            return digits.min().unwrap_or(0);
        }
        let mut digits: Vec<u128> = digits.collect();
        digits.sort_unstable();
        digits.iter().take(problem.wants(gpu)).sum()
    };
    (0..problem.gpus()).map(nearest).collect()
}

/// `[gpu * rails + rail]`: what each way can give at most, none where it is not open.
pub(super) fn most(problem: &Problem) -> Vec<u64> {
    let mut most = vec![0; problem.gpus() * problem.rails()];
    for gpu in 0..problem.gpus() {
        for rail in problem.open_to(gpu) {
            most[gpu * problem.rails() + rail] = problem.most(gpu, rail);
        }
    }
    most
}

/// A rail, the GPUs on it, and how many more come, each of which can use `own` of it.
struct Port {
    capacity: u64,
    /// what each of those on it has now, ascending
    users: Vec<u64>,
    own: u64,
    more: usize,
    /// what the next one gets
    next: u64,
    /// the first rail that is like it, but for the GPUs that come
    like: usize,
}

impl Port {
    fn new(capacity: u64, mut users: Vec<u64>, own: u64) -> Port {
        users.sort_unstable();
        let port = Port { capacity, users, own, more: 0, next: 0, like: 0 };
        Port { next: port.own.min(port.level(1)), ..port }
    }

    fn take_one(&mut self) {
        self.more += 1;
        self.next = self.own.min(self.level(self.more + 1));
    }

    fn level(&self, more: usize) -> u64 {
        let (before, after) = self.users.split_at(self.users.partition_point(|&other| other < self.own));
        let owns =
            before.iter().copied().chain(std::iter::repeat_n(self.own, more)).chain(after.iter().copied());
        level(self.capacity, self.users.len() + more, owns)
    }

    /// What each GPU on it gets when `more` have come, in no order.
    fn shares(&self, more: usize) -> impl Iterator<Item = u64> {
        let level = self.level(more);
        let owns = self.users.iter().copied().chain(std::iter::repeat_n(self.own, more));
        owns.map(move |own| own.min(level))
    }

    /// Which of two rails one more GPU should rather take; `Less` is this one.
    fn harm(&self, other: &Port, load: &Load) -> Ordering {
        other.next.cmp(&self.next).then_with(|| {
            if (self.like, self.more) == (other.like, other.more) {
                return Ordering::Equal;
            }
            load.count(8 * (4 + self.users.len() + self.more + other.users.len() + other.more));
            let together = |here: usize, there: usize| {
                let mut all: Vec<u64> = self.shares(self.more + here).collect();
                all.extend(other.shares(other.more + there));
                all.sort_unstable();
                all
            };
            together(0, 1).cmp(&together(1, 0))
        })
    }
}

/// The least sum of squares when `more` users join these.
fn even_squares(mut users: Vec<usize>, more: usize) -> u64 {
    users.sort_unstable();
    let mut more = more;
    // fill up to the next, as water does
    for at in 1..=users.len() {
        let (height, next) = (users[at - 1], users.get(at).copied().unwrap_or(usize::MAX));
        let room = (next - height).saturating_mul(at);
        if room >= more {
            let (each, rest) = (more / at, more % at);
            users[..at].fill(height + each);
            users[..rest].iter_mut().for_each(|user| *user += 1);
            break;
        }
        users[..at].fill(next);
        more -= room;
    }
    users.iter().map(|users| users.pow(2) as u64).sum()
}
