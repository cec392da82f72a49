/* SPDX-License-Identifier: Apache-2.0
 * See profile-json.h. The form is the one that Docker documents: an object of defaultAction, defaultErrnoRet, archMap or architectures, and
 * syscalls, whose entries have names, action, errnoRet, args, includes, excludes and a comment. */
#include "profile-json.h"

#include "errors.h"
#include "json.h"
#include "spec.h"
#include "util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct reader {
    struct sandbox_error **error;
    char place[80]; /* such as "syscalls[3].args[0]" */
};

static const char *const actions[] = {
    [SB_PROFILE_ALLOW] = "SCMP_ACT_ALLOW",
    [SB_PROFILE_LOG] = "SCMP_ACT_LOG",
    [SB_PROFILE_ERRNO] = "SCMP_ACT_ERRNO",
    [SB_PROFILE_TRAP] = "SCMP_ACT_TRAP",
    [SB_PROFILE_KILL_THREAD] = "SCMP_ACT_KILL_THREAD",
    [SB_PROFILE_KILL_PROCESS] = "SCMP_ACT_KILL_PROCESS",
};

static const char *const ops[] = {
    [SB_PROFILE_NE] = "SCMP_CMP_NE",
    [SB_PROFILE_LT] = "SCMP_CMP_LT",
    [SB_PROFILE_LE] = "SCMP_CMP_LE",
    [SB_PROFILE_EQ] = "SCMP_CMP_EQ",
    [SB_PROFILE_GE] = "SCMP_CMP_GE",
    [SB_PROFILE_GT] = "SCMP_CMP_GT",
    [SB_PROFILE_MASKED_EQ] = "SCMP_CMP_MASKED_EQ",
};

static int refuse(const struct reader *in, int code, const char *key, const char *why)
{
    return sb_fail(in->error, SB_ARGS(code, .field = "seccomp", .hint = "docs/profiles.md has what a profile may say"),
                   "the profile: %s%s%s: %s", in->place, *in->place && *key ? "." : "", key, why);
}

static int no_memory(const struct reader *in)
{
    return sb_fail(in->error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
}

static int index_of(const char *const *names, size_t n, const json_t *value)
{
    for (size_t i = 0; json_is_string(value) && i < n; i++)
        if (!strcmp(names[i], json_string_value(value)))
            return (int)i;
    return -1;
}

/* Every member must be one of these. */
static int check_members(const struct reader *in, const json_t *object, const char *const *known)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        const char *const *k = known;

        while (*k && strcmp(*k, key))
            k++;
        if (!*k)
            return refuse(in, SANDBOX_EINVALID, "", "it has a member that is not known here");
    }
    return 0;
}

static void free_names(char **names)
{
    for (char **p = names; p && *p; p++)
        free(*p);
    free(names);
}

/* NULL, or a list of strings without a NUL inside. */
static int read_names(const struct reader *in, const json_t *list, const char *key, char ***ret)
{
    size_t n = json_array_size(list);
    char **names;

    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || n > SB_PROFILE_NAMES_MAX)
        return refuse(in, SANDBOX_EINVALID, key, "no list of at most 1,024 names");
    names = *ret = calloc(n + 1, sizeof *names);
    if (!names)
        return no_memory(in);
    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_array_get(list, i);

        if (!json_is_string(name) || !*json_string_value(name) || strlen(json_string_value(name)) != json_string_length(name))
            return refuse(in, SANDBOX_EINVALID, key, "an entry is no name");
        names[i] = strdup(json_string_value(name));
        if (!names[i])
            return no_memory(in);
    }
    return 0;
}

static int read_action(const struct reader *in, const json_t *object, const char *key, const char *errno_key,
                       enum sb_profile_action *ret, int *ret_errno)
{
    const json_t *value = json_object_get(object, key), *number = json_object_get(object, errno_key);
    const char *text = json_string_value(value);
    int action = text && !strcmp(text, "SCMP_ACT_KILL") ? SB_PROFILE_KILL_THREAD : index_of(actions, SB_ELEMENTS(actions), value);

