/* A played libnccl.so.2, which writes the file that NCCL_TOPO_DUMP_FILE names. */
#include "played.h"

typedef struct {
    char bytes[128];
} id_t128;

int ncclGetVersion(int *version)
{
    ANSWER;
    *version = 22107;
    return 0;
}

int ncclGetUniqueId(id_t128 *id)
{
    ANSWER;
    for (int at = 0; at < 128; at++)
        id->bytes[at] = at;
    return 0;
}

int ncclCommInitRank(void **communicator, int ranks, id_t128 id, int rank)
{
    ANSWER;
    printf("NCCL version 2.21.7\n");
    for (int at = 0; at < 128; at++)
        if (id.bytes[at] != at)
            return 4;
    FILE *file = fopen(getenv("NCCL_TOPO_DUMP_FILE"), "w");
    fputs("<system version=\"1\"/>\n", file);
    fclose(file);
    *communicator = communicator;
    return ranks != 1 || rank != 0;
}

int ncclCommDestroy(void *communicator)
{
    ANSWER;
    return communicator == NULL;
}
