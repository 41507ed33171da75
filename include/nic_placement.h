/*
 * nic_placement.h - which NIC, CPUs and memory belong to which GPU of a node: for launchers (Flux, PRRTE, PBS, engines).
 *
 * libnic_placement_core.so decides as the Slurm plugin and the command `nic-placement` do, by the same code.  It needs no
 * Slurm and no privileges, starts no thread and no process, writes nothing, and changes nothing in the process that loads
 * it: binding a process and setting its variables is the caller's.  docs/launchers.md shows how.
 *
 *     cc launch.c $(pkg-config --cflags --libs nic-placement-core)
 *
 * Every call may be made from any thread at any time; nothing is kept from one to the next.  A call may read the node
 * (below /sys, /proc, /etc and /dev; a kept node file where that is as the node is, as a step of Slurm's does), which
 * takes milliseconds, and without a node file waits as long as a network card's firmware does; nic_placement_process() waits
 * 5 s at most for a launcher that binds itself just now.  Do not call from a signal handler, nor in the child of a threaded
 * process between fork() and exec().
 */
#ifndef NIC_PLACEMENT_H
#define NIC_PLACEMENT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call returns.  New numbers may come: treat those that you do not know as failures. */
enum nic_placement_status {
    NIC_PLACEMENT_OK = 0,
    /* a pointer is NULL, or the request is longer than 10 MiB or no UTF-8 */
    NIC_PLACEMENT_BAD_ARGUMENT = 1,
    /* the request is not understood: no JSON, an unknown field, a GPU that the node does not have */
    NIC_PLACEMENT_BAD_REQUEST = 2,
    /* the node cannot be read as the request says */
    NIC_PLACEMENT_NO_NODE = 3,
    /* the request is understood, and this node has no such answer: a map of a node without GPUs */
    NIC_PLACEMENT_NO_ANSWER = 4,
    /* a bug in the library, caught: please report it */
    NIC_PLACEMENT_BUG = 5
};

/*
 * The five calls take the same arguments.
 *
 * request  points to `length` bytes: one JSON object in UTF-8, which need not end with NUL.  They are read during the call
 *          alone.  NULL is answered with NIC_PLACEMENT_BAD_ARGUMENT.
 * length   is their number, at most 10 MiB.
 * answer   points to a pointer, which every call sets, whatever it held: to the answer, or, if the call does not return
 *          NIC_PLACEMENT_OK, to one line that says why.  Both end with NUL, and both are the caller's until it gives them
 *          to nic_placement_free().  If `answer` itself is NULL, nothing is written, and the call returns
 *          NIC_PLACEMENT_BAD_ARGUMENT.
 *
 * The object has these fields; all but the first two may be left out, and one that is not known is refused.
 *
 *   "format": "nic-placement request", "version": 1
 *   "node":          {"machine": NAME} or {"topology": OBJECT}: a built-in machine, or the content of a topology file; what
 *                    is decided then is about that node.  Without it, about this one, of which only that is used which
 *                    this process may open
 *   "arguments":     ["include=mlx5_*", "set=NAME=TEMPLATE", ...], as an admin writes them in plugstack.conf
 *   "words":         "rail,strict", as a user gives them to srun --nic-placement
 *   "gpus":          "0-3,5" or PCI addresses: the GPUs that the launcher may use here, in its order.  Without it, all
 *   "tasks":         how many processes are started here, or a list with one object for each: [{"gpus": "0"}, ...].  Without it,
 *                    one for each GPU, or for each group of "gpus_per_task".  A number without "gpus_per_task" means that
 *                    each sees all GPUs
 *   "gpus_per_task": the first so many GPUs for the first process, the next for the next
 *   "cpus_per_task": how many CPUs each is to have.  Without it, an even share
 *   "cpus":          "0-55,112-167": the CPUs of all of them together.  Without it, those of the calling thread, or of the
 *                    described node
 *   "alone_on_node": true, if nobody else uses the node
 *   "task":          for nic_placement_task() and nic_placement_render(): the number of one process here, from 0
 *   "environment":   {"NAME": "VALUE", ...}: for the same, nic_placement_process() and nic_placement_map(), what that process has in
 *                    its environment already, which stays
 *   "as":            for the same two: "json" (without it), or "lines"
 *   "local_rank":    for nic_placement_process(): its number among the processes of the node, from 0.  Without it, by its
 *                    launcher's variables
 *   "local_size":    for the same: how many these are; "local_rank" is below it
 *   "map":           for nic_placement_map(): a format of `nic-placement map`.  Without it, "json"
 *
 * Each answer in JSON says its "format" and "version"; a version grows when a field changes its meaning or goes, not with
 * new fields.
 */

/* The whole plan, with all reasons: as `nic-placement plan --json`. */
int nic_placement_plan(const char *request, size_t length, char **answer);

/* Which NICs each GPU has, in the format of "map", as `nic-placement map`.  Without "arguments" those of plugstack.conf count. */
int nic_placement_map(const char *request, size_t length, char **answer);

/*
 * One process: its GPUs, NICs, CPUs and NUMA nodes, what it lacks ("shortfalls"), and whether a strict word fails it for
 * that ("fails"); an entry of the plan's "tasks".  As lines: `gpus=0`, `nics=mlx5_0:1`, `cpus=0-55`, `mems=0`,
 * `fails=false`, in this order; more may follow.
 */
int nic_placement_task(const char *request, size_t length, char **answer);

/*
 * The changes to one process's environment: "set" with values, "unset" with the names that are to go.  As lines:
 * `NAME=VALUE` for what is set, `NAME` for what is to go.  No value has a line's end in it.
 */
int nic_placement_render(const char *request, size_t length, char **answer);

/*
 * The process that calls, which a launcher started: what `nic-placement exec` would give to a program in its place.  Its own
 * variables are "environment"; its CPUs, memory policy and launcher are asked of the kernel, those of the calling thread.
 * "gpus" and "nics" as texts, "cpus", "mems" (empty: the memory policy stays), "fence" (memory comes from "mems" alone), "set"
 * and "unset" as above, "shortfalls", "strict" (a process that cannot have all of this should fail), "fails", "reasons".  Without
 * "words", those of its SLURM_NIC_PLACEMENT count; without "arguments", those of plugstack.conf.  So does the configuration file.
 * A task that the plugin placed stays as it is.  In JSON alone.
 */
int nic_placement_process(const char *request, size_t length, char **answer);

/* Gives back what a call wrote to `*answer`; each once.  NULL does nothing. */
void nic_placement_free(char *answer);

/* The library's version, such as "0.1.0": a constant, which is not to be freed. */
const char *nic_placement_version(void);

#ifdef __cplusplus
}
#endif

#endif /* NIC_PLACEMENT_H */
