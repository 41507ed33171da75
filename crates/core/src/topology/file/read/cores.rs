//! The cores of a file, and that each CPU is of one core.
#![forbid(unsafe_code)]

use super::super::MAX_CORES;
use super::super::schema;
use super::super::values::{Once, Place, Result, at_most, each_once, ranges, twice, wrong};
use crate::topology::{Bitmap, Pu};
use std::fmt::{self, Display};

pub(super) fn pus(rows: &[schema::Core]) -> Result<Vec<Pu>> {
    at_most(Place::of("pus"), rows.len(), MAX_CORES)?;
    // each CPU in the place of its number, so that all are in order
    let (mut ids, mut by_index) = (Once::new(), Vec::<Option<Pu>>::new());
    for (i, row) in rows.iter().enumerate() {
        let at = |field| Place::of("pus").nth(i).field(field);
        let number = |field, number: Option<u32>| match number.unwrap_or(1) {
            known @ 1..Bitmap::LIMIT => Ok(known),
            other => Err(wrong(at(field), other, format!("a number from `1` to `{}`", Bitmap::LIMIT - 1))),
        };
        let (cores, step) = (number("cores", row.cores)?, number("step", row.step)?);
        let Some(last) = row.core.checked_add(cores - 1) else {
            return Err(wrong(at("core"), row.core, "a number that `cores` can be added to"));
        };
        for core in row.core..=last {
            ids.add(Place::of("pus").nth(i), CoreId(row.package, core))?;
        }
        let mut is_empty = true;
        ranges(at("pus"), &row.pus, |part, first| {
            // each below the limit of 8192, as `cores` and `step` are
            let end = first.end() + (cores - 1) * step;
            if end >= Bitmap::LIMIT {
                return Err(wrong(at("pus"), part, "numbers below 8192, those of the last core too"));
            }
            by_index.resize(by_index.len().max(end as usize + 1), None);
            for (nth, core) in (row.core..=last).enumerate() {
                let above = nth as u32 * step;
                for os_index in first.start() + above..=first.end() + above {
                    let pu = Pu { os_index, package: row.package, core };
                    if let Some(before) = by_index[os_index as usize].replace(pu) {
                        let of_this_row =
                            before.package == row.package && (row.core..=last).contains(&before.core);
                        let row_of_it = ids.first_place(&CoreId(before.package, before.core));
                        return Err(match row_of_it.filter(|_| !of_this_row) {
                            Some(row) => twice(at("pus"), os_index, row.field("pus")),
                            None => each_once(at("pus"), part),
                        });
                    }
                    is_empty = false;
                }
            }
            Ok(())
        })?;
        if is_empty {
            return Err(wrong(at("pus"), &row.pus, "at least one CPU"));
        }
    }
    Ok(by_index.into_iter().flatten().collect())
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CoreId(u32, u32);

impl Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "package {} core {}", self.0, self.1)
    }
}
