/* What Slurm offers to a plugin, played: log functions, items, environment and options.  A part of spank_host.c. */

/* Slurm's headers are not needed: its numbers and shapes are repeated here, where a test can be built anywhere. */
enum { OK = 0, ERROR = 3000, BAD_ARG, NOT_TASK, ENV_EXISTS, ENV_NOEXIST, NOSPACE, NOT_REMOTE };
enum context { CTX_ERROR, CTX_LOCAL, CTX_REMOTE, CTX_ALLOCATOR, CTX_SLURMD };
enum item { JOB_UID, JOB_GID, JOB_ID, JOB_STEPID, JOB_NNODES, JOB_NODEID, JOB_LOCAL_TASK_COUNT, JOB_TOTAL_TASK_COUNT,
	JOB_NCPUS, JOB_ARGV, JOB_ENV, TASK_ID, TASK_GLOBAL_ID, TASK_PID = 14, STEP_CPUS_PER_TASK = 24,
	JOB_ALLOC_CORES = 25, STEP_ALLOC_CORES = 27 };
enum hook { DLOPEN, INIT, INIT_POST_OPT, TASK_INIT, HOOKS };
static const char *const hook_names[HOOKS] = { "dlopen", "init", "init_post_opt", "task_init" };

struct spank_option {
	char *name, *arginfo, *usage;
	int has_arg, val;
	int (*cb)(int val, const char *optarg, int remote);
};
struct spank_handle { unsigned magic; int task; };
typedef int spank_f(struct spank_handle *, int, char **);

enum { MAGIC = 0x00a5a500, MAX_WORDS = 1024, MAX_ENV = 16384, MAX_LINE = 4096, MAX_FDS = 256 };
static const char *plugin_file;
static enum context context = CTX_REMOTE;
static uint32_t api_version = 38, job_id = 1, step_id, node_id, nnodes = 1, local_tasks, uid = -1, repetitions = 1,
	cpus_per_task, step_cpus;
static char *step_cores = "";
/* Slurm's names for what sbatch and salloc leave: for the command that comes next, and for the node */
#define LEFT_FOR_NODES "_SLURM_SPANK_OPTION_nic_placement_nic_placement"
#define LEFT_FOR_COMMANDS "SLURM_SPANK_" LEFT_FOR_NODES
static struct words { char *word[MAX_WORDS]; int count; } args, option_values, tasks;
static char *step_env[MAX_ENV + 1], *program[] = { "./train", NULL, NULL };
static bool timing, open_before[MAX_FDS];
static int samples_pipe[2];
static struct spank_option registered;
static bool in_init;
static struct spank_handle handle = { MAGIC, -1 };
static char when[32] = "load";

static void say(const char *format, ...)
{
	if (timing)
		return;
	va_list ap;
	va_start(ap, format);
	printf("%s: ", when);
	vprintf(format, ap);
	putchar('\n');
	va_end(ap);
}

/* ---- what the plugin imports: logging ---------------------------------------------------------------------------- */

/* Would this byte of UTF-8 begin a character that ends a line, moves a cursor or turns the writing direction? */
static bool disturbs(const unsigned char *c)
{
	return *c < 0x20 || *c == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xd8 && c[1] == 0x9c) ||
		(c[0] == 0xe2 && ((c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) ||
				  (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9)));
}
static void log_line(const char *level, const char *format, va_list ap)
{
	static char text[1 << 20];
	/* Slurm expands conversions of its own (%p[J]) in the format, so that a message must never be one */
	if (strcmp(format, "%s"))
		say("host: a log call's format is `%s`, not `%%s`", format);
	vsnprintf(text, sizeof text, format, ap);
	if (strlen(text) > MAX_LINE)
		say("host: a log line of %zu bytes", strlen(text));
	for (char *c = text; *c; c++)
		if (disturbs((unsigned char *)c)) {
			say("host: a log line with the control byte 0x%02x", (unsigned char)*c);
			*c = '?';
		}
	say("%s: %s", level, text);
}
/* Slurm's numbers (src/common/log.h, log_level_t) */
static uint32_t log_level = 9;
int slurm_get_log_level(void) { return log_level; }
#define LOG_FUNCTION(function, number, level) \
	void function(const char *format, ...) \
	{ \
		if (number > log_level) { \
			say("dropped: %s", level); \
			return; \
		} \
		va_list ap; va_start(ap, format); log_line(level, format, ap); va_end(ap); \
	}
LOG_FUNCTION(slurm_error, 2, "error")
LOG_FUNCTION(slurm_info, 3, "info")
LOG_FUNCTION(slurm_verbose, 4, "verbose")
LOG_FUNCTION(slurm_debug, 5, "debug")
LOG_FUNCTION(slurm_debug2, 6, "debug2")
LOG_FUNCTION(slurm_debug3, 7, "debug3")
/* goes to the user whatever the level */
LOG_FUNCTION(slurm_spank_log, 1, "log")

/* ---- what the plugin imports: the step --------------------------------------------------------------------------- */

