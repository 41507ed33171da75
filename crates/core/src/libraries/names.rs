//! Names of variables: those never to set, those an admin should think about, those that must be equal in
//! every task.
#![forbid(unsafe_code)]

use super::LIBRARIES;

/// Names whose change could break or take over a task: the loader's, the shell's, Slurm's, and the lists of GPUs.
const REFUSED: &str = "LD_* PATH HOME USER LOGNAME SHELL PWD IFS ENV BASH_* PYTHON* PERL5* GLIBC_TUNABLES GCONV_PATH \
    SLURM* SPANK* SLINGSHOT_* PMI* CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL \
    ZE_AFFINITY_MASK NIC_PLACEMENT*";

/// Those of Gloo, TensorPipe, Intel MPI and MVAPICH: addresses that only the site knows, and choices that follow from no topology.
const DOUBTFUL: &str = "GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME I_MPI_* MV2_*";

/// Those of Gloo and TensorPipe.
const UNIFORM: &str = "GLOO_* TP_*";

/// Does an entry, a name or a `BEGINNING*`, mean this name?
pub(super) fn means(entry: &str, name: &str) -> bool {
    entry.strip_suffix('*').map_or(entry == name, |beginning| name.starts_with(beginning))
}

/// Does one of the entries between white space mean this name?
fn is_in(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|entry| means(entry, name))
}

/// Can this be a variable's name (`[A-Z_][A-Za-z0-9_]*`, 255 bytes at most)?  Open MPI's have small letters too.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    first && text.len() <= 255 && bytes.all(rest)
}

/// Is it one that even the admin may not set?
pub fn is_refused(name: &str) -> bool {
    is_in(REFUSED, name)
}

/// Is it quality of service, an algorithm, debugging, or an address that only the site knows?  None follows from a topology.
/// We never set them, and doubt an admin's `set=` that does.
pub(crate) fn is_doubtful(name: &str) -> bool {
    is_in(DOUBTFUL, name) || LIBRARIES.iter().any(|library| is_in(library.doubtful, name))
}

/// Must all tasks of a node have the same value?
pub fn is_uniform(name: &str) -> bool {
    is_in(UNIFORM, name) || LIBRARIES.iter().any(|library| is_in(library.uniform, name))
}