    if (text && (!strcmp(text, "SCMP_ACT_TRACE") || !strcmp(text, "SCMP_ACT_NOTIFY")))
        return refuse(in, SANDBOX_EUNSUPPORTED, key, "nobody outside decides for a sandbox: no tracer, no supervisor");
    if (action < 0)
        return refuse(in, SANDBOX_EINVALID, key, "no action that is known here");
    *ret = (enum sb_profile_action)action;
    *ret_errno = EPERM;
    if (!number || json_is_null(number))
        return 0;
    if (!json_is_integer(number) || json_integer_value(number) < 0 || json_integer_value(number) > 4095)
        return refuse(in, SANDBOX_EINVALID, errno_key, "no error number: 0 to 4095");
    if (action != SB_PROFILE_ERRNO && json_integer_value(number))
        return refuse(in, SANDBOX_EINVALID, errno_key, "it goes with SCMP_ACT_ERRNO alone");
    *ret_errno = (int)json_integer_value(number);
    return 0;
}

static int read_value(const struct reader *in, const json_t *object, const char *key, uint64_t *ret)
{
    const json_t *value = json_object_get(object, key);

    if (value && (!json_is_integer(value) || json_integer_value(value) < 0))
        return refuse(in, SANDBOX_EINVALID, key, "no integer of 0 or more");
    *ret = (uint64_t)json_integer_value(value);
    return 0;
}

static int read_arg(const struct reader *in, const json_t *object, struct sb_profile_rule *rule)
{
    static const char *const known[] = { "index", "value", "valueTwo", "op", NULL };
    struct sb_profile_arg *arg = &rule->args[rule->n_args];
    const json_t *index = json_object_get(object, "index");
    int op = index_of(ops, SB_ELEMENTS(ops), json_object_get(object, "op"));
    int r = json_is_object(object) ? check_members(in, object, known) : refuse(in, SANDBOX_EINVALID, "", "no object");

    if (!r && (!json_is_integer(index) || json_integer_value(index) < 0 || json_integer_value(index) >= SB_PROFILE_ARGS_MAX))
        r = refuse(in, SANDBOX_EINVALID, "index", "no argument's number: 0 to 5");
    if (!r && op < 0)
        r = refuse(in, SANDBOX_EINVALID, "op", "no comparison that is known here");
    if (!r)
        r = read_value(in, object, "value", &arg->value);
    if (!r)
        r = read_value(in, object, "valueTwo", &arg->value_two);
    if (r)
        return r;
    arg->index = (unsigned int)json_integer_value(index);
    arg->op = (enum sb_profile_op)op;
    if (arg->op != SB_PROFILE_MASKED_EQ && arg->value_two)
        return refuse(in, SANDBOX_EINVALID, "valueTwo", "it goes with SCMP_CMP_MASKED_EQ alone");
    for (size_t i = 0; i < rule->n_args; i++)
        if (rule->args[i].index == arg->index)
            return refuse(
                in, SANDBOX_EUNSUPPORTED, "index",
                "two comparisons of one argument in one rule, of which some runtimes want both and others one: write two rules");
    rule->n_args++;
    return 0;
}

static int read_args(struct reader *in, const json_t *list, size_t number, struct sb_profile_rule *rule)
{
    int r = 0;

    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || json_array_size(list) > SB_PROFILE_ARGS_MAX)
        return refuse(in, SANDBOX_EINVALID, "args", "no list of at most 6 comparisons");
    for (size_t i = 0; i < json_array_size(list) && !r; i++) {
        snprintf(in->place, sizeof in->place, "syscalls[%zu].args[%zu]", number, i);
        r = read_arg(in, json_array_get(list, i), rule);
    }
    return r;
}

