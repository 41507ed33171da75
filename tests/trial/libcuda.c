/* A played libcuda.so.1: two GPUs, whose memory is the host's.  PLAYED_ORDER=reversed is another CUDA_DEVICE_ORDER,
   PLAYED_COUNT=N shows N GPUs, PLAYED_NO_END=1 writes a name without NUL, PLAYED_NOISE=1 writes to stdout; -DOLD is one of
   before CUDA 11.4.  -DNODE is a library that shows the GPUs of a guest (tests/vm_slurm/gpus.sh) or of a played node: those whose
   device files may be opened, in the order of the bus, and of these the ones that CUDA_VISIBLE_DEVICES names, by number or UUID. */
#include "played.h"

static int is_set(const char *name)
{
    return getenv(name) != NULL;
}

#ifdef NODE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <strings.h>

struct gpu {
    char address[32], uuid[64];
};
static struct gpu visible[64];

/* A driver is behind none of the files: ENXIO, where the device cgroup lets it be opened. */
static int may_open(const char *information, struct gpu *gpu)
{
    char line[256], file[64];
    FILE *lines = fopen(information, "r");
    int minor = -1;

    memset(gpu, 0, sizeof *gpu);
    sscanf(information, "/proc/driver/nvidia/gpus/%31[^/]", gpu->address);
    while (lines && fgets(line, sizeof line, lines)) {
        sscanf(line, "Device Minor: %d", &minor);
        sscanf(line, "GPU UUID: %63s", gpu->uuid);
    }
    if (lines)
        fclose(lines);
    snprintf(file, sizeof file, "/dev/nvidia%d", minor);
    return minor >= 0 && open(file, O_RDWR) == -1 && errno == ENXIO;
}

/* The GPU that a number or the first digits of one UUID name; -1 for any other entry, at which CUDA's list ends. */
static int named(const struct gpu *gpus, int open, const char *entry, size_t length)
{
    int found = -1;

    if (length && strspn(entry, "+0123456789") >= length)
        return atoi(entry) < open ? atoi(entry) : -1;
    for (int at = 0; at < open; at++)
        if (length > 4 && !strncasecmp(entry, gpus[at].uuid, length) && !strncmp(entry, "GPU-", 4))
            found = found == -1 ? at : -2;
    return found < 0 ? -1 : found;
}

static int count(void)
{
    struct gpu allowed[64];
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    glob_t all;
    int open = 0, shown = 0;

    if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &all))
        return 0;
    for (size_t n = 0; n < all.gl_pathc && open < 64; n++)
        open += may_open(all.gl_pathv[n], &allowed[open]);
    globfree(&all);
    for (size_t length; list && shown < 64; list += length + 1) {
        const char *entry = list + strspn(list, " ");
        size_t end = strcspn(entry, " ,");
        int gpu = named(allowed, open, entry, end);

        length = strcspn(list, ",");
        if (gpu < 0)
            break;
        visible[shown++] = allowed[gpu];
        if (!list[length])
            break;
    }
    if (list == NULL)
        memcpy(visible, allowed, sizeof allowed);
    return list ? shown : open;
}
#else
static int count(void)
{
    return is_set("PLAYED_COUNT") ? atoi(getenv("PLAYED_COUNT")) : 2;
}
#endif

int cuInit(unsigned flags)
{
    if (is_set("PLAYED_NOISE"))
        printf("libcuda says hello\n");
    ANSWER;
#ifdef NODE
    /* CUDA_ERROR_NO_DEVICE */
    if (count() == 0)
        return 100;
#endif
    return flags;
}

int cuDriverGetVersion(int *version)
{
    ANSWER;
    *version = 12040;
    return 0;
}

int cuDeviceGetCount(int *found)
{
    ANSWER;
    *found = count();
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    ANSWER;
    *device = is_set("PLAYED_ORDER") ? count() - 1 - ordinal : ordinal;
    return 0;
}

int cuDeviceGetPCIBusId(char *text, int room, int device)
{
    ANSWER;
#ifdef NODE
    snprintf(text, room, "%s", visible[device].address);
#else
    snprintf(text, room, "00000000:%02X:00.0", 0x1b + 0x10 * device & 0xff);
#endif
    return 0;
}

#ifdef OLD
int cuDeviceGetUuid(unsigned char *uuid, int device)
#else
int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
#endif
{
    ANSWER;
    for (int at = 0; at < 16; at++)
        uuid[at] = at + device;
#ifdef NODE
    const char *digits = visible[device].uuid + 4;
    for (int at = 0; at < 16 && strlen(visible[device].uuid) == 40; at++, digits += 2) {
        digits += *digits == '-';
        sscanf(digits, "%2hhx", &uuid[at]);
    }
#endif
    return 0;
}

int cuDeviceGetName(char *text, int room, int device)
{
    ANSWER;
    if (is_set("PLAYED_NO_END"))
        memset(text, 'x', room);
    else
        snprintf(text, room, "played GPU %d", device);
    return 0;
}

#ifdef NODE
/* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED and _DMA_BUF_SUPPORTED; PLAYED_CLOSED=1 is one of the closed kernel modules. */
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    ANSWER;
    (void)device;
    *value = attribute == 116 || (attribute == 124 && !is_set("PLAYED_CLOSED"));
    return attribute == 116 || attribute == 124 ? 0 : 1;
}
#endif

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    ANSWER;
    *context = &answer + device;
    return 0;
}

int cuDevicePrimaryCtxRelease(int device)
{
    fprintf(stderr, "released context %d\n", device);
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    ANSWER;
    return context == NULL;
}

int cuMemAlloc_v2(unsigned long long *at, size_t bytes)
{
    ANSWER;
    *at = (unsigned long long)malloc(bytes);
    return *at == 0;
}

int cuMemFree_v2(unsigned long long at)
{
    fprintf(stderr, "freed on device\n");
    free((void *)at);
    return 0;
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    ANSWER;
    *at = malloc(bytes);
    return *at == NULL || flags;
}

int cuMemFreeHost(void *at)
{
    fprintf(stderr, "freed on host\n");
    free(at);
    return 0;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
    ANSWER;
    memcpy((void *)to, from, bytes);
    return 0;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    ANSWER;
    memcpy(to, (void *)from, bytes);
    return 0;
}
