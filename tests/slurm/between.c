/*
 * A SPANK plugin that is listed before another one or after it, and does something in the hooks there.
 *
 *   cc -shared -fPIC -DRELEASE=0x160500 -o between.so between.c
 *   optional between.so init_post_opt=run:/tmp/take-a-nic-away task_init=files:3
 *
 * Arguments are HOOK=ACTION.  HOOK is init, init_post_opt, user_init or task_init, on a node alone.  ACTION is
 *   run:PROGRAM   runs it, as whoever the hook runs as, and waits for its end
 *   files:N       lets this process open N descriptors more, until the action below
 *   any-files     as many as before
 *   own-mounts    gives this process and those that it will fork mounts of their own, as a container's plugin does
 *   no-sys        takes /sys away from this process and those that it will fork
 *   sleep:MS      milliseconds
 *   begin         remembers the time
 *   end:FILE      appends "HOOK MICROSECONDS OF-THE-PROCESSOR PAGE-FAULTS" since `begin` to FILE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct spank_handle *spank_t;
extern int spank_remote(spank_t spank);
extern void slurm_info(const char *format, ...);
extern void slurm_error(const char *format, ...);

const char plugin_name[] = "between", plugin_type[] = "spank";
const unsigned int plugin_version = RELEASE;

static struct rlimit before;
static struct timespec began, began_cpu;
static struct rusage began_use;

/* The limit below which `more` descriptors are free. */
static rlim_t limit_for(int more)
{
	rlim_t fd = 0;
	for (; fd < before.rlim_cur; fd++)
		if (fcntl((int)fd, F_GETFD) < 0 && more-- <= 0)
			break;
	return fd;
}

static double between(const struct timespec *from, const struct timespec *to)
{
	return (to->tv_sec - from->tv_sec) * 1e6 + (to->tv_nsec - from->tv_nsec) / 1e3;
}

static void end(const char *hook, const char *file)
{
	struct timespec now, cpu;
	struct rusage use;
	clock_gettime(CLOCK_MONOTONIC, &now);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	getrusage(RUSAGE_SELF, &use);
	FILE *out = fopen(file, "ae");
	if (!out)
		return;
	fprintf(out, "%s %.1f %.1f %ld\n", hook, between(&began, &now), between(&began_cpu, &cpu),
		use.ru_minflt - began_use.ru_minflt);
	fclose(out);
}

static void own_mounts(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		slurm_error("between: no namespace: %s", strerror(errno));
}

static void act(const char *hook, const char *action)
{
	const char *argument = strchr(action, ':');
	argument = argument ? argument + 1 : "";
	if (!strncmp(action, "run:", 4)) {
		int status = system(argument);
		slurm_info("between: %s: `%s` ended with %d", hook, argument, status);
	} else if (!strncmp(action, "files:", 6)) {
		getrlimit(RLIMIT_NOFILE, &before);
		struct rlimit few = { limit_for(atoi(argument)), before.rlim_max };
		setrlimit(RLIMIT_NOFILE, &few);
	} else if (!strcmp(action, "any-files")) {
		setrlimit(RLIMIT_NOFILE, &before);
	} else if (!strcmp(action, "own-mounts")) {
		own_mounts();
	} else if (!strcmp(action, "no-sys")) {
		own_mounts();
		while (umount2("/sys", MNT_DETACH) == 0)
			;
	} else if (!strncmp(action, "sleep:", 6)) {
		usleep((useconds_t)atoi(argument) * 1000);
	} else if (!strncmp(action, "end:", 4)) {
		end(hook, argument);
	} else if (!strcmp(action, "begin")) {
		getrusage(RUSAGE_SELF, &began_use);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began_cpu);
		clock_gettime(CLOCK_MONOTONIC, &began);
	} else {
		slurm_error("between: unknown action `%s`", action);
	}
}

static int hook(spank_t spank, const char *name, int argc, char **argv)
{
	size_t length = strlen(name);
	if (spank_remote(spank) != 1)
		return 0;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
			act(name, argv[i] + length + 1);
	return 0;
}

int slurm_spank_init(spank_t spank, int argc, char **argv) { return hook(spank, "init", argc, argv); }
int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv) { return hook(spank, "init_post_opt", argc, argv); }
int slurm_spank_user_init(spank_t spank, int argc, char **argv) { return hook(spank, "user_init", argc, argv); }
int slurm_spank_task_init(spank_t spank, int argc, char **argv) { return hook(spank, "task_init", argc, argv); }
