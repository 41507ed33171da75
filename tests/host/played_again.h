/*
 * The same hooks again and again in one process, for what a call leaves behind: memory, open files.
 *
 * Slurm plays one step in a process and srun one for each component, so a leak of a few bytes shows nowhere else.
 */
#include <malloc.h>

static uint32_t times_more;

static int open_files(void)
{
	int count = 0;
	for (int fd = 0; fd < MAX_FDS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int play_again(void)
{
	int rc = play_step();
	if (rc)
		return rc;
	void *plugin = dlopen(plugin_file, RTLD_LAZY);
	size_t bytes[2] = { 0 };
	int files[2] = { 0 };
	fflush(stdout);
	int shown = dup(1), nowhere = open("/dev/null", O_WRONLY);
	if (!plugin || shown < 0 || nowhere < 0 || dup2(nowhere, 1) < 0)
		err(2, "--again");
	for (uint32_t i = 1; i <= times_more; i++) {
		in_init = true;
		call(plugin, INIT);
		in_init = false;
		for (int option = 0; context != CTX_SLURMD && option < option_values.count; option++)
			give_option(option_values.word[option]);
		if (context != CTX_SLURMD)
			call(plugin, INIT_POST_OPT);
		handle.task = 0;
		if (context == CTX_REMOTE && tasks.count)
			call(plugin, TASK_INIT);
		handle.task = -1;
		if (i == times_more / 10 || i == times_more) {
			fflush(stdout);
			bytes[i == times_more] = mallinfo2().uordblks;
			files[i == times_more] = open_files();
		}
	}
	fflush(stdout);
	dup2(shown, 1);
	printf("again memory %zu %zu descriptors %d %d\n", bytes[0], bytes[1], files[0], files[1]);
	return 0;
}
