//! The GPUs that cross each place in an answer, and what it leaves to each of them.
#![forbid(unsafe_code)]

use super::problem::Problem;

/// The GPUs that cross each place in an answer, or in the beginning of one, and what it leaves to each of them.
pub(super) struct Load<'p> {
    problem: &'p Problem,
    /// for each place its users: what a user's way gives at most, and the GPU, ascending
    users: Vec<Vec<(u64, u32)>>,
    levels: Vec<u64>,
    /// for each place the level with one more user, which can use all it gets
    joining: Vec<u64>,
}

impl<'p> Load<'p> {
    pub(super) fn new(problem: &'p Problem) -> Load<'p> {
        let joining = (0..problem.places()).map(|place| problem.capacity(place)).collect();
        let (users, levels) = (vec![Vec::new(); problem.places()], vec![u64::MAX; problem.places()]);
        Load { problem, users, levels, joining }
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
        let owns = || users.iter().map(|&(own, _)| own);
        let capacity = self.problem.capacity(place);
        self.levels[place] = level(capacity, users.len(), owns());
        self.joining[place] = level(capacity, users.len() + 1, owns().chain([u64::MAX]));
    }

    /// What a GPU has of a rail that it is on, in parts of a Mbit/s.
    pub(super) fn share(&self, gpu: usize, rail: usize) -> u64 {
        let places = self.problem.crossed(gpu, rail).map(|place| self.levels[place]);
        places.fold(self.problem.own(gpu, rail), u64::min)
    }

    /// What a GPU would have of a rail that it came to.
    pub(super) fn joining(&self, gpu: usize, rail: usize) -> u64 {
        let places = self.problem.crossed(gpu, rail).map(|place| self.joining[place]);
        places.fold(self.problem.own(gpu, rail), u64::min)
    }

    /// The level that a place would have with one more user, which can use all it gets.
    pub(super) fn level_for_one_more(&self, place: usize) -> u64 {
        self.joining[place]
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

/// What each user may have of a place at most: an even part, where users that cannot use all of theirs leave the rest to
/// the others.  `u64::MAX` where there is enough for all.  `owns` says, in ascending order, what each of the `users` can
/// use at most.
fn level(capacity: u64, users: usize, owns: impl IntoIterator<Item = u64>) -> u64 {
    let (mut left, mut users) = (capacity, users as u64);
    for own in owns {
        let even = left / users;
        if own > even {
            return even;
        }
        (left, users) = (left - own, users - 1);
    }
    u64::MAX
}
