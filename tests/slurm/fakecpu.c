/*
 * fakecpu.so: CPUs and NUMA nodes that this machine does not have, for tests.
 *
 * Preloaded into slurmd, and so inherited by slurmstepd, its plugins and the programs that link it (report.c), it
 * answers for the C library's
 *
 *     sched_setaffinity   sched_getaffinity   syscall(SYS_set_mempolicy)   syscall(SYS_get_mempolicy)
 *
 * as the kernel of the machine in /sys would: the CPUs and nodes are those of /sys/devices/system/node/node<N>/cpulist.
 * Each process has a CPU mask and a memory policy; a child starts with its parent's, exec keeps them, and the mask of
 * another process can be set by its pid, which is how slurmstepd binds a task.
 *
 * The state is one sparse file, STATE: a page with a lock, then a record for each pid.  A record carries the start time
 * of its process, so the record of an earlier process with the same pid is never taken for this one's.  Each process has
 * its own record mapped, so that what it asks of itself takes about as long as it does without us.
 *
 * What it leaves out: masks are per process, not per thread; raw system calls and /proc/PID/status tell of the real
 * machine; nothing is really bound.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef STATE
#define STATE "/tmp/fakecpu.state"
#endif
/* PID_MAX_LIMIT of the kernel */
enum { MAX_CPUS = 1024, MAX_NODES = 64, RECORD = 256, PAGE = 4096, MOST_PIDS = 4 << 20 };

/* of <linux/mempolicy.h> */
enum { MPOL_DEFAULT, MPOL_PREFERRED, MPOL_BIND, MPOL_INTERLEAVE, MPOL_LOCAL, MPOL_PREFERRED_MANY, MPOL_KINDS };
enum { MPOL_MODE_FLAGS = 7 << 13, MPOL_F_MEMS_ALLOWED = 1 << 2 };

struct binding {
	unsigned char cpus[MAX_CPUS / 8];
	unsigned long mem_nodes;
	int mem_mode;
};

struct record {
	unsigned long long born; /* of the process that the record belongs to */
	struct binding binding;
};
_Static_assert(sizeof(struct record) <= RECORD, "a record must fit its slot");

/* ---- the machine ---- */

static struct binding whole_machine;
static unsigned long all_nodes;

static void read_machine(void)
{
	for (int node = 0; node < MAX_NODES; node++) {
		char path[64], list[1024];
		snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		ssize_t length = read(fd, list, sizeof list - 1);
		close(fd);
		all_nodes |= 1ul << node;
		list[length > 0 ? length : 0] = 0;
		for (char *at = list; *at >= '0' && *at <= '9';) {
			long first = strtol(at, &at, 10), last = first;
			if (*at == '-')
				last = strtol(at + 1, &at, 10);
			for (long cpu = first; cpu <= last && cpu < MAX_CPUS; cpu++)
				whole_machine.cpus[cpu / 8] |= 1u << cpu % 8;
			if (*at == ',')
				at++;
		}
	}
}

static size_t mask_bytes(void)
{
	size_t bytes = MAX_CPUS / 8;
	while (bytes > 1 && !whole_machine.cpus[bytes - 1])
		bytes--;
	return (bytes + 7) / 8 * 8; /* the kernel counts in longs */
}

/* ---- the state ---- */

/* parent and start time of a process, from /proc/PID/stat */
static int identify(pid_t pid, pid_t *parent, unsigned long long *born)
{
	char path[40], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t length = read(fd, text, sizeof text - 1);
	close(fd);
	text[length > 0 ? length : 0] = 0;
	/* the name of the command, in parentheses, may hold anything: count the fields behind it */
	char *fields = strrchr(text, ')');
	return fields && sscanf(fields + 1, " %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
				parent, born) == 2;
}

/* Its first page, mapped: the lock of all records.  Whoever dies with it leaves it to the next. */
static pthread_mutex_t *lock;

