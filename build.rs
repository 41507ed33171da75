//! Links the unwinder into the plugin: srun and slurmstepd have no other use for libgcc_s.so.1, and loading it took half of
//! the time that loading the plugin took.
#![forbid(unsafe_code)]

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    // beside the own libraries of the compiler that links: another one's may be for another processor or a newer glibc.
    // Without it the unwinder stays a library that is loaded; zig has none to name and links its own in
    let named = env::var("RUSTC_LINKER").or_else(|_| env::var("CC"));
    let compiler = named.unwrap_or_else(|_| "cc".to_string());
    let answer = Command::new(compiler)
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    let named = answer
        .ok()
        .and_then(|answer| String::from_utf8(answer.stdout).ok())
        .unwrap_or_default();
    if let Some(folder) = Path::new(named.trim())
        .parent()
        .filter(|folder| folder.is_absolute())
    {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}