long slurm_api_version(void) { return (long)api_version << 16; }
int spank_context(void) { return context; }
const char *spank_strerror(int error)
{
	static char text[32];
	snprintf(text, sizeof text, "spank error %d", error);
	return text;
}
int spank_option_register(struct spank_handle *spank, struct spank_option *option)
{
	if (!spank || spank->magic != MAGIC || !in_init || !option || !option->name || !option->usage) {
		say("host: bad call of spank_option_register");
		return BAD_ARG;
	}
	registered = (struct spank_option){ .val = option->val, .cb = option->cb };
	say("register %s has_arg %d arginfo %s", option->name, option->has_arg, option->arginfo ? option->arginfo : "none");
	return OK;
}

/* The slot of a variable, or that of the list's end. */
static char **env_slot(const char *name)
{
	size_t length = strcspn(name, "=");
	char **slot = step_env;
	while (*slot && (strncmp(*slot, name, length) || (*slot)[length] != '='))
		slot++;
	return slot;
}
static void env_put(const char *assignment)
{
	char **slot = env_slot(assignment);
	if (!strchr(assignment, '=') || slot == step_env + MAX_ENV)
		errx(2, "bad or one too many variable: `%s`", assignment);
	char *before = *slot;
	*slot = strdup(assignment);
	free(before);
}
static void env_remove(const char *name)
{
	char **slot = env_slot(name);
	free(*slot);
	for (; *slot; slot++)
		slot[0] = slot[1];
}

static int env_access(struct spank_handle *spank)
{
	return !spank || spank->magic != MAGIC ? BAD_ARG : context != CTX_REMOTE ? NOT_REMOTE : OK;
}
int spank_getenv(struct spank_handle *spank, const char *name, char *buffer, int size)
{
	int rc = env_access(spank);
	if (rc != OK || size < 0 || !name)
		return rc != OK ? rc : BAD_ARG;
	char **slot = env_slot(name);
	if (!*slot)
		return ENV_NOEXIST;
	return snprintf(buffer, size, "%s", strchr(*slot, '=') + 1) >= size ? NOSPACE : OK;
}
int spank_setenv(struct spank_handle *spank, const char *name, const char *value, int overwrite)
{
	int rc = env_access(spank);
	if (rc == OK && (!name || !value || strchr(name, '=')))
		rc = BAD_ARG;
	else if (rc == OK && *env_slot(name) && !overwrite)
		rc = ENV_EXISTS;
	say("setenv %s=%s overwrite %d rc %d", name ? name : "NULL", value ? value : "NULL", overwrite, rc);
	char *assignment;
	if (rc == OK && !is_deaf(name) && asprintf(&assignment, "%s=%s", name, value) > 0) {
		env_put(assignment);
		free(assignment);
	}
	return rc;
}
int spank_unsetenv(struct spank_handle *spank, const char *name)
{
	int rc = env_access(spank);
	if (rc == OK && !name)
		rc = BAD_ARG;
	say("unsetenv %s rc %d", name ? name : "NULL", rc);
	if (rc == OK)
		env_remove(name);
	return rc;
}

int spank_get_item(struct spank_handle *spank, int item, ...)
{
	int rc = env_access(spank);
	if (rc != OK)
		return rc;
	va_list ap;
	va_start(ap, item);
	void *out = va_arg(ap, void *);
	void *more = item == JOB_ARGV ? va_arg(ap, void *) : NULL;
	va_end(ap);
	bool in_task = spank->task >= 0;
	switch (item) {
	case JOB_UID: *(uid_t *)out = uid == -1u ? getuid() : uid; break;
	case JOB_GID: *(gid_t *)out = getgid(); break;
	case JOB_ID: *(uint32_t *)out = job_id; break;
	case JOB_STEPID: *(uint32_t *)out = step_id; break;
	case JOB_NNODES: *(uint32_t *)out = nnodes; break;
	case JOB_NODEID: *(uint32_t *)out = node_id; break;
	case JOB_LOCAL_TASK_COUNT: *(uint32_t *)out = local_tasks; break;
	case JOB_TOTAL_TASK_COUNT: *(uint32_t *)out = local_tasks * nnodes; break;
	case JOB_NCPUS: *(uint16_t *)out = step_cpus; break;
	case JOB_ALLOC_CORES:
	case STEP_ALLOC_CORES: *(char **)out = step_cores; break;
	case STEP_CPUS_PER_TASK: {
		/* what srun took from its command line, or from this variable: it passes both on */
		char **set = env_slot("SLURM_CPUS_PER_TASK");
		*(uint32_t *)out = cpus_per_task ? cpus_per_task : *set ? strtoul(strchr(*set, '=') + 1, NULL, 10) : 1;
		break;
	}
	case JOB_ARGV: *(int *)out = program[1] ? 2 : 1, *(char ***)more = program; break;
	case JOB_ENV: *(char ***)out = step_env; break;
	case TASK_ID: *(int *)out = spank->task; return in_task ? OK : NOT_TASK;
	case TASK_GLOBAL_ID: *(uint32_t *)out = node_id * local_tasks + spank->task; return in_task ? OK : NOT_TASK;
	case TASK_PID: *(pid_t *)out = getpid(); return in_task ? OK : NOT_TASK;
	default: say("host: item %d is not played here", item); return BAD_ARG;
	}
	return OK;
}
