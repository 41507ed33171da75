//! The GPUs that cross each place in an answer, and what it leaves to each of them.
#![forbid(unsafe_code)]

use super::level::level;
use super::problem::Problem;
use std::cell::Cell;

/// The GPUs that cross each place in an answer, or in the beginning of one, and what it leaves to each of them.
pub(super) struct Load<'p> {
    problem: &'p Problem,
    /// for each place its users: what a user's way gives at most, and the GPU, ascending
    users: Vec<Vec<(u64, u32)>>,
    levels: Vec<u64>,
    /// for each place the level with one more user, which can use all it gets
    joining: Vec<u64>,
    /// work that was done with it, in the unit of [`super::Budget`]
    looks: Cell<u64>,
}

impl<'p> Load<'p> {
    pub(super) fn new(problem: &'p Problem) -> Load<'p> {
        let joining = (0..problem.places()).map(|place| problem.capacity(place)).collect();
        let (users, levels) = (vec![Vec::new(); problem.places()], vec![u64::MAX; problem.places()]);
        Load { problem, users, levels, joining, looks: Cell::new(0) }
    }

    /// Whose places these are.
    pub(super) fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// The load of an answer.
    pub(super) fn of(problem: &'p Problem, rails_of: &[Vec<usize>]) -> Load<'p> {
        let mut load = Load::new(problem);
        let chosen = || {
            rails_of.iter().enumerate().flat_map(|(gpu, rails)| rails.iter().map(move |&rail| (gpu, rail)))
        };
        let mut counts = vec![0; problem.places()];
        chosen().flat_map(|(gpu, rail)| problem.crossed(gpu, rail)).for_each(|place| counts[place] += 1);
        load.users.iter_mut().zip(counts).for_each(|(users, count)| users.reserve_exact(count));
        for (gpu, rail) in chosen() {
            let user = (problem.own(gpu, rail), gpu as u32);
            problem.crossed(gpu, rail).for_each(|place| load.users[place].push(user));
        }
        for place in 0..problem.places() {
            load.users[place].sort_unstable();
            load.reckon(place);
        }
        load
    }

    /// A GPU comes to a rail.
    pub(super) fn put(&mut self, gpu: usize, rail: usize) {
        let user = (self.problem.own(gpu, rail), gpu as u32);
        for place in self.problem.crossed(gpu, rail) {
            let at = self.users[place].partition_point(|other| *other < user);
            self.users[place].insert(at, user);
            self.reckon(place);
        }
    }

    /// A GPU leaves a rail.
    pub(super) fn lift(&mut self, gpu: usize, rail: usize) {
        let user = (self.problem.own(gpu, rail), gpu as u32);
        for place in self.problem.crossed(gpu, rail) {
            let at = self.users[place].partition_point(|other| *other < user);
            self.users[place].remove(at);
            self.reckon(place);
        }
    }

    fn reckon(&mut self, place: usize) {
        let users = &self.users[place];
        self.count(4 + 2 * users.len());
        let owns = || users.iter().map(|&(own, _)| own);
        let capacity = self.problem.capacity(place);
        self.levels[place] = level(capacity, users.len(), owns());
        self.joining[place] = level(capacity, users.len() + 1, owns().chain([u64::MAX]));
    }

    /// What a GPU has of a rail that it is on, in parts of a Mbit/s.
    pub(super) fn share(&self, gpu: usize, rail: usize) -> u64 {
        let places = self.problem.crossed(gpu, rail).map(|place| self.levels[place]);
        self.count(1 + places.len());
        places.fold(self.problem.own(gpu, rail), u64::min)
    }

    /// What a GPU would have of a rail that it came to.
    pub(super) fn joining(&self, gpu: usize, rail: usize) -> u64 {
        let places = self.problem.crossed(gpu, rail).map(|place| self.joining[place]);
        self.count(1 + places.len());
        places.fold(self.problem.own(gpu, rail), u64::min)
    }

    /// The level that a place would have with one more user, which can use all it gets.
    pub(super) fn level_for_one_more(&self, place: usize) -> u64 {
        self.joining[place]
    }

    /// Notes that work was done.
    pub(super) fn count(&self, looks: usize) {
        self.looks.set(self.looks.get() + looks as u64);
    }

    /// The work since this was asked last.
    pub(super) fn take_looks(&self) -> u64 {
        self.looks.take()
    }

    /// The level of a place.
    pub(super) fn level(&self, place: usize) -> u64 {
        self.levels[place]
    }

    /// What the ways of a place's users give them at most, ascending, and whose they are.
    pub(super) fn users(&self, place: usize) -> &[(u64, u32)] {
        &self.users[place]
    }
}
