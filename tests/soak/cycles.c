/* SPDX-License-Identifier: Apache-2.0
 * cycles COUNT: create, start, exec, delete, COUNT times over in one process; run under the leak oracle, which then finds what
 * stayed. It looks itself at what grows slowly: its own descriptors and memory after the first cycles and at the end. */
#include <sandbox.h>

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP 20
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GROWTH_KB (256 * 1024) /* what was freed is kept for a while; leaks are found by the sanitizer itself */
#else
#define GROWTH_KB 1024 /* an allocator's own movement; 1,000 leaks of a record are more */
#endif

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    if (!dir)
        return -1;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static long heap_kb(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long kb = -1;

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %ld", &kb) == 1)
            break;
    if (file)
        fclose(file);
    return kb;
}

static int cycle(struct sandbox_host *host, const struct sandbox_spec *spec, struct sandbox_error **error)
{
    static const char *const argv[] = { "sh", "-c", "echo out; echo err >&2", NULL };
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox_exec *exec = NULL;
    struct sandbox *sandbox = NULL;
    int r = sandbox_create(host, spec, 30000, &sandbox, error);

    if (!r)
        r = sandbox_start(sandbox, 30000, error);
    if (!r)
        r = sandbox_exec(sandbox, argv, NULL, &exec, error);
    if (!r)
        r = sandbox_exec_communicate(exec, NULL, &output, &result, error);
    if (!r && (result.kind != SANDBOX_EXEC_EXITED || result.code != 0 || strcmp(output.out, "out\n") != 0 ||
               strcmp(output.err, "err\n") != 0)) {
        fprintf(stderr, "cycles: kind %d, code %d, stdout \"%s\", stderr \"%s\"\n", result.kind, result.code, output.out, output.err);
        r = SANDBOX_EINTERNAL;
    }
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
    if (sandbox && sandbox_delete(sandbox, 30000, r ? NULL : error) && !r)
        r = SANDBOX_EINTERNAL;
    sandbox_unref(sandbox);
    return r;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int run(struct sandbox_host *host, const struct sandbox_spec *spec, int count, struct sandbox_error **error)
{
    int64_t *times = calloc((size_t)count, sizeof *times);
    int descriptors = 0, r = times ? 0 : SANDBOX_ENOMEM;
    long heap = 0;

    for (int i = 0; !r && i < count; i++) {
        int64_t begun = now_us();

        r = cycle(host, spec, error);
        times[i] = now_us() - begun;
        if (i == WARM_UP) {
            descriptors = count_descriptors();
            heap = heap_kb();
        }
    }
    if (!r) {
        qsort(times, (size_t)count, sizeof *times, compare);
        printf("%d cycles: median %" PRId64 " us, slowest %" PRId64 " us; descriptors %d -> %d; anonymous memory %ld -> %ld KiB\n", count,
               times[count / 2], times[count - 1], descriptors, count_descriptors(), heap, heap_kb());
        if (count > WARM_UP && (count_descriptors() != descriptors || heap_kb() > heap + GROWTH_KB))
            r = SANDBOX_EINTERNAL;
    }
    free(times);
    return r;
}

/* Becomes rm, which removes the state folder and ends with 0. */
static void remove_state(const char *state)
{
    execlp("rm", "rm", "-rf", state, (char *)NULL);
}

int main(int argc, char **argv)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    const char *tmp = getenv("TMPDIR");
    struct sandbox_error *error = NULL;
    struct sandbox_host *host = NULL;
    struct sandbox_spec *spec = NULL;
    char state[4096];
    int count = argc == 2 ? atoi(argv[1]) : 0, r;

    snprintf(state, sizeof state, "%s/cycles-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (count < 1 || !mkdtemp(state)) {
        fprintf(stderr, "usage: cycles COUNT\n");
        return 2;
    }
    options.state_root = state;
    r = sandbox_host_open("local:", &options, -1, &host, &error);
    if (!r)
        r = sandbox_spec_new(&spec, &error);
    if (!r)
        r = run(host, spec, count, &error);
    if (r && error)
        fprintf(stderr, "cycles: %s: %s\n", sandbox_error_get_operation(error), sandbox_error_get_message(error));
    sandbox_error_unref(error);
    sandbox_spec_unref(spec);
    sandbox_host_unref(host);
    if (r)
        return 1;
    fflush(stdout);
    remove_state(state);
    return 1;
}
