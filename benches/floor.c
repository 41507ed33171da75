/*
 * A SPANK plugin that decides nothing: in each hook it asks the kernel and Slurm what ours asks, and sets what ours sets.
 * What it takes is the floor for any plugin with the same effect; benches/srun.sh measures it beside ours.
 *
 *   cc -shared -fPIC -DRELEASE=0x160500 -o floor.so floor.c
 *   optional floor.so /where/floor.list
 *
 * A line of the list is HOOK, an action and its argument; others are for who reads it:
 *   stat PATH   read PATH   list PATH   link PATH    of files, from the root; HOME/ is the task's home
 *   access PATH                          below /dev
 *   set NAME=VALUE                       in the task's environment
 *   environment                          all of it, once through
 *   mask   bind   memory                 asks for the CPUs; sets them as they are; asks for the memory policy
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct spank_handle *spank_t;
extern int spank_remote(spank_t spank);
extern int spank_get_item(spank_t spank, int item, ...);
extern int spank_setenv(spank_t spank, const char *name, const char *value, int overwrite);
extern int spank_getenv(spank_t spank, const char *name, char *value, int length);
enum { S_JOB_ENV = 10 }; /* slurm/spank.h, the same in all releases */

const char plugin_name[] = "floor", plugin_type[] = "spank";
const unsigned int plugin_version = RELEASE;

static char text[128 * 1024];
static char *lines[1024];
static int dev = -1;

static void read_whole(const char *path)
{
	static char content[256 * 1024];
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	fstat(fd, &status);
	while (read(fd, content, sizeof content) > 0) {
	}
	close(fd);
}

static void list(const char *path)
{
	DIR *folder = opendir(path);
	while (folder && readdir(folder)) {
	}
	if (folder)
		closedir(folder);
}

/* Kept where the compiler cannot see that nobody wants it. */
static volatile size_t length_of_all;

static void pass(spank_t spank)
{
	char **environment = NULL;
	size_t sum = 0;
	if (!spank_get_item(spank, S_JOB_ENV, &environment))
		for (; environment && *environment; environment++)
			sum += strlen(*environment);
	length_of_all = sum;
}

static void act(spank_t spank, const char *what, const char *argument)
{
	static cpu_set_t cpus[8];
	static char home[4096], path[8192];
	struct stat status;
	int mode;
	if (!strncmp(argument, "HOME/", 5)) {
		if (!*home)
			spank_getenv(spank, "HOME", home, sizeof home);
		snprintf(path, sizeof path, "%s/%s", home, argument + 5);
		argument = path;
	}
	if (!strcmp(what, "stat"))
		stat(argument, &status);
	else if (!strcmp(what, "read"))
		read_whole(argument);
	else if (!strcmp(what, "list"))
		list(argument);
	else if (!strcmp(what, "link"))
		length_of_all = (size_t)readlink(argument, path, sizeof path);
	else if (!strcmp(what, "access"))
		faccessat(dev, argument, R_OK | W_OK, AT_EACCESS);
	else if (!strcmp(what, "environment"))
		pass(spank);
	else if (!strcmp(what, "mask"))
		sched_getaffinity(0, sizeof cpus, cpus);
	else if (!strcmp(what, "bind"))
		sched_setaffinity(0, sizeof cpus, cpus);
	else if (!strcmp(what, "memory"))
		syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0);
	else if (!strcmp(what, "set")) {
		const char *value = strchr(argument, '=');
		snprintf(path, sizeof path, "%.*s", (int)(value - argument), argument);
		spank_setenv(spank, path, value + 1, 1);
	}
}

static int run(spank_t spank, const char *hook)
{
	for (char **line = lines; spank_remote(spank) == 1 && *line; line++) {
		char what[32];
		int at = 0;
		size_t length = strlen(hook);
		if (strncmp(*line, hook, length) || (*line)[length] != ' ')
			continue;
		if (sscanf(*line + length, " %31s %n", what, &at) == 1)
			act(spank, what, *line + length + at);
	}
	return 0;
}

/* The list is read here, so that no hook that is measured pays for it. */
int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	if (spank_remote(spank) != 1 || argc < 1)
		return 0;
	FILE *file = fopen(argv[0], "re");
	if (file) {
		text[fread(text, 1, sizeof text - 1, file)] = 0;
		fclose(file);
	}
	int count = 0;
	for (char *line = strtok(text, "\n"); line && count < 1023; line = strtok(NULL, "\n"))
		lines[count++] = line;
	dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv)
{
	(void)argc, (void)argv;
	return run(spank, "init_post_opt");
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
	(void)argc, (void)argv;
	return run(spank, "task_init");
}
