/*
 * launch.c - a launcher of some lines: starts a process for each GPU, with its NIC, CPUs and variables.
 *
 *     cc -o launch launch.c $(pkg-config --cflags --libs nic-placement-core)
 *     ./launch 8 ./train                         on this node
 *     ./launch --machine dgx-h100 8 env          as if it were that one: binds nothing
 *
 * It asks before it forks, since the child of a threaded process may call very little.
 */
#define _GNU_SOURCE
#include <nic_placement.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A call of the library's; ends the program with the library's own words if there is no answer. */
static char *ask(int (*call)(const char *, size_t, char **), const char *request)
{
    char *answer = NULL;
    int status = call(request, strlen(request), &answer);
    if (status == NIC_PLACEMENT_OK)
        return answer;
    fprintf(stderr, "launch: %s (%d)\n", answer ? answer : "no answer", status);
    nic_placement_free(answer);
    exit(1);
}

/* The value of a line `name=value`, which is cut out of the text; NULL where there is none. */
static char *value_of(char *lines, const char *name)
{
    size_t length = strlen(name);
    for (char *line = lines; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, name, length) && line[length] == '=')
            return strndup(line + length + 1, strcspn(line + length + 1, "\n"));
    return NULL;
}

/* Binds the calling process to a list such as `0-55,112-167`. */
static void bind_to(const char *list)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    while (*list) {
        char *end;
        unsigned long from = strtoul(list, &end, 10), to = from;
        if (*end == '-')
            to = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = from; cpu <= to && cpu < CPU_SETSIZE; cpu++)
            CPU_SET(cpu, &set);
        list = *end ? end + 1 : end;
    }
    if (sched_setaffinity(0, sizeof set, &set))
        perror("launch: sched_setaffinity");
}

/* Sets `NAME=VALUE`, takes away `NAME`. */
static void change_environment(char *lines)
{
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n")) {
        char *value = strchr(line, '=');
        if (value) {
            *value++ = '\0';
            setenv(line, value, 1);
        } else {
            unsetenv(line);
        }
    }
}

static void start(const char *node, int processes, int number, char **command)
{
    char request[512];
    snprintf(request, sizeof request,
             "{\"format\": \"nic-placement request\", \"version\": 1, %s"
             "\"tasks\": %d, \"gpus_per_task\": 1, \"task\": %d, \"as\": \"lines\"}",
             node, processes, number);
    char *placement = ask(nic_placement_task, request);
    char *environment = ask(nic_placement_render, request);
    char *gpus = value_of(placement, "gpus"), *nics = value_of(placement, "nics");
    char *cpus = value_of(placement, "cpus");
    fprintf(stderr, "process %d: GPU %s, NIC %s, CPUs %s\n", number, gpus, nics, cpus);
    if (fork() == 0) {
        setenv("CUDA_VISIBLE_DEVICES", gpus, 1);
        change_environment(environment);
        if (!*node && cpus && *cpus)
            bind_to(cpus);
        execvp(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    free(gpus);
    free(nics);
    free(cpus);
    nic_placement_free(placement);
    nic_placement_free(environment);
    /* one after another, so that what they print does not mix; a real launcher waits for all at the end */
    int status;
    wait(&status);
}

int main(int argc, char **argv)
{
    char node[128] = "";
    int at = 1;
    if (argc > 2 && !strcmp(argv[1], "--machine")) {
        snprintf(node, sizeof node, "\"node\": {\"machine\": \"%s\"}, ", argv[2]);
        at = 3;
    }
    int processes = argc > at ? atoi(argv[at]) : 0;
    if (processes < 1 || argc <= at + 1) {
        fprintf(stderr, "usage: %s [--machine NAME] PROCESSES COMMAND...\n", argv[0]);
        return 2;
    }
    for (int number = 0; number < processes; number++)
        start(node, processes, number, argv + at + 1);
    return 0;
}
