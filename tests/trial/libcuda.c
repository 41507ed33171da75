/* A played libcuda.so.1: two GPUs, whose memory is the host's.  PLAYED_ORDER=reversed is another CUDA_DEVICE_ORDER,
   PLAYED_COUNT=N shows N GPUs, PLAYED_NO_END=1 writes a name without NUL, PLAYED_NOISE=1 writes to stdout; -DOLD is one of
   before CUDA 11.4. */
#include "played.h"

static int is_set(const char *name)
{
    return getenv(name) != NULL;
}

static int count(void)
{
    return is_set("PLAYED_COUNT") ? atoi(getenv("PLAYED_COUNT")) : 2;
}

int cuInit(unsigned flags)
{
    if (is_set("PLAYED_NOISE"))
        printf("libcuda says hello\n");
    ANSWER;
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
    snprintf(text, room, "00000000:%02X:00.0", 0x1b + 0x10 * device & 0xff);
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
