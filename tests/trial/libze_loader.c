/* A played libze_loader.so.1: two drivers, with a GPU each.  The structs are those of ze_api.h. */
#include "played.h"
#include <stdint.h>

typedef struct {
    uint32_t domain, bus, device, function;
} address_t;

typedef struct {
    int32_t generation, width;
    int64_t bytes_per_second;
} speed_t;

typedef struct {
    int kind;
    void *next;
    address_t address;
    speed_t speed;
} properties_t;

int zeInit(uint32_t flags)
{
    ANSWER;
    return flags != 1;
}

int zeDriverGet(uint32_t *count, char **drivers)
{
    ANSWER;
    *count = 2;
    for (long at = 0; at < 2; at++)
        drivers[at] = (char *)at + 0x100;
    return 0;
}

int zeDeviceGet(char *driver, uint32_t *count, char **devices)
{
    ANSWER;
    *count = 1;
    devices[0] = driver + 0x100;
    return 0;
}

int zeDevicePciGetPropertiesExt(char *device, properties_t *found)
{
    ANSWER;
    uint32_t at = device - (char *)0x200;
    if (found->kind != 0x10008)
        return 2;
    found->address = (address_t){0, 0x1b + 0x10 * at, 0, 0};
    found->speed = (speed_t){5, 16, 64000000000};
    return 0;
}
