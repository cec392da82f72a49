/* SPDX-License-Identifier: Apache-2.0
 * A profile becomes one program. Of all rules that match a call the strictest counts, of two errors the lower number; a rule whose action is the
 * default's says nothing, as in other runtimes.
 *
 * Names are resolved by libseccomp; the program is not made by it. Where several rules of one call compare different arguments it merges them
 * into one tree, and the tree's answers are not always the rules' (2.5.4: for three rules of which none matched, ALLOW; tests/unit/test-profile.c
 * finds it). Here a call's rules stand one after another, the strictest first, and the first that matches answers: nothing to get
 * wrong, and profiles have few rules for one call. The calls are found by a binary search. */
#include "profile.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include <errors.h>
#include <util.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
static const char go_arch[] = "amd64", scmp_arch[] = "SCMP_ARCH_X86_64";
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
static const char go_arch[] = "arm64", scmp_arch[] = "SCMP_ARCH_AARCH64";
#else
#error "an architecture that has no name here"
#endif

enum { X32_BIT = 0x40000000 };

/* A rule for one call. */
struct entry {
    uint32_t nr;
    const struct sb_profile_rule *rule;
};

struct compiler {
    const struct sb_profile *profile;
    struct entry *entries; /* by number, the strictest of a call first, none after one without conditions */
    size_t n_entries, room;
    struct sock_filter code[BPF_MAXINSNS];
    size_t n;
    int full;
    struct sandbox_error **error;
};

static uint32_t answer(enum sb_profile_action action, int errno_ret)
{
    switch (action) {
    case SB_PROFILE_ALLOW:
        return SECCOMP_RET_ALLOW;
    case SB_PROFILE_LOG:
        return SECCOMP_RET_LOG;
    case SB_PROFILE_ERRNO:
        return SECCOMP_RET_ERRNO | (uint32_t)errno_ret;
    case SB_PROFILE_TRAP:
        return SECCOMP_RET_TRAP;
    case SB_PROFILE_KILL_THREAD:
        return SECCOMP_RET_KILL_THREAD;
    default:
        return SECCOMP_RET_KILL_PROCESS;
    }
}

static uint32_t answer_of(const struct sb_profile_rule *rule)
{
    return answer(rule->action, rule->errno_ret);
}

static int no_memory(const struct compiler *c)
{
    return sb_fail(c->error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM, .retryable = 1), "out of memory");
}

/* ---- which rules are in force for which call ---- */

static int add_entry(struct compiler *c, uint32_t nr, const struct sb_profile_rule *rule)
{
    if (c->n_entries == c->room) {
        size_t room = c->room ? c->room * 2 : 512;
        struct entry *more = realloc(c->entries, room * sizeof *more);

        if (!more)
            return no_memory(c);
        c->entries = more;
        c->room = room;
    }
    c->entries[c->n_entries++] = (struct entry){ nr, rule };
    return 0;
}

/* Of a name that this libseccomp doesn't know: a rule that only opens what the default closes may be passed over, any other not. */
static int unknown_name(const struct compiler *c, const struct sb_profile_rule *rule, const char *name)
{
    if (rule->action < c->profile->action)
        return 0;
    return sb_fail(c->error,
                   SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "seccomp", .field = "seccomp",
                           .hint = "take it out of the profile, or use a newer libseccomp"),
                   "the profile has a rule for %.40s, a system call that is not known here", name);
}

static int gather(struct compiler *c, uint64_t capabilities, unsigned int major, unsigned int minor)
{
    uint32_t otherwise = answer(c->profile->action, c->profile->errno_ret);
    int r = 0;

    for (size_t i = 0; i < c->profile->n_rules; i++) {
        const struct sb_profile_rule *rule = &c->profile->rules[i];

        if (!sb_profile_applies(rule, capabilities, go_arch, major, minor) || answer_of(rule) == otherwise)
            continue;
        for (char **name = rule->names; *name && !r; name++) {
            int nr = seccomp_syscall_resolve_name(*name);

            if (nr >= 0)
                r = add_entry(c, (uint32_t)nr, rule);
            else if (nr == __NR_SCMP_ERROR) /* else it is another architecture's */
                r = unknown_name(c, rule, *name);
        }
    }
    return r;
}

static int by_call(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    if (a->nr != b->nr)
        return a->nr < b->nr ? -1 : 1;
    if (a->rule->action != b->rule->action)
        return a->rule->action > b->rule->action ? -1 : 1;
    if (answer_of(a->rule) != answer_of(b->rule)) /* two errors */
        return answer_of(a->rule) < answer_of(b->rule) ? -1 : 1;
    if ((a->rule->n_args == 0) != (b->rule->n_args == 0))
        return a->rule->n_args == 0 ? -1 : 1;
    return a->rule < b->rule ? -1 : a->rule > b->rule;
}

