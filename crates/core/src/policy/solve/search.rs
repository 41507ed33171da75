//! Where links behind the rails are shared, where GPUs get several rails, and where there are many: a good answer by
//! moves and exchanges, then a search through all answers that could be better, cut off after a bounded number of steps.
#![forbid(unsafe_code)]

use super::subsets::MOST_GPUS;
use super::{MOST_RAILS, PARTS, Problem, Score, Solution, even_squares, path_digit};

/// Ways that are looked at, at most, in the improvement and again in the search: some 20 ms in slurmstepd each.
const MOST_LOOKS: usize = 4_000_000;
/// Ways to choose one GPU's rails, at most; beyond, the answer is good and not proven.
const MOST_CHOICES: usize = 1024;

pub(super) fn solve(problem: &Problem) -> Solution {
    around(problem, &vec![None; problem.gpus()])
}

/// The best answer in which the GPUs of `kept` have those rails.
pub(super) fn around(problem: &Problem, kept: &[Option<Vec<usize>>]) -> Solution {
    let ideal = problem.ideal();
    let mut start = begun(problem, kept);
    // where there are many, the first of several best answers in rail order is not looked for
    let enough = |answer: &[Vec<usize>]| problem.gpus() > MOST_GPUS && problem.score(answer) == ideal;
    if !enough(&start) {
        improve(problem, kept, &mut start);
    }
    if enough(&start) {
        return Solution { rails_of: start, exact: true };
    }
    let score = problem.score(&start);
    let choices: Option<Vec<Vec<Vec<usize>>>> = kept
        .iter()
        .map(|kept| match kept {
            Some(rails) => Some(vec![rails.clone()]),
            None => choices(problem.rails, problem.wanted()),
        })
        .collect();
    let Some(choices) = choices else { return Solution { rails_of: start, exact: score == ideal } };
    let mut search = Search {
        problem,
        choices: &choices,
        twins: twins(problem, kept),
        users: vec![0; problem.capacities.len()],
        chosen: Vec::with_capacity(problem.gpus()),
        best: start,
        best_score: score,
        // the first answer that is as good as the start comes before it in rail order
        beaten: false,
        looks: 0,
        carried: problem.carried(),
    };
    search.descend();
    let exact = search.looks <= MOST_LOOKS || search.best_score == ideal;
    Solution { rails_of: search.best, exact }
}

/// All sets of `wanted` rails, in order; `None` where there are too many.
fn choices(rails: usize, wanted: usize) -> Option<Vec<Vec<usize>>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..wanted {
        all = all
            .iter()
            .flat_map(|set| {
                let next = set.last().map_or(0, |last| last + 1);
                (next..rails).map(move |rail| set.iter().copied().chain([rail]).collect())
            })
            .collect();
        if all.len() > MOST_CHOICES {
            return None;
        }
    }
    Some(all)
}

/// For each rail the rails before it that no GPU can tell from it, but for their names.
fn twins(problem: &Problem, kept: &[Option<Vec<usize>>]) -> Vec<Vec<usize>> {
    let looks: Vec<_> = (0..problem.rails).map(|rail| looks(problem, rail)).collect();
    let is_kept = |rail: &usize| kept.iter().flatten().any(|rails| rails.contains(rail));
    (0..problem.rails)
        .map(|rail| match is_kept(&rail) {
            true => Vec::new(),
            false => (0..rail).filter(|before| !is_kept(before) && looks[*before] == looks[rail]).collect(),
        })
        .collect()
}

/// All that tells one rail from another: each GPU's kind of way and the places on it that other rails are reached by too,
/// then the places that only this rail is reached by, with what they carry and the GPUs that cross them.
type Looks = (Vec<(u64, u8, Vec<usize>)>, Vec<(u64, Vec<usize>)>);

