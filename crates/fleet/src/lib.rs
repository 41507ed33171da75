//! Nodes of a cluster: what is wrong with one, and which of many are not like the others of their kind.
#![forbid(unsafe_code)]

pub mod agree;
pub mod audit;
pub mod doctor;
pub mod fabric;
pub mod gather;
pub mod trial;

fn to_json(answer: &impl serde::Serialize) -> String {
    // JSON can hold all answers: their maps have texts as keys
    serde_json::to_string_pretty(answer).unwrap_or_default() + "\n"
}

/// The value that more than half of them have.
fn majority<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values = Vec::from_iter(values);
    values.sort_unstable();
    // more than half of a sorted list hold its middle
    let middle = *values.get(values.len() / 2)?;
    let count = values.iter().filter(|value| **value == middle).count();
    (count * 2 > values.len()).then_some(middle)
}
