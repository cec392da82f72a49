/* SPDX-License-Identifier: Apache-2.0
 * Specs: setters with their rules, copies, and the JSON form there and back. */
#include <sbtest.h>

#include "json.h"
#include "rules.h"
#include "spec.h"
#include "util.h"

#include <stdio.h>
#include <string.h>

static struct sandbox_spec *spec;

static void begin(void)
{
    spec = sb_spec_new();
    ck_assert_ptr_nonnull(spec);
}

static void end(void)
{
    spec = sb_spec_free(spec);
}

/* The call must fail with this code and name this field. */
#define refused(call, code, field)                                                                                               \
    do {                                                                                                                         \
        struct sandbox_error *error = NULL;                                                                                      \
        ck_assert_int_eq(call, code);                                                                                            \
        ck_assert_str_eq(sandbox_error_get_field(error), field);                                                                 \
        error = sandbox_error_unref(error);                                                                                      \
    } while (0)
#define accepted(call)                                                                                                           \
    do {                                                                                                                         \
        struct sandbox_error *error = NULL;                                                                                      \
        sbtest_ok(call, &error);                                                                                                 \
    } while (0)

static char *text_of(const struct sandbox_spec *s)
{
    SB_JSON json_t *json = sb_spec_to_json(s);

    ck_assert_ptr_nonnull(json);
    return sb_json_dump(json);
}

static void fill(void)
{
    const char *const argv[] = { "/bin/layerfs", "--mount", "\xff\xfe", "", NULL };
    struct sandbox_health_options health = SANDBOX_HEALTH_OPTIONS_INIT;
    struct sandbox_mount_options bind = SANDBOX_MOUNT_OPTIONS_INIT, volume = SANDBOX_MOUNT_OPTIONS_INIT, tmpfs = SANDBOX_MOUNT_OPTIONS_INIT;

    health.interval_ms = 1000;
    health.timeout_ms = 500;
    health.start_period_ms = 100;
    health.start_interval_ms = 50;
    health.retries = 2;
    health.user = "1:1";
    bind.source = "/srv/\xff/in";
    bind.target = "/in";
    bind.flags = SANDBOX_MOUNT_READ_ONLY;
    volume.type = SANDBOX_MOUNT_VOLUME;
    volume.source = "store";
    volume.target = "/store";
    tmpfs.type = SANDBOX_MOUNT_TMPFS;
    tmpfs.target = "/scratch";
    tmpfs.max_bytes = 1 << 20;
    accepted(sb_spec_set_name(spec, "box.1", &error));
    accepted(sb_spec_set_image(spec, "debian", &error));
    accepted(sb_spec_add_label(spec, "z", "caf\xc3\xa9", &error));
    accepted(sb_spec_add_label(spec, "a", "", &error));
    accepted(sb_spec_add_env(spec, "PATH", "/bin", &error));
    accepted(sb_spec_add_env(spec, "ODD", "a=b\xff", &error));
    accepted(sb_spec_set_workdir(spec, "/work/../tmp", &error));
    accepted(sb_spec_set_user(spec, "1000:nogroup", &error));
    accepted(sb_spec_set_hostname(spec, "host-1.example", &error));
    accepted(sb_spec_set_idempotency_key(spec, "job:7", &error) || sb_spec_set_seccomp(spec, "strict", &error));
    accepted(sb_spec_set_daemon(spec, argv, &error));
    accepted(sb_spec_add_capability(spec, "cap_sys_admin", &error));
    accepted(sb_spec_add_capability(spec, "CHECKPOINT_RESTORE", &error));
    accepted(sb_spec_set_fuse(spec, 1, &error));
    accepted(sb_spec_set_read_only(spec, 1, &error));
    accepted(sb_spec_set_memory_max(spec, SB_MEMORY_LEAST, &error));
    accepted(sb_spec_set_pids_max(spec, 4194304, &error));
    accepted(sb_spec_set_cpu_max(spec, 10, &error));
    accepted(sb_spec_set_log_max(spec, 8192, &error));
    accepted(sb_spec_set_ttl(spec, 3600000, SANDBOX_END_DELETE, &error));
    accepted(sb_spec_set_idle(spec, 60000, SANDBOX_END_STOP, &error));
    accepted(sb_spec_set_end_grace(spec, 0, &error));
    accepted(sb_spec_set_restart(spec, SANDBOX_RESTART_ON_FAILURE, 5, &error));
    accepted(sb_spec_set_health(spec, (const char *const[]){ "/bin/ok", NULL }, &health, &error));
    accepted(sb_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error));
    accepted(sb_spec_set_network(spec, SANDBOX_NETWORK_NONE, &error));
    accepted(sb_spec_add_mount(spec, &bind, &error));
    accepted(sb_spec_add_mount(spec, &volume, &error));
    accepted(sb_spec_add_mount(spec, &tmpfs, &error));
    accepted(sb_spec_set_network(spec, SANDBOX_NETWORK_PROXY, &error));
    accepted(sb_spec_add_allowed(spec, "*.example.org:8080", &error));
    accepted(sb_spec_add_allowed(spec, "192.0.2.0/24:*", &error));
    accepted(sb_spec_add_allowed(spec, "*.example.org:8080", &error));
    accepted(sb_spec_add_dns_server(spec, "192.0.2.53:5353", &error));
    accepted(sb_spec_add_port(spec, 0, 80, &error));
    accepted(sb_spec_add_port(spec, 8081, 81, &error));
}

