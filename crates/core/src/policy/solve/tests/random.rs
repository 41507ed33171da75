//! The solver beside a search of all answers, on random machines.

use super::*;

/// Figures that follow from a seed, and are the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn all_of<T: Copy>(&mut self, number: usize, all: &[T]) -> Vec<T> {
        (0..number).map(|_| self.one_of(all)).collect()
    }
}

/// Nothing is like anything else.
fn any_machine(dice: &mut Dice) -> Machine {
    let (gpus, rails) = (3 + dice.below(4), 2 + dice.below(4));
    let rates = dice.all_of(rails, &[400_000, 400_000, 200_000]);
    let kinds = (0..gpus).map(|_| dice.all_of(rails, &[0, 1, 2, 3, 4]));
    let kinds: Vec<Vec<u8>> = kinds.collect();
    let links = dice.all_of(gpus, &[504_000, 504_000, 252_000, 126_000]);
    let mut machine = Machine::new(&rates, &kinds, &links);
    for _ in 0..dice.below(4) {
        let ways = (0..gpus * rails).filter(|_| dice.below(3) == 0);
        let ways: Vec<(usize, usize)> = ways.map(|way| (way / rails, way % rails)).collect();
        machine = machine.shared(dice.one_of(&[504_000, 252_000]), &ways);
    }
    machine
}

/// Two sockets with two switches each: much is like something else, and the connection of the
/// sockets is narrow.
fn server(dice: &mut Dice) -> Machine {
    let (gpus, rails) = (3 + dice.below(5), 3 + dice.below(4));
    let gpu_at = dice.all_of(gpus, &[0, 1, 2, 3]);
    let rail_at = dice.all_of(rails, &[0, 1, 2, 3]);
    let kind = |gpu: usize, rail: usize| match (gpu_at[gpu], rail_at[rail]) {
        (one, other) if one == other => 0,
        (one, other) if one / 2 == other / 2 => 3,
        _ => 4,
    };
    let kinds = kinds(gpus, rails, kind);
    let rates = dice.all_of(rails, &[400_000, 400_000, 400_000, 200_000]);
    let machine = wide(&rates, &kinds);
    let ways = |is_over: &dyn Fn(usize, usize) -> bool| -> Vec<(usize, usize)> {
        let all = (0..gpus).flat_map(|gpu| (0..rails).map(move |rail| (gpu, rail)));
        all.filter(|&(gpu, rail)| is_over(gpu_at[gpu], rail_at[rail]))
            .collect()
    };
    let machine = (0..4).fold(machine, |machine, switch| {
        machine.shared(504_000, &ways(&|gpu, rail| gpu == switch && rail != switch))
    });
    let connection = dice.one_of(&[900_000, 360_000]);
    machine.shared(connection, &ways(&|gpu, rail| gpu / 2 != rail / 2))
}

/// Of 50 machines of a kind: those on which another answer is better, those on which the worst-off
/// GPU could have more, and the least that it has as a part of that.
fn losses(kind: fn(&mut Dice) -> Machine, each: usize) -> (usize, usize, f64) {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut worse, mut worst_off, mut least) = (0, 0, 1.0f64);
    for _ in 0..50 {
        let problem = kind(&mut dice).wanting(each).problem();
        let ours = solve(&problem).score();
        let Some(better) = better(&problem, &ours) else {
            continue;
        };
        let most = best_of_the_worst(&problem, Solved::new(&problem, better).score());
        worse += 1;
        worst_off += usize::from(most > ours.shares.0[0]);
        least = least.min(ours.shares.0[0] as f64 / most as f64);
    }
    (worse, worst_off, least)
}

/// What the worst-off GPU gets in the best answer.
fn best_of_the_worst(problem: &Problem, mut known: Score) -> u64 {
    while let Some(better) = better(problem, &known) {
        known = Solved::new(problem, better).score();
    }
    known.shares.0[0]
}

#[test]
fn few_random_machines_have_an_answer_that_is_better_than_the_solvers() {
    // servers with ports of different rates
    let (worse, worst_off, least) = losses(server, 1);
    assert!(worse <= 1 && worst_off == 0, "{worse} {worst_off} {least}");
    // machines whose paths have nothing to do with each other
    for (worse, worst_off, least) in [losses(any_machine, 1), losses(any_machine, 2)] {
        assert!(worse <= 17 && worst_off <= 1, "{worse} {worst_off}");
        assert!(least > 0.96, "{least}");
    }
}
