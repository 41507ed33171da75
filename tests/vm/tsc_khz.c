// Prints how often this machine's time stamp counter counts in a millisecond.  The guests' counts as often, since qemu answers
// with it (cpu_get_host_ticks).  Taken over 50 ms; at each end the shortest of 1000 looks counts, which was not held up.

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

// The counter, and the clock at the same time.
static void look(int64_t *count, int64_t *ns)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 1000; i++) {
        int64_t before = now(), counted = (int64_t)__rdtsc(), took = now() - before;
        if (took < least) {
            least = took;
            *count = counted;
            *ns = before + took / 2;
        }
    }
}

int main(void)
{
    int64_t count[2], ns[2];
    look(&count[0], &ns[0]);
    usleep(50000);
    look(&count[1], &ns[1]);
    printf("%ld\n", (long)((count[1] - count[0]) * 1000000 / (ns[1] - ns[0])));
}
