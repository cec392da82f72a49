/* SPDX-License-Identifier: Apache-2.0
 * A caller's own seccomp profile, in the JSON form of Docker's engine: read strictly, and which of its rules apply. What is not understood is
 * refused: a rule that is passed over would be a hole that nobody sees. */
#ifndef SB_BASE_PROFILE_JSON_H
#define SB_BASE_PROFILE_JSON_H

#include <sandbox.h>

enum {
    SB_PROFILE_TEXT_MAX = 256 * 1024,
    SB_PROFILE_ARGS_MAX = 6,
    SB_PROFILE_RULES_MAX = 4096,
    SB_PROFILE_NAMES_MAX = 1024 /* in one rule */
};

/* From the mildest to the strictest, as the kernel ranks them. */
enum sb_profile_action {
    SB_PROFILE_ALLOW,
    SB_PROFILE_LOG,
    SB_PROFILE_ERRNO,
    SB_PROFILE_TRAP,
    SB_PROFILE_KILL_THREAD,
    SB_PROFILE_KILL_PROCESS
};

enum sb_profile_op { SB_PROFILE_NE, SB_PROFILE_LT, SB_PROFILE_LE, SB_PROFILE_EQ, SB_PROFILE_GE, SB_PROFILE_GT, SB_PROFILE_MASKED_EQ };

struct sb_profile_arg {
    unsigned int index;
    enum sb_profile_op op;
    uint64_t value, value_two; /* MASKED_EQ: the mask, and what is left of the argument under it */
};

/* When a rule applies, or when it does not. */
struct sb_profile_filter {
    uint64_t capabilities;
    char **arches;             /* NULL-terminated, in Go's names; NULL: none */
    unsigned int major, minor; /* of the least kernel; 0.0: any */
};

struct sb_profile_rule {
    char **names; /* NULL-terminated, at least one */
    enum sb_profile_action action;
    int errno_ret; /* of ERRNO */
    size_t n_args;
    struct sb_profile_arg args[SB_PROFILE_ARGS_MAX]; /* all must hold; no two on one argument */
    struct sb_profile_filter includes, excludes;
};

struct sb_profile {
    enum sb_profile_action action; /* the default */
    int errno_ret;
    char **arches; /* SCMP_ARCH_…, NULL-terminated; NULL: the profile names none */
    struct sb_profile_rule *rules;
    size_t n_rules;
};

/* EINVALID with the place in the message, EUNSUPPORTED for what exists elsewhere and not here, ELIMIT, ENOMEM; the field is "seccomp". */
int sb_profile_parse(const char *text, size_t size, struct sb_profile **ret_profile, struct sandbox_error **error);
void sb_profile_free(struct sb_profile *profile);
static inline void sb_cleanup_profilep(struct sb_profile **profile)
{
    sb_profile_free(*profile);
}
#define SB_PROFILE __attribute__((cleanup(sb_cleanup_profilep)))

/* Whether a rule is in force for who has these capabilities, on this machine (its name as Go has it: "amd64") and kernel. */
int sb_profile_applies(const struct sb_profile_rule *rule, uint64_t capabilities, const char *arch, unsigned int major, unsigned int minor);

/* "strict", "default", "devel" or a profile that parses. */
int sb_check_seccomp(const char *profile, struct sandbox_error **error);

#endif
