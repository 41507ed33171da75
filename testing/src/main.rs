//! `made-machine NAME` prints the snapshot of a built-in machine.
#![forbid(unsafe_code)]

fn main() {
    let machine = std::env::args().nth(1).expect("the name of a machine");
    print!("{}", nic_placement_testing::snapshot_of(&machine));
}
