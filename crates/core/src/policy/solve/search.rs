//! A walk through all answers that could be better than the known one.
#![forbid(unsafe_code)]

use super::bound::{Begun, most, nearest};
use super::budget::Budget;
use super::load::Load;
use super::problem::{Problem, bits};
use super::score::Score;
use super::twins::{twin_gpus, twin_rails};
use std::cmp::{Ordering, Reverse};

/// Sets of rails from which one GPU chooses, at most.
const MOST_CHOICES: usize = 1024;

/// What a walk looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// the best answer
    Best,
    /// of the answers as good as the known one the first in rail order
    First,
}

/// Goes on with an answer until its goal is reached, or the budget is used up.  Says whether it was reached.
pub(super) fn search(
    problem: &Problem,
    goal: Goal,
    rails_of: &mut Vec<Vec<usize>>,
    budget: &mut Budget,
) -> bool {
    // what is made before the walk
    let count: usize = (0..problem.gpus()).map(|gpu| number_of_sets(problem, gpu)).sum();
    let pairs = problem.gpus().pow(2) + problem.rails().pow(2);
    if !budget.spend((8 * count + 4 * pairs) as u64) {
        return false;
    }
    let choices: Option<Vec<Vec<Vec<usize>>>> = (0..problem.gpus()).map(|gpu| sets(problem, gpu)).collect();
    let Some(choices) = choices else { return false };
    let mut ways_over: Vec<Vec<u32>> = vec![Vec::new(); problem.places()];
    for gpu in 0..problem.gpus() {
        for rail in problem.open_to(gpu) {
            let way = (gpu * problem.rails() + rail) as u32;
            problem.crossed(gpu, rail).for_each(|place| ways_over[place].push(way));
        }
    }
    let mut walk = Walk {
        problem,
        goal,
        choices: &choices,
        ways_over,
        nearest: nearest(problem),
        twin_gpus: twin_gpus(problem),
        twin_rails: twin_rails(problem),
        load: Load::new(problem),
        most: most(problem),
        begun: vec![Vec::new(); problem.gpus()],
        numbers: vec![0; problem.gpus()],
        best_score: Score::of(problem, rails_of),
        best: rails_of,
        budget,
    };
    walk.descend(problem.gpus());
    !walk.budget.is_spent()
}

/// How many sets of rails a GPU may get, or as many as are too many.
fn number_of_sets(problem: &Problem, gpu: usize) -> usize {
    if problem.is_decided(gpu) {
        return 1;
    }
    let rails = problem.open_to(gpu).count();
    // in this order each quotient is a whole number
    let binomial = |sets: usize, taken: usize| (sets * (rails - taken) / (taken + 1)).min(MOST_CHOICES + 1);
    (0..problem.wants(gpu)).fold(1, binomial)
}

/// All sets of rails that a GPU may get, in order; `None` where there are too many.
fn sets(problem: &Problem, gpu: usize) -> Option<Vec<Vec<usize>>> {
    let rails: Vec<usize> = problem.open_to(gpu).collect();
    if problem.is_decided(gpu) {
        return Some(vec![rails]);
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..problem.wants(gpu) {
        all = all
            .iter()
            .flat_map(|set| {
                let next = set.last().map_or(0, |last| rails.partition_point(|rail| rail <= last));
                rails[next..].iter().map(move |&rail| set.iter().copied().chain([rail]).collect())
            })
            .collect();
        if all.len() > MOST_CHOICES {
            return None;
        }
    }
    Some(all)
}

struct Walk<'a> {
    problem: &'a Problem,
    goal: Goal,
    /// `[gpu]`: the sets of rails it may get
    choices: &'a [Vec<Vec<usize>>],
    /// for each place the ways over it, as positions in `most`
    ways_over: Vec<Vec<u32>>,
    nearest: Vec<u128>,
    twin_gpus: Vec<Option<usize>>,
    twin_rails: Vec<u64>,
    load: Load<'a>,
    /// `[gpu * rails + rail]`: what the way can still give
    most: Vec<u64>,
    /// for each GPU its rails, none where they are open
    begun: Vec<Vec<usize>>,
    /// and the number of that choice
    numbers: Vec<usize>,
    best: &'a mut Vec<Vec<usize>>,
    best_score: Score,
    budget: &'a mut Budget,
}

