//! Tables of tests: `rows! { 1, "one"; 2, "two"; }` is an array of tuples.

macro_rules! rows {
    ($($($cell:expr),+;)+) => { [$(($($cell),+)),+] };
}