fn looks(problem: &Problem, rail: usize) -> Looks {
    let edges = || problem.edges.iter().map(|edges| &edges[rail]);
    let is_private = |place: &usize| {
        let mut others = problem.edges.iter().flat_map(|edges| edges.iter().enumerate());
        others.all(|(other, edge)| other == rail || !edge.crosses.contains(place))
    };
    let ways = edges().map(|edge| {
        let mut shared: Vec<usize> =
            edge.crosses.iter().copied().filter(|place| !is_private(place)).collect();
        shared.sort_unstable();
        (edge.through, edge.kind, shared)
    });
    let mut private: Vec<usize> =
        edges().flat_map(|edge| edge.crosses.iter().copied()).filter(is_private).collect();
    private.sort_unstable();
    private.dedup();
    let crossed = |place: usize| {
        let gpus = edges().enumerate().filter(|(_, edge)| edge.crosses.contains(&place)).map(|(gpu, _)| gpu);
        (problem.capacities[place], gpus.collect())
    };
    let mut private: Vec<(u64, Vec<usize>)> = private.into_iter().map(crossed).collect();
    private.sort();
    (ways.collect(), private)
}

/// A walk through all answers in rail order, GPU by GPU.
struct Search<'a> {
    problem: &'a Problem,
    /// `[gpu]`: the sets of rails it may get
    choices: &'a [Vec<Vec<usize>>],
    twins: Vec<Vec<usize>>,
    users: Vec<u64>,
    /// of the first GPUs, the number of the choice
    chosen: Vec<usize>,
    best: Vec<Vec<usize>>,
    best_score: Score,
    /// has the walk itself met an answer as good as the best?
    beaten: bool,
    looks: usize,
    carried: u64,
}

impl Search<'_> {
    fn descend(&mut self) {
        let gpu = self.chosen.len();
        if gpu == self.problem.gpus() {
            let answer: Vec<Vec<usize>> = self
                .chosen
                .iter()
                .enumerate()
                .map(|(gpu, &choice)| self.choices[gpu][choice].clone())
                .collect();
            self.best_score = self.problem.score(&answer);
            self.best = answer;
            self.beaten = true;
            return;
        }
        for choice in 0..self.choices[gpu].len() {
            if self.looks > MOST_LOOKS {
                return;
            }
            let rails = &self.choices[gpu][choice];
            if self.choices[gpu].len() > 1 && self.is_a_twins(rails) {
                continue;
            }
            self.looks += self.problem.gpus() * self.problem.rails;
            self.change(gpu, choice, 1);
            self.chosen.push(choice);
            let bound = self.bound();
            if bound < self.best_score || (bound == self.best_score && !self.beaten) {
                self.descend();
            }
            self.chosen.pop();
            self.change(gpu, choice, -1);
        }
    }

    /// Would an earlier rail that is unused too, and not chosen with it, do as well?
    fn is_a_twins(&self, rails: &[usize]) -> bool {
        let unused = |rail: &usize| self.users[*rail] == 0;
        let is_free = |twin: &usize| unused(twin) && !rails.contains(twin);
        rails.iter().any(|rail| unused(rail) && self.twins[*rail].iter().any(is_free))
    }

    fn change(&mut self, gpu: usize, choice: usize, by: i64) {
        for rail in &self.choices[gpu][choice] {
            for &place in &self.problem.edges[gpu][*rail].crosses {
                self.users[place] = self.users[place].saturating_add_signed(by);
            }
        }
    }

    /// What no answer that begins with the chosen ones can be better than.
    fn bound(&self) -> Score {
        let problem = self.problem;
        let (mut worst, mut sum, mut path) = (u64::MAX, 0u64, 0);
        for (gpu, &choice) in self.chosen.iter().enumerate() {
            let rails = &self.choices[gpu][choice];
            let share = rails.iter().map(|&rail| problem.share(gpu, rail, &self.users)).sum();
            worst = worst.min(share);
            sum += share;
            path += rails.iter().map(|&rail| path_digit(problem.edges[gpu][rail].kind)).sum::<u64>();
        }
        let mut more = 0;
        for gpu in self.chosen.len()..problem.gpus() {
            let (share, digits, rails) = match self.choices[gpu].as_slice() {
                [only] => (
                    only.iter().map(|&rail| self.joining(gpu, rail)).sum(),
                    only.iter().map(|&rail| path_digit(problem.edges[gpu][rail].kind)).sum(),
                    only.len(),
                ),
                _ => self.open(gpu),
            };
            worst = worst.min(share);
            sum += share;
            path += digits;
            more += rails;
        }
        let sum = sum.min(self.carried);
        let gpus = problem.gpus().max(1) as u64;
        Score::new(
            worst.min(sum / gpus),
            sum,
            path,
            even_squares(&self.users[..problem.rails], problem.rails, more),
        )
    }

    /// The most that an undecided GPU can still get, its nearest paths, and how many rails it takes.
    fn open(&self, gpu: usize) -> (u64, u64, usize) {
        let problem = self.problem;
        let wanted = problem.wanted();
        let mut shares = [0u64; MOST_RAILS];
        let mut digits = [0u64; MOST_RAILS];
        for rail in 0..problem.rails {
            shares[rail] = self.joining(gpu, rail);
            digits[rail] = path_digit(problem.edges[gpu][rail].kind);
        }
        shares[..problem.rails].sort_unstable_by_key(|share| u64::MAX - share);
        digits[..problem.rails].sort_unstable();
        (shares[..wanted].iter().sum(), digits[..wanted].iter().sum(), wanted)
    }

    /// A GPU's share of a rail that it joins now.
    fn joining(&self, gpu: usize, rail: usize) -> u64 {
        let edge = &self.problem.edges[gpu][rail];
        let shares = edge
            .crosses
            .iter()
            .map(|&place| self.problem.capacities[place] * PARTS / (self.users[place] + 1));
        shares.min().unwrap_or(0) * edge.through / 1000
    }
}

