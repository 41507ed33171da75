//! Variables that `set=` refuses or warns of, and variables that must be equal in a node's tasks.

use super::LIBRARIES;

/// Variables of the loader, shells, interpreters, Slurm and PMI, and GPU lists: a value could break
/// a task or run code.
const REFUSED: &str = "LD_* PATH HOME USER LOGNAME SHELL PWD IFS ENV BASH_* PYTHON* PERL5* GLIBC_TUNABLES GCONV_PATH \
    SLURM* SPANK* SLINGSHOT_* PMI* CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL \
    ZE_AFFINITY_MASK NIC_PLACEMENT*";

pub(super) fn means(entry: &str, name: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => entry == name,
    }
}

fn is_in(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|entry| means(entry, name))
}

/// True for `[A-Z_][A-Za-z0-9_]*` (Open MPI's have small letters) of at most 255 bytes.
pub fn is_name(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.starts_with(|first: char| first.is_ascii_uppercase() || first == '_')
        && text.len() <= 255
        && text.bytes().all(is_valid)
}

pub fn is_refused(name: &str) -> bool {
    is_in(REFUSED, name)
}

/// True if the topology does not decide the value, such as an algorithm: `set=` warns.
pub(crate) fn is_doubtful(name: &str) -> bool {
    LIBRARIES.iter().any(|of| is_in(of.doubtful, name))
}

/// True if all tasks of a node must have the same value.
pub fn is_uniform(name: &str) -> bool {
    LIBRARIES.iter().any(|of| is_in(of.uniform, name))
}
