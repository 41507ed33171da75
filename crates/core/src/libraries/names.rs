//! Names of variables: those never to set, those an admin should think about, those that must be equal in
//! every task.
//!
//! The lists rest on the libraries' own documents.  NCCL's "Environment Variables" puts most of [`DOUBTFUL`]
//! under "Debugging", not for production; others set the fabric's quality of service, which the topology does
//! not tell.
#![forbid(unsafe_code)]

/// Names, and beginnings of names, whose change could break or take over a task: the loader's, the shell's,
/// Slurm's, and the lists of GPUs, which Slurm makes.
const REFUSED: [&str; 24] = [
    "LD_*",
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "IFS",
    "ENV",
    "BASH_*",
    "PYTHON*",
    "PERL5*",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "SLURM*",
    "SPANK*",
    "SLINGSHOT_*",
    "PMI*",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
    "NIC_PLACEMENT*",
];

/// Quality of service, algorithms, debugging, and addresses that only the site knows: none follows from a
/// topology. We never set them, and where an admin's `set=` does we ask whether it is meant.
pub const DOUBTFUL: [&str; 39] = [
    "NCCL_IB_TC",
    "NCCL_IB_SL",
    "NCCL_IB_FIFO_TC",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_DISABLE",
    "NCCL_IB_MERGE_VFS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_SOCKET_IFNAME",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_NCHANNELS_*",
    "NCCL_NVLS_*",
    "NCCL_P2P_*",
    "NCCL_PXN_*",
    "NCCL_SHM_*",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_GDR_*",
    "NCCL_NETDEVS_POLICY",
    "NCCL_CROSS_NIC",
    "NCCL_DMABUF_ENABLE",
    "NCCL_IGNORE_*",
    "NCCL_HOSTID",
    "NCCL_DEBUG*",
    "FI_PROVIDER",
    "FI_EFA_*",
    "OFI_NCCL_*",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "UCX_TLS",
    "UCX_IB_*",
    "I_MPI_*",
    "MV2_*",
];

/// Read by libraries that compare the tasks of a node: different values break them, or silently cost
/// bandwidth.
const UNIFORM: [&str; 12] = [
    "NCCL_*",
    "RCCL_*",
    "OFI_NCCL_*",
    "GLOO_*",
    "TP_*",
    "FI_EFA_*",
    "MPICH_OFI_*",
    "SHMEM_OFI_*",
    "MC_TE_FILTERS",
    "ROCSHMEM_HCA_LIST",
    "MORI_RDMA_DEVICES",
    "EP_NIC_NAME",
];

/// Is `name` in a list of names and `BEGINNING*`s?
fn is_in(list: &[&str], name: &str) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => *entry == name,
    })
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
    is_in(&REFUSED, name)
}

/// Is it one that we would never set?
pub fn is_doubtful(name: &str) -> bool {
    is_in(&DOUBTFUL, name)
}

/// Must all tasks of a node have the same value?
pub fn is_uniform(name: &str) -> bool {
    is_in(&UNIFORM, name)
}
