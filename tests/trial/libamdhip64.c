/* A played libamdhip64.so.6 with two GPUs. */
#include "played.h"

int hipInit(unsigned flags)
{
    ANSWER;
    return flags;
}

int hipDriverGetVersion(int *version)
{
    ANSWER;
    *version = 60342134;
    return 0;
}

int hipGetDeviceCount(int *found)
{
    ANSWER;
    *found = 2;
    return 0;
}

int hipDeviceGetPCIBusId(char *text, int room, int ordinal)
{
    ANSWER;
    snprintf(text, room, "0000:%02x:00.0", 0x1b + 0x10 * ordinal);
    return 0;
}