static const char filled[] =
    "{\"allowed\":[\"*.example.org:8080\",\"192.0.2.0/24:*\"],\"capabilities\":[\"SYS_ADMIN\",\"CHECKPOINT_RESTORE\"],\"cpu_max\":10,\"cpu_weight\":0,"
    "\"daemon\":[\"/bin/layerfs\",\"--mount\",{\"base64\":\"//4=\"},\"\"],\"dns\":[\"192.0.2.53:5353\"],\"env\":[\"PATH=/bin\",{\"base64\":\"T0REPWE9Yv8=\"}],"
    "\"files_max\":0,\"fuse\":true,\"hostname\":\"host-1.example\",\"idempotency_key\":\"job:7\","
    "\"image\":\"debian\",\"io\":[],\"labels\":{\"a\":\"\",\"z\":\"caf\xc3\xa9\"},"
    "\"life\":{\"end_grace_ms\":0,\"health\":{\"argv\":[\"/bin/ok\"],"
    "\"interval_ms\":1000,\"retries\":2,\"start_interval_ms\":50,\"start_period_ms\":100,\"timeout_ms\":500,\"user\":\"1:1\"},"
    "\"idle_end\":\"stop\",\"idle_ms\":60000,\"restart\":\"on-failure\",\"restart_max\":5,\"ttl_end\":\"delete\",\"ttl_ms\":3600000},"
    "\"lifetime\":\"detached\",\"log_max\":8192,\"memory_max\":4194304,\"mounts\":["
    "{\"max_bytes\":0,\"owner\":\"\",\"read_only\":true,\"source\":{\"base64\":\"L3Nydi//L2lu\"},\"target\":\"/in\",\"type\":\"bind\"},"
    "{\"max_bytes\":0,\"owner\":\"\",\"read_only\":false,\"source\":\"store\",\"target\":\"/store\",\"type\":\"volume\"},"
    "{\"max_bytes\":1048576,\"owner\":\"\",\"read_only\":false,\"source\":\"\",\"target\":\"/scratch\",\"type\":\"tmpfs\"}],"
    "\"name\":\"box.1\",\"network\":\"proxy\",\"network_name\":\"\",\"pids_max\":4194304,"
    "\"ports\":[{\"local_port\":0,\"port\":80},{\"local_port\":8081,\"port\":81}],"
    "\"read_only\":true,\"seccomp\":\"strict\",\"secrets\":{\"mode\":\"ignore\","
    "\"patterns\":[]},\"swap_max\":0,\"user\":\"1000:nogroup\","
    "\"workdir\":\"/work/../tmp\"}";
static const char empty[] =
    "{\"allowed\":[],\"capabilities\":[],\"cpu_max\":0,\"cpu_weight\":0,\"daemon\":[],\"dns\":[],\"env\":[],\"files_max\":0,\"fuse\":false,\"hostname\":\"\","
    "\"idempotency_key\":\"\",\"image\":\"host\",\"io\":[],\"labels\":{},"
    "\"life\":{\"end_grace_ms\":10000,\"health\":{\"argv\":[],"
    "\"interval_ms\":0,\"retries\":0,\"start_interval_ms\":0,\"start_period_ms\":0,\"timeout_ms\":0,\"user\":\"\"},"
    "\"idle_end\":\"stop\",\"idle_ms\":0,\"restart\":\"no\",\"restart_max\":0,\"ttl_end\":\"stop\",\"ttl_ms\":0},"
    "\"lifetime\":\"owned\",\"log_max\":0,\"memory_max\":0,\"mounts\":[],\"name\":\"\",\"network\":\"none\",\"network_name\":\"\","
    "\"pids_max\":0,\"ports\":[],\"read_only\":false,\"seccomp\":\"default\",\"secrets\":{\"mode\":\"ignore\",\"patterns\":[]},"
    "\"swap_max\":0,\"user\":\"\",\"workdir\":\"\"}";

static void round_trip(const char *expected)
{
    SB_FREE char *text = text_of(spec);
    SB_FREE char *again = NULL;
    SB_FREE char *copied = NULL;
    SB_JSON json_t *json = NULL;
    struct sandbox_spec *back = NULL, *copy = sb_spec_copy(spec);

    ck_assert_str_eq(text, expected);
    accepted(sb_json_parse(text, strlen(text), "spec", &json, &error));
    accepted(sb_spec_from_json(json, &back, &error));
    again = text_of(back);
    copied = text_of(copy);
    ck_assert_str_eq(again, expected);
    ck_assert_str_eq(copied, expected);
    ck_assert_uint_eq(back->env_bytes, spec->env_bytes);
    ck_assert_uint_eq(copy->labels_bytes, spec->labels_bytes);
    ck_assert_uint_eq(copy->mounts_bytes, spec->mounts_bytes);
    sb_spec_free(back);
    sb_spec_free(copy);
}

