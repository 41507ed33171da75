/*
 * runtime: a plugin of Slurm 26.11 that starts each task itself (src/interfaces/runtime.h), as the task's NICP_RUNTIME says:
 *
 *   wrapped     below another program, which gets the task's words and environment, as runc does
 *   cleared     with an environment of its own
 *   elsewhere   on all CPUs, as a daemon would that is asked to start it
 *
 * tests/slurm/from-source.sh builds it in a tree of that release.
 */
#define _GNU_SOURCE
#include "config.h"
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include "slurm/slurm.h"
#include "src/interfaces/runtime.h"
#include "src/slurmd/slurmstepd/slurmstepd.h"

const char plugin_name[] = "a runtime that is played", plugin_type[] = "runtime/played";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

int runtime_p_init(runtime_context_t context) { return 0; }
int runtime_p_fini(void) { return 0; }
int runtime_p_setup(slurmd_conf_t *conf, stepd_step_rec_t *step, slurm_addr_t *cli, slurm_msg_t *msg) { return 0; }
void runtime_p_cleanup(slurmd_conf_t *conf, stepd_step_rec_t *step) {}
void runtime_p_task_init(slurmd_conf_t *conf, stepd_step_rec_t *step, stepd_step_task_info_t *task) {}

static bool is_asked(char **environment, const char *word)
{
	for (; *environment; environment++)
		if (!strncmp(*environment, "NICP_RUNTIME=", 13))
			return !strcmp(*environment + 13, word);
	return false;
}

int runtime_p_run(slurmd_conf_t *conf, stepd_step_rec_t *step, stepd_step_task_info_t *task)
{
	char *words[task->argc + 2];
	char *none[] = { "PATH=/usr/bin:/bin", NULL };

	words[0] = "/usr/bin/env";
	memcpy(words + 1, task->argv, (task->argc + 1) * sizeof(*words));
	if (is_asked(step->env, "wrapped"))
		execve(words[0], words, step->env);
	if (is_asked(step->env, "elsewhere")) {
		cpu_set_t all;

		CPU_ZERO(&all);
		for (int cpu = 0; cpu < 224; cpu++)
			CPU_SET(cpu, &all);
		if (sched_setaffinity(0, sizeof(all), &all))
			return errno;
	}
	execve(task->argv[0], task->argv, is_asked(step->env, "cleared") ? none : step->env);
	return errno;
}
