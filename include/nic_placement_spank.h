/*
 * nic_placement_spank.h - the C ABI of libnic_placement.so: everything that it exports, and nothing else.
 *
 * Nobody needs this file to use the plugin: Slurm finds the symbols by name.  It is here so that a C compiler can
 * hold the Rust side to Slurm's own prototypes: included after <slurm/spank.h>, any disagreement is an error
 * ("conflicting types").  It also stands alone where Slurm's headers are not installed.
 *
 * Not installed: what a launcher includes is nic_placement.h, of another library.
 *
 * C only: <slurm/spank.h> declares the hooks without C linkage when a C++ compiler reads it.
 */
#ifndef NIC_PLACEMENT_SPANK_H
#define NIC_PLACEMENT_SPANK_H

#include <stdint.h>

/*
 * Slurm's handle, which it calls spank_t.  The tag is named rather than the typedef, so that this header and
 * <slurm/spank.h> can meet in either order, or not at all.
 */
struct spank_handle;

/* Slurm reads both as C strings ("nic_placement" and "spank") and refuses a plugin of another type. */
extern const char plugin_name[];
extern const char plugin_type[];

/*
 * The Slurm release that the plugin claims to be built for, (major << 16) + (minor << 8): 0x160500 for 22.05.
 *
 * Not const, as in SPANK_PLUGIN(): the library's constructor writes it while it is being loaded, from what the
 * loading process says of itself (slurm_api_version()), because Slurm refuses every other release and one library
 * serves them all.  It stays 0 in a process that is no Slurm, or one that is not known; Slurm then refuses it.
 */
extern uint32_t plugin_version;

/*
 * The hooks.  No others may be exported, not even empty ones: Slurm acts on a hook's mere presence, and a
 * slurm_spank_job_prolog, for one, costs every job of the cluster a helper process.
 *
 * Each returns 0, whatever goes wrong inside: of a required plugin, another value can drain the node.  The one failure
 * that is reported to Slurm is a word that the user mistyped, by the option's callback, before anything is queued.
 */

/* In srun, sbatch, salloc and slurmstepd: registers the option.  In slurmd: returns at once. */
int slurm_spank_init(struct spank_handle *spank, int argc, char *argv[]);

/*
 * In slurmstepd, once per step and node: reads the plugstack.conf arguments and the node, makes the map that the tasks
 * inherit by fork.  In srun, sbatch and salloc: tells a typo in the user's environment.
 */
int slurm_spank_init_post_opt(struct spank_handle *spank, int argc, char *argv[]);

/* In each task, as the user, just before its program: sets the variables, binds CPUs and memory. */
int slurm_spank_task_init(struct spank_handle *spank, int argc, char *argv[]);

/*
 * The library exports one symbol more, spank_option_callback.  It belongs to the slurm-spank crate, which marks it
 * no_mangle; we register a callback of our own (the crate's drops the difference between srun and slurmstepd), so
 * nothing calls it, and it is not declared here.
 */

#endif /* NIC_PLACEMENT_SPANK_H */
