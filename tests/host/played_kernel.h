/*
 * CPU affinity and memory policy of a machine that is not there, played in place of the C library's functions: the plugin
 * calls these, because the program's own symbols come before the library's.  Without --played-cpus the real ones answer.
 *
 * A "deaf" call answers that all went well and changes nothing, as the kernel does with nodes that have no memory.
 */
static struct {
	bool on, old;
	unsigned char cpus[1024];
	unsigned long mems, allowed;
	int mode;
	const char *deaf[8];
	int deaf_count;
} kernel = { .allowed = ~0ul };

static bool is_deaf(const char *call)
{
	for (int i = 0; i < kernel.deaf_count; i++)
		if (!strcmp(kernel.deaf[i], call))
			return true;
	return false;
}

static long real_syscall(long number, long a, long b, long c, long d, long e)
{
	static long (*real)(long, ...);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	return real(number, a, b, c, d, e);
}

int sched_getaffinity(pid_t pid, size_t length, cpu_set_t *set)
{
	memset(set, 0, length);
	if (!kernel.on)
		return real_syscall(SYS_sched_getaffinity, pid, length, (long)set, 0, 0) < 0 ? -1 : 0;
	memcpy(set, kernel.cpus, length < sizeof kernel.cpus ? length : sizeof kernel.cpus);
	return 0;
}

int sched_setaffinity(pid_t pid, size_t length, const cpu_set_t *set)
{
	if (!kernel.on)
		return real_syscall(SYS_sched_setaffinity, pid, length, (long)set, 0, 0) < 0 ? -1 : 0;
	if (is_deaf("affinity"))
		return 0;
	memset(kernel.cpus, 0, sizeof kernel.cpus);
	memcpy(kernel.cpus, set, length < sizeof kernel.cpus ? length : sizeof kernel.cpus);
	return 0;
}

static long played_set_mempolicy(int mode, const unsigned long *nodes)
{
	enum { PREFERRED_MANY = 5 };
	unsigned long wanted = nodes ? nodes[0] & kernel.allowed : 0;
	if ((kernel.old && mode == PREFERRED_MANY) || (mode && !wanted)) {
		errno = EINVAL;
		return -1;
	}
	if (!is_deaf("memory")) {
		kernel.mode = mode;
		kernel.mems = wanted;
	}
	return 0;
}

long syscall(long number, ...)
{
	long a[5];
	va_list ap;
	va_start(ap, number);
	for (int i = 0; i < 5; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (kernel.on && number == SYS_set_mempolicy)
		return played_set_mempolicy((int)a[0], (const unsigned long *)a[1]);
	if (kernel.on && number == SYS_get_mempolicy) {
		if (a[0])
			*(int *)a[0] = kernel.mode;
		if (a[1])
			*(unsigned long *)a[1] = a[4] ? kernel.allowed : kernel.mems;
		return 0;
	}
	/* valgrind does not know openat2(2) before 3.20 and says so: a kernel that has every name in memory answers as this does */
	const char *preloaded = getenv("LD_PRELOAD");
	if (number == SYS_openat2 && preloaded && strstr(preloaded, "vgpreload"))
		return real_syscall(SYS_openat, AT_FDCWD, a[1], O_PATH | O_CLOEXEC, 0, 0);
	return real_syscall(number, a[0], a[1], a[2], a[3], a[4]);
}
