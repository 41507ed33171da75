//! Words in a command that make the program bind processes, or that name NICs.

/// Four programs, then options; `-` and `_` count as equal.
const WORDS: [&str; 8] = [
    "numactl",
    "taskset",
    "hwloc-bind",
    "likwid-pin",
    "--numa-bind",
    "--bind_cores_to_rank",
    "--numa-node",
    NICS_OF_SGLANG,
];

/// Programs and options that bind processes to CPUs; under a CPU mask they fail or bind nothing.
///
/// numactl fails on CPUs outside the mask (libnuma's `numa_parse_cpustring`). vLLM 0.33 fails
/// without `--numa-bind-nodes` if the mask lacks a CPU (vllm/utils/numa_utils.py,
/// `_is_auto_numa_available`), and does not bind to CPUs outside the mask
/// (`_resolve_numactl_args`). DeepSpeed 0.19 splits all of the node's cores by numactl
/// (deepspeed/utils/numa.py, `get_numactl_cmd`). SGLang 0.5.23 skips NUMA nodes outside the mask
/// (srt/utils/numa_utils.py).
const BINDERS: &[&str] = WORDS.split_at(7).0;

const PROGRAMS: &[&str] = WORDS.split_at(4).0;

pub(crate) const NICS_OF_SGLANG: &str = "--disaggregation-ib-device";

/// SGLang binds itself to CPUs unless the first variable is off. If the second is on, SGLang exits
/// when the mask has no CPU of the GPU's NUMA node (srt/utils/numa_utils.py,
/// `_handle_numa_bind_failure`).
pub const READ: [&str; 2] = ["SGLANG_AUTO_NUMA_BIND", "SGLANG_CRASH_ON_NUMA_BIND_FAILURE"];

pub fn program_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The `WORDS` in a command, each once. Options count anywhere in an argument.
///
/// A program counts as a whole argument (`env numactl …`), or in a shell's text after `-c`. Other
/// text may be a `--multi-prog` file, for [`binder_of_ranks`].
pub fn known<'w>(words: impl Iterator<Item = &'w str>) -> Vec<&'static str> {
    known_of(&WORDS, words)
}

/// The entries of `list` in a command; an entry with a final `-` or `.` matches as a prefix.
pub fn known_of<'w>(
    list: &[&'static str],
    words: impl Iterator<Item = &'w str>,
) -> Vec<&'static str> {
    let (mut found, mut is_text) = (Vec::new(), false);
    for word in words {
        for piece in
            word.split(|letter: char| letter.is_whitespace() || ";&|(){}'\"`".contains(letter))
        {
            let name = program_name(piece.split('=').next().unwrap_or_default());
            let letter = |byte| if byte == b'_' { b'-' } else { byte };
            let is_known = |known: &&str| match known.ends_with(['-', '.']) {
                true => name.starts_with(known),
                false => name.bytes().map(letter).eq(known.bytes().map(letter)),
            };
            let known = list.iter().copied().find(is_known).filter(|known| {
                !found.contains(known) && (is_text || piece == word || !PROGRAMS.contains(known))
            });
            found.extend(known);
        }
        is_text |= word.starts_with('-') && word.ends_with('c');
    }
    found
}

/// The first of `known` in `BINDERS`; else the second variable of [`READ`], if it is on and the
/// first variable is not off.
pub fn binder(
    known: &[&'static str],
    value: impl Fn(&str) -> Option<String>,
) -> Option<&'static str> {
    let [binds, ends] = READ.map(|name| value(name).map(|value| !is_off(&value)));
    let word = known.iter().copied().find(|word| BINDERS.contains(word));
    word.or((binds != Some(false) && ends == Some(true)).then_some(READ[1]))
}

/// True for a value that switches a feature of SGLang off (srt/environ.py, `EnvBool`).
pub(crate) fn is_off(value: &str) -> bool {
    ["", "false", "0", "no", "n", "off"]
        .iter()
        .any(|off| value.trim().eq_ignore_ascii_case(off))
}

