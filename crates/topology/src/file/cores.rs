//! A file's rows of cores.
#![forbid(unsafe_code)]

use super::check::{Result, at_most, once, wrong};
use super::{Core, MAX_CORES};
use crate::{Bitmap, Pu, threads_by_core};

pub(super) fn pus(rows: &[Core]) -> Result<Vec<Pu>> {
    at_most("pus", rows.len(), MAX_CORES)?;
    let (mut pus, mut rows_of_pus, mut cores) = (Vec::new(), Vec::new(), Vec::new());
    for (i, row) in rows.iter().enumerate() {
        let at = |field: &str| format!("pus[{i}].{field}");
        let (count, step) = (row.cores.unwrap_or(1), row.step.unwrap_or(1));
        for (field, number) in [("cores", count), ("step", step)] {
            if !(1..Bitmap::LIMIT).contains(&number) {
                let expected = format!("a number from `1` to `{}`", Bitmap::LIMIT - 1);
                return wrong(at(field), number, expected);
            }
        }
        if row.core.checked_add(count - 1).is_none() {
            let expected = "a number that `cores` can be added to";
            return wrong(at("core"), row.core, expected);
        }
        let Some(last) = row.pus.iter().last() else {
            return wrong(at("pus"), &row.pus, "at least one CPU");
        };
        // no overflow: all three are below 8192
        if last + (count - 1) * step >= Bitmap::LIMIT {
            let expected = "numbers below 8192, those of the last core too";
            return wrong(at("pus"), &row.pus, expected);
        }
        at_most("pus", cores.len() + count as usize, MAX_CORES)?;
        let package = row.package;
        for nth in 0..count {
            let core = row.core + nth;
            cores.push((i, format!("package {package} core {core}")));
            for first in row.pus.iter() {
                let os_index = first + nth * step;
                pus.push(Pu {
                    os_index,
                    package,
                    core,
                });
                rows_of_pus.push((i, os_index));
            }
            at_most("pus", pus.len(), Bitmap::LIMIT as usize)?;
        }
    }
    once("pus", "", cores.into_iter())?;
    once("pus", ".pus", rows_of_pus.into_iter())?;
    Ok(pus)
}

/// One row for each run of cores that differ by a number.
pub(super) fn rows(pus: &[Pu]) -> Vec<Core> {
    let mut rows: Vec<Core> = Vec::new();
    let mut last = Bitmap::new();
    for ((package, core), pus) in threads_by_core(pus) {
        let above = step_between(&last, &pus);
        last = pus.clone();
        match rows.last_mut() {
            // a row's second core sets its step
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
                pus,
                cores: None,
                step: None,
            }),
        }
    }
    rows
}

/// The positive number by which each member of `high` exceeds its counterpart in `low`.
fn step_between(low: &Bitmap, high: &Bitmap) -> Option<u32> {
    let step = high.first()?.checked_sub(low.first()?)?;
    let same = low.iter().map(|low| low + step).eq(high.iter());
    (step > 0 && same).then_some(step)
}
