/*
 * spank_host - a fake Slurm: loads a SPANK plugin, plays one step to it, and prints what the plugin did.
 *
 *   cc -o spank_host spank_host.c -rdynamic -ldl
 *   spank_host --so libnic_placement.so --arg default=closest --option verbose --env A=B
 *              --task 'CUDA_VISIBLE_DEVICES=0' --task 'CUDA_VISIBLE_DEVICES=1'
 *
 *   --so FILE            the plugin
 *   --context WORD       local (srun), allocator (sbatch, salloc), remote (slurmstepd: the default) or slurmd
 *   --api-version N      what slurm_api_version() says, without its low 16 bits; 38, the default, is Slurm 22.05
 *   --arg WORD           an argument of the plugstack.conf line; may be repeated
 *   --option TEXT        the user gave --nic-placement=TEXT; repeated, the callback runs again, as Slurm <= 23.11 does
 *   --option-bare        the user gave the option without an argument: the callback gets NULL
 *                        What sbatch and salloc leave for the sruns inside is played too: their variables, given by
 *                        --env, are delivered before --option in srun, sbatch and salloc, and after it on a node
 *   --env NAME=VALUE     a variable of the step (remote), or of the process itself (local, allocator)
 *   --env-file FILE      such variables, one a line
 *   --job-id N  --step-id N  --node-id N  --nnodes N        --step-id takes 0xfffffffb (the batch step) and its like
 *   --task 'CHANGES'     a task; CHANGES are separated by blanks: NAME=VALUE sets, -NAME unsets, as exec_task() does
 *   --cpus-per-task N    the step's own, where it is not that of SLURM_CPUS_PER_TASK
 *   --step-cpus N --step-cores LIST    what the step has here as Slurm counts CPUs and cores
 *   --program NAME       what the tasks are to start, ./train if it is not said; with '' an empty place, as in a container
 *   --multi-prog TEXT    the tasks are to start what this text of srun's --multi-prog says: Slurm has it after the file's name
 *   --local-tasks N      the task count of this node, where it is not the number of --task
 *   --cpus LIST          the affinity that the tasks start with, such as 0 or 0-3,8 (real CPUs)
 *   --played-cpus LIST   affinity and memory policy are played (played_kernel.h): the tasks start with these CPUs
 *   --played-mems MASK   NUMA nodes from which they may take memory
 *   --log-level N        what Slurm's log takes: 3 for info, which is Slurm's own, 5 for debug, and without this all
 *   --old-kernel 1       the played kernel is older than 5.15
 *   --network TREE       this machine's /proc/net and /sys/class/net are those below TREE
 *   --root TREE          this machine's /sys, /dev, /proc/driver and /proc/net are those below TREE (played_files.h)
 *   --site TREE          the admin's /etc/nic-placement.conf and .disabled, and the node's name, are those below TREE
 *   --tell-files 1       "opened PATH" for each file that is opened there; 2: for every file
 *   --deaf NAME          setting this does nothing and answers that it did: affinity, memory, or a variable's name
 *   --uid N              task_init runs as this user (needs root), as in Slurm
 *   --time --repeat N    print no events; play the step N times, each in a fresh process, and print for each hook
 *                        "time HOOK median M min A max B n COUNT", in microseconds
 *   --again N            after the step call its hooks N times more in one process, and print what this process holds after a
 *                        tenth of them and after all: "again memory A B descriptors A B", in bytes and in open files
 *
 * Each line is "WHEN: WHAT"; WHEN is load, init, option, init_post_opt, "task N", or "left": what srun, sbatch and
 * salloc would hand down, as "left: env NAME=VALUE".  Log lines are "WHEN: LEVEL: TEXT".  "WHEN: host: TEXT" is a complaint: the plugin did what Slurm does not allow.  Tasks run one
 * after the other, so that the same step always prints the same text.  Return codes are spank_err_t of
 * <slurm/slurm_errno.h>.
 *
 * What Slurm does is as read in its src/common/plugin.c (loading), src/common/spank.c (items, environment, options)
 * and src/slurmd/slurmstepd/task.c (the order inside a task); numbers are the same from 22.05 to 26.05.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "played_files.h"
#include "played_kernel.h"
#include "played_slurm.h"

/* ---- playing a step ---------------------------------------------------------------------------------------------- */