static int read_filter(const struct reader *in, const json_t *object, const char *key, struct sb_profile_filter *ret)
{
    static const char *const known[] = { "caps", "arches", "minKernel", NULL };
    const json_t *kernel = json_object_get(object, "minKernel");
    char **caps = NULL;
    char rest;
    int r;

    if (!object || json_is_null(object))
        return 0;
    if (!json_is_object(object))
        return refuse(in, SANDBOX_EINVALID, key, "no object");
    r = check_members(in, object, known);
    if (!r)
        r = read_names(in, json_object_get(object, "arches"), key, &ret->arches);
    if (!r)
        r = read_names(in, json_object_get(object, "caps"), key, &caps);
    for (char **c = caps; !r && c && *c; c++) {
        int number = sb_capability_from_name(*c);

        if (number < 0)
            r = refuse(in, SANDBOX_EINVALID, key, "a capability that is not known here");
        else
            ret->capabilities |= UINT64_C(1) << number;
    }
    free_names(caps);
    if (!r && kernel && !json_is_string(kernel))
        return refuse(in, SANDBOX_EINVALID, key, "minKernel is no string");
    if (!r && kernel && json_string_length(kernel) &&
        sscanf(json_string_value(kernel), "%3u.%5u%c", &ret->major, &ret->minor, &rest) != 2)
        r = refuse(in, SANDBOX_EINVALID, key, "minKernel is no version such as \"4.8\"");
    return r;
}

static int read_rule(struct reader *in, const json_t *object, size_t number, struct sb_profile_rule *rule)
{
    static const char *const known[] = { "names", "name", "action", "errnoRet", "args", "includes", "excludes", "comment", NULL };
    const json_t *name = json_object_get(object, "name");
    SB_JSON json_t *one = NULL;
    int r;

    snprintf(in->place, sizeof in->place, "syscalls[%zu]", number);
    if (!json_is_object(object))
        return refuse(in, SANDBOX_EINVALID, "", "no object");
    r = check_members(in, object, known);
    if (!r && name && !json_is_string(name))
        r = refuse(in, SANDBOX_EINVALID, "name", "no name");
    if (!r && name && json_string_length(name)) {
        if (json_array_size(json_object_get(object, "names")))
            return refuse(in, SANDBOX_EINVALID, "name", "beside names");
        one = json_pack("[O]", name);
        if (!one)
            return no_memory(in);
    }
    if (!r)
        r = read_names(in, one ? one : json_object_get(object, "names"), "names", &rule->names);
    if (!r && (!rule->names || !rule->names[0]))
        r = refuse(in, SANDBOX_EINVALID, "names", "it names no system call");
    if (!r)
        r = read_action(in, object, "action", "errnoRet", &rule->action, &rule->errno_ret);
    if (!r)
        r = read_filter(in, json_object_get(object, "includes"), "includes", &rule->includes);
    if (!r)
        r = read_filter(in, json_object_get(object, "excludes"), "excludes", &rule->excludes);
    return r ? r : read_args(in, json_object_get(object, "args"), number, rule);
}

/* archMap (an architecture and those it can run) or architectures. Sub-architectures are killed here whatever a profile says. */
static int read_arches(struct reader *in, const json_t *document, struct sb_profile *p)
{
    static const char *const known[] = { "architecture", "subArchitectures", NULL };
    const json_t *map = json_object_get(document, "archMap"), *list = json_object_get(document, "architectures");
    SB_JSON json_t *names = NULL;

    if ((map && !json_is_null(map) && !json_is_array(map)) || (list && !json_is_null(list) && !json_is_array(list)))
        return refuse(in, SANDBOX_EINVALID, map && !json_is_array(map) ? "archMap" : "architectures", "no list");
    if (map && list && json_array_size(map) && json_array_size(list))
        return refuse(in, SANDBOX_EINVALID, "archMap", "beside architectures");
    if (!json_array_size(map))
        return json_array_size(list) ? read_names(in, list, "architectures", &p->arches) : 0;
    names = json_array();
    for (size_t i = 0; i < json_array_size(map); i++) {
        const json_t *entry = json_array_get(map, i);

        if (!json_is_object(entry) || !json_is_string(json_object_get(entry, "architecture")) || check_members(in, entry, known))
            return refuse(in, SANDBOX_EINVALID, "archMap", "an entry is no architecture with its subArchitectures");
        json_array_append(names, json_object_get(entry, "architecture"));
    }
    return read_names(in, names, "archMap", &p->arches);
}

