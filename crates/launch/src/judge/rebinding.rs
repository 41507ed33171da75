//! Programs and runtimes that give up the CPUs, the memory or the NICs that a task got: `rebinding.tsv`, read.
//!
//! torchrun's `--numa-binding` has no row, since it takes CPUs of the task's alone (torch/numa/binding.py,
//! `_get_allowed_logical_cpu_indices_for_numa_node`).

/// One row of the table, which says what its fields are.
#[derive(Debug)]
pub struct Row {
    pub when: &'static str,
    pub conditions: &'static str,
    /// the program and its release
    pub of: &'static str,
    pub does: &'static str,
    pub instead: &'static str,
}

pub fn rows() -> impl Iterator<Item = Row> {
    include_str!("rebinding.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut fields = line.split('\t');
            let [when, conditions, of, does, instead] =
                [(); 5].map(|()| fields.next().unwrap_or_default());
            Row {
                when,
                conditions,
                of,
                does,
                instead,
            }
        })
}

impl Row {
    /// The names in its conditions: the variables, and the beginning of a word.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.conditions
            .split(' ')
            .map(|condition| named(condition).0)
    }
}

/// A condition's name, its sign, and the parts behind that.
pub fn named(condition: &'static str) -> (&'static str, &'static str, &'static str) {
    let condition = condition.trim_start_matches('!');
    let end = condition.find(['=', '!']).unwrap_or(condition.len());
    let (name, rest) = condition.split_at(end);
    let (sign, parts) = rest.split_at(rest.len().min(1));
    (name, sign, parts)
}
