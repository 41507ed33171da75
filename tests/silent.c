/* Before a program's own open64: what is below the path in SILENT never answers, as a driver or NFS may. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    const char *silent = getenv("SILENT");
    if (strncmp(path, silent, strlen(silent)) == 0) for (;;) pause();
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    return real(path, flags, mode);
}
