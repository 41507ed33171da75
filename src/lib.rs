//! The symbols that Slurm looks up in the shared object.
//!
//! The plugin's only file outside `crates/sys` with `unsafe`. Its tests are in `tests/host.rs` and
//! `tests/end_to_end.rs`, since a test program does not link with Slurm's symbols.
//!
//! slurm-spank's `SPANK_PLUGIN!` is not used: it stamps one Slurm release and exports all twelve
//! hooks; if `job_prolog` is exported, slurmd starts a process with every job (Slurm's
//! src/common/spank.c, `has_prolog`).
#![allow(unsafe_code)]
#![allow(non_upper_case_globals)]

mod active;
mod command;
mod environment;
mod log;
mod option;
mod program;
mod step;
mod task;

use nic_placement_core::config::releases::{self, Release};
use slurm_spank::spank_sys::{self, spank_option, spank_option_register, spank_t};
use slurm_spank::{Context, OptionCache, SpankHandle, init_spank_handle};
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

type Argv = *const *const c_char;

/// Slurm's loader checks this symbol (src/common/plugin.c, `_verify_syms`).
// SAFETY: Slurm opens plugins without RTLD_GLOBAL (src/common/plugin.c): equal names do not clash.
#[unsafe(no_mangle)]
pub static plugin_name: [u8; 14] = *b"nic_placement\0";

// SAFETY: as `plugin_name`.
#[unsafe(no_mangle)]
pub static plugin_type: [u8; 6] = *b"spank\0";

/// The Slurm release, `major << 16 | minor << 8`. Slurm loads only plugins of its own release
/// (`_verify_syms`), so `CONSTRUCTOR` stores the running program's release, or 0 for an untested
/// release; Slurm refuses 0 with a clear line.
// SAFETY: as `plugin_name`. Slurm reads the number after dlopen(3) has run `CONSTRUCTOR`.
#[unsafe(no_mangle)]
pub static plugin_version: AtomicU32 = AtomicU32::new(0);

// SAFETY: the loader calls each function pointer of this section once, with (argc, argv, envp),
// which a C function may ignore.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = fill_version;

extern "C" fn fill_version() {
    plugin_version.store(loaders_release().unwrap_or(0), Ordering::Relaxed);
}

/// NIC_PLACEMENT_SLURM_RELEASE at build time, such as `22.05`; `None` if unset.
const STAMP: Option<u32> = match option_env!("NIC_PLACEMENT_SLURM_RELEASE") {
    Some(release) => Some(stamp(release.as_bytes())),
    None => None,
};

/// Slurm's number for a release such as `22.05`; other text fails the build.
const fn stamp(release: &[u8]) -> u32 {
    const fn number(tens: u8, ones: u8) -> u32 {
        ((tens - b'0') * 10 + ones - b'0') as u32
    }
    let [
        a @ b'0'..=b'9',
        b @ b'0'..=b'9',
        b'.',
        c @ b'0'..=b'9',
        d @ b'0'..=b'9',
    ] = release
    else {
        panic!("NIC_PLACEMENT_SLURM_RELEASE: expected a release such as 22.05")
    };
    number(*a, *b) << 16 | number(*c, *d) << 8
}

/// `STAMP`, else the running Slurm's release; `None` if untested. Slurm exports only its API
/// version: `slurm_api_version()` returns libslurm's `current << 16 | …`, one number for each
/// release.
fn loaders_release() -> Option<u32> {
    let symbol = programs_symbol(c"slurm_api_version");
    // SAFETY: slurm/slurm.h declares `long slurm_api_version(void)` in all tested releases; NULL is
    // `None`.
    let api_version: Option<extern "C" fn() -> c_long> = unsafe { std::mem::transmute(symbol) };
    STAMP.or_else(|| releases::of_api_version(api_version?()).map(Release::stamp))
}

/// The address of a function of the running Slurm program, or NULL.
fn programs_symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with NUL; RTLD_DEFAULT means the program's global symbols.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Registers the option in every program that uses its value.
// SAFETY: the name is Slurm's for this hook; the signature is `spank_f` of slurm/spank.h.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_init(spank: spank_t, argc: c_int, argv: Argv) -> c_int {
    hook("init", spank, argc, argv, |handle, context| {
        log::install(context);
        option::note_arguments(handle);
        match context {
            Context::Slurmd => return step::tell_of_no_node_file(),
            // slurmd starts this process for the prolog and epilog hooks of other plugins
            Context::JobScript => return,
            Context::Local | Context::Allocator | Context::Remote => {}
        }
        option::provoke(handle, "init");
        if context != Context::Remote {
            command::init();
        }
        register_option(spank);
    })
}

/// Runs after Slurm has parsed all options.
// SAFETY: as `slurm_spank_init`.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_init_post_opt(spank: spank_t, argc: c_int, argv: Argv) -> c_int {
    hook(
        "init_post_opt",
        spank,
        argc,
        argv,
        |handle, context| match context {
            Context::Local => {
                command::tell_the_nodes();
                command::init_post_opt();
                command::tell_the_user();
            }
            Context::Allocator => {
                command::note_what_was_before();
                command::tell_of_components();
                command::init_post_opt();
            }
            Context::Remote => {
                option::provoke(handle, "init_post_opt");
                with_arguments(spank, program::note);
                step::init_post_opt(handle);
                task::forget_an_outer_rule(handle);
            }
            Context::Slurmd | Context::JobScript => {}
        },
    )
}

