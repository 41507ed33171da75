//! The command-line tool `nic-placement`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    nic_placement_cli::commands::main()
}
