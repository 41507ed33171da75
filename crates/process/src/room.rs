//! Does what we set have room beside a program's own environment and arguments?
#![forbid(unsafe_code)]

use nic_placement_core::libraries::Present;
use nic_placement_core::placement::{Change, Variable};

/// Bytes of one variable with its NUL, at most (`MAX_ARG_STRLEN`, linux/binfmts.h: 32 pages of 4 KiB).
pub const LONGEST: usize = 128 * 1024;
/// Bytes left free for others: the program's resolved name and its interpreter (PATH_MAX and a line of a script each),
/// and variables of a TaskProlog, which runs after us.
const SPARE: usize = 32 * 1024;
/// A string costs its NUL and a pointer besides.
pub const EACH: usize = 9;

/// Bytes that execve(2) takes of strings and the pointers to them, where the stack may have `stack` bytes: a quarter of that, 6 MiB
/// at most and 128 KiB at least (fs/exec.c `bprm_stack_limits`; the same since 4.13, and less exact before).
fn limit(stack: u64) -> usize {
    (stack / 4).clamp(128 * 1024, 6 * 1024 * 1024) as usize
}

/// Sets nothing, and returns why, if the changes beside `taken` bytes of arguments and variables would leave execve(2)
/// too little room for the program on a stack of so many bytes.
pub fn keep(
    variables: &mut [Variable],
    present: &Present,
    taken: usize,
    stack: u64,
) -> Option<&'static str> {
    let is_lacking = is_lacking(variables, present, taken, stack);
    is_lacking.then(|| {
        set_nothing(variables, present);
        WHY
    })
}

fn is_lacking(variables: &[Variable], present: &Present, mut taken: usize, stack: u64) -> bool {
    let mut longest = 0;
    for Variable { name, change, .. } in variables {
        let length = |value: &str| name.len() + 1 + value.len() + EACH;
        if let Change::Set(value) = change {
            taken += length(value);
            longest = longest.max(length(value));
        }
        if matches!(change, Change::Set(_) | Change::Remove) {
            taken =
                taken.saturating_sub(present.get(name.as_ref()).map_or(0, |value| length(value)));
        }
    }
    longest > LONGEST || longest > 0 && taken + SPARE > limit(stack)
}

const WHY: &str = "no room for it: the program's arguments and variables are nearly all that execve(2) takes; see `ulimit -s`";

/// The values of an outer step, which would have been replaced, are removed.
fn set_nothing(variables: &mut [Variable], present: &Present) {
    for variable in variables {
        if let Change::Set(_) = variable.change {
            let is_there = present.contains_key(variable.name.as_ref());
            variable.change = if is_there {
                Change::Remove
            } else {
                Change::Leave
            };
            variable.why = WHY.into();
        }
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

    #[test]
    fn the_kernels_limit_is_a_quarter_of_the_stack_within_bounds() {
        const MIB: u64 = 1024 * 1024;
        let limits = [8 * MIB, u64::MAX, 0, MIB].map(limit);
        assert_eq!(limits, [2 << 20, 6 << 20, 128 << 10, 256 << 10]);
    }

    #[test]
    fn variables_have_room_until_what_is_left_free_for_others_begins() {
        let (variables, nothing) = ([set("A", "1")], Present::new());
        let most = limit(8 << 20) - SPARE - ("A=1".len() + EACH);
        assert!(!is_lacking(&variables, &nothing, most, 8 << 20));
        assert!(is_lacking(&variables, &nothing, most + 1, 8 << 20));
        let present = Present::from([("A".to_string(), "0".to_string())]);
        assert!(
            !is_lacking(&variables, &present, most + 1, 8 << 20),
            "it takes the other's place"
        );
        assert!(is_lacking(
            &[set("A", &"x".repeat(LONGEST))],
            &nothing,
            0,
            u64::MAX
        ));
    }

    #[test]
    fn without_room_nothing_is_set_and_no_outer_value_stays() {
        let present = Present::from([("A".to_string(), "0".to_string())]);
        let mut variables = [set("A", "1"), set("B", "1")];
        set_nothing(&mut variables, &present);
        let changes = variables.map(|variable| variable.change);
        assert!(
            matches!(changes, [Change::Remove, Change::Leave]),
            "{changes:?}"
        );
    }
}
