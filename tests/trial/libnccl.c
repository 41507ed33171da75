/* A played libnccl.so.2: a communicator is no more than a copy of the file PLAYED_GRAPH at NCCL_TOPO_DUMP_FILE. */
#include <stdio.h>
#include <stdlib.h>

int ncclGetVersion(int *version)
{
    *version = 22809;
    return 0;
}

int ncclCommInitAll(void **communicator, int count, const int *devices)
{
    FILE *from = fopen(getenv("PLAYED_GRAPH"), "r"), *to = fopen(getenv("NCCL_TOPO_DUMP_FILE"), "w");

    *communicator = NULL;
    if (!from || !to || devices[count - 1] != count - 1)
        return 2;
    for (int letter; (letter = getc(from)) != EOF;)
        putc(letter, to);
    return fclose(to);
}
