/* The program of a task in the aarch64 guest: touches 8 MiB, and prints its binding in one line, with the words of
 * tests/vm_slurm/task.rs.  In C, since a cross compiler of it is all that the test needs.
 *
 *   task [until=FILE]      ends only when that file is there
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const variables[] = {
	"SLURM_JOB_ID", "SLURM_PROCID", "SLURM_LOCALID", "CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS",
	"UCX_NET_DEVICES", "NCCL_IB_HCA", "NIC_PLACEMENT", "OMP_NUM_THREADS",
};

/* The first word of a field of this process's status, see proc(5). */
static void status(const char *name, const char *field)
{
	char line[4096], value[4096] = "";
	FILE *file = fopen("/proc/self/status", "r");
	size_t length = strlen(field);

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, field, length) && line[length] == ':')
			sscanf(line + length + 1, "%4095s", value);
	printf("%s=%s\t", name, value);
}

/* The policy of the memory at this address and where its pages are, as numa(7) describes it: "7f40 prefer (many):1 anon=2049
 * dirty=2049 N1=2049 kernelpagesize_kB=4" */
static void placed(void *address)
{
	char line[4096], kept[4096] = "";
	FILE *file = fopen("/proc/self/numa_maps", "r");
	const char *many = "prefer (many)", *comma = "";
	char *word;

	while (file && fgets(line, sizeof(line), file) && strtoul(line, NULL, 16) <= (unsigned long)address)
		strcpy(kept, line);
	word = strchr(kept, ' ') + 1;
	if (!strncmp(word, many, strlen(many))) {
		printf("policy=preferred-many");
		word += strlen(many);
	} else {
		printf("policy=");
	}
	word = strtok(word, " \n");
	printf("%s\tpages=", word);
	while ((word = strtok(NULL, " \n"))) {
		unsigned node, pages;

		if (sscanf(word, "N%u=%u", &node, &pages) == 2) {
			printf("%s%u:%u", comma, node, pages);
			comma = ",";
		} else if (!strncmp(word, "kernelpagesize_kB=", 18)) {
			printf("\tpage=%s", word + 18);
		}
	}
	printf("\t");
}

int main(int count, char **arguments)
{
	const size_t size = 8 << 20;
	char path[64], cgroup[4096] = "", *memory = aligned_alloc(1 << 20, size);
	const char *comma = "";
	FILE *file;
	unsigned i;

	/* writing allocates the pages */
	memset(memory, 1, size);
	status("cpus", "Cpus_allowed_list");
	status("mems", "Mems_allowed_list");
	placed(memory);
	/* the N of each /dev/nvidiaN that open(2) is allowed to open: it has no driver, so an allowed open gives ENXIO */
	printf("open=");
	for (i = 0; i < 16; i++) {
		snprintf(path, sizeof(path), "/dev/nvidia%u", i);
		if (open(path, O_RDWR) >= 0 || errno == ENXIO) {
			printf("%s%u", comma, i);
			comma = ",";
		}
	}
	file = fopen("/proc/self/cgroup", "r");
	if (file && fgets(cgroup, sizeof(cgroup), file))
		cgroup[strcspn(cgroup, "\n")] = 0;
	printf("\tcgroup=%s", cgroup);
	for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);

		printf("\t%s=%s", variables[i], value ? value : "-");
	}
	printf("\n");
	fflush(stdout);
	if (count > 1 && !strncmp(arguments[1], "until=", 6))
		while (access(arguments[1] + 6, F_OK))
			usleep(100000);
	return 0;
}
