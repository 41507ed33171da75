//! What becomes of a step's map in a task that may not open some of its NICs.

use super::*;

// what fails in a task of a step counts as it did in the step, so that the numbers of rails do not
// shift between tasks
#[test]
fn a_port_that_was_a_rail_breaks_one_however_far_it_is() {
    let topology = machine(&[0, 1, 2], &[0, 1, 2, 3].map(|switch| (switch, 400)));
    let step = closest(&topology);
    assert_eq!(step.rails.len(), 4);
    let broken = |topology: &Topology, nic, were: &[Rail]| {
        let wish = closed(Wish::default(), &[nic]);
        strings(&map_of(topology, &wish, None, were).broken)
    };
    // farther from every GPU than the rails are
    assert_eq!(broken(&topology, 3, &[]), [""; 0]);
    assert_eq!(broken(&topology, 3, &step.rails), ["mlx5_3:1"]);
    // nor does one that was none become one because another fails
    let down = without(topology, &["mlx5_3"]);
    let step = closest(&down);
    assert_eq!(broken(&down, 0, &step.rails), ["mlx5_0:1"]);
}

#[test]
fn the_rails_after_one_that_a_task_may_not_open_keep_their_numbers() {
    // the first rail is far from all GPUs, and it is the one that fails
    let topology = machine(&[1, 2, 3], &[0, 1, 2, 3].map(|switch| (switch, 400)));
    let by_rail = wish(Policy::Rail, NicsEach::Number(1));
    let step = map(&topology, &by_rail);
    assert_eq!(names(&step).concat(), ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1"]);
    let others = |were| {
        let task = map_of(&topology, &closed(by_rail.clone(), &[0]), None, were);
        names(&task)[1..].concat()
    };
    // without the knowledge that it was a rail
    assert_eq!(others(&[]), ["mlx5_2:1", "mlx5_3:1"]);
    assert_eq!(others(&step.rails), ["mlx5_1:1", "mlx5_2:1"]);
}
