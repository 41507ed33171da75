//! What becomes of a step's map in a task that may not open some of its NICs.

use super::*;
use crate::topology::NicIndex;
use crate::wish::{Admin, NicsEach};

// what fails in a task of a step counts as it did in the step, so that the numbers of rails do not
// shift between tasks
#[test]
fn a_port_that_was_a_rail_breaks_one_however_far_it_is() {
    let topology = Parts {
        gpus: vec![0, 1, 2],
        nics: (0..4).map(|switch| (switch, 400)).collect(),
    }
    .topology();
    let step = closest(&topology);
    assert_eq!(step.rails.len(), 4);
    let unopenable = vec![(NicIndex(3), "closed".to_string())];
    let selection = Selection {
        unopenable,
        ..Selection::default()
    };
    let broken = |were| {
        let request = Wish {
            admin: Admin {
                selection: selection.clone(),
                ..Admin::default()
            },
            ..Wish::default()
        };
        map_of(&topology, &request, None, were).broken.len()
    };
    assert_eq!(broken(&[]), 0, "farther from every GPU than the rails are");
    assert_eq!(broken(&step.rails), 1);
    // nor does one that was none become one because another fails
    let mut down = topology.clone();
    down.nics[3].ports[0].state = PortState::Down;
    let (step, unopenable) = (closest(&down), vec![(NicIndex(0), "closed".to_string())]);
    let selection = Selection {
        unopenable,
        ..Selection::default()
    };
    let request = Wish {
        admin: Admin {
            selection: selection.clone(),
            ..Admin::default()
        },
        ..Wish::default()
    };
    assert_eq!(
        map_of(&down, &request, None, &step.rails)
            .broken
            .iter()
            .map(Rail::to_string)
            .collect::<Vec<_>>(),
        ["mlx5_0:1"]
    );
}

#[test]
fn the_rails_after_one_that_a_task_may_not_open_keep_their_numbers() {
    // the first rail is far from all GPUs, and it is the one that fails
    let topology = Parts {
        gpus: vec![1, 2, 3],
        nics: (0..4).map(|switch| (switch, 400)).collect(),
    }
    .topology();
    let by_rail = Wish {
        policy: Policy::Rail,
        nics_per_task: NicsEach::Number(1),
        ..Wish::default()
    };
    let step = map(&topology, &by_rail);
    assert_eq!(names(&step).concat(), ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1"]);
    let unopenable = vec![(NicIndex(0), "closed".to_string())];
    let selection = Selection {
        unopenable,
        ..Selection::default()
    };
    let others = |were| {
        let task = map_of(
            &topology,
            &Wish {
                admin: Admin {
                    selection: selection.clone(),
                    ..Admin::default()
                },
                ..by_rail.clone()
            },
            None,
            were,
        );
        names(&task)[1..].concat()
    };
    assert_eq!(
        others(&[]),
        ["mlx5_2:1", "mlx5_3:1"],
        "where nobody knows that it was a rail"
    );
    assert_eq!(others(&step.rails), ["mlx5_1:1", "mlx5_2:1"]);
}