impl Walk<'_> {
    /// Walks through all ways to give `open` more GPUs their rails; `true` ends the walk.
    fn descend(&mut self, open: usize) -> bool {
        if open == 0 {
            let score = Score::of(self.problem, &self.begun);
            let (is_it, ends) = match self.goal {
                Goal::Best => (score < self.best_score, false),
                Goal::First => (score <= self.best_score, true),
            };
            if is_it {
                self.best.clone_from(&self.begun);
                self.best_score = score;
            }
            return is_it && ends;
        }
        let gpu = self.next_gpu();
        for number in self.order(gpu) {
            if !self.budget.spend(8 + self.load.take_looks()) {
                return true;
            }
            if self.is_a_twins(gpu, number) {
                continue;
            }
            let before = self.put(gpu, number);
            let begun = Begun {
                problem: self.problem,
                load: &self.load,
                rails_of: &self.begun,
                most: &self.most,
                nearest: &self.nearest,
            };
            let goes_on = match (begun.compare(&self.best_score), self.goal) {
                (Ordering::Less, _) | (Ordering::Equal, Goal::First) => true,
                (Ordering::Equal, Goal::Best) | (Ordering::Greater, _) => false,
            };
            let ends = goes_on && self.descend(open - 1);
            self.lift(gpu, before);
            if ends {
                return true;
            }
        }
        false
    }

    /// The GPU whose turn it is: the first, or for a proof the one that has least to choose from.
    fn next_gpu(&self) -> usize {
        let mut open = (0..self.begun.len()).filter(|&gpu| self.begun[gpu].is_empty());
        let worst = self.best_score.worst_mbps() * super::problem::PARTS;
        let rails = self.problem.rails();
        let choice = |gpu: usize| {
            let row = &self.most[gpu * rails..][..rails];
            row.iter().filter(|&&most| most * self.problem.wants(gpu) as u64 >= worst && most > 0).count()
        };
        match self.goal {
            Goal::First => open.next(),
            Goal::Best => open.min_by_key(|&gpu| (choice(gpu), gpu)),
        }
        .unwrap_or(0)
    }

    /// A GPU's choices, in rail order, or for a proof those that give it most first.
    fn order(&self, gpu: usize) -> Vec<usize> {
        let choices = &self.choices[gpu];
        let mut order: Vec<usize> = (0..choices.len()).collect();
        if self.goal == Goal::Best {
            let rails = self.problem.rails();
            self.load.count(4 * order.len());
            order.sort_by_cached_key(|&number| {
                let most: u64 = choices[number].iter().map(|rail| self.most[gpu * rails + rail]).sum();
                (Reverse(most), number)
            });
        }
        order
    }

    fn put(&mut self, gpu: usize, number: usize) -> Vec<(u32, u64)> {
        let rails = &self.choices[gpu][number];
        self.begun[gpu].clone_from(rails);
        self.numbers[gpu] = number;
        let mut before = Vec::new();
        for &rail in rails {
            self.load.put(gpu, rail);
            for place in self.problem.crossed(gpu, rail) {
                let joining = self.load.level_for_one_more(place);
                self.load.count(self.ways_over[place].len() / 2);
                for &way in &self.ways_over[place] {
                    let most = &mut self.most[way as usize];
                    if *most > joining {
                        before.push((way, std::mem::replace(most, joining)));
                    }
                }
            }
        }
        before
    }

    fn lift(&mut self, gpu: usize, before: Vec<(u32, u64)>) {
        let rails = std::mem::take(&mut self.begun[gpu]);
        rails.iter().for_each(|&rail| self.load.lift(gpu, rail));
        before.into_iter().rev().for_each(|(way, most)| self.most[way as usize] = most);
    }

    /// Would this come to the same as a choice that is looked at too: of an earlier rail that is unused, and not chosen with
    /// it, or of what a GPU of the same kind could have got instead?
    fn is_a_twins(&self, gpu: usize, number: usize) -> bool {
        let twin = self.twin_gpus[gpu];
        if twin.is_some_and(|twin| !self.begun[twin].is_empty() && number < self.numbers[twin]) {
            return true;
        }
        let rails = &self.choices[gpu][number];
        let unused = |rail: usize| self.load.users(rail).is_empty();
        let free_twin =
            |rail: usize| bits(self.twin_rails[rail]).any(|twin| unused(twin) && !rails.contains(&twin));
        self.choices[gpu].len() > 1 && rails.iter().any(|&rail| unused(rail) && free_twin(rail))
    }
}
