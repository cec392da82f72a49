/* SPDX-License-Identifier: Apache-2.0
 * A program as a user writes one, built with what pkg-config says. Its argument is the version that pkg-config told. */
#include <sandbox.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct sandbox_error *error = NULL;
    struct sandbox_host *host = NULL;
    struct sandbox_spec *spec = NULL;
    int failed = argc != 2 || strcmp(argv[1], sandbox_version()) != 0;

    failed |= sandbox_spec_new(&spec, &error) != 0 || sandbox_spec_add_label(spec, "key", "value", &error) != 0;
    sandbox_spec_unref(spec);
    failed |= sandbox_host_open("nowhere:", NULL, -1, &host, &error) != SANDBOX_EUNSUPPORTED;
    failed |= strcmp(sandbox_error_get_field(error), "uri") != 0;
    printf("%s: %s\n", sandbox_version(), sandbox_error_get_message(error));
    sandbox_error_unref(error);
    return failed;
}
