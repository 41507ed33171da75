//! How often a boot leads nowhere: `VM_BOOTS=50 cargo test --test vm -- boots` boots the pair of tests/clients.rs so often to
//! its programs' first word, with a busy thread for each CPU of this machine beside, and prints how long each took.

use super::testing::boot::Boot;
use super::testing::watch::Watch;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

fn guest(side: usize, folder: &Path) -> Boot {
    Boot {
        arguments: vec!["true".to_string()],
        more: vec![
            ("VM_WIRE", format!("{}/{side}", folder.display())),
            ("VM_THREADS", "multi".to_string()),
        ],
        ..Boot::of(
            "../clients/node",
            "busybox",
            &format!("vm-boots/n{}", side - 1),
        )
    }
}

#[test]
fn boots_beside_a_busy_host_lead_to_the_programs() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let count = std::env::var("VM_BOOTS").map_or(0, |count| count.parse().expect("a number"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-boots");
    std::fs::create_dir_all(&folder).unwrap();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let (mut seconds, mut anew) = (Vec::new(), 0);
    thread::scope(|scope| {
        for _ in 0..if count > 0 { cpus } else { 0 } {
            scope.spawn(|| while !std::hint::black_box(DONE.load(Ordering::Relaxed)) {});
        }
        for number in 1..=count {
            let begun = Instant::now();
            let ran = Watch::usual().run(&[guest(1, &folder), guest(2, &folder)]);
            let took = begun.elapsed().as_secs();
            let starts = ran.starts;
            let _ = writeln!(
                std::io::stderr(),
                "boot {number}: {took} s, starts: {starts}"
            );
            seconds.push(if ran.failed.is_none() { took } else { u64::MAX });
            anew += ran.starts - 1;
        }
        DONE.store(true, Ordering::Relaxed);
    });
    seconds.sort_unstable();
    if let (Some(least), Some(most)) = (seconds.first(), seconds.last()) {
        let middle = seconds[seconds.len() / 2];
        println!("{count} boots: {least}, {middle}, {most} s; started anew: {anew}");
        // none of them led nowhere twice
        assert_ne!(*most, u64::MAX);
    }
}
