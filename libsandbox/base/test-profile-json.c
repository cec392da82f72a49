/* SPDX-License-Identifier: Apache-2.0
 * Profiles as text: what is taken, what is refused and where. */
#include <sbtest.h>

#include "errors.h"
#include "profile-json.h"
#include "spec.h"
#include "util.h"

#include <linux/capability.h>
#include <string.h>

static struct sandbox_error *error;

START_TEST(profiles_are_read)
{
    static const char text[] = "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 38, \"archMap\": "
                               "[{\"architecture\": \"SCMP_ARCH_X86_64\", \"subArchitectures\": "
                               "[\"SCMP_ARCH_X86\"]}], \"syscalls\": [{\"names\": [\"read\", \"write\"], \"action\": "
                               "\"SCMP_ACT_ALLOW\", \"args\": [], \"comment\": \"\", "
                               "\"includes\": {}, \"excludes\": {}}, {\"name\": \"clone\", \"action\": \"SCMP_ACT_KILL\", "
                               "\"args\": [{\"index\": 0, \"value\": 2114060288, "
                               "\"valueTwo\": 0, \"op\": \"SCMP_CMP_MASKED_EQ\"}], \"includes\": {\"caps\": [\"CAP_SYS_ADMIN\"], "
                               "\"arches\": [\"amd64\"], \"minKernel\": \"4.8\"}, "
                               "\"excludes\": {\"caps\": [\"CAP_SYS_PTRACE\"]}}]}";
    const uint64_t admin = UINT64_C(1) << CAP_SYS_ADMIN, both = admin | UINT64_C(1) << CAP_SYS_PTRACE;
    SB_PROFILE struct sb_profile *p = NULL;

    sbtest_ok(sb_profile_parse(text, strlen(text), &p, &error), &error);
    ck_assert_int_eq(p->action, SB_PROFILE_ERRNO);
    ck_assert_int_eq(p->errno_ret, 38);
    ck_assert_str_eq(p->arches[0], "SCMP_ARCH_X86_64");
    ck_assert_uint_eq(p->n_rules, 2);
    ck_assert_str_eq(p->rules[0].names[1], "write");
    ck_assert_str_eq(p->rules[1].names[0], "clone");
    ck_assert_int_eq(p->rules[1].action, SB_PROFILE_KILL_THREAD);
    ck_assert_uint_eq(p->rules[1].args[0].value, 2114060288u);
    ck_assert_int_eq(sb_profile_applies(&p->rules[0], 0, "amd64", 3, 0), 1);
    ck_assert_int_eq(sb_profile_applies(&p->rules[1], admin, "amd64", 6, 1), 1);
    ck_assert_int_eq(sb_profile_applies(&p->rules[1], admin, "amd64", 4, 8), 1);
    ck_assert_int_eq(sb_profile_applies(&p->rules[1], admin, "amd64", 4, 7), 0);
    ck_assert_int_eq(sb_profile_applies(&p->rules[1], admin, "arm64", 6, 1), 0);
    ck_assert_int_eq(sb_profile_applies(&p->rules[1], 0, "amd64", 6, 1), 0);
    ck_assert_int_eq(sb_profile_applies(&p->rules[1], both, "amd64", 6, 1), 0);
}
END_TEST