START_TEST(an_empty_spec_round_trips)
{
    round_trip(empty);
}
END_TEST

START_TEST(a_full_spec_round_trips)
{
    fill();
    round_trip(filled);
}
END_TEST

START_TEST(a_named_network_round_trips)
{
    SB_JSON json_t *json = NULL;
    struct sandbox_spec *back = NULL;

    accepted(sb_spec_set_network_name(spec, "team", &error));
    json = sb_spec_to_json(spec);
    accepted(sb_spec_from_json(json, &back, &error));
    ck_assert_int_eq(back->network, SANDBOX_NETWORK_NAMED);
    ck_assert_str_eq(back->network_name, "team");
    sb_spec_free(back);
    accepted(sb_spec_set_network(spec, SANDBOX_NETWORK_NONE, &error));
    ck_assert_ptr_null(spec->network_name);
    json_object_set_new(json, "network", json_string("host"));
    refused(sb_spec_from_json(json, &back, &error), SANDBOX_EDAMAGED, "network_name");
}
END_TEST

START_TEST(null_takes_a_value_away)
{
    fill();
    accepted(sb_spec_set_name(spec, NULL, &error));
    accepted(sb_spec_set_workdir(spec, NULL, &error));
    accepted(sb_spec_set_user(spec, NULL, &error));
    accepted(sb_spec_set_hostname(spec, NULL, &error));
    accepted(sb_spec_set_daemon(spec, NULL, &error));
    ck_assert_ptr_null(spec->name);
    ck_assert_ptr_null(spec->workdir);
    ck_assert_ptr_null(spec->user);
    ck_assert_ptr_null(spec->hostname);
    ck_assert_ptr_null(spec->daemon);
}
END_TEST

START_TEST(equal_keys_replace)
{
    accepted(sb_spec_add_label(spec, "k", "one", &error));
    accepted(sb_spec_add_label(spec, "l", "two", &error));
    accepted(sb_spec_add_label(spec, "k", "three", &error));
    accepted(sb_spec_add_env(spec, "A", "1", &error));
    accepted(sb_spec_add_env(spec, "A", "22", &error));
    ck_assert_uint_eq(spec->n_labels, 2);
    ck_assert_str_eq(spec->labels[0].value, "three");
    ck_assert_uint_eq(spec->labels_bytes, strlen("k") + strlen("three") + strlen("l") + strlen("two") + 4);
    ck_assert_uint_eq(spec->n_env, 1);
    ck_assert_str_eq(spec->env[0].value, "22");
    ck_assert_uint_eq(spec->env_bytes, strlen("A") + strlen("22") + 2);
}
END_TEST