/* What comes after a rule that always matches is never asked. */
static void drop_dead(struct compiler *c)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->n_entries; i++)
        if (!kept || c->entries[kept - 1].nr != c->entries[i].nr || c->entries[kept - 1].rule->n_args)
            c->entries[kept++] = c->entries[i];
    c->n_entries = kept;
}

/* ---- instructions ---- */

static size_t emit(struct compiler *c, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
    if (c->n == BPF_MAXINSNS) {
        c->full = 1;
        return 0;
    }
    c->code[c->n] = (struct sock_filter){ code, jt, jf, k };
    return c->n++;
}

static void load(struct compiler *c, uint32_t offset)
{
    emit(c, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

/* Where a jump of a condition goes: to what follows the condition, or to what follows its rule. All of a rule is within a jump's reach. */
enum { NEXT = 0, PASS = 254, FAIL = 255 };

static void test(struct compiler *c, uint16_t jump, uint32_t k, uint8_t yes, uint8_t no)
{
    emit(c, BPF_JMP | jump | BPF_K, k, yes, no);
}

static void resolve(struct compiler *c, size_t from, uint8_t mark)
{
    for (size_t i = from; i < c->n; i++) {
        if (BPF_CLASS(c->code[i].code) != BPF_JMP || BPF_OP(c->code[i].code) == BPF_JA)
            continue;
        if (c->code[i].jt == mark)
            c->code[i].jt = (uint8_t)(c->n - i - 1);
        if (c->code[i].jf == mark)
            c->code[i].jf = (uint8_t)(c->n - i - 1);
    }
}

/* 64 bits in two halves of 32: the upper one decides unless it is equal. */
static void emit_condition(struct compiler *c, const struct sb_profile_arg *arg)
{
    const uint32_t low = (uint32_t)offsetof(struct seccomp_data, args) + arg->index * 8, high = low + 4; /* little-endian, both */
    const uint32_t v = (uint32_t)arg->value, v_high = (uint32_t)(arg->value >> 32);
    const size_t from = c->n;

    load(c, high);
    switch (arg->op) {
    case SB_PROFILE_EQ:
        test(c, BPF_JEQ, v_high, NEXT, FAIL);
        load(c, low);
        test(c, BPF_JEQ, v, PASS, FAIL);
        break;
    case SB_PROFILE_NE:
        test(c, BPF_JEQ, v_high, NEXT, PASS);
        load(c, low);
        test(c, BPF_JEQ, v, FAIL, PASS);
        break;
    case SB_PROFILE_GT:
    case SB_PROFILE_GE:
        test(c, BPF_JGT, v_high, PASS, NEXT);
        test(c, BPF_JEQ, v_high, NEXT, FAIL);
        load(c, low);
        test(c, arg->op == SB_PROFILE_GT ? BPF_JGT : BPF_JGE, v, PASS, FAIL);
        break;
    case SB_PROFILE_LT:
    case SB_PROFILE_LE:
        test(c, BPF_JGT, v_high, FAIL, NEXT);
        test(c, BPF_JEQ, v_high, NEXT, PASS);
        load(c, low);
        test(c, arg->op == SB_PROFILE_LE ? BPF_JGT : BPF_JGE, v, FAIL, PASS);
        break;
    case SB_PROFILE_MASKED_EQ:
        emit(c, BPF_ALU | BPF_AND | BPF_K, v_high, 0, 0);
        test(c, BPF_JEQ, (uint32_t)(arg->value_two >> 32), NEXT, FAIL);
        load(c, low);
        emit(c, BPF_ALU | BPF_AND | BPF_K, v, 0, 0);
        test(c, BPF_JEQ, (uint32_t)arg->value_two, PASS, FAIL);
        break;
    }
    resolve(c, from, PASS);
}

static void emit_rule(struct compiler *c, const struct sb_profile_rule *rule)
{
    size_t from = c->n;

    for (size_t i = 0; i < rule->n_args; i++)
        emit_condition(c, &rule->args[i]);
    emit(c, BPF_RET | BPF_K, answer_of(rule), 0, 0);
    resolve(c, from, FAIL);
}

/* ---- the search ---- */

/* From this call's number on, up to the next segment's: the rules of one call, or one answer (no rules: the default's). */
struct segment {
    uint32_t from;
    uint32_t ret;
    const struct entry *first; /* NULL: `ret` for all */
    size_t n;
};

static size_t add_segment(struct segment *segments, size_t n, struct segment s)
{
    if (n && segments[n - 1].from == s.from) /* an empty one */
        n--;
    if (n && !s.first && !segments[n - 1].first && segments[n - 1].ret == s.ret)
        return n;
    segments[n] = s;
    return n + 1;
}

/* At most two for each call, and one. */
static size_t make_segments(const struct compiler *c, struct segment *segments)
{
    const uint32_t otherwise = answer(c->profile->action, c->profile->errno_ret);
    size_t n = add_segment(segments, 0, (struct segment){ 0, otherwise, NULL, 0 });

    for (size_t i = 0, next; i < c->n_entries; i = next) {
        const struct entry *e = &c->entries[i];

        for (next = i + 1; next < c->n_entries && c->entries[next].nr == e->nr;)
            next++;
        n = add_segment(segments, n,
                        e->rule->n_args ? (struct segment){ e->nr, otherwise, e, next - i }
                                        : (struct segment){ e->nr, answer_of(e->rule), NULL, 0 });
        n = add_segment(segments, n, (struct segment){ e->nr + 1, otherwise, NULL, 0 });
    }
    return n;
}

/* The call's number is loaded where a search begins. */
static void emit_search(struct compiler *c, const struct segment *segments, size_t n)
{
    size_t half = n / 2, jump;

    if (n == 1) {
        for (size_t i = 0; i < segments->n; i++)
            emit_rule(c, segments->first[i].rule);
        emit(c, BPF_RET | BPF_K, segments->ret, 0, 0);
        return;
    }
    test(c, BPF_JGE, segments[half].from, 0, 1);
    jump = emit(c, BPF_JMP | BPF_JA, 0, 0, 0);
    emit_search(c, segments, half);
    if (!c->full)
        c->code[jump].k = (uint32_t)(c->n - jump - 1);
    emit_search(c, segments + half, n - half);
}

static int emit_program(struct compiler *c)
{
    struct segment *segments = calloc(2 * c->n_entries + 1, sizeof *segments);

    if (!segments)
        return no_memory(c);
    load(c, offsetof(struct seccomp_data, arch));
    test(c, BPF_JEQ, NATIVE, 1, 0);
    emit(c, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    load(c, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
    test(c, BPF_JGE, X32_BIT, 0, 1);
    emit(c, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
#endif
    emit_search(c, segments, make_segments(c, segments));
    free(segments);
    return c->full ? sb_fail(c->error, SB_ARGS(SANDBOX_ELIMIT, .field = "seccomp"),
                             "the profile is longer than the kernel takes: %d instructions", BPF_MAXINSNS)
                   : 0;
}

/* Its own list of architectures, if it has one, must have this machine's. */
static int check_arch(const struct compiler *c)
{
    char **name = c->profile->arches;

    while (name && *name && strcmp(*name, scmp_arch))
        name++;
    if (!c->profile->arches || !c->profile->arches[0] || *name)
        return 0;
    return sb_fail(c->error, SB_ARGS(SANDBOX_EUNSUPPORTED, .field = "seccomp"),
                   "the profile is for other architectures than this machine's, %s", scmp_arch);
}

static int compile(struct compiler *c, uint64_t capabilities)
{
    unsigned int major, minor;
    struct utsname un;
    int r = check_arch(c);

    if (!r && (uname(&un) < 0 || sscanf(un.release, "%u.%u", &major, &minor) != 2))
        r = sb_fail(c->error, SB_ARGS(SANDBOX_EINTERNAL, .phase = "seccomp"), "this kernel's version can't be read");
    if (!r)
        r = gather(c, capabilities, major, minor);
    if (r)
        return r;
    if (c->n_entries)
        qsort(c->entries, c->n_entries, sizeof *c->entries, by_call);
    drop_dead(c);
    return emit_program(c);
}

int sb_profile_compile(const struct sb_profile *profile, uint64_t capabilities, struct sock_filter **ret_program,
                       size_t *ret_count, struct sandbox_error **error)
{
    struct compiler *c = calloc(1, sizeof *c);
    struct sock_filter *program = NULL;
    int r;

    if (!c)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM, .retryable = 1), "out of memory");
    c->profile = profile;
    c->error = error;
    r = compile(c, capabilities);
    if (!r && !(program = malloc(c->n * sizeof *program)))
        r = no_memory(c);
    if (!r) {
        memcpy(program, c->code, c->n * sizeof *program);
        *ret_program = program;
        *ret_count = c->n;
    }
    free(c->entries);
    free(c);
    return r;
}
