//! `verify --merge`: the reports of several nodes, from files and mixed streams.

use super::print;
use crate::commands::input::{open, or_stdin};
use crate::commands::page::Page;
use crate::commands::{Failure, output, tell};
use nic_placement_fleet::audit::stream::{self, StreamPiece};
use nic_placement_traffic::report::{Merged, NodeReport};
use std::path::{Path, PathBuf};

pub(super) fn run(
    files: &[PathBuf],
    output: Option<&Path>,
    page: &mut Page,
) -> Result<(), Failure> {
    let (mut merged, mut passed_over) = (Merged::default(), 0usize);
    let files = or_stdin(files);
    for path in &files {
        let mut too_many = None;
        let mut take = |(_, piece): StreamPiece<'_>| match piece
            .map_err(str::to_string)
            .and_then(NodeReport::read)
        {
            Ok(report) => too_many = merged.add(report).err().or(too_many.take()),
            Err(_) => passed_over += 1,
        };
        let read = stream::read(open(path)?, &mut take).map_err(|error| error.to_string());
        read.and(too_many.map_or(Ok(()), Err))
            .map_err(|why| format!("cannot read `{}`: {why}", path.display()))?;
    }
    if merged.nodes.is_empty() {
        let place = match &files[..] {
            [one] => format!("`{}`", one.display()),
            several => format!("{} files", several.len()),
        };
        let hint = "`verify --json` prints one";
        return Err(format!("verify: no report in {place}: {hint}").into());
    }
    if passed_over > 0 {
        tell(&format!(
            "note: {passed_over} other pieces of text were passed over"
        ));
    }
    let Some(file) = output else {
        print::merged(&merged, page);
        return Ok(());
    };
    let mut text = Page::default();
    print::merged(&merged, &mut text);
    Ok(output::write_own(file, text.as_bytes())?)
}
