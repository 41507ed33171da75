/*
 * The /sys and /dev of a machine that is not there, and what the kernel says of its GPUs and routes: with --root TREE the C
 * library's functions look for these below TREE, so that the plugin reads a live node.  With --network TREE only what the
 * kernel says of interfaces and routes is played.  With --site TREE the admin's file and switch in /etc and the node's
 * name are those below TREE.  With --tell-files 1 each file that is opened in such a place is told, with 2 every file.
 */
static struct {
	const char *tree;
	const char *network;
	const char *site;
	int tells;
} files;

static void say(const char *format, ...);

/* The path that stands for this one; the same where it is played by nobody. */
static const char *played(const char *path, char *place, size_t size)
{
	static const char *const tops[] = { "/sys/", "/proc/driver/", "/proc/net/" };
	if (path && files.tree && !strcmp(path, "/dev")) {
		snprintf(place, size, "%s/dev", files.tree);
		return place;
	}
	for (size_t i = 0; path && files.tree && i < sizeof tops / sizeof *tops; i++)
		if (!strncmp(path, tops[i], strlen(tops[i]))) {
			snprintf(place, size, "%s%s", files.tree, path);
			return place;
		}
	static const char *const sites[] = { "/etc/nic-placement.", "/proc/sys/kernel/hostname" };
	for (size_t i = 0; path && files.site && i < sizeof sites / sizeof *sites; i++)
		if (!strncmp(path, sites[i], strlen(sites[i]))) {
			snprintf(place, size, "%s%s", files.site, path);
			return place;
		}
	static const char *const nets[] = { "/proc/net/", "/sys/class/net/" };
	for (size_t i = 0; path && !files.tree && files.network && i < sizeof nets / sizeof *nets; i++)
		if (!strncmp(path, nets[i], strlen(nets[i]))) {
			snprintf(place, size, "%s%s", files.network, path);
			return place;
		}
	return path;
}
#define REAL(name) static typeof(&name) real; if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

static mode_t mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}
#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		REAL(name); \
		char place[4352]; \
		va_list ap; \
		va_start(ap, flags); \
		mode_t mode = mode_of(flags, ap); \
		va_end(ap); \
		const char *opened = played(path, place, sizeof place); \
		if (files.tells > (opened == path)) \
			say("opened %s", path); \
		return real(opened, flags, mode); \
	}
OPEN(open)
OPEN(open64)

DIR *opendir(const char *path)
{
	REAL(opendir);
	char place[4352];
	return real(played(path, place, sizeof place));
}

ssize_t readlink(const char *path, char *buffer, size_t size)
{
	REAL(readlink);
	char place[4352];
	return real(played(path, place, sizeof place), buffer, size);
}

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *facts)
{
	REAL(statx);
	char place[4352];
	return real(folder, played(path, place, sizeof place), flags, mask, facts);
}