static double microseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}
struct sample { int hook; double us; };
static void took(enum hook hook, double since)
{
	struct sample sample = { hook, microseconds() - since };
	if (timing && write(samples_pipe[1], &sample, sizeof sample) != sizeof sample)
		err(2, "write");
}

static void call(void *plugin, enum hook hook)
{
	char symbol[64];
	snprintf(symbol, sizeof symbol, "slurm_spank_%s", hook_names[hook]);
	spank_f *function = (spank_f *)dlsym(plugin, symbol);
	if (!function)
		return;
	double start = microseconds();
	int rc = function(&handle, args.count, args.word);
	took(hook, start);
	say("returned %d", rc);
	/* since 25.05 any other answer of a required plugin drains the node, unless the plugin says otherwise */
	if (rc && context == CTX_REMOTE)
		say("host: the hook answered %d on a node", rc);
}

/* Hands the option's value to the plugin; true: srun, sbatch and salloc would end now. */
static bool give_option(const char *value)
{
	bool remote = context == CTX_REMOTE;
	if (!registered.cb)
		errx(1, "an option is given and none is registered");
	int rc = registered.cb(registered.val, value, remote);
	say("returned %d", rc);
	if (rc && remote)
		say("host: the callback answered %d on a node: Slurm logs the value as it came", rc);
	else if (!rc && !remote) {
		setenv(LEFT_FOR_NODES, value ? value : "", 1);
		if (context == CTX_ALLOCATOR)
			setenv(LEFT_FOR_COMMANDS, value ? value : "(null)", 1);
	}
	return rc && !remote;
}

/* What the task's program would start with. */
static void report_task(void)
{
	static const char *const modes[] = { "default", "preferred", "bind", "interleave", "local", "preferred-many" };
	char text[4096] = "";
	cpu_set_t cpus;
	size_t used = 0;
	if (sched_getaffinity(0, sizeof cpus, &cpus))
		err(2, "sched_getaffinity");
	for (int first = 0, last; first < CPU_SETSIZE; first = last + 1) {
		for (last = first; CPU_ISSET(first, &cpus) && last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cpus);)
			last++;
		if (CPU_ISSET(first, &cpus) && used < sizeof text)
			used += snprintf(text + used, sizeof text - used, last > first ? "%s%d-%d" : "%s%d", used ? "," : "",
				first, last);
	}
	say("cpus %s", text);
	int mode = 0;
	unsigned long long nodes[16] = { 0 };
	if (syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, NULL, 0) == 0)
		say("memory %s nodes 0x%llx", modes[(mode & 0xff) % 6], nodes[0]);
	for (int fd = 0; fd < MAX_FDS; fd++)
		if (!open_before[fd] && fcntl(fd, F_GETFD) >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			say("host: the program would inherit descriptor %d", fd);
	for (char **variable = step_env; *variable; variable++)
		say("env %s", *variable);
}

static int threads(void)
{
	struct stat tasks;
	return stat("/proc/self/task", &tasks) ? 1 : (int)tasks.st_nlink - 2;
}

static void play_task(void *plugin, int task)
{
	char text[64];
	handle.task = task;
	const struct { const char *name; uint32_t value; } ids[] = {
		{ "SLURM_LOCALID", task }, { "SLURM_PROCID", node_id * local_tasks + task }, { "SLURM_NODEID", node_id } };
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof text, "%s=%u", ids[i].name, ids[i].value);
		env_put(text);
	}
	for (char *change = strtok(tasks.word[task], " "); change; change = strtok(NULL, " "))
		*change == '-' ? env_remove(change + 1) : env_put(change);
	if (uid != -1u && setresuid(uid, uid, uid))
		err(2, "setresuid");
	call(plugin, TASK_INIT);
	if (!timing)
		report_task();
}

