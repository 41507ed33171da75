/*
 * threads.c - every call of the library's from many threads at once: each answer is the one that a single thread got.
 *
 *     threads THREADS ROUNDS REQUEST...
 *
 * Also plays what a careless caller does: NULL for each pointer, lengths that are none.
 */
#include <nic_placement.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*call_t)(const char *, size_t, char **);
static const call_t CALLS[] = { nic_placement_plan, nic_placement_map, nic_placement_task, nic_placement_render,
                                nic_placement_process };
enum { N_CALLS = sizeof CALLS / sizeof *CALLS, MAX_REQUESTS = 16 };

static char **requests;
static int n_requests, rounds;
static int expected_status[MAX_REQUESTS][N_CALLS];
static char *expected[MAX_REQUESTS][N_CALLS];

static void fail(const char *what)
{
    fprintf(stderr, "threads: %s\n", what);
    exit(1);
}

static void *work(void *unused)
{
    (void)unused;
    for (int round = 0; round < rounds; round++)
        for (int r = 0; r < n_requests; r++)
            for (int c = 0; c < N_CALLS; c++) {
                char *answer = NULL;
                int status = CALLS[c](requests[r], strlen(requests[r]), &answer);
                if (status != expected_status[r][c] || !answer || strcmp(answer, expected[r][c]))
                    fail("another answer than before");
                nic_placement_free(answer);
            }
    return NULL;
}

static void careless(void)
{
    nic_placement_free(NULL);
    for (int c = 0; c < N_CALLS; c++) {
        char *answer = (char *)(intptr_t)1;
        if (CALLS[c](NULL, 17, &answer) != NIC_PLACEMENT_BAD_ARGUMENT || !strstr(answer, "NULL"))
            fail("a request that is NULL");
        nic_placement_free(answer);
        if (CALLS[c]("{}", 2, NULL) != NIC_PLACEMENT_BAD_ARGUMENT)
            fail("an answer that is NULL");
        answer = NULL;
        if (CALLS[c]("{}", SIZE_MAX, &answer) != NIC_PLACEMENT_BAD_ARGUMENT || !strstr(answer, "at most"))
            fail("a length that is none");
        nic_placement_free(answer);
        answer = NULL;
        if (CALLS[c]("", 0, &answer) != NIC_PLACEMENT_BAD_REQUEST)
            fail("an empty request");
        nic_placement_free(answer);
        answer = NULL;
        /* cut off: the bytes behind the length do not count */
        if (CALLS[c]("{}}", 2, &answer) != NIC_PLACEMENT_BAD_REQUEST || !strstr(answer, "nic-placement request"))
            fail("a request without a format");
        nic_placement_free(answer);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc - 3 > MAX_REQUESTS)
        return 2;
    int n_threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    requests = argv + 3;
    n_requests = argc - 3;
    careless();
    for (int r = 0; r < n_requests; r++)
        for (int c = 0; c < N_CALLS; c++)
            expected_status[r][c] = CALLS[c](requests[r], strlen(requests[r]), &expected[r][c]);
    pthread_t *threads = calloc((size_t)n_threads, sizeof *threads);
    for (int t = 0; t < n_threads; t++)
        if (pthread_create(&threads[t], NULL, work, NULL))
            fail("no thread");
    for (int t = 0; t < n_threads; t++)
        pthread_join(threads[t], NULL);
    free(threads);
    for (int r = 0; r < n_requests; r++)
        for (int c = 0; c < N_CALLS; c++) {
            printf("%d", expected_status[r][c]);
            nic_placement_free(expected[r][c]);
        }
    printf(" %s\n", nic_placement_version());
    return 0;
}
