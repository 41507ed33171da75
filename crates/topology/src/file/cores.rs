//! The rows of `pus` in a topology file.

use super::check::{Result, at_most, once, wrong};
use super::{Core, MAX_CORES};
use crate::{Bitmap, Pu};

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
        // no overflow: `last`, `count` and `step` are below 8192
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
