/* SPDX-License-Identifier: Apache-2.0
 * doctor: which networks this machine can make. */
#include "doctor.h"
#include "network.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <errors.h>

static void say_error(json_t *entries, const char *feature, const char *probe, struct sandbox_error *error)
{
    const char *hint = sandbox_error_get_hint(error);

    sb_doctor_say(entries, feature, "impossible", probe, sandbox_error_get_message(error), hint && *hint ? hint : "see the cause");
}

static int has_tun(void)
{
    SB_CLOSE int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

    return fd >= 0;
}

static void look_at_nat(struct sb_engine *engine, json_t *entries)
{
    static const char probe[] = "a table of nftables is made and removed", user_probe[] = "sandbox-network, pasta or slirp4netns, /dev/net/tun";
    char *const argv[] = { (char[]){ "sandbox-network" }, (char[]){ "probe" }, (char[]){ "nat" }, NULL };
    struct sandbox_error *error = NULL;
    int program;

    if (engine->map.privilege == SB_PRIVILEGE_ROOT) {
        if (sb_network_setup(engine, argv, NULL, &error))
            say_error(entries, "network_nat", probe, error);
        else
            sb_doctor_say(entries, "network_nat", "enforced", probe, "", "");
        sandbox_error_unref(error);
    } else if (sb_engine_program(engine, "sandbox-network", &program, NULL)) {
        sb_doctor_say(entries, "network_nat", "impossible", user_probe, "the library was built without sandbox-network",
                      "install libnftables1 and libmnl0, and a library that was built with them");
    } else if (!sb_network_has_user_nat()) {
        sb_doctor_say(entries, "network_nat", "impossible", user_probe, "neither pasta nor slirp4netns is here", "install the package passt");
    } else if (!has_tun()) {
        sb_doctor_say(entries, "network_nat", "impossible", user_probe, "this user may not open /dev/net/tun", "give it mode 0666, as udev does");
    } else {
        sb_doctor_say(entries, "network_nat", "wrapped", user_probe, "an address that the host gets while a sandbox runs can be reached from it",
                      "run as root, or use network proxy");
    }
}

static void look_at_proxy(struct sb_engine *engine, json_t *entries)
{
    static const char probe[] = "sandbox-proxy and sandbox-network";
    int program;

    if (sb_engine_program(engine, "sandbox-network", &program, NULL) || sb_engine_program(engine, "sandbox-proxy", &program, NULL))
        sb_doctor_say(entries, "network_proxy", "impossible", probe, "the library was built without them",
                      "install libnftables1, libmnl0 and libc-ares2, and a library that was built with them");
    else
        sb_doctor_say(entries, "network_proxy", "enforced", probe, "", "");
}

void sb_doctor_networks(struct sb_engine *engine, json_t *entries)
{
    look_at_nat(engine, entries);
    look_at_proxy(engine, entries);
}