START_TEST(names_and_images_are_checked)
{
    static const char digest[] = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const char *const bad_names[] = { "", "-a", ".", "..", "a/b", "a b", "caf\xc3\xa9", "a\n" };
    static const char *const bad_images[] = { "", "a//b", "sha256:", "sha256:0123", "a::b",
                                              "SHA256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                                              "sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef" };
    char longest[SANDBOX_NAME_MAX + 2];

    memset(longest, 'a', sizeof longest);
    longest[SANDBOX_NAME_MAX + 1] = 0;
    refused(sb_spec_set_name(spec, longest, &error), SANDBOX_EINVALID, "name");
    longest[SANDBOX_NAME_MAX] = 0;
    accepted(sb_spec_set_name(spec, longest, &error));
    for (size_t i = 0; i < SB_ELEMENTS(bad_names); i++)
        refused(sb_spec_set_name(spec, bad_names[i], &error), SANDBOX_EINVALID, "name");
    ck_assert_str_eq(spec->name, longest); /* a refused value changes nothing */
    accepted(sb_spec_set_image(spec, digest, &error));
    for (size_t i = 0; i < SB_ELEMENTS(bad_images); i++)
        refused(sb_spec_set_image(spec, bad_images[i], &error), SANDBOX_EINVALID, "image");
    refused(sb_spec_set_image(spec, NULL, &error), SANDBOX_EINVALID, "image");
    ck_assert_str_eq(spec->image, digest);
}
END_TEST

START_TEST(labels_are_checked)
{
    SB_FREE char *text = calloc(1, SANDBOX_LABEL_VALUE_MAX + 2);

    memset(text, 'x', SANDBOX_LABEL_VALUE_MAX + 1);
    refused(sb_spec_add_label(spec, "k", text, &error), SANDBOX_EINVALID, "value");
    text[SANDBOX_LABEL_VALUE_MAX] = 0;
    accepted(sb_spec_add_label(spec, "k", text, &error));
    text[SANDBOX_LABEL_KEY_MAX + 1] = 0;
    refused(sb_spec_add_label(spec, text, "", &error), SANDBOX_EINVALID, "key");
    text[SANDBOX_LABEL_KEY_MAX] = 0;
    accepted(sb_spec_add_label(spec, text, "", &error));
    refused(sb_spec_add_label(spec, "", "", &error), SANDBOX_EINVALID, "key");
    refused(sb_spec_add_label(spec, NULL, "", &error), SANDBOX_EINVALID, "key");
    refused(sb_spec_add_label(spec, "k", NULL, &error), SANDBOX_EINVALID, "value");
    refused(sb_spec_add_label(spec, "\xff", "", &error), SANDBOX_EINVALID, "key");
    refused(sb_spec_add_label(spec, "k", "\xed\xa0\x80", &error), SANDBOX_EINVALID, "value");
    for (int i = 2; i < SB_LABELS_MAX; i++) {
        char key[16];

        snprintf(key, sizeof key, "%d", i);
        accepted(sb_spec_add_label(spec, key, "", &error));
    }
    refused(sb_spec_add_label(spec, "more", "", &error), SANDBOX_ELIMIT, "labels");
}
END_TEST

START_TEST(env_is_checked)
{
    SB_FREE char *text = calloc(1, SB_STRING_MAX + 1);

    refused(sb_spec_add_env(spec, "", "x", &error), SANDBOX_EINVALID, "name");
    refused(sb_spec_add_env(spec, NULL, "x", &error), SANDBOX_EINVALID, "name");
    refused(sb_spec_add_env(spec, "A=B", "x", &error), SANDBOX_EINVALID, "name");
    refused(sb_spec_add_env(spec, "=", "x", &error), SANDBOX_EINVALID, "name");
    refused(sb_spec_add_env(spec, "A", NULL, &error), SANDBOX_EINVALID, "value");
    memset(text, 'x', SB_STRING_MAX - 1);
    refused(sb_spec_add_env(spec, "A", text, &error), SANDBOX_EINVALID, "value");
    text[SB_STRING_MAX - 2] = 0;
    accepted(sb_spec_add_env(spec, "A", text, &error));
    text[SB_STRING_MAX - 8] = 0;
    for (int i = 0; i < 7; i++) {
        char name[2] = { (char)('a' + i), 0 };

        accepted(sb_spec_add_env(spec, name, text, &error));
    }
    refused(sb_spec_add_env(spec, "more", text, &error), SANDBOX_ELIMIT, "env");
}
END_TEST

START_TEST(idempotency_key_is_checked)
{
    static const char *const good[] = { "a", "0", "job:2026-11-30T20:00:00_1.2" }, *const bad[] = { "", ":", ".a", "-a", "a/b", "a b", "\xc3\xa9" };
    char longest[130];

    for (size_t i = 0; i < SB_ELEMENTS(good); i++)
        accepted(sb_spec_set_idempotency_key(spec, good[i], &error));
    for (size_t i = 0; i < SB_ELEMENTS(bad); i++)
        refused(sb_spec_set_idempotency_key(spec, bad[i], &error), SANDBOX_EINVALID, "idempotency_key");
    memset(longest, 'a', 129);
    longest[129] = 0;
    refused(sb_spec_set_idempotency_key(spec, longest, &error), SANDBOX_EINVALID, "idempotency_key");
    ck_assert_str_eq(spec->idempotency_key, good[2]);
    longest[128] = 0;
    accepted(sb_spec_set_idempotency_key(spec, longest, &error));
    accepted(sb_spec_set_idempotency_key(spec, NULL, &error));
    ck_assert_ptr_null(spec->idempotency_key);
}
END_TEST

START_TEST(equal_specs_differ_in_order_and_key_alone)
{
    struct sandbox_spec *a = sb_spec_new(), *b = sb_spec_new();

    accepted(sb_spec_add_env(a, "X", "1", &error));
    accepted(sb_spec_add_env(a, "Y", "2", &error));
    accepted(sb_spec_add_label(a, "l", "1", &error));
    accepted(sb_spec_add_label(a, "m", "2", &error));
    accepted(sb_spec_set_idempotency_key(a, "one", &error));
    accepted(sb_spec_add_label(b, "m", "2", &error));
    accepted(sb_spec_add_label(b, "l", "1", &error));
    accepted(sb_spec_add_env(b, "Y", "2", &error));
    ck_assert_int_eq(sb_spec_equal(a, b), 0);
    accepted(sb_spec_add_env(b, "X", "1", &error));
    ck_assert_int_eq(sb_spec_equal(a, b), 1);
    ck_assert_str_eq(b->env[0].key, "Y"); /* and neither has changed */
    accepted(sb_spec_set_pids_max(b, 7, &error));
    ck_assert_int_eq(sb_spec_equal(a, b), 0);
    sb_spec_free(a);
    sb_spec_free(b);
}
END_TEST

START_TEST(workdir_user_and_hostname_are_checked)
{
    static const char *const bad_users[] = { "", ":", "a:", ":b", "a:b:c", "a\nb", "4294967295", "0:4294967295", "99999999999999999999",
                                             "-1", "+1", "1:-1", "\x7f" };
    static const char *const good_users[] = { "0", "0:0", "4294967294:4294967294", "www-data", "www-data:33", "Jos\xe9", "user.name" };
    static const char *const bad_hosts[] = { "", "-a", "a-", "a.", ".a", "a..b", "a.-b", "a b", "a_b", "caf\xc3\xa9",
                                             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
    static const char *const good_hosts[] = { "a", "1", "a-b.c-d", "A9", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
    char longest[4097] = "/", user[300];

    for (size_t i = 0; i < SB_ELEMENTS(bad_users); i++)
        refused(sb_spec_set_user(spec, bad_users[i], &error), SANDBOX_EINVALID, "user");
    for (size_t i = 0; i < SB_ELEMENTS(good_users); i++)
        accepted(sb_spec_set_user(spec, good_users[i], &error));
    memset(user, 'u', sizeof user);
    user[SB_USER_MAX + 1] = 0;
    refused(sb_spec_set_user(spec, user, &error), SANDBOX_EINVALID, "user");
    for (size_t i = 0; i < SB_ELEMENTS(bad_hosts); i++)
        refused(sb_spec_set_hostname(spec, bad_hosts[i], &error), SANDBOX_EINVALID, "hostname");
    for (size_t i = 0; i < SB_ELEMENTS(good_hosts); i++)
        accepted(sb_spec_set_hostname(spec, good_hosts[i], &error));
    refused(sb_spec_set_workdir(spec, "", &error), SANDBOX_EINVALID, "workdir");
    refused(sb_spec_set_workdir(spec, "tmp", &error), SANDBOX_EINVALID, "workdir");
    memset(longest + 1, 'd', 4095);
    refused(sb_spec_set_workdir(spec, longest, &error), SANDBOX_EINVALID, "workdir");
    longest[4095] = 0;
    accepted(sb_spec_set_workdir(spec, longest, &error));
}
END_TEST

START_TEST(daemon_is_checked)
{
    const char *const nothing[] = { NULL }, *const unnamed[] = { "", "x", NULL };
    SB_FREE const char **many = calloc(SB_ARGV_MAX + 2, sizeof *many);
    SB_FREE char *text = calloc(1, SB_STRING_MAX + 2);
    const char *big[] = { "/bin/x", text, NULL };

    accepted(sb_spec_set_daemon(spec, nothing, &error));
    ck_assert_ptr_null(spec->daemon);
    refused(sb_spec_set_daemon(spec, unnamed, &error), SANDBOX_EINVALID, "daemon");
    memset(text, 'x', SB_STRING_MAX + 1);
    refused(sb_spec_set_daemon(spec, big, &error), SANDBOX_EINVALID, "daemon");
    text[SB_STRING_MAX] = 0;
    accepted(sb_spec_set_daemon(spec, big, &error));
    for (int i = 0; i <= SB_ARGV_MAX; i++)
        many[i] = "x";
    refused(sb_spec_set_daemon(spec, many, &error), SANDBOX_ELIMIT, "daemon");
    ck_assert_str_eq(spec->daemon[0], "/bin/x");
    many[SB_ARGV_MAX] = NULL;
    accepted(sb_spec_set_daemon(spec, many, &error));
}
END_TEST

START_TEST(numbers_are_checked)
{
    refused(sb_spec_set_memory_max(spec, SB_MEMORY_LEAST - 1, &error), SANDBOX_EINVALID, "memory_max");
    refused(sb_spec_set_memory_max(spec, -1, &error), SANDBOX_EINVALID, "memory_max");
    accepted(sb_spec_set_memory_max(spec, INT64_MAX, &error));
    accepted(sb_spec_set_memory_max(spec, 0, &error));
    refused(sb_spec_set_pids_max(spec, -1, &error), SANDBOX_EINVALID, "pids_max");
    refused(sb_spec_set_pids_max(spec, 4194305, &error), SANDBOX_EINVALID, "pids_max");
    refused(sb_spec_set_pids_max(spec, SB_PIDS_LEAST - 1, &error), SANDBOX_EINVALID, "pids_max");
    accepted(sb_spec_set_pids_max(spec, SB_PIDS_LEAST, &error));
    refused(sb_spec_set_cpu_max(spec, 9, &error), SANDBOX_EINVALID, "cpu_max");
    refused(sb_spec_set_log_max(spec, 8191, &error), SANDBOX_EINVALID, "log_max");
    refused(sb_spec_set_ttl(spec, 99, SANDBOX_END_STOP, &error), SANDBOX_EINVALID, "ttl");
    refused(sb_spec_set_ttl(spec, INT64_MAX, SANDBOX_END_STOP, &error), SANDBOX_EINVALID, "ttl");
    refused(sb_spec_set_ttl(spec, 1000, 2, &error), SANDBOX_EINVALID, "end");
    refused(sb_spec_set_idle(spec, -1, SANDBOX_END_STOP, &error), SANDBOX_EINVALID, "idle");
    refused(sb_spec_set_idle(spec, 1000, -1, &error), SANDBOX_EINVALID, "end");
    refused(sb_spec_set_end_grace(spec, 600001, &error), SANDBOX_EINVALID, "end_grace");
    refused(sb_spec_set_end_grace(spec, -1, &error), SANDBOX_EINVALID, "end_grace");
    refused(sb_spec_set_restart(spec, 4, 0, &error), SANDBOX_EINVALID, "restart");
    refused(sb_spec_set_restart(spec, -1, 0, &error), SANDBOX_EINVALID, "restart");
    refused(sb_spec_set_restart(spec, SANDBOX_RESTART_ALWAYS, 3, &error), SANDBOX_EINVALID, "restart_max");
    refused(sb_spec_set_restart(spec, SANDBOX_RESTART_ON_FAILURE, -1, &error), SANDBOX_EINVALID, "restart_max");
    refused(sb_spec_set_cpu_max(spec, INT64_MAX, &error), SANDBOX_EINVALID, "cpu_max");
    refused(sb_spec_set_fuse(spec, 2, &error), SANDBOX_EINVALID, "fuse");
    refused(sb_spec_set_read_only(spec, -1, &error), SANDBOX_EINVALID, "read_only");
    refused(sb_spec_set_lifetime(spec, 2, &error), SANDBOX_EINVALID, "lifetime");
    refused(sb_spec_set_lifetime(spec, -1, &error), SANDBOX_EINVALID, "lifetime");
    accepted(sb_spec_set_network(spec, SANDBOX_NETWORK_HOST, &error));
    refused(sb_spec_set_network(spec, SANDBOX_NETWORK_NAMED, &error), SANDBOX_EINVALID, "network");
    refused(sb_spec_set_network(spec, -1, &error), SANDBOX_EINVALID, "network");
    refused(sb_spec_set_network_name(spec, "", &error), SANDBOX_EINVALID, "network_name");
    refused(sb_spec_set_network_name(spec, NULL, &error), SANDBOX_EINVALID, "network_name");
    accepted(sb_spec_set_network_name(spec, "n", &error));
    accepted(sb_spec_add_allowed(spec, "*.example.org:8080", &error));
    refused(sb_spec_add_allowed(spec, "http://example.org", &error), SANDBOX_EINVALID, "allowed");
    refused(sb_spec_add_allowed(spec, NULL, &error), SANDBOX_EINVALID, "allowed");
    accepted(sb_spec_add_dns_server(spec, "192.0.2.53:5353", &error));
    refused(sb_spec_add_dns_server(spec, "dns.example", &error), SANDBOX_EINVALID, "dns");
    accepted(sb_spec_add_port(spec, 0, 80, &error));
    accepted(sb_spec_add_port(spec, 8080, 8080, &error));
    refused(sb_spec_add_port(spec, 0, 80, &error), SANDBOX_EINVALID, "port");
    refused(sb_spec_add_port(spec, 8080, 81, &error), SANDBOX_EINVALID, "local_port");
    refused(sb_spec_add_port(spec, 0, 0, &error), SANDBOX_EINVALID, "port");
    refused(sb_spec_add_port(spec, -1, 82, &error), SANDBOX_EINVALID, "local_port");
}
END_TEST

START_TEST(capabilities_are_known_by_name)
{
    static const char *const wrong[] = { "", "CAP_", "SYS", "SYS_ADMINS", "CAP_CAP_CHOWN", "41", "ALL" };

    ck_assert_int_eq(sb_capability_from_name("CHOWN"), 0);
    ck_assert_int_eq(sb_capability_from_name("Cap_Sys_Admin"), 21);
    ck_assert_int_eq(sb_capability_from_name("cap_checkpoint_restore"), 40);
    for (int i = 0; i <= 40; i++)
        ck_assert_int_eq(sb_capability_from_name(sb_capability_name(i)), i);
    ck_assert_ptr_null(sb_capability_name(41));
    ck_assert_ptr_null(sb_capability_name(-1));
    for (size_t i = 0; i < SB_ELEMENTS(wrong); i++)
        refused(sb_spec_add_capability(spec, wrong[i], &error), SANDBOX_EINVALID, "capability");
    refused(sb_spec_add_capability(spec, NULL, &error), SANDBOX_EINVALID, "capability");
}
END_TEST

static int mount_of(int type, const char *source, const char *target, unsigned int flags, int64_t max, struct sandbox_error **error)
{
    const struct sandbox_mount_options mount = { sizeof mount, type, source, target, flags, max, NULL };

    return sb_spec_add_mount(spec, &mount, error);
}

START_TEST(mounts_are_checked)
{
    static const char *const bad_targets[] = { "", "in", "/", "//", "/.", "/a/../b", "/..", "/proc", "/proc/x", "//proc/", "/./sys", "/sys/fs",
                                               "/dev", "/dev/", "/dev/null", "/dev/shmm", NULL };
    static const char *const good_targets[] = { "/in", "/dev/shm", "/dev/shm/x", "/procs", "/a/proc", "/..a", "/device" };

    for (size_t i = 0; i < SB_ELEMENTS(bad_targets); i++)
        refused(mount_of(SANDBOX_MOUNT_BIND, "/srv", bad_targets[i], 0, 0, &error), SANDBOX_EINVALID, "target");
    for (size_t i = 0; i < SB_ELEMENTS(good_targets); i++)
        accepted(mount_of(SANDBOX_MOUNT_BIND, "/srv", good_targets[i], 0, 0, &error));
    refused(mount_of(-1, "/srv", "/in", 0, 0, &error), SANDBOX_EINVALID, "type");
    refused(mount_of(4, "/srv", "/in", 0, 0, &error), SANDBOX_EINVALID, "type");
    refused(mount_of(SANDBOX_MOUNT_BIND, "/srv", "/in", 2, 0, &error), SANDBOX_EINVALID, "flags");
    refused(mount_of(SANDBOX_MOUNT_BIND, "srv", "/in", 0, 0, &error), SANDBOX_EINVALID, "source");
    refused(mount_of(SANDBOX_MOUNT_BIND, NULL, "/in", 0, 0, &error), SANDBOX_EINVALID, "source");
    refused(mount_of(SANDBOX_MOUNT_BIND, "/srv", "/in", 0, 4096, &error), SANDBOX_EINVALID, "max_bytes");
    refused(mount_of(SANDBOX_MOUNT_VOLUME, "/srv", "/in", 0, 0, &error), SANDBOX_EINVALID, "source");
    refused(mount_of(SANDBOX_MOUNT_VOLUME, NULL, "/in", 0, 0, &error), SANDBOX_EINVALID, "source");
    refused(mount_of(SANDBOX_MOUNT_TMPFS, "/srv", "/in", 0, 0, &error), SANDBOX_EINVALID, "source");
    refused(mount_of(SANDBOX_MOUNT_TMPFS, NULL, "/in", 0, 4095, &error), SANDBOX_EINVALID, "max_bytes");
    refused(mount_of(SANDBOX_MOUNT_OVERLAY, "/srv", "/in", 0, (16 << 20) - 1, &error), SANDBOX_EINVALID, "max_bytes");
    refused(mount_of(SANDBOX_MOUNT_TMPFS, NULL, "/in", 0, -1, &error), SANDBOX_EINVALID, "max_bytes");
    accepted(mount_of(SANDBOX_MOUNT_TMPFS, NULL, "/in", 0, 4096, &error));
    for (size_t i = spec->n_mounts; i < SB_MOUNTS_MAX; i++)
        accepted(mount_of(SANDBOX_MOUNT_TMPFS, NULL, "/in", 0, 0, &error));
    refused(mount_of(SANDBOX_MOUNT_TMPFS, NULL, "/in", 0, 0, &error), SANDBOX_ELIMIT, "mounts");
}
END_TEST

/* What a damaged disk or a hostile peer may give in a spec's place, and the field that is at fault. */
static const struct {
    const char *text, *field;
} wrong_json[] = {
    { "[]", "" }, { "{\"surprise\":1}", "" }, { "{\"name\":1}", "name" }, { "{\"name\":\"../x\"}", "name" }, { "{\"image\":\"\"}", "image" },
    { "{\"image\":null}", "image" }, { "{\"workdir\":\"x\"}", "workdir" }, { "{\"user\":\"a:b:c\"}", "user" },
    { "{\"hostname\":\"-\"}", "hostname" }, { "{\"daemon\":null}", "daemon" }, { "{\"daemon\":[1]}", "daemon" },
    { "{\"daemon\":[\"\"]}", "daemon" }, { "{\"daemon\":{}}", "daemon" }, { "{\"labels\":[]}", "labels" },
    { "{\"labels\":{\"a\":1}}", "labels" }, { "{\"labels\":{\"\":\"\"}}", "key" }, { "{\"labels\":{\"a\":{\"base64\":\"/w==\"}}}", "labels" },
    { "{\"env\":{}}", "env" }, { "{\"env\":[\"A\"]}", "env" }, { "{\"env\":[\"=x\"]}", "name" }, { "{\"env\":[{\"base64\":\"AA==\"}]}", "env" },
    { "{\"mounts\":{}}", "mounts" }, { "{\"mounts\":[1]}", "mounts" },
    { "{\"mounts\":[{\"type\":\"bind\",\"source\":\"/a\",\"target\":\"/b\",\"read_only\":true}]}", "mounts" },
    { "{\"mounts\":[{\"type\":\"bind\",\"source\":\"/a\",\"target\":\"/b\",\"read_only\":true,\"max_bytes\":0,\"owner\":\"\",\"x\":0}]}", "mounts" },
    { "{\"mounts\":[{\"type\":\"none\",\"source\":\"/a\",\"target\":\"/b\",\"read_only\":true,\"max_bytes\":0,\"owner\":\"\"}]}", "type" },
    { "{\"mounts\":[{\"type\":\"bind\",\"source\":\"/a\",\"target\":\"/../b\",\"read_only\":true,\"max_bytes\":0,\"owner\":\"\"}]}", "target" },
    { "{\"mounts\":[{\"type\":\"bind\",\"source\":\"/a\",\"target\":\"/b\",\"read_only\":1,\"max_bytes\":0,\"owner\":\"\"}]}", "mounts" },
    { "{\"mounts\":[{\"type\":\"bind\",\"source\":\"/a\",\"target\":\"/b\",\"read_only\":false,\"max_bytes\":0,\"owner\":\"0:0\"}]}", "owner" },
    { "{\"mounts\":[{\"type\":\"bind\",\"source\":\"/a\",\"target\":\"/b\",\"read_only\":false,\"max_bytes\":0,\"owner\":\"1000:0\"}]}", "owner" },
    { "{\"capabilities\":[\"EVERYTHING\"]}", "capability" }, { "{\"capabilities\":[7]}", "capability" }, { "{\"capabilities\":1}", "capabilities" },
    { "{\"fuse\":1}", "fuse" }, { "{\"seccomp\":\"none\"}", "seccomp" }, { "{\"lifetime\":0}", "lifetime" },
    { "{\"read_only\":\"true\"}", "read_only" }, { "{\"lifetime\":\"eternal\"}", "lifetime" }, { "{\"network\":\"air\"}", "network" },
    { "{\"network\":{}}", "network" }, { "{\"network_name\":7}", "network_name" }, { "{\"allowed\":[\"a b\"]}", "allowed" }, { "{\"dns\":[\"x\"]}", "dns" },
    { "{\"ports\":[{\"port\":0}]}", "port" }, { "{\"memory_max\":1}", "memory_max" },
    { "{\"memory_max\":1.0}", "memory_max" }, { "{\"pids_max\":-1}", "pids_max" }, { "{\"cpu_max\":1}", "cpu_max" },
};

START_TEST(wrong_json_is_damage)
{
    SB_JSON json_t *json = NULL;
    struct sandbox_spec *back = NULL;

    ck_assert_int_eq(sb_json_parse(wrong_json[_i].text, strlen(wrong_json[_i].text), "spec", &json, NULL), 0);
    refused(sb_spec_from_json(json, &back, &error), SANDBOX_EDAMAGED, wrong_json[_i].field);
    ck_assert_ptr_null(back);
}
END_TEST

START_TEST(an_older_record_has_defaults)
{
    SB_JSON json_t *json = NULL;
    struct sandbox_spec *back = NULL;
    SB_FREE char *text = NULL;

    ck_assert_int_eq(sb_json_parse("{}", 2, "spec", &json, NULL), 0);
    accepted(sb_spec_from_json(json, &back, &error));
    text = text_of(back);
    ck_assert_str_eq(text, empty);
    sb_spec_free(back);
}
END_TEST

START_TEST(the_largest_spec_can_be_read_back)
{
    SB_FREE char *value = calloc(1, SB_STRING_MAX);
    SB_FREE char *text = NULL;
    SB_JSON json_t *json = NULL;
    struct sandbox_spec *back = NULL;
    char target[4000] = "/";

    /* control characters are the worst case: six bytes of JSON for each */
    memset(value, 1, SB_STRING_MAX - 2);
    for (int i = 0; i < 8; i++) {
        char name[2] = { (char)('a' + i), 0 };

        accepted(sb_spec_add_env(spec, name, value, &error));
    }
    value[SANDBOX_LABEL_VALUE_MAX] = 0;
    for (int i = 0; spec->labels_bytes + SANDBOX_LABEL_VALUE_MAX + 16 < SB_LABELS_BYTES_MAX; i++) {
        char key[12];

        snprintf(key, sizeof key, "%d", i);
        accepted(sb_spec_add_label(spec, key, value, &error));
    }
    memset(target + 1, 1, sizeof target - 2);
    while (spec->mounts_bytes + 2 * sizeof target < SB_MOUNTS_BYTES_MAX)
        accepted(mount_of(SANDBOX_MOUNT_BIND, target, target, 0, 0, &error));
    text = text_of(spec);
    accepted(sb_json_parse(text, strlen(text), "spec", &json, &error));
    accepted(sb_spec_from_json(json, &back, &error));
    sb_spec_free(back);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base-spec");
    TCase *tc = sbtest_case("spec");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, an_empty_spec_round_trips);
    tcase_add_test(tc, a_full_spec_round_trips);
    tcase_add_test(tc, a_named_network_round_trips);
    tcase_add_test(tc, null_takes_a_value_away);
    tcase_add_test(tc, equal_keys_replace);
    tcase_add_test(tc, names_and_images_are_checked);
    tcase_add_test(tc, labels_are_checked);
    tcase_add_test(tc, env_is_checked);
    tcase_add_test(tc, idempotency_key_is_checked);
    tcase_add_test(tc, equal_specs_differ_in_order_and_key_alone);
    tcase_add_test(tc, workdir_user_and_hostname_are_checked);
    tcase_add_test(tc, daemon_is_checked);
    tcase_add_test(tc, numbers_are_checked);
    tcase_add_test(tc, capabilities_are_known_by_name);
    tcase_add_test(tc, mounts_are_checked);
    tcase_add_loop_test(tc, wrong_json_is_damage, 0, (int)SB_ELEMENTS(wrong_json));
    tcase_add_test(tc, an_older_record_has_defaults);
    tcase_add_test(tc, the_largest_spec_can_be_read_back);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
