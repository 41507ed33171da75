//! The bytes that execve(2) leaves for our variables beside the program's environment and
//! arguments.

use crate::libraries::Present;
use crate::placement::{Change, Variable};
use crate::step::Room;

/// Bytes for later additions: the program's resolved path and a script's interpreter (at most
/// PATH_MAX and one line), and variables of a TaskProlog, which runs after us.
const SPARE: usize = 32 * 1024;

/// execve(2)'s limit in bytes on strings and their pointers: a quarter of the stack limit, between
/// 128 KiB and 6 MiB (fs/exec.c `bprm_stack_limits`; only about right before Linux 4.13).
fn limit(stack: u64) -> usize {
    (stack / 4).clamp(128 * 1024, 6 * 1024 * 1024) as usize
}

/// True if execve(2) would have too little room for the program or for one value.
pub(super) fn is_lacking(variables: &[Variable], present: &Present, room: Room) -> bool {
    let (mut taken, mut longest) = (room.taken, 0);
    for Variable { name, change, .. } in variables {
        let length = |value: &str| name.len() + 1 + value.len() + Room::EACH;
        if let Change::Set(value) = change {
            taken += length(value);
            longest = longest.max(length(value));
        }
        if matches!(change, Change::Set(_) | Change::Remove) {
            taken =
                taken.saturating_sub(present.get(name.as_ref()).map_or(0, |value| length(value)));
        }
    }
    longest > Room::LONGEST || longest > 0 && taken + SPARE > limit(room.stack)
}

pub(super) const WHY: &str = "no room for it: the program's arguments and variables are nearly all that execve(2) takes; see `ulimit -s`";

pub(super) fn withdraw(variable: &mut Variable, present: &Present) {
    if let Change::Set(_) = variable.change {
        variable.change = match present.contains_key(variable.name.as_ref()) {
            true => Change::Remove,
            false => Change::Leave,
        };
        variable.why = WHY.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &'static str, value: &str) -> Variable<'static> {
        Variable {
            name: name.into(),
            change: Change::Set(value.to_string()),
            of_file: None,
            why: "".into(),
        }
    }

    fn room(taken: usize, stack: u64) -> Room {
        Room { taken, stack }
    }

    #[test]
    fn the_kernels_limit_is_a_quarter_of_the_stack_within_bounds() {
        const MIB: u64 = 1024 * 1024;
        let limits = [8 * MIB, u64::MAX, 0, MIB].map(limit);
        assert_eq!(limits, [2 << 20, 6 << 20, 128 << 10, 256 << 10]);
    }

    #[test]
    fn variables_have_room_until_what_is_left_free_for_others_begins() {
        let (variables, nothing) = ([set("A", "1")], Present::new());
        let most = limit(8 << 20) - SPARE - ("A=1".len() + Room::EACH);
        assert!(!is_lacking(&variables, &nothing, room(most, 8 << 20)));
        assert!(is_lacking(&variables, &nothing, room(most + 1, 8 << 20)));
        let present = Present::from([("A".to_string(), "0".to_string())]);
        // it takes the other's place
        assert!(!is_lacking(&variables, &present, room(most + 1, 8 << 20)));
        let long = [set("A", &"x".repeat(Room::LONGEST))];
        assert!(is_lacking(&long, &nothing, room(0, u64::MAX)));
    }

    #[test]
    fn without_room_nothing_is_set_and_no_outer_value_stays() {
        let present = Present::from([("A".to_string(), "0".to_string())]);
        let variables = [set("A", "1"), set("B", "1")];
        let changes = variables.map(|mut variable| {
            withdraw(&mut variable, &present);
            variable.change
        });
        let is_right = matches!(changes, [Change::Remove, Change::Leave]);
        assert!(is_right, "{changes:?}");
    }
}
