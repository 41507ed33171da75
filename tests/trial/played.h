/* What the played libraries of tests/trial.rs share.  PLAYED_FAIL=FUNCTION makes that function answer 999, or PLAYED_NUMBER. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int answer(const char *function)
{
    const char *fails = getenv("PLAYED_FAIL");
    const char *number = getenv("PLAYED_NUMBER");
    return fails && !strcmp(fails, function) ? number ? atoi(number) : 999 : 0;
}

#define ANSWER                                                                                                               \
    do {                                                                                                                     \
        int number = answer(__func__);                                                                                       \
        if (number)                                                                                                          \
            return number;                                                                                                   \
    } while (0)
