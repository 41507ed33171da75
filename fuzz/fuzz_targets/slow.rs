//! The search for the slowest input of a target: fuzz/run.sh slow.
//!
//! The compiler puts a call of `__sanitizer_cov_trace_pc_guard` at the beginning of each basic block.  What the standard
//! library holds ready (a search for a letter, a copy) has no such calls: `BY=time` sees it, and is another each time.

use nic_placement_fuzz::changes::{Numbers, dictionary};
use nic_placement_fuzz::climb::{Search, repeated};
use nic_placement_fuzz::targets::work::{Make, WORKS};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{env, fs};

static BLOCKS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the compiler's callback, of which there is one in a program; it looks at no pointer
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_trace_pc_guard(_: *const u32) {
    // one thread counts: an addition that no other can see costs less
    BLOCKS.store(BLOCKS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

// SAFETY: as above
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_trace_pc_guard_init(_: *const u32, _: *const u32) {}

/// Blocks of the input's work, without what is made for it before.
fn blocks(make: Make, input: &[u8]) -> u64 {
    let mut work = make(input);
    let before = BLOCKS.load(Ordering::Relaxed);
    work();
    BLOCKS.load(Ordering::Relaxed) - before
}

/// Nanoseconds of the input's work: the least of several times, unless it takes long.
fn nanoseconds(make: Make, input: &[u8], times: usize) -> u64 {
    let mut work = make(input);
    let mut least = u64::MAX;
    for _ in 0..times {
        let begin = Instant::now();
        work();
        least = least.min(begin.elapsed().as_nanos() as u64);
        if least > 300_000_000 {
            break;
        }
    }
    least
}

/// The length of an input, and its blocks.
type Size = (u64, u64);

fn files(folder: &str, name: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(Path::new(folder).join(name)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

fn slow(name: &str, bound: usize, make: Make, budget: u64, by_time: bool) {
    let words = dictionary(&fs::read_to_string(format!("dictionaries/{name}.dict")).unwrap_or_default());
    let mut seeds = [files("corpus", name), files("grown", name)].concat();
    let searched = bound.min(16 * 1024);
    let mut last = (0, 0);
    for bound in [searched / 4, searched / 2, searched] {
        let search = Search { words: &words, bound, budget };
        let (kept, tried) = match by_time {
            // a call costs about a nanosecond for two blocks
            true => search.worst(&seeds, &mut |input| {
                let once = nanoseconds(make, input, 1);
                if once * 2 > last.1 { nanoseconds(make, input, 3) * 2 } else { once * 2 }
            }),
            false => search.worst(&seeds, &mut |input| blocks(make, input)),
        };
        let worst = &kept[0].input;
        last = report(name, make, worst, last, &format!("{tried} tried"));
        // what is dear below the smaller bound, once more and twice as long
        seeds.extend(kept.into_iter().map(|one| one.input));
    }
    let worst = seeds[seeds.len().saturating_sub(24)].clone();
    let _ = fs::create_dir_all("found");
    let _ = fs::write(format!("found/slow-{name}"), &worst);
    // no search at the whole length: the dearest one, its pieces many times
    let mut numbers = Numbers::default();
    for bound in [bound / 2, bound] {
        if bound <= searched {
            continue;
        }
        let stretched = (0..40).map(|_| repeated(&worst, bound, &mut numbers));
        let worst = stretched.map(|input| (nanoseconds(make, &input, 1), input)).max().expect("forty");
        last = report(name, make, &worst.1, last, "stretched");
        let _ = fs::write(format!("found/slow-{name}-stretched"), &worst.1);
    }
}

/// One line, and the input's length and blocks.  The growth is the power of the length that the cost goes with, seen from the
/// line before.
fn report(name: &str, make: Make, input: &[u8], before: Size, how: &str) -> Size {
    let (length, blocks) = (input.len().max(1) as u64, blocks(make, input));
    let milliseconds = nanoseconds(make, input, 5) as f64 / 1e6;
    let (shorter, cheaper) = before;
    let is_longer = shorter > 0 && length >= shorter + shorter / 4;
    let growth = is_longer
        .then(|| (blocks as f64 / cheaper.max(1) as f64).ln() / (length as f64 / shorter as f64).ln());
    let growth = growth.map_or("     -".to_string(), |growth| format!("{growth:6.2}"));
    let each = blocks / length;
    println!("{name:<12} {length:>8} {blocks:>12} {each:>9} {milliseconds:>10.2} {growth}  {how}");
    (length, blocks)
}

fn main() {
    let budget = env::var("BLOCKS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000_000);
    let by_time = env::var("BY").is_ok_and(|by| by == "time");
    let chosen: Vec<String> = env::args().skip(1).collect();
    println!("{:<12} {:>8} {:>12} {:>9} {:>10} growth", "target", "bytes", "blocks", "per byte", "ms");
    for (name, bound, make) in WORKS {
        if chosen.is_empty() || chosen.iter().any(|one| one == name) {
            slow(name, bound, make, budget, by_time);
        }
    }
}