/// Runs in each task, as its user, before execve(2).
// SAFETY: as `slurm_spank_init`.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_task_init(spank: spank_t, argc: c_int, argv: Argv) -> c_int {
    hook(TASK_INIT, spank, argc, argv, |handle, _| {
        log::in_task();
        option::provoke(handle, "task_init");
        task::init(handle);
    })
}

fn hook(
    name: &str,
    spank: spank_t,
    argc: c_int,
    argv: Argv,
    body: impl FnOnce(&SpankHandle, Context),
) -> c_int {
    wall(name, || {
        // stays empty: Slurm passes the option's value to `option_callback`
        let mut cache = OptionCache::default();
        let handle = init_spank_handle(spank, argc, argv, &mut cache);
        if let Ok(context) = handle.context() {
            // in each hook, since srun sets its log level after the first hook
            log::up_to(slurms_log_level());
            body(&handle, context);
        }
        0
    })
}

/// Calls `take` with the first two words of the step's command, and an iterator over all words.
///
/// For an OCI container Slurm moves the words elsewhere and leaves NULL
/// (src/slurmd/slurmstepd/container.c, `_modify_config`). Reading stops at the NULL: slurmstepd
/// 22.05 crashed otherwise. slurm-spank's `job_argv` does not stop there.
fn with_arguments(
    spank: spank_t,
    take: impl FnOnce([Option<&CStr>; 2], &mut dyn Iterator<Item = &CStr>),
) {
    let (mut count, mut list): (c_int, *const *const c_char) = (0, std::ptr::null());
    let item = spank_sys::spank_item_S_JOB_ARGV;
    // SAFETY: `spank` is Slurm's handle for this hook; slurm/spank.h gives this item these two
    // arguments.
    let code = unsafe { spank_sys::spank_get_item(spank, item, &raw mut count, &raw mut list) };
    let count = match usize::try_from(count) {
        Ok(count) if code == spank_sys::ESPANK_SUCCESS && !list.is_null() => count,
        _ => 0,
    };
    let word = |place: usize| -> Option<&CStr> {
        if place >= count {
            return None;
        }
        // SAFETY: the list has `count` entries and lives as long as the step; no other thread of
        // slurmstepd changes it while plugins run.
        let word = unsafe { *list.add(place) };
        // SAFETY: an entry is NULL or a string that ends with NUL.
        (!word.is_null()).then(|| unsafe { CStr::from_ptr(word) })
    };
    take([0, 1].map(word), &mut (0..count).map_while(word));
}

fn slurms_log_level() -> Option<c_int> {
    // looked up once: tasks inherit the address by fork(2)
    static LEVEL: OnceLock<Option<extern "C" fn() -> c_int>> = OnceLock::new();
    let level = LEVEL.get_or_init(|| {
        let symbol = programs_symbol(c"slurm_get_log_level");
        // SAFETY: src/common/log.h declares `int get_log_level(void)`, which Slurm also exports
        // as `slurm_get_log_level`; NULL is `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<extern "C" fn() -> c_int>>(symbol) }
    });
    level.map(|level| level())
}

const TASK_INIT: &str = "task_init";

/// Returns 0 after a panic: unwinding would abort slurmstepd, and srun would hang until the time
/// limit. In `task_init` a panic ends the task if `active::STRICT` is set.
fn wall(hook: &str, body: impl FnOnce() -> c_int) -> c_int {
    // std's hook would print on the user's terminal. Our object has its own std, so other plugins'
    // panics do not reach this hook. Set once: a write in each task would copy pages that fork(2)
    // shares
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic
                .location()
                .map(ToString::to_string)
                .unwrap_or_default();
            ::log::error!(
                "bug at {place}: {panic}; the job runs without placement, please report this"
            );
        }));
    });
    let answer = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        ::log::debug!("`{hook}` panicked");
        if hook == TASK_INIT {
            task::fail_if_strict(0, "a bug in the plugin");
        }
        0
    });
    option::answer(hook, answer)
}

fn register_option(spank: spank_t) {
    let mut option = spank_option {
        name: c"nic-placement".as_ptr(),
        arginfo: c"[WORD,...]".as_ptr(),
        usage: c"give every GPU task its nearest NIC, CPUs and memory (--nic-placement=help)"
            .as_ptr(),
        // 2 is an optional argument (slurm/spank.h)
        has_arg: 2,
        val: 0,
        cb: Some(option_callback),
    };
    // SAFETY: `spank` is Slurm's handle for this hook; Slurm copies the structure and its static
    // strings (src/common/spank.c, `_spank_option_register`).
    let code = unsafe { spank_option_register(spank, &mut option) };
    if code != 0 {
        ::log::debug!(
            "`spank_option_register` answered {code}: `--nic-placement` is not known here"
        );
    }
}

/// Slurm calls this for the option on the command line, in `#SBATCH`, in the variables
/// `command::LEFT`, and on the node; the last call counts.
extern "C" fn option_callback(_value: c_int, argument: *const c_char, remote: c_int) -> c_int {
    wall("option", || {
        option::provoke_by("option");
        let text = match argument.is_null() {
            true => "".into(),
            // SAFETY: Slurm passes NULL or a string that ends with NUL and outlives this call.
            false => unsafe { CStr::from_ptr(argument) }.to_string_lossy(),
        };
        if option::take(&text, remote != 0) {
            0
        } else {
            -1
        }
    })
}
