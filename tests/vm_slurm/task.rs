//! The program of a task in the guest: touches memory, and prints its binding in one line.
//!
//! It uses nothing of nic-placement: everything that it prints comes from the kernel.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Variables that a line shows.
const VARIABLES: [&str; 10] = [
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "SLURM_STEP_GPUS",
    "UCX_NET_DEVICES",
    "NCCL_IB_HCA",
    "NIC_PLACEMENT",
    "OMP_NUM_THREADS",
];

/// Memory that is touched unless an argument says otherwise.
const MEGABYTES: usize = 2;

/// `megabytes=N`; `until=FILE` ends only when that file is there.
pub fn run(arguments: &[String]) {
    let value = |name: &str| {
        arguments
            .iter()
            .find_map(|argument| argument.strip_prefix(name))
    };
    let megabytes = value("megabytes=").map_or(MEGABYTES, |text| text.parse().unwrap());
    println!("{}", line(megabytes));
    std::io::stdout().flush().unwrap();
    if let Some(file) = value("until=") {
        while !Path::new(file).exists() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Words `name=value` with tabs between them.
fn line(megabytes: usize) -> String {
    // writing a byte allocates its page; black_box keeps the compiler from removing the write
    let memory = std::hint::black_box(vec![1u8; megabytes << 20]);
    let (policy, pages) = placed(memory.as_ptr() as u64);
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap();
    let uid = status("Uid");
    let mut words = vec![
        ("cpus", status("Cpus_allowed_list")),
        ("mems", status("Mems_allowed_list")),
        ("uid", uid.split('\t').next().unwrap().to_string()),
        ("policy", policy),
        ("pages", pages),
        ("open", open()),
        ("cgroup", cgroup.trim().to_string()),
    ];
    let value = |name| std::env::var(name).unwrap_or_else(|_| "-".to_string());
    words.extend(VARIABLES.map(|name| (name, value(name))));
    let words = words.iter().map(|(name, value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join("\t")
}

/// A field of this thread's status, see proc(5).
fn status(field: &str) -> String {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap();
    let value = |line: &'_ str| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_string());
    let line = text.lines().find_map(value);
    line.unwrap().trim().to_string()
}

/// The policy of the memory at this address and where its pages are, as numa(7) describes it:
/// `7f40 prefer (many):1 anon=2049 dirty=2049 N1=2049 kernelpagesize_kB=4`, the pages as `1:2049`.
fn placed(address: u64) -> (String, String) {
    let map = fs::read_to_string("/proc/thread-self/numa_maps").unwrap();
    let start = |line: &str| u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let line = map
        .lines()
        .take_while(|line| start(line) <= address)
        .last()
        .unwrap();
    let (_, rest) = line.split_once(' ').unwrap();
    let fields = rest.replace("prefer (many)", "preferred-many");
    let mut fields = fields.split(' ');
    let policy = fields.next().unwrap().to_string();
    let pages = fields.filter_map(|field| field.strip_prefix('N')?.split_once('='));
    let pages: Vec<String> = pages
        .map(|(node, pages)| format!("{node}:{pages}"))
        .collect();
    (policy, pages.join(","))
}

/// The N of each GPU's device node that open(2) is allowed to open.  The node has no driver, so an allowed open gives ENXIO.
fn open() -> String {
    const ENXIO: i32 = 6;
    let may_open = |path: String| {
        let opened = fs::OpenOptions::new().read(true).write(true).open(path);
        opened.map_or_else(|error| error.raw_os_error() == Some(ENXIO), |_| true)
    };
    let nodes = |number| ["nvidia", "amd"].map(|kind| format!("/dev/{kind}{number}"));
    let allowed = (0..16).filter(|number| nodes(*number).into_iter().any(may_open));
    let allowed: Vec<String> = allowed.map(|number| number.to_string()).collect();
    allowed.join(",")
}