/* Exit status: 0; 1 where Slurm would not have loaded the plugin; 255 where srun would have refused the option. */
static int play_step(void)
{
	double start = microseconds();
	void *plugin = dlopen(plugin_file, RTLD_LAZY);
	took(DLOPEN, start);
	if (!plugin)
		errx(1, "%s", dlerror());
	const char *type = dlsym(plugin, "plugin_type"), *name = dlsym(plugin, "plugin_name");
	const uint32_t *version = dlsym(plugin, "plugin_version");
	if (!type || !name || !version || strcmp(type, "spank"))
		errx(1, "`%s` is no SPANK plugin", plugin_file);
	say("plugin_name %s", name);
	say("plugin_version 0x%06x", *version);
	if (!*version)
		return 1;

	strcpy(when, "init");
	in_init = true;
	call(plugin, INIT);
	in_init = false;
	if (context == CTX_SLURMD)
		return 0;

	strcpy(when, "option");
	bool is_command = context == CTX_LOCAL || context == CTX_ALLOCATOR;
	const char *left = is_command ? getenv(LEFT_FOR_COMMANDS) : NULL;
	char *delivered = left ? strdup(left) : NULL;
	if (delivered && give_option(delivered))
		return 255;
	free(delivered);
	for (int i = 0; i < option_values.count; i++)
		if (give_option(option_values.word[i]))
			return 255;
	/* later releases do not look where the launch message had the option; 41 is 24.05 */
	if (!is_command && *env_slot(LEFT_FOR_NODES)) {
		delivered = strdup(strchr(*env_slot(LEFT_FOR_NODES), '=') + 1);
		if (!option_values.count || api_version < 41)
			give_option(delivered);
		free(delivered);
		env_remove(LEFT_FOR_NODES);
	}

	strcpy(when, "init_post_opt");
	call(plugin, INIT_POST_OPT);
	strcpy(when, "left");
	for (char **variable = environ; is_command && *variable; variable++)
		say("env %s", *variable);
	strcpy(when, "init_post_opt");
	if (!timing && threads() != 1)
		say("host: %d threads run in the process that forks the tasks", threads());
	for (int task = 0; context == CTX_REMOTE && task < tasks.count; task++) {
		snprintf(when, sizeof when, "task %d", task);
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0) {
			play_task(plugin, task);
			fflush(stdout);
			_exit(0);
		}
		int status;
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			err(2, "fork");
		if (WIFSIGNALED(status))
			say("killed by signal %d", WTERMSIG(status));
		else
			say("exit %d", WEXITSTATUS(status));
	}
	return 0;
}

