//! What a step starts, where that decides about its binding: programs that bind others.
#![forbid(unsafe_code)]

use std::borrow::Cow;

/// Programs that bind another to CPUs that the user names.
const BINDERS: [&str; 4] = ["numactl", "taskset", "hwloc-bind", "likwid-pin"];

/// A program's name: its path without the folder.
pub fn program_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The program of this name that binds another; `None` where it is no such program.
///
/// numactl fails if the CPUs that it is told are not all among the ones on which it was started (libnuma's
/// `numa_parse_cpustring`).
pub fn binder(program: &str) -> Option<&'static str> {
    BINDERS.into_iter().find(|known| *known == program)
}

/// A program that binds its processes again after it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebinder {
    /// vLLM with `--numa-bind`
    Vllm,
    /// TensorRT-LLM
    TensorRtLlm,
}

/// The program of these words that binds its processes again, also as a word of a shell's command.
///
/// vLLM takes `--numa_bind` too (vllm/utils/argparse_utils.py, `FlexibleArgumentParser`).  Which library a script of Python imports
/// its words do not tell.
pub fn rebinder<'w>(words: impl Iterator<Item = &'w str>) -> Option<Rebinder> {
    let mut words = words.flat_map(str::split_whitespace);
    words.find_map(|word| match word {
        "--numa-bind" | "--numa_bind" => Some(Rebinder::Vllm),
        word if program_name(word).starts_with("trtllm-") => Some(Rebinder::TensorRtLlm),
        _ => None,
    })
}

/// The first program that binds another in a file of srun's `--multi-prog`, which gives each line's ranks a program: `0-3 numactl …`.
///
/// Reads as slurmstepd does (src/slurmd/slurmstepd/multi_prog.c, `multi_prog_get_argv`): a line that ends with a backslash goes
/// on in the next one, and of a word simple quotes and backslashes are no part.
pub fn binder_of_ranks(file: &[u8]) -> Option<&'static str> {
    let file = joined(file);
    let mut lines = file.split(|byte| *byte == b'\n');
    lines.find_map(|line| {
        let mut words = line.split(|byte| is_space(*byte)).filter(|word| !word.is_empty());
        let ranks = words.next()?;
        if !ranks.iter().all(|byte| byte.is_ascii_digit() || b",-*".contains(byte)) {
            return None;
        }
        let program = words.next()?.iter().copied().filter(|byte| !b"'\\".contains(byte)).collect();
        binder(program_name(&String::from_utf8(program).ok()?))
    })
}

/// The text without the ends of lines that go on.
fn joined(file: &[u8]) -> Cow<'_, [u8]> {
    let mut parts = memchr::memmem::find_iter(file, b"\\\n").peekable();
    if parts.peek().is_none() {
        return Cow::Borrowed(file);
    }
    let mut all = Vec::with_capacity(file.len());
    let mut from = 0;
    for end in parts {
        all.extend_from_slice(&file[from..end]);
        from = end + 2;
    }
    all.extend_from_slice(&file[from..]);
    Cow::Owned(all)
}

/// isspace(3) in the C locale.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::binder_of_ranks;

    #[test]
    fn a_file_of_ranks_is_read_as_slurmstepd_reads_it() {
        for file in [
            "* numactl --physcpubind=56 ./train",
            "# what each rank starts\n\n0-2,3  ./train %t\n  4-7\t'/usr/bin/numactl' --cpunodebind=1 ./train\n",
            "0-3 \\\nnumactl -N 0 ./train",
            "0-3 ./train \\\n --long\n4 num\\\nactl ./train",
            "0 /opt/nu\\mactl ./train",
            "0\x0bnumactl ./train",
        ] {
            assert_eq!(binder_of_ranks(file.as_bytes()), Some("numactl"), "`{file}`");
        }
        for file in [
            "0-7 ./train numactl",
            "# 0 numactl\n0 ./train",
            // no rank's line, since the one before goes on
            "0-3 ./train \\\n4 numactl",
            "ranks numactl",
            "0",
            "0 \\",
            "0 \\\n",
            "",
        ] {
            assert_eq!(binder_of_ranks(file.as_bytes()), None, "`{file}`");
        }
    }
}
