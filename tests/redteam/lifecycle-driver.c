/* SPDX-License-Identifier: Apache-2.0
 * lifecycle-driver ROOT [STEPS [detached]]: one sandbox from open to delete, for the fault suites, which kill this program or make its
 * system calls fail. Exit status 0: all went well; 3: a call failed, with a well-formed error, printed; 4: a call failed without
 * one. ROOT is the state root; STEPS the last letter of what to do: o(pen) c(reate) s(tart) e(xec) t(op) d(elete), all by default. */
#include <sandbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sandbox_error *error;

static int end(const char *step, int r)
{
    if (r == 0)
        return 0;
    if (!error || !*sandbox_error_get_message(error) || sandbox_error_get_code(error) != r) {
        fprintf(stderr, "%s: %s without a proper error\n", step, sandbox_code_name(r));
        exit(4);
    }
    fprintf(stderr, "%s: %s: %s\n", step, sandbox_code_name(r), sandbox_error_get_message(error));
    exit(3);
}

int main(int argc, char **argv)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    const char *const command[] = { "/bin/true", NULL };
    struct sandbox_host *host = NULL;
    struct sandbox_spec *spec = NULL;
    struct sandbox *sandbox = NULL;
    struct sandbox_exec *exec = NULL;
    const char *last = argc > 2 ? argv[2] : "d";

    if (argc < 2)
        return 2;
    options.state_root = argv[1];
    end("open", sandbox_host_open("local:", &options, 10000, &host, &error));
    if (*last == 'o')
        return 0;
    end("spec", sandbox_spec_new(&spec, &error));
    end("name", sandbox_spec_set_name(spec, "driven", &error));
    end("key", sandbox_spec_set_idempotency_key(spec, argc > 3 ? "driven:detached" : "driven:owned", &error));
    end("lifetime", sandbox_spec_set_lifetime(spec, argc > 3 ? SANDBOX_LIFETIME_DETACHED : SANDBOX_LIFETIME_OWNED, &error));
    end("create", sandbox_create(host, spec, 10000, &sandbox, &error));
    if (*last == 'c')
        return 0;
    end("start", sandbox_start(sandbox, 10000, &error));
    if (*last == 's')
        return 0;
    end("exec", sandbox_exec(sandbox, command, NULL, &exec, &error));
    end("wait", sandbox_exec_wait(exec, 10000, &result, &error));
    if (result.kind != SANDBOX_EXEC_EXITED || result.code != 0) {
        fprintf(stderr, "wait: kind %d, code %d\n", result.kind, result.code);
        return 3;
    }
    sandbox_exec_unref(exec);
    if (*last == 'e')
        return 0;
    end("stop", sandbox_stop(sandbox, 100, 10000, &error));
    if (*last == 't')
        return 0;
    end("delete", sandbox_delete(sandbox, 10000, &error));
    sandbox_unref(sandbox);
    sandbox_spec_unref(spec);
    sandbox_host_unref(host);
    return 0;
}
