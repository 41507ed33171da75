# What one hook asked the kernel, as lines for benches/floor.c: from `strace -f` of slurmd while tests/slurm/between.c stands
# before our line and after it, and asks for its own use of the processor (getrusage) there, in `init` and in the hook.
/^[0-9]+ +getrusage\(/ { marks[$1]++ }
marks[$1] != 3 { next }
# what stands between the first two quotation marks
{ path = $0; sub(/^[^"]*"/, "", path); sub(/".*/, "", path) }
/ faccessat2?\(/ { print hook, "access", path }
# a handle on /dev, and a question about no file, with which the standard library tries statx out
/ openat\(.*O_PATH/ || path !~ /^\// { next }
/ openat\(.*O_DIRECTORY/ { print hook, "list", path; next }
/ openat\(/ { print hook, "read", path }
/ readlink\(/ { print hook, "link", path }
/ statx\(/ { print hook, "stat", path }