#include "played_again.h"

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}
/* A fresh process each time, as in Slurm: what a second load or a second call in the same process costs says nothing. */
static int measure(void)
{
	double *us[HOOKS] = { NULL };
	size_t count[HOOKS] = { 0 };
	for (uint32_t i = 0; i < repetitions; i++) {
		if (pipe(samples_pipe))
			err(2, "pipe");
		pid_t pid = fork();
		if (pid == 0)
			_exit(play_step());
		close(samples_pipe[1]);
		for (struct sample s; read(samples_pipe[0], &s, sizeof s) == sizeof s;) {
			us[s.hook] = realloc(us[s.hook], (count[s.hook] + 1) * sizeof(double));
			us[s.hook][count[s.hook]++] = s.us;
		}
		close(samples_pipe[0]);
		int status;
		if (waitpid(pid, &status, 0) != pid || status)
			errx(2, "a measured step failed");
	}
	for (int h = 0; h < HOOKS; h++) {
		if (!count[h])
			continue;
		qsort(us[h], count[h], sizeof(double), ascending);
		printf("time %s median %.2f min %.2f max %.2f n %zu\n", hook_names[h], us[h][count[h] / 2], us[h][0],
			us[h][count[h] - 1], count[h]);
	}
	return 0;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static void start_on_cpus(char *list)
{
	cpu_set_t cpus; /* 1024 CPUs */
	CPU_ZERO(&cpus);
	for (char *range = strtok(list, ","); range; range = strtok(NULL, ",")) {
		char *rest;
		long first = strtol(range, &rest, 10), last = *rest == '-' ? atol(rest + 1) : first;
		for (; first <= last; first++)
			CPU_SET(first, &cpus);
	}
	if (sched_setaffinity(0, sizeof cpus, &cpus))
		err(2, "--cpus");
}
static void read_env_file(const char *file)
{
	char line[65536];
	FILE *in = fopen(file, "r");
	if (!in)
		err(2, "%s", file);
	while (fgets(line, sizeof line, in)) {
		line[strcspn(line, "\n")] = 0;
		env_put(line);
	}
	fclose(in);
}

/* Takes one option of the command line; false: there is no such option. */
static bool take(const char *name, char *value)
{
	static const struct { const char *name; uint32_t *value; } numbers[] = {
		{ "--api-version", &api_version }, { "--job-id", &job_id }, { "--step-id", &step_id },
		{ "--node-id", &node_id }, { "--nnodes", &nnodes }, { "--local-tasks", &local_tasks }, { "--uid", &uid },
		{ "--cpus-per-task", &cpus_per_task }, { "--step-cpus", &step_cpus },
		{ "--log-level", &log_level }, { "--repeat", &repetitions }, { "--again", &times_more }, { NULL, NULL } };
	static const struct { const char *name; struct words *words; } lists[] = {
		{ "--arg", &args }, { "--option", &option_values }, { "--task", &tasks }, { NULL, NULL } };
	static const char *const contexts[] = { "error", "local", "remote", "allocator", "slurmd" };
	for (int i = 0; numbers[i].name; i++)
		if (!strcmp(name, numbers[i].name))
			return *numbers[i].value = strtoul(value, NULL, 0), true;
	for (int i = 0; lists[i].name; i++)
		if (!strcmp(name, lists[i].name) && lists[i].words->count < MAX_WORDS)
			return lists[i].words->word[lists[i].words->count++] = value, true;
	for (int c = CTX_LOCAL; c <= CTX_SLURMD; c++)
		if (!strcmp(name, "--context") && !strcmp(value, contexts[c]))
			return context = c, true;
	/* a word of srun's own command line, which the plugin reads there */
	if (!strcmp(name, "--nic-placement"))
		return true;
	if (!strcmp(name, "--so"))
		return plugin_file = value, true;
	if (!strcmp(name, "--step-cores"))
		return step_cores = value, true;
	if (!strcmp(name, "--program"))
		return program[0] = *value ? value : NULL, true;
	if (!strcmp(name, "--multi-prog"))
		return program[0] = "ranks.conf", program[1] = value, true;
	if (!strcmp(name, "--env"))
		return env_put(value), true;
	if (!strcmp(name, "--env-file"))
		return read_env_file(value), true;
	if (!strcmp(name, "--cpus"))
		return start_on_cpus(value), true;
	if (!strcmp(name, "--played-cpus"))
		return kernel.on = true, start_on_cpus(value), true;
	if (!strcmp(name, "--played-mems"))
		return kernel.allowed = strtoul(value, NULL, 0), true;
	if (!strcmp(name, "--old-kernel"))
		return kernel.old = true;
	if (!strcmp(name, "--root"))
		return files.tree = value, true;
	if (!strcmp(name, "--network"))
		return files.network = value, true;
	if (!strcmp(name, "--site"))
		return files.site = value, true;
	if (!strcmp(name, "--tell-files"))
		return files.tells = atoi(value), true;
	if (!strcmp(name, "--deaf") && kernel.deaf_count < 8)
		return kernel.deaf[kernel.deaf_count++] = value, true;
	return false;
}

int main(int argc, char **argv)
{
	for (int fd = 0; fd < MAX_FDS; fd++)
		open_before[fd] = fcntl(fd, F_GETFD) >= 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--time"))
			timing = true;
		else if (!strcmp(argv[i], "--option-bare") && option_values.count < MAX_WORDS)
			option_values.word[option_values.count++] = NULL;
		else if (i + 1 == argc || !take(argv[i], argv[i + 1]))
			errx(2, "bad option `%s`; they are described at the top of spank_host.c", argv[i]);
		else
			i++;
	}
	if (!plugin_file)
		errx(2, "`--so` is missing");
	if (!local_tasks)
		local_tasks = tasks.count;
	/* srun and sbatch see the user's variables in their own environment; slurmstepd's own is the daemon's */
	for (char **variable = step_env; (context == CTX_LOCAL || context == CTX_ALLOCATOR) && *variable; variable++)
		putenv(*variable);
	setvbuf(stdout, NULL, _IOLBF, 0);
	return timing ? measure() : times_more ? play_again() : play_step();
}