/* No descriptor stays open: slurmd and slurmstepd close those that they do not know. */
static int map_lock(void)
{
	pthread_mutexattr_t kind;
	struct stat status;
	int state = open(STATE, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (state < 0)
		return 0;
	flock(state, LOCK_EX);
	int is_new = !fstat(state, &status) && status.st_size < PAGE;
	if (!is_new || !ftruncate(state, (off_t)PAGE + (off_t)MOST_PIDS * RECORD))
		lock = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, state, 0);
	lock = lock == MAP_FAILED ? NULL : lock;
	if (lock && is_new) {
		pthread_mutexattr_init(&kind);
		pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
		pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
		pthread_mutex_init(lock, &kind);
	}
	/* by name: a child forked meanwhile shares the open file, and closing our end would leave its lock behind */
	flock(state, LOCK_UN);
	close(state);
	return lock != NULL;
}

/* The machine and the lock, which are asked for before our constructor runs: libraries of slurmd look for their CPUs in
 * theirs. */
static void prepare(void)
{
	if (lock)
		return;
	read_machine();
	if (!map_lock())
		abort();
}

/* slurmstepd may bind a task at the moment at which that task inherits its parent's mask. */
static void lock_state(void)
{
	prepare();
	if (pthread_mutex_lock(lock) == EOWNERDEAD)
		pthread_mutex_consistent(lock);
}

static void unlock_state(void)
{
	pthread_mutex_unlock(lock);
}

/* This process, once it has a record: a question about itself then costs no more system calls than the real one. */
static struct {
	pid_t pid;
	void *page;
	struct record *record;
} self;

static struct record *in_page(void *page, pid_t pid)
{
	return (struct record *)((char *)page + (off_t)pid * RECORD % PAGE);
}

static void *map_page(pid_t pid)
{
	off_t at = PAGE + (off_t)pid * RECORD / PAGE * PAGE;
	int state = open(STATE, O_RDWR | O_CLOEXEC);
	void *page = state < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, state, at);
	if (state >= 0)
		close(state);
	return page == MAP_FAILED ? NULL : page;
}

static int own_record(pid_t pid, unsigned long long born, struct binding *binding)
{
	void *page = map_page(pid);
	int is_own = page && in_page(page, pid)->born == born;
	if (is_own)
		*binding = in_page(page, pid)->binding;
	if (page)
		munmap(page, PAGE);
	return is_own;
}

/* What holds for a process: its own record or that of its nearest ancestor with one. */
static struct binding look_up(pid_t pid)
{
	struct binding binding;
	pid_t parent;
	unsigned long long born;
	if (self.record && pid == self.pid)
		return self.record->binding;
	while (pid > 1 && identify(pid, &parent, &born)) {
		if (own_record(pid, born, &binding))
			return binding;
		pid = parent;
	}
	return whole_machine;
}

static void put(pid_t pid, const struct binding *binding)
{
	pid_t parent;
	unsigned long long born;
	if (self.record && pid == self.pid) {
		self.record->binding = *binding;
		return;
	}
	if (!identify(pid, &parent, &born))
		return;
	void *page = map_page(pid);
	if (!page)
		abort();
	*in_page(page, pid) = (struct record){ .born = born, .binding = *binding };
	munmap(page, PAGE);
}

static struct binding get_binding(pid_t pid)
{
	lock_state();
	struct binding binding = look_up(pid ? pid : getpid());
	unlock_state();
	return binding;
}

/* ---- fork and exec ---- */

static __thread struct binding inherited;

static void before_fork(void)
{
	inherited = get_binding(0);
}

static void give_child(const struct binding *binding)
{
	lock_state();
	struct binding own;
	pid_t parent, pid = getpid();
	unsigned long long born;
	if (self.page)
		munmap(self.page, PAGE);
	self.record = NULL;
	/* not over a mask that the parent has meanwhile set for us */
	int is_known = identify(pid, &parent, &born);
	if (is_known && !own_record(pid, born, &own))
		put(pid, binding);
	self.page = is_known ? map_page(pid) : NULL;
	self.record = self.page ? in_page(self.page, pid) : NULL;
	self.pid = pid;
	unlock_state();
}

static void in_child(void)
{
	give_child(&inherited);
}

