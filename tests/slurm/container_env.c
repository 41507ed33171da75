/*
 * container_env: does to the tasks' environment what pyxis does, and nothing else.
 *
 * In task_init the first task of a node starts the container, with its own environment; then each task takes over the
 * container's variables, whatever it had before.  Here the container has those variables that are named in plugstack.conf.
 *
 *     optional spank_pyxis.so DIRECTORY NAME…
 *
 * DIRECTORY holds what the first task left, one file for each step and node.  -DRELEASE=0x160500 is Slurm's stamp.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* of slurm/spank.h, so that no header of one release is needed */
enum { S_JOB_ID = 1, S_JOB_STEPID = 2, S_JOB_NODEID = 4 };
extern int spank_get_item(void *spank, int item, ...);
extern int spank_getenv(void *spank, const char *name, char *value, int size);
extern int spank_setenv(void *spank, const char *name, const char *value, int overwrite);

const char plugin_name[] = "container_env";
const char plugin_type[] = "spank";
const unsigned int plugin_version = RELEASE;

/* what the first task has, as lines `NAME=value`; complete once it has its final name */
static void leave(void *spank, int count, char **names, const char *file)
{
	char part[4096], value[4096];
	FILE *out;

	snprintf(part, sizeof part, "%s.part", file);
	out = fopen(part, "w");
	if (!out)
		return;
	for (int i = 0; i < count; i++)
		if (spank_getenv(spank, names[i], value, sizeof value) == 0)
			fprintf(out, "%s=%s\n", names[i], value);
	fclose(out);
	rename(part, file);
}

int slurm_spank_task_init(void *spank, int count, char **arguments)
{
	uint32_t job = 0, step = 0, node = 0;
	char file[4000], first[4096], line[8192];
	FILE *in = NULL;
	int lock;

	if (count < 1)
		return -1;
	spank_get_item(spank, S_JOB_ID, &job);
	spank_get_item(spank, S_JOB_STEPID, &step);
	spank_get_item(spank, S_JOB_NODEID, &node);
	snprintf(file, sizeof file, "%s/%u.%u.%u", arguments[0], job, step, node);
	snprintf(first, sizeof first, "%s.first", file);
	lock = open(first, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (lock >= 0) {
		close(lock);
		leave(spank, count - 1, arguments + 1, file);
	}
	for (int tries = 0; tries < 500 && !(in = fopen(file, "r")); tries++)
		usleep(10000);
	if (!in)
		return -1;
	while (fgets(line, sizeof line, in)) {
		char *value = strchr(line, '=');
		line[strcspn(line, "\n")] = 0;
		*value++ = 0;
		spank_setenv(spank, line, value, 1);
	}
	fclose(in);
	return 0;
}
