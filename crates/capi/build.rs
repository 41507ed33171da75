//! The name by which the dynamic linker knows the library, whatever cargo calls the file.
#![forbid(unsafe_code)]

/// Grows when a function of include/nic_placement.h changes its meaning or goes, not with new ones.
const SONAME: &str = "libnic_placement_core.so.0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
}