/// The first of `PROGRAMS` that a file for srun's `--multi-prog` starts, on lines such as `0-3
/// numactl …`.
///
/// As in slurmstepd (src/slurmd/slurmstepd/multi_prog.c, `multi_prog_get_argv`), a final backslash
/// joins two lines, and words lose single quotes and backslashes.
pub fn binder_of_ranks(file: &[u8]) -> Option<&'static str> {
    let mut line = Vec::new();
    // the added empty part ends a last line with a final backslash
    file.split(|byte| *byte == b'\n')
        .chain([&b""[..]])
        .find_map(|part| {
            let goes_on = part.strip_suffix(b"\\");
            line.extend_from_slice(goes_on.unwrap_or(part));
            if goes_on.is_some() {
                return None;
            }
            let found = binder_of_line(&line);
            line.clear();
            found
        })
}

fn binder_of_line(line: &[u8]) -> Option<&'static str> {
    let mut words = line
        // isspace(3) in the C locale
        .split(|byte| byte.is_ascii_whitespace() || *byte == 0x0b)
        .filter(|word| !word.is_empty());
    let ranks = words.next()?;
    if !ranks
        .iter()
        .all(|byte| byte.is_ascii_digit() || b",-*".contains(byte))
    {
        return None;
    }
    let program = words
        .next()?
        .iter()
        .copied()
        .filter(|byte| !b"'\\".contains(byte))
        .collect();
    let program = String::from_utf8(program).ok()?;
    PROGRAMS
        .iter()
        .copied()
        .find(|known| *known == program_name(&program))
}

#[cfg(test)]
mod tests {
    use super::{binder, binder_of_ranks, known};

    #[test]
    fn a_word_by_which_a_program_binds_itself_is_found_where_it_is_run() {
        let vllm = "bash|-c|exec vllm serve model --numa_bind -tp 4";
        // each word behind a `|`
        for (found, words) in rows! {
            "numactl", "/usr/bin/numactl|-C|0|./train"; "hwloc-bind", "env|A=1|hwloc-bind|./train";
            "taskset", "./select_gpu.sh|taskset|0x1|./train";
            "numactl", "bash|-c|cd /x&&numactl -N 0 ./train";
            "numactl", "sh|-ec|true\n(exec '/usr/bin/numactl' -N 0 ./a)";
            "numactl", "bash|-c|-l|numactl ./train";
            "--numa-bind", "vllm|serve|--numa-bind|--numa-bind-nodes|0";
            "--numa-bind", vllm;
            "--numa-bind", "ranks.conf|0 vllm serve --numa-bind\n1 ./a\n";
            "--bind_cores_to_rank", "deepspeed|--bind_cores_to_rank|a.py";
            "--numa-node", "sglang|serve|--numa-node|0|1";
            "--numa-node", "sglang|serve|--numa-node=1"; "", "./train|--log=/tmp/numactl";
            "", "./train|mynumactl|numactl.log";
            // a text of another's, or a file of ranks, which is read line by line
            "", "./ask|how does numactl bind?";
            "", "ranks.conf|# 0 numactl\n0 ./train numactl\n";
            "", "vllm|serve|--no-numa-bind"; "", "torchrun|--numa-binding=node";
            "", "trtllm-serve|model"; "", "";
        } {
            let bound = binder(&known(words.split('|')), |_| None);
            assert_eq!(bound.unwrap_or_default(), found, "{words}");
        }
    }

    #[test]
    fn sglangs_switch_counts_unless_it_binds_nothing() {
        for (crash, auto, expected) in rows! {
            Some("1"), None, true; Some("True"), Some("yes"), true; None, None, false;
            Some("0"), None, false; Some(""), None, false; Some("1"), Some("False"), false;
        } {
            let value = |name: &str| match name {
                "SGLANG_CRASH_ON_NUMA_BIND_FAILURE" => crash.map(str::to_string),
                "SGLANG_AUTO_NUMA_BIND" => auto.map(str::to_string),
                _ => None,
            };
            assert_eq!(binder(&[], value).is_some(), expected, "{crash:?} {auto:?}");
        }
    }

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
            let found = binder_of_ranks(file.as_bytes());
            assert_eq!(found, Some("numactl"), "`{file}`");
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
