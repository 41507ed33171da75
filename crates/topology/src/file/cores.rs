//! The CPUs of a file by their cores, and cores in a row that differ by a number in one line.
#![forbid(unsafe_code)]

use super::check::{Result, at_most, once, wrong};
use super::{Core, MAX_CORES};
use crate::{Bitmap, Pu};
use std::collections::BTreeMap;

pub(super) fn pus(rows: &[Core]) -> Result<Vec<Pu>> {
    at_most(|| "pus".to_string(), rows.len(), MAX_CORES)?;
    let (mut pus, mut cores) = (Vec::new(), Vec::new());
    for (i, row) in rows.iter().enumerate() {
        let at = |field: &str| format!("pus[{i}].{field}");
        let (count, step) = (row.cores.unwrap_or(1), row.step.unwrap_or(1));
        for (field, number) in [("cores", count), ("step", step)] {
            if !(1..Bitmap::LIMIT).contains(&number) {
                let expected = format!("a number from `1` to `{}`", Bitmap::LIMIT - 1);
                return Err(wrong(at(field), number, expected));
            }
        }
        if row.core.checked_add(count - 1).is_none() {
            return Err(wrong(
                at("core"),
                row.core,
                "a number that `cores` can be added to",
            ));
        }
        let Some(last) = row.pus.iter().last() else {
            return Err(wrong(at("pus"), &row.pus, "at least one CPU"));
        };
        // each is below 8192, as are `cores` and `step`
        if last + (count - 1) * step >= Bitmap::LIMIT {
            return Err(wrong(
                at("pus"),
                &row.pus,
                "numbers below 8192, those of the last core too",
            ));
        }
        at_most(
            || "pus".to_string(),
            cores.len() + count as usize,
            MAX_CORES,
        )?;
        for nth in 0..count {
            let core = row.core + nth;
            cores.push((i, (row.package, core)));
            let pu = |first| {
                (
                    i,
                    Pu {
                        os_index: first + nth * step,
                        package: row.package,
                        core,
                    },
                )
            };
            pus.extend(row.pus.iter().map(pu));
            at_most(|| "pus".to_string(), pus.len(), Bitmap::LIMIT as usize)?;
        }
    }
    once(
        cores
            .into_iter()
            .map(|(i, (package, core))| (i, format!("package {package} core {core}"))),
        |i| format!("pus[{i}]"),
    )?;
    once(pus.iter().map(|(i, pu)| (*i, pu.os_index)), |i| {
        format!("pus[{i}].pus")
    })?;
    Ok(pus.into_iter().map(|(_, pu)| pu).collect())
}

/// One row for each core; cores that differ by a number share one.
pub(super) fn rows(pus: &[Pu]) -> Vec<Core> {
    let mut cores: BTreeMap<(u32, u32), Bitmap> = BTreeMap::new();
    for pu in pus {
        cores
            .entry((pu.package, pu.core))
            .or_default()
            .insert(pu.os_index);
    }
    let mut rows: Vec<Core> = Vec::new();
    let mut last = Bitmap::new();
    for ((package, core), pus) in cores {
        let above = step_between(&last, &pus);
        match rows.last_mut() {
            // the second core of a row says by how much each one is above the one before it
            Some(row)
                if row.package == package
                    && row.core.checked_add(row.cores.unwrap_or(1)) == Some(core)
                    && above.is_some()
                    && (row.cores.is_none() || row.step.or(Some(1)) == above) =>
            {
                row.cores = Some(row.cores.unwrap_or(1) + 1);
                row.step = above.filter(|&step| step != 1);
            }
            _ => rows.push(Core {
                package,
                core,
                pus: pus.clone(),
                cores: None,
                step: None,
            }),
        }
        last = pus;
    }
    rows
}

/// The difference of each member of `high` from the member in its place in `low`, if all are the same.
fn step_between(low: &Bitmap, high: &Bitmap) -> Option<u32> {
    let step = high
        .first()?
        .checked_sub(low.first()?)
        .filter(|&step| step > 0)?;
    let same = low.len() == high.len()
        && low
            .iter()
            .zip(high.iter())
            .all(|(low, high)| low + step == high);
    same.then_some(step)
}