START_TEST(profiles_are_refused)
{
#define RULE(rest)                                                                                                               \
    "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\"" rest "}]}"
    static const struct {
        const char *text;
        int code;
        const char *says;
    } samples[] = {
        { "{", SANDBOX_EINVALID, "line 1" },
        { "[]", SANDBOX_EINVALID, "no object" },
        { "{}", SANDBOX_EINVALID, "defaultAction" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"defaultAction\":\"SCMP_ACT_ALLOW\"}", SANDBOX_EINVALID, "duplicate" },
        { "{\"defaultAction\":\"ALLOW\"}", SANDBOX_EINVALID, "defaultAction" },
        { "{\"defaultAction\":\"SCMP_ACT_NOTIFY\"}", SANDBOX_EUNSUPPORTED, "defaultAction" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscall\":[]}", SANDBOX_EINVALID, "not known" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"listenerPath\":\"/x\"}", SANDBOX_EINVALID, "not known" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"flags\":[\"SECCOMP_FILTER_FLAG_LOG\"]}", SANDBOX_EUNSUPPORTED, "flags" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"defaultErrnoRet\":1}", SANDBOX_EINVALID, "defaultErrnoRet" },
        { "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":4096}", SANDBOX_EINVALID, "defaultErrnoRet" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":{}}", SANDBOX_EINVALID, "syscalls" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"action\":\"SCMP_ACT_ERRNO\"}]}", SANDBOX_EINVALID,
          "syscalls[0].names" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"a\"],\"name\":\"b\",\"action\":\"SCMP_ACT_ERRNO\"}]"
          "}",
          SANDBOX_EINVALID, "syscalls[0].name" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[1],\"action\":\"SCMP_ACT_ERRNO\"}]}", SANDBOX_EINVALID,
          "syscalls[0].names" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"a\"]}]}", SANDBOX_EINVALID, "syscalls[0].action" },
        { RULE(",\"priority\":1"), SANDBOX_EINVALID, "syscalls[0]: it has a member" },
        { RULE(",\"errnoRet\":-1"), SANDBOX_EINVALID, "syscalls[0].errnoRet" },
        { RULE(",\"args\":[{\"index\":6,\"value\":0,\"op\":\"SCMP_CMP_EQ\"}]"), SANDBOX_EINVALID, "syscalls[0].args[0].index" },
        { RULE(",\"args\":[{\"index\":0,\"value\":-1,\"op\":\"SCMP_CMP_EQ\"}]"), SANDBOX_EINVALID, "syscalls[0].args[0].value" },
        { RULE(",\"args\":[{\"index\":0,\"value\":0,\"op\":\"SCMP_CMP_LIKE\"}]"), SANDBOX_EINVALID, "syscalls[0].args[0].op" },
        { RULE(",\"args\":[{\"index\":0,\"value\":0,\"valueTwo\":1,\"op\":\"SCMP_CMP_EQ\"}]"), SANDBOX_EINVALID,
          "syscalls[0].args[0].valueTwo" },
        { RULE(",\"args\":[{\"index\":0,\"value\":0,\"op\":\"SCMP_CMP_GT\"},{\"index\":0,\"value\":9,\"op\":\"SCMP_CMP_LT\"}]"),
          SANDBOX_EUNSUPPORTED, "syscalls[0].args[1].index" },
        { RULE(",\"includes\":{\"caps\":[\"CAP_FLY\"]}"), SANDBOX_EINVALID, "includes" },
        { RULE(",\"includes\":{\"minKernel\":\"four\"}"), SANDBOX_EINVALID, "includes" },
        { RULE(",\"includes\":{\"minKernel\":4}"), SANDBOX_EINVALID, "includes" },
        { RULE(",\"includes\":[]"), SANDBOX_EINVALID, "includes" },
        { RULE(",\"includes\":{\"caps\":\"CAP_CHOWN\"}"), SANDBOX_EINVALID, "includes" },
        { RULE(",\"name\":7"), SANDBOX_EINVALID, "syscalls[0].name" },
        { RULE(",\"args\":{}"), SANDBOX_EINVALID, "args" },
        { RULE(",\"args\":[7]"), SANDBOX_EINVALID, "syscalls[0].args[0]" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"archMap\":{}}", SANDBOX_EINVALID, "archMap" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"archMap\":[7]}", SANDBOX_EINVALID, "archMap" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"archMap\":[{}]}", SANDBOX_EINVALID, "archMap" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":\"x\"}", SANDBOX_EINVALID, "architectures" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"flags\":\"x\"}", SANDBOX_EUNSUPPORTED, "flags" },
        { "{\"defaultAction\":7}", SANDBOX_EINVALID, "defaultAction" },
        { "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[[]]}", SANDBOX_EINVALID, "syscalls[0]" },
        { RULE(",\"excludes\":{\"maxKernel\":\"4.8\"}"), SANDBOX_EINVALID, "not known" },
    };

    for (size_t i = 0; i < SB_ELEMENTS(samples); i++) {
        struct sb_profile *p = NULL;
        int r = sb_profile_parse(samples[i].text, strlen(samples[i].text), &p, &error);

        ck_assert_msg(r == samples[i].code, "%s: %d, %s", samples[i].text, r, r ? sandbox_error_get_message(error) : "taken");
        ck_assert_ptr_null(p);
        ck_assert_str_eq(sandbox_error_get_field(error), "seccomp");
        ck_assert_msg(strstr(sandbox_error_get_message(error), samples[i].says), "%s: %s", samples[i].text,
                      sandbox_error_get_message(error));
        sandbox_error_unref(error);
        error = NULL;
    }
}
END_TEST

/* A profile's text comes back character for character; "default" is what is said when nothing was. */
START_TEST(profiles_in_specs)
{
    static const char text[] = " {\"defaultAction\" : \"SCMP_ACT_ALLOW\" }\n";
    struct sandbox_spec *spec = sb_spec_new(), *copy, *back = NULL;
    json_t *json;

    sbtest_fails(sb_spec_set_seccomp(spec, "unconfined", &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sb_spec_set_seccomp(spec, "default", &error), &error);
    json = sb_spec_to_json(spec);
    ck_assert_str_eq(json_string_value(json_object_get(json, "seccomp")), "default");
    json_decref(json);
    sbtest_ok(sb_spec_set_seccomp(spec, text, &error), &error);
    copy = sb_spec_copy(spec);
    json = sb_spec_to_json(copy);
    ck_assert_str_eq(json_string_value(json_object_get(json, "seccomp")), text);
    sbtest_ok(sb_spec_from_json(json, &back, &error), &error);
    ck_assert_int_eq(sb_spec_equal(spec, back), 1);
    json_object_set_new(json, "seccomp", json_string("{}"));
    sbtest_fails(sb_spec_from_json(json, &back, &error), SANDBOX_EDAMAGED, &error);
    json_decref(json);
    sb_spec_free(spec);
    sb_spec_free(copy);
    sb_spec_free(back);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base-profile-json");
    TCase *tc = sbtest_case("profile");

    tcase_add_test(tc, profiles_are_read);
    tcase_add_test(tc, profiles_are_refused);
    tcase_add_test(tc, profiles_in_specs);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
