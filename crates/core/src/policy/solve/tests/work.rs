//! What solving costs, in looks: the budget is counted in them, so the count decides which answer a large machine gets.
#![forbid(unsafe_code)]

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
}

/// Nothing is like anything else.
fn any_machine(dice: &mut Dice) -> Machine {
    let (gpus, rails) = (3 + dice.below(4), 2 + dice.below(4));
    let rates: Vec<u64> = (0..rails).map(|_| dice.one_of(&[400_000, 400_000, 200_000])).collect();
    let kinds: Vec<Vec<u8>> = (0..gpus).map(|_| (0..rails).map(|_| dice.below(5) as u8).collect()).collect();
    let links: Vec<u64> = (0..gpus).map(|_| dice.one_of(&[504_000, 504_000, 252_000, 126_000])).collect();
    let mut machine = Machine::new(&rates, &kinds, &links);
    for _ in 0..dice.below(4) {
        let ways: Vec<(usize, usize)> =
            (0..gpus * rails).filter(|_| dice.below(3) == 0).map(|way| (way / rails, way % rails)).collect();
        machine = machine.shared(dice.one_of(&[504_000, 252_000]), &ways);
    }
    machine
}

/// Two sockets with two switches each: much is like something else, and the connection of the sockets is narrow.
fn server(dice: &mut Dice) -> Machine {
    let (gpus, rails) = (3 + dice.below(10), 4 + dice.below(3));
    let gpu_at: Vec<usize> = (0..gpus).map(|_| dice.below(4)).collect();
    let rail_at: Vec<usize> = (0..rails).map(|_| dice.below(4)).collect();
    let kind = |gpu: usize, rail: usize| match (gpu_at[gpu], rail_at[rail]) {
        (one, other) if one == other => 0,
        (one, other) if one / 2 == other / 2 => 3,
        _ => 4,
    };
    let kinds: Vec<Vec<u8>> = (0..gpus).map(|gpu| (0..rails).map(|rail| kind(gpu, rail)).collect()).collect();
    let rates: Vec<u64> = (0..rails).map(|_| dice.one_of(&[400_000, 400_000, 400_000, 200_000])).collect();
    let machine = Machine::new(&rates, &kinds, &vec![504_000; gpus]);
    let ways = |is_over: &dyn Fn(usize, usize) -> bool| -> Vec<(usize, usize)> {
        let all = (0..gpus).flat_map(|gpu| (0..rails).map(move |rail| (gpu, rail)));
        all.filter(|&(gpu, rail)| is_over(gpu_at[gpu], rail_at[rail])).collect()
    };
    let machine = (0..4).fold(machine, |machine, switch| {
        machine.shared(504_000, &ways(&|gpu, rail| gpu == switch && rail != switch))
    });
    machine.shared(dice.one_of(&[900_000, 360_000]), &ways(&|gpu, rail| gpu / 2 != rail / 2))
}

/// Of machines of a kind: the looks that solving them takes, and how many are solved to the end.
fn work(kind: fn(&mut Dice) -> Machine, each: usize) -> (u64, usize) {
    const BUDGET: u64 = 30_000;
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut looks, mut exact) = (0, 0);
    for number in 0..24 {
        let mut budget = Budget::new(BUDGET);
        let problem = kind(&mut dice).wanting(each).problem();
        most_for_the_worst(&problem, &mut budget);
        // some GPUs keep their rails, as after a NIC broke
        let keeps = |gpu: usize| (gpu < number % 3).then(|| (0..each).collect());
        let kept: Vec<Option<Vec<usize>>> = (0..problem.gpus()).map(keeps).collect();
        let solution = solve_around(&problem, &kept, &mut budget);
        exact += usize::from(solution.exact);
        let most = vec![Most { of: u64::MAX >> (64 - problem.rails()), rails: each + 1 }; problem.gpus()];
        deal_idle(&problem, solution.rails_of, &most, &mut budget);
        looks += BUDGET - budget.left();
    }
    (looks, exact)
}

/// A shortcut that no longer cuts anything short changes no answer, and is seen here alone.
#[test]
fn the_work_of_a_solution_is_what_it_was() {
    let now = [work(any_machine, 1), work(any_machine, 2), work(server, 1), work(server, 2)];
    let was = [(215_710, 24), (443_353, 14), (475_627, 13), (653_807, 6)];
    assert_eq!(
        now, was,
        "if the solver was changed on purpose, and this is no more work for less: the new figures"
    );
}
