//! The simple answers to begin with, and how far moves and exchanges make them better.

use super::*;

fn near(kinds: &[Vec<u8>]) -> Problem {
    wide(&vec![400_000; kinds[0].len()], kinds).problem()
}

/// The rail of each GPU in a simple answer.
fn rails(begun: Solved) -> Vec<usize> {
    lists(&begun.rails_of).concat()
}

/// The first GPU keeps the first rail.
fn kept(mut problem: Problem) -> Problem {
    let mut keeps = vec![None; problem.gpus()];
    keeps[0] = Some(RailSet::first(1));
    problem.keep(&keeps);
    problem
}

fn improved(problem: &Problem, begun: &[usize]) -> Vec<usize> {
    let begun: Vec<Vec<usize>> = begun.iter().map(|&rail| vec![rail]).collect();
    rails(improve::improved(Solved::new(problem, sets(&begun))))
}

#[test]
fn of_the_two_simple_answers_one_takes_the_nearest_rail_and_the_other_an_idle_one_that_gives_more()
{
    let [far, farther] = [3, 4].map(|kind| near(&vec![vec![0, kind]; 2]));
    for (problem, nearest, richest) in [
        // of the nearest those with the fewest users
        (alike(4, 4).problem(), &[0, 1, 2, 3][..], None),
        (alike(4, 2).problem(), &[0, 1, 0, 1], None),
        (near(&vec![vec![0, 0, 3]; 3]), &[0, 1, 0], None),
        // half of the near one is more than a farther one gives
        (far, &[0, 0], Some([0, 1])),
        (farther, &[0, 0], Some([0, 0])),
        // a GPU that keeps a rail is one of its users, and crosses it
        (kept(alike(3, 3).problem()), &[0, 1, 2], None),
        (kept(alike(2, 2).problem()), &[0, 1], Some([0, 1])),
    ] {
        assert_eq!(rails(start::nearest(&problem)), nearest);
        if let Some(expected) = richest {
            assert_eq!(rails(start::richest(&problem)), expected);
        }
    }
}

#[test]
fn a_gpu_moves_to_a_rail_that_gives_it_more_and_who_could_not_before_follows() {
    let mut alone = improved(&alike(3, 3).problem(), &[0, 0, 0]);
    alone.sort_unstable();
    assert_eq!(alone, [0, 1, 2]);
    // as much from a rail with fewer users, where nothing is full
    let mut far = improved(&near(&[vec![4, 4], vec![4, 4]]), &[0, 0]);
    far.sort_unstable();
    assert_eq!(far, [0, 1]);
    // the first is far from its rail, and the one near to it is shared until the second leaves that
    // for its own
    let problem = near(&[vec![0, 4, 4], vec![0, 4, 0], vec![0, 4, 4]]);
    assert_eq!(improved(&problem, &[1, 0, 0]), [0, 2, 0]);
}

#[test]
fn gpus_exchange_rails_where_neither_gains_by_moving_alone_and_others_follow() {
    let crosswise = near(&[vec![0, 1], vec![1, 0]]);
    assert_eq!(improved(&crosswise, &[1, 0]), [0, 1]);
    // the first two cannot exchange theirs before the last has taken the second's
    let problem = near(&[vec![1, 4, 0], vec![0, 1, 1], vec![4, 0, 1]]);
    assert_eq!(improved(&problem, &[0, 1, 2]), [2, 0, 1]);
}
