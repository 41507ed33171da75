/*
 * report: a task that prints one line about itself, as `name=value` words with tabs between them:
 *
 *     rank  node  local  cpus  mem  open  and each environment variable that an argument names ("-" where it is unset)
 *
 * `mem` is the memory policy, like `preferred:0`, and `open` lists the /dev/nvidiaN that it could really open: those
 * whose open() is not forbidden (EPERM).
 *
 * Linked with fakecpu.so, so that CPUs and policy are those of the machine that the node plays.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static char line[8192];
static size_t used;

#define say(...) (used += (size_t)snprintf(line + used, used < sizeof line ? sizeof line - used : 0, __VA_ARGS__))

static const char *env(const char *name)
{
	const char *value = getenv(name);
	return value ? value : "-";
}

/* `0-3,8`, of bits that `has` tells */
static void say_list(int (*has)(int), int count)
{
	const char *comma = "";
	for (int i = 0; i < count; i++) {
		int first = i;
		if (!has(i))
			continue;
		while (i + 1 < count && has(i + 1))
			i++;
		if (first == i)
			say("%s%d", comma, i);
		else
			say("%s%d-%d", comma, first, i);
		comma = ",";
	}
	if (!*comma)
		say("-");
}

static cpu_set_t cpus;
static unsigned long nodes[16];

static int has_cpu(int cpu)
{
	return CPU_ISSET(cpu, &cpus);
}

static int has_node(int node)
{
	return nodes[node / 64] >> node % 64 & 1;
}

static int may_open(int gpu)
{
	char path[32];
	snprintf(path, sizeof path, "/dev/nvidia%d", gpu);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	/* no driver stands behind the device: ENXIO is what an allowed open gives */
	return fd >= 0 || errno == ENXIO;
}

int main(int argc, char **argv)
{
	static const char *const modes[] = { "default", "preferred", "bind", "interleave", "local", "preferred-many" };
	int mode = 0;

	say("rank=%s\tnode=%s\tlocal=%s\tcpus=", env("SLURM_PROCID"), env("SLURMD_NODENAME"), env("SLURM_LOCALID"));
	if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
		say_list(has_cpu, CPU_SETSIZE);
	say("\tmem=");
	if (syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, NULL, 0) == 0) {
		mode &= 7; /* without the mode flags */
		say("%s", mode < 6 ? modes[mode] : "?");
		if (nodes[0]) {
			say(":");
			say_list(has_node, 64);
		}
	}
	say("\topen=");
	say_list(may_open, 16);
	for (int arg = 1; arg < argc; arg++)
		say("\t%s=%s", argv[arg], env(argv[arg]));
	say("\n");
	if (used >= sizeof line)
		return 1;
	/* one write, so that the lines of several tasks never mix */
	return write(1, line, used) == (ssize_t)used ? 0 : 1;
}
