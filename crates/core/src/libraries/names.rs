//! Names of variables: refused in `set=`, doubtful there, or uniform over the tasks of a node.
#![forbid(unsafe_code)]

use super::LIBRARIES;

/// Names of the loader, the shell, Slurm, and lists of GPUs: a change could break or take over a task.
const REFUSED: &str = "LD_* PATH HOME USER LOGNAME SHELL PWD IFS ENV BASH_* PYTHON* PERL5* GLIBC_TUNABLES GCONV_PATH \
    SLURM* SPANK* SLINGSHOT_* PMI* CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL \
    ZE_AFFINITY_MASK NIC_PLACEMENT*";

/// Does an entry, which is a name or a `BEGINNING*`, match this name?
pub(super) fn means(entry: &str, name: &str) -> bool {
    entry
        .strip_suffix('*')
        .map_or(entry == name, |beginning| name.starts_with(beginning))
}

/// The same for any of several entries.
fn is_in(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|entry| means(entry, name))
}

/// Can this be a variable's name (`[A-Z_][A-Za-z0-9_]*`, 255 bytes at most)?  Open MPI's have small letters too.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes
        .next()
        .is_some_and(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    first && text.len() <= 255 && bytes.all(rest)
}

/// Is the name refused in the admin's `set=`?
pub fn is_refused(name: &str) -> bool {
    is_in(REFUSED, name)
}

/// True for quality of service, algorithms, debugging and addresses, which follow from no topology: `set=` warns of them.
pub(crate) fn is_doubtful(name: &str) -> bool {
    LIBRARIES
        .iter()
        .any(|library| is_in(library.doubtful, name))
}

/// Must all tasks of a node have the same value?
pub fn is_uniform(name: &str) -> bool {
    LIBRARIES.iter().any(|library| is_in(library.uniform, name))
}
