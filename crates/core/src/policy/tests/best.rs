//! The solver beside a search of all answers, on every small machine of two sockets with two
//! switches each.

use super::*;

/// All ways to put up to `most` devices below four switches, as the number below each.
fn patterns(most: u8) -> Vec<[u8; 4]> {
    let base = u32::from(most) + 1;
    let all =
        (1..base.pow(4)).map(|code| [0, 1, 2, 3].map(|at| (code / base.pow(at) % base) as u8));
    all.filter(|below| below.iter().sum::<u8>() <= most)
        .collect()
}

/// Machines with up to `most` GPUs and NICs, once for those that differ only in the order of
/// sockets or switches.
fn machines(most: u8) -> Vec<Topology> {
    let patterns = patterns(most);
    let with = |&gpus| patterns.iter().map(move |&nics| (gpus, nics));
    let all = patterns.iter().flat_map(with);
    let is_first = |&(gpus, nics): &([u8; 4], [u8; 4])| {
        let below = [0, 1, 2, 3].map(|switch| (gpus[switch], nics[switch]));
        below[0] <= below[1] && below[2] <= below[3] && below[..2] <= below[2..]
    };
    let switches = |below: [u8; 4]| {
        let each = (0..4).zip(below);
        each.flat_map(|(switch, count)| std::iter::repeat_n(switch, count.into()))
    };
    let parts = |(gpus, nics)| Parts {
        gpus: switches(gpus).collect(),
        nics: switches(nics).map(|switch| (switch, 400)).collect(),
    };
    all.filter(is_first)
        .map(|each| parts(each).topology())
        .collect()
}

/// Of these machines those on which an answer is better than the solver's, and the least that the
/// worst-off GPU of the solver's gets, as a part of what it could have.
fn losses(machines: &[Topology], each: usize) -> (usize, f64) {
    let (mut worse, mut least) = (0, 1.0f64);
    for topology in machines {
        let (rails, wants) = (closest(topology).rails, vec![each; topology.gpus.len()]);
        let ways = Paths::new(topology, &rails, &Through::default(), &wants);
        let ours = solve::solve(&ways.problem);
        if let Some(better) = solve::tests::better(&ways.problem, &ours.score()) {
            worse += 1;
            let better = solve::Solved::new(&ways.problem, better);
            least = least.min(ours.worst_mbps() as f64 / better.worst_mbps() as f64);
        }
    }
    (worse, least)
}

#[test]
fn no_answer_is_better_than_the_solvers_on_a_small_machine_of_two_sockets_and_with_two_nics_each_few_are()
 {
    // `MOST=5 cargo test -p nic-placement-core --lib -- --nocapture of_two_sockets_and` takes all
    // up to five GPUs and NICs
    let most = std::env::var("MOST").map_or(4, |most| most.parse().unwrap());
    let machines = machines(most);
    let [one, two] = [1, 2].map(|each| losses(&machines, each));
    println!("{}: worse with one {one:?}, two {two:?}", machines.len());
    // what the worst-off GPU gets is never less with one NIC each
    let usual = (0, 25, 0.9);
    let (few, one_of, least) = if most > 4 { (3, 15, 0.83) } else { usual };
    assert!(one.0 <= few && one.1 == 1.0, "{one:?}");
    assert!(two.0 * one_of <= machines.len() && two.1 > least, "{two:?}");
}