__attribute__((constructor)) static void start(void)
{
	int error = errno;
	/* a process made by vfork or clone has run no fork handler: it takes its parent's binding here */
	struct binding binding = get_binding(0);
	give_child(&binding);
	pthread_atfork(before_fork, NULL, in_child);
	errno = error;
}

/* ---- what is faked ---- */

static int fail(int error)
{
	errno = error;
	return -1;
}

int sched_getaffinity(pid_t pid, size_t length, cpu_set_t *set)
{
	pid_t parent;
	unsigned long long born;
	if (pid && !identify(pid, &parent, &born))
		return fail(ESRCH);
	struct binding binding = get_binding(pid);
	if (length < mask_bytes())
		return fail(EINVAL);
	memset(set, 0, length);
	memcpy(set, binding.cpus, length < sizeof binding.cpus ? length : sizeof binding.cpus);
	return 0;
}

int sched_setaffinity(pid_t pid, size_t length, const cpu_set_t *set)
{
	unsigned char cpus[MAX_CPUS / 8] = { 0 };
	pid_t parent;
	unsigned long long born;
	int any = 0;
	prepare();
	memcpy(cpus, set, length < sizeof cpus ? length : sizeof cpus);
	for (size_t i = 0; i < sizeof cpus; i++)
		any |= cpus[i] &= whole_machine.cpus[i];
	if (!any)
		return fail(EINVAL);
	if (pid && !identify(pid, &parent, &born))
		return fail(ESRCH);
	lock_state();
	struct binding binding = look_up(pid ? pid : getpid());
	memcpy(binding.cpus, cpus, sizeof cpus);
	put(pid ? pid : getpid(), &binding);
	unlock_state();
	return 0;
}

/* The bits of a node mask of `length` bits; the kernel takes one bit less than it is told. */
static unsigned long node_bits(const unsigned long *nodes, unsigned long length)
{
	if (!nodes || length <= 1)
		return 0;
	return length > MAX_NODES ? nodes[0] : nodes[0] & ((1ul << (length - 1)) - 1);
}

static long set_mempolicy(int mode, const unsigned long *nodes, unsigned long length)
{
	unsigned long wanted = node_bits(nodes, length);
	int kind = mode & ~MPOL_MODE_FLAGS;
	prepare();
	if (kind < 0 || kind >= MPOL_KINDS || wanted & ~all_nodes)
		return fail(EINVAL);
	/* DEFAULT and LOCAL take no nodes, PREFERRED without nodes means LOCAL, the others need some */
	int takes_none = kind == MPOL_DEFAULT || kind == MPOL_LOCAL;
	if (takes_none ? wanted != 0 : kind != MPOL_PREFERRED && !wanted)
		return fail(EINVAL);
	lock_state();
	struct binding binding = look_up(getpid());
	binding.mem_mode = kind == MPOL_PREFERRED && !wanted ? MPOL_LOCAL : mode;
	binding.mem_nodes = wanted;
	put(getpid(), &binding);
	unlock_state();
	return 0;
}

static long get_mempolicy(int *mode, unsigned long *nodes, unsigned long length, unsigned long flags)
{
	struct binding binding = get_binding(0);
	if (nodes) {
		if (length <= (unsigned)(63 - __builtin_clzl(all_nodes | 1)))
			return fail(EINVAL);
		memset(nodes, 0, (length + 63) / 64 * 8);
		nodes[0] = flags & MPOL_F_MEMS_ALLOWED ? all_nodes : binding.mem_nodes;
	}
	if (mode)
		*mode = flags & MPOL_F_MEMS_ALLOWED ? 0 : binding.mem_mode;
	return 0;
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long a[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_set_mempolicy)
		return set_mempolicy((int)a[0], (const unsigned long *)a[1], (unsigned long)a[2]);
	/* with an address, or with any flag but this one, the question is about real memory */
	if (number == SYS_get_mempolicy && !a[3] && !(a[4] & ~MPOL_F_MEMS_ALLOWED))
		return get_mempolicy((int *)a[0], (unsigned long *)a[1], (unsigned long)a[2], (unsigned long)a[4]);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