static int read_profile(struct reader *in, const json_t *document, struct sb_profile *p)
{
    static const char *const known[] = {
        "defaultAction", "defaultErrnoRet", "archMap", "architectures", "syscalls", "flags", NULL
    };
    const json_t *rules = json_object_get(document, "syscalls"), *flags = json_object_get(document, "flags");
    int r = json_is_object(document) ? check_members(in, document, known) : refuse(in, SANDBOX_EINVALID, "", "no object");

    if (!r && flags && !json_is_null(flags) && (!json_is_array(flags) || json_array_size(flags)))
        r = refuse(in, SANDBOX_EUNSUPPORTED, "flags", "no flags are taken here");
    if (!r)
        r = read_action(in, document, "defaultAction", "defaultErrnoRet", &p->action, &p->errno_ret);
    if (!r)
        r = read_arches(in, document, p);
    if (!r && rules && !json_is_null(rules) && !json_is_array(rules))
        r = refuse(in, SANDBOX_EINVALID, "syscalls", "no list");
    if (!r && json_array_size(rules) > SB_PROFILE_RULES_MAX)
        r = refuse(in, SANDBOX_ELIMIT, "syscalls", "more than 4,096 rules");
    if (r || !json_array_size(rules))
        return r;
    p->rules = calloc(json_array_size(rules), sizeof *p->rules);
    if (!p->rules)
        return no_memory(in);
    for (; p->n_rules < json_array_size(rules) && !r; p->n_rules++)
        r = read_rule(in, json_array_get(rules, p->n_rules), p->n_rules, &p->rules[p->n_rules]);
    return r;
}

void sb_profile_free(struct sb_profile *profile)
{
    if (!profile)
        return;
    for (size_t i = 0; i < profile->n_rules; i++) {
        free_names(profile->rules[i].names);
        free_names(profile->rules[i].includes.arches);
        free_names(profile->rules[i].excludes.arches);
    }
    free(profile->rules);
    free_names(profile->arches);
    free(profile);
}

int sb_profile_parse(const char *text, size_t size, struct sb_profile **ret_profile, struct sandbox_error **error)
{
    struct sandbox_error *cause = NULL;
    struct reader in = { .error = error };
    SB_JSON json_t *document = NULL;
    struct sb_profile *p;
    int r;

    if (size > SB_PROFILE_TEXT_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "seccomp"), "the profile is larger than %d bytes",
                       SB_PROFILE_TEXT_MAX);
    r = sb_json_parse(text, size, "the profile", &document, &cause);
    if (r) {
        r = sb_fail(error, SB_ARGS(r == SANDBOX_EDAMAGED ? SANDBOX_EINVALID : r, .field = "seccomp"), "%s",
                    sandbox_error_get_message(cause));
        sandbox_error_unref(cause);
        return r;
    }
    p = calloc(1, sizeof *p);
    if (!p)
        return no_memory(&in);
    r = read_profile(&in, document, p);
    if (r)
        sb_profile_free(p);
    else
        *ret_profile = p;
    return r;
}

static int names_have(char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (!strcmp(*names, name))
            return 1;
    return 0;
}

int sb_profile_applies(const struct sb_profile_rule *rule, uint64_t capabilities, const char *arch, unsigned int major,
                       unsigned int minor)
{
    const struct sb_profile_filter *in = &rule->includes, *out = &rule->excludes;

    if ((in->capabilities & capabilities) != in->capabilities || (in->arches && in->arches[0] && !names_have(in->arches, arch)) ||
        major < in->major || (major == in->major && minor < in->minor))
        return 0;
    if ((out->major || out->minor) && (major > out->major || (major == out->major && minor >= out->minor)))
        return 0;
    return !(out->capabilities & capabilities) && !names_have(out->arches, arch);
}

int sb_check_seccomp(const char *profile, struct sandbox_error **error)
{
    SB_PROFILE struct sb_profile *parsed = NULL;

    if (profile && (!strcmp(profile, "strict") || !strcmp(profile, "default") || !strcmp(profile, "devel")))
        return 0;
    if (profile && profile[strspn(profile, " \t\r\n")] == '{')
        return sb_profile_parse(profile, strnlen(profile, SB_PROFILE_TEXT_MAX + 1), &parsed, error);
    return sb_fail(error,
                   SB_ARGS(SANDBOX_EINVALID, .field = "seccomp",
                           .hint = "strict, default, devel, or the text of a profile in Docker's JSON form"),
                   "seccomp is no profile");
}
