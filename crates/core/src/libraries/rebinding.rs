//! Programs and runtimes that give up the CPUs, the memory or the NICs that a task got: `rebinding.tsv`, read.
//!
//! torchrun's `--numa-binding` has no row, since it takes CPUs of the task's alone (torch/numa/binding.py,
//! `_get_allowed_logical_cpu_indices_for_numa_node`).
#![forbid(unsafe_code)]

use super::findings::Checked;
use crate::diagnostic::{Diagnostic, Shown};
use crate::step::program::program_name;
use crate::topology::GpuVendor;

/// One row of the table, which says what its fields are.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// when it is told
    pub when: &'static str,
    /// by what it is recognised
    pub conditions: &'static str,
    /// the program and its release
    pub of: &'static str,
    /// what it does
    pub does: &'static str,
    /// what to do
    pub instead: &'static str,
}

/// The table.
pub fn rows() -> impl Iterator<Item = Row> {
    let lines = include_str!("rebinding.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let mut fields = line.split('\t');
        let [when, conditions, of, does, instead] = [(); 5].map(|()| fields.next().unwrap_or_default());
        Row { when, conditions, of, does, instead }
    })
}

impl Row {
    /// The names in its conditions: the variables, and the beginning of a word.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.conditions.split(' ').map(|condition| named(condition).0)
    }

    /// The finding, if there is one.
    pub(super) fn told(&self, checked: &Checked) -> Option<Diagnostic> {
        let mut gpus = checked.topology.gpus.iter();
        let matters = match self.when {
            "bound" => checked.is_bound,
            "amd" => checked.is_bound && gpus.any(|gpu| gpu.vendor == GpuVendor::Amd),
            "gpus" => gpus.next().is_some(),
            _ => true,
        };
        let name = self.names().next().filter(|_| matters)?;
        let subject = match checked.value(name) {
            Some(value) => format!("{name}={}", Shown::word(value, 80)),
            None => checked.words.iter().find(|word| word.starts_with(name))?.to_string(),
        };
        let holds = self.conditions.split(' ').all(|condition| holds(checked, condition));
        holds.then(|| Diagnostic::new(subject, format!("{} ({}): {}", self.does, self.of, self.instead)))
    }
}

/// A condition's name, its sign, and the parts behind that.
fn named(condition: &'static str) -> (&'static str, &'static str, &'static str) {
    let condition = condition.trim_start_matches('!');
    let end = condition.find(['=', '!']).unwrap_or(condition.len());
    let (name, rest) = condition.split_at(end);
    let (sign, parts) = rest.split_at(rest.len().min(1));
    (name, sign, parts)
}

fn holds(checked: &Checked, condition: &'static str) -> bool {
    let (name, sign, parts) = named(condition);
    let has_part = |value: &str| value.split(',').any(|part| parts.split('|').any(|known| is(part, known)));
    let has_part = checked.value(name).is_some_and(has_part);
    match sign {
        "=" => has_part,
        "!" => !has_part,
        _ => !(condition.starts_with('!') && checked.present.contains_key(name)),
    }
}

/// Is this part of a value, maybe a path, the one that a condition names, or does it begin so?
fn is(part: &str, known: &str) -> bool {
    let part = program_name(part.trim());
    match known.strip_suffix('*') {
        Some(start) => part.get(..start.len()).is_some_and(|part| part.eq_ignore_ascii_case(start)),
        None => part.eq_ignore_ascii_case(known),
    }
}
