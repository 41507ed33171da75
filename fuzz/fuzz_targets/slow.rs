//! The search for the input of a target that costs most: fuzz/run.sh slow.
//!
//! The compiler puts a call of `__sanitizer_cov_trace_pc_guard` at the beginning of each basic block: the same seeds and budget
//! give the same input.  The standard library's own loops have no such calls: of long inputs the clock decides.

use nic_placement_fuzz::changes::{Numbers, changed, dictionary};
use nic_placement_fuzz::targets::{TARGETS, Target};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{env, fs};

/// Inputs that are kept, at most.
const KEPT: usize = 24;

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

fn blocks(target: Target, input: &[u8]) -> u64 {
    let before = BLOCKS.load(Ordering::Relaxed);
    target(input);
    BLOCKS.load(Ordering::Relaxed) - before
}

fn nanoseconds(target: Target, input: &[u8]) -> u128 {
    let begin = Instant::now();
    target(input);
    begin.elapsed().as_nanos()
}

/// A piece of the input many times, as it is or with a number that counts: most parsers refuse a name that stands there twice.
fn repeated(input: &[u8], bound: usize, numbers: &mut Numbers) -> Vec<u8> {
    let end = [b'\n', b',', b' ', 0, b';', b'}', b'>', b'+'][numbers.below(8)];
    let ends = (0..input.len()).filter(|&at| input[at] == end);
    let cuts: Vec<usize> = [0].into_iter().chain(ends.map(|at| at + 1)).collect();
    let first = numbers.below(cuts.len());
    let last = first + 1 + numbers.below(cuts.len());
    let (first, last) = (cuts[first], *cuts.get(last).unwrap_or(&input.len()));
    let piece = &input[first..last];
    let room = bound.saturating_sub(input.len());
    let most = (room / piece.len().max(1)).min(100_000);
    let (at, is_counted) = (numbers.below(piece.len() + 1), numbers.below(3) > 0);
    let digits = piece[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let digits = digits.count();
    let mut grown = input[..last].to_vec();
    for nth in 0..[most, numbers.below(most + 1)][numbers.below(2)] {
        if is_counted {
            grown.extend_from_slice(&piece[..at]);
            grown.extend_from_slice(format!("{nth:0digits$}").as_bytes());
            grown.extend_from_slice(&piece[at + digits..]);
        } else {
            grown.extend_from_slice(piece);
        }
    }
    grown.extend_from_slice(&input[last..]);
    grown.truncate(bound);
    grown
}

/// The dearest inputs of at most so many bytes that the budget finds: it changes the dearest ones, and keeps what costs more.
fn worst(target: Target, seeds: &[Vec<u8>], words: &[Vec<u8>], bound: usize) -> Vec<Vec<u8>> {
    let said = env::var("BLOCKS").ok().and_then(|text| text.parse().ok());
    let budget: u64 = said.unwrap_or(1_000_000_000);
    let mut numbers = Numbers::default();
    let (mut kept, mut spent) = (Vec::new(), 0);
    let mut seeds = seeds.iter();
    while spent < budget {
        let input = match seeds.next() {
            Some(seed) => seed[..seed.len().min(bound)].to_vec(),
            None => {
                // the dearest more often than the others
                let place = numbers.below(kept.len()).min(numbers.below(kept.len()));
                let (_, one): &(u64, Vec<u8>) = &kept[place];
                let (_, other) = &kept[numbers.below(kept.len())];
                match numbers.below(3) {
                    0 => repeated(one, bound, &mut numbers),
                    _ => changed(one, other, words, bound, &mut numbers),
                }
            }
        };
        let cost = blocks(target, &input);
        // the search of a cheap target ends too
        spent += cost + 2000;
        let place = kept.partition_point(|(old, _)| *old > cost);
        if kept.get(place).is_none_or(|(old, _)| *old != cost) {
            kept.insert(place, (cost, input));
            kept.truncate(KEPT);
        }
    }
    kept.into_iter().map(|(_, input)| input).collect()
}

fn main() {
    let chosen: Vec<String> = env::args().skip(1).collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|one| one == name);
    println!("target          bytes       blocks         ms");
    let _ = fs::create_dir_all("found");
    for (name, bound, _, target) in TARGETS.into_iter().filter(|(name, ..)| is_chosen(name)) {
        let words = fs::read_to_string(format!("dictionaries/{name}.dict")).unwrap_or_default();
        let words = dictionary(&words);
        let files = fs::read_dir(Path::new("corpus").join(name)).expect("a corpus");
        let mut paths: Vec<_> = files.map(|entry| entry.expect("one").path()).collect();
        paths.sort();
        let mut seeds = vec![Vec::new()];
        seeds.extend(paths.iter().filter_map(|path| fs::read(path).ok()));
        let report = |input: &[u8]| {
            let (blocks, clock) = (blocks(target, input), nanoseconds(target, input) as f64);
            let (length, clock) = (input.len(), clock / 1e6);
            println!("{name:<12} {length:>8} {blocks:>12} {clock:>10.2}");
            let _ = fs::write(format!("found/slow-{name}-{length}"), input);
        };
        let searched = bound.min(16 * 1024);
        for bound in [searched / 4, searched / 2, searched] {
            seeds.extend(worst(target, &seeds, &words, bound));
            report(&seeds[seeds.len() - KEPT.min(seeds.len())]);
        }
        // no search at the whole length: the dearest one, its pieces many times
        let one = seeds[seeds.len() - KEPT.min(seeds.len())].clone();
        let mut numbers = Numbers::default();
        for bound in [bound / 2, bound].into_iter().filter(|&to| to > searched) {
            let stretched = (0..40).map(|_| repeated(&one, bound, &mut numbers));
            let longest = stretched.max_by_key(|input| nanoseconds(target, input));
            report(&longest.expect("forty"));
        }
    }
}