/// GPU after GPU the rails that give it most at that moment.
fn begun(problem: &Problem, kept: &[Option<Vec<usize>>]) -> Vec<Vec<usize>> {
    let mut rails_of: Vec<Vec<usize>> = kept.iter().map(|kept| kept.clone().unwrap_or_default()).collect();
    let mut users = problem.users(&rails_of);
    for _ in 0..problem.wanted() {
        for gpu in (0..kept.len()).filter(|&gpu| kept[gpu].is_none()) {
            let open = (0..problem.rails).filter(|rail| !rails_of[gpu].contains(rail));
            let rail = open.min_by_key(|&rail| {
                let edge = &problem.edges[gpu][rail];
                let shares =
                    edge.crosses.iter().map(|&place| problem.capacities[place] * PARTS / (users[place] + 1));
                let share = shares.min().unwrap_or(0) * edge.through / 1000;
                (u64::MAX - share, edge.kind, rail)
            });
            for &place in rail.iter().flat_map(|&rail| &problem.edges[gpu][rail].crosses) {
                users[place] += 1;
            }
            rails_of[gpu].extend(rail);
        }
    }
    rails_of.iter_mut().for_each(|rails| rails.sort_unstable());
    rails_of
}

/// Moves GPUs and exchanges the rails of two while that improves the answer.
fn improve(problem: &Problem, kept: &[Option<Vec<usize>>], rails_of: &mut [Vec<usize>]) {
    let free: Vec<usize> = (0..kept.len()).filter(|&gpu| kept[gpu].is_none()).collect();
    let mut known = problem.score(rails_of);
    let mut looks = 0;
    let mut better = |rails_of: &[Vec<usize>]| {
        looks += problem.gpus();
        let candidate = problem.score(rails_of);
        let is_better = looks <= MOST_LOOKS && candidate < known;
        if is_better {
            known = candidate;
        }
        (is_better, looks > MOST_LOOKS)
    };
    loop {
        let mut moved = false;
        for (place, &gpu) in free.iter().enumerate() {
            for slot in 0..rails_of[gpu].len() {
                for rail in 0..problem.rails {
                    if rails_of[gpu].contains(&rail) {
                        continue;
                    }
                    let old = std::mem::replace(&mut rails_of[gpu][slot], rail);
                    match better(rails_of) {
                        (true, _) => moved = true,
                        (false, over) => {
                            rails_of[gpu][slot] = old;
                            if over {
                                rails_of.iter_mut().for_each(|rails| rails.sort_unstable());
                                return;
                            }
                        }
                    }
                }
            }
            for &other in &free[..place] {
                rails_of.swap(gpu, other);
                match better(rails_of) {
                    (true, _) => moved = true,
                    (false, _) => rails_of.swap(gpu, other),
                }
            }
        }
        if !moved {
            break;
        }
    }
    rails_of.iter_mut().for_each(|rails| rails.sort_unstable());
}
