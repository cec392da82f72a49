/* SPDX-License-Identifier: Apache-2.0
 * See limit-set.h. */
#include "limit-set.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "json.h"
#include "rules.h"
#include "util.h"

/* Where there is a number, it is from least to most, or 0. */
static const struct {
    const char *name;
    size_t here, there; /* in sb_limits, in sandbox_limits */
    int64_t least, most;
} fields[] = {
#define FIELD(name, least, most) { #name, offsetof(struct sb_limits, name), offsetof(struct sandbox_limits, name), least, most }
    FIELD(memory_max, SB_MEMORY_LEAST, INT64_MAX),
    FIELD(swap_max, 4096, INT64_MAX),
    FIELD(pids_max, SB_PIDS_LEAST, 4194304),
    FIELD(cpu_max, SB_CPU_LEAST, 1000000000), /* more would overflow a kernel's quota */
    FIELD(cpu_weight, 1, 10000),
    FIELD(files_max, SB_FILES_LEAST, 1 << 30),
#undef FIELD
};

static const char *const rates[SB_IO_RATES] = { "read_bps", "write_bps", "read_iops", "write_iops" };

static int64_t *number(const struct sb_limits *limits, size_t i)
{
    return (int64_t *)((char *)limits + fields[i].here);
}

const char *sb_limits_field(size_t index)
{
    return index < SB_ELEMENTS(fields) ? fields[index].name : NULL;
}

int64_t sb_limits_get(const struct sb_limits *limits, size_t index)
{
    return *number(limits, index);
}

int sb_limits_set(struct sb_limits *limits, const char *field, int64_t value, struct sandbox_error **error)
{
    for (size_t i = 0; i < SB_ELEMENTS(fields); i++)
        if (!strcmp(fields[i].name, field)) {
            int r = sb_check_limit(value, fields[i].least, fields[i].most, field, error);

            if (!r)
                *number(limits, i) = value;
            return r;
        }
    return sb_fail(error, SB_ARGS(SANDBOX_EINTERNAL, .field = field), "%s is no limit", field);
}

static int set_device(struct sb_io_limit *io, const char *device, struct sandbox_error **error)
{
    size_t n = device ? strlen(device) : 0;

    if (!n || n > SB_DEVICE_MAX || (*device != '/' && (device[strspn(device, "0123456789:")] || !strchr(device, ':'))))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "io.device",
                                      .hint = "\"MAJOR:MINOR\", a disk's node, or an absolute path that is on it, of at most 255 bytes"),
                       "io.device names no disk");
    memcpy(io->device, device, n + 1);
    return 0;
}

static int check_rate(int64_t value, struct sandbox_error **error)
{
    return sb_check_limit(value, 1, INT64_MAX, "io", error);
}

static int add_io(struct sb_limits *limits, const struct sb_io_limit *io, struct sandbox_error **error)
{
    if (limits->n_io == SB_IO_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "io"), "more than %d disks are limited", SB_IO_MAX);
    for (size_t i = 0; i < limits->n_io; i++)
        if (!strcmp(limits->io[i].device, io->device))
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "io.device"), "io names a disk twice");
    limits->io[limits->n_io++] = *io;
    return 0;
}

/* The caller's struct may be of an older or a newer header. */
static int read_io(struct sb_limits *limits, const struct sandbox_io_limit *from, struct sandbox_error **error)
{
    struct sandbox_io_limit known = SANDBOX_IO_LIMIT_INIT;
    struct sb_io_limit io = { 0 };
    int r = 0;

    if (from->size < offsetof(struct sandbox_io_limit, write_iops) + sizeof from->write_iops || from->size > 4096)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "io", .hint = "initialise the struct by SANDBOX_IO_LIMIT_INIT"),
                       "io has an entry of no known size");
    for (size_t i = sizeof known; i < from->size; i++)
        if (((const unsigned char *)from)[i])
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "io", .hint = "use the library that the header belongs to"),
                           "an option is set that this library does not know");
    memcpy(&known, from, sizeof known);
    io.rates[SB_IO_READ_BPS] = known.read_bps;
    io.rates[SB_IO_WRITE_BPS] = known.write_bps;
    io.rates[SB_IO_READ_IOPS] = known.read_iops;
    io.rates[SB_IO_WRITE_IOPS] = known.write_iops;
    for (size_t i = 0; i < SB_IO_RATES && !r; i++)
        r = check_rate(io.rates[i], error);
    if (!r)
        r = set_device(&io, known.device, error);
    return r ? r : add_io(limits, &io, error);
}

int sb_limits_apply(struct sb_limits *limits, const struct sandbox_limits *from, struct sandbox_error **error)
{
    struct sb_limits now = *limits;
    int r = 0;

    for (size_t i = 0; i < SB_ELEMENTS(fields) && !r; i++) {
        int64_t value;

        memcpy(&value, (const char *)from + fields[i].there, sizeof value);
        if (value != SANDBOX_LIMIT_KEEP)
            r = sb_limits_set(&now, fields[i].name, value, error);
    }
    if (from->io)
        now.n_io = 0;
    for (size_t i = 0; !r && from->io && from->io[i]; i++)
        r = read_io(&now, from->io[i], error);
    if (!r)
        *limits = now;
    return r;
}

int sb_limits_equal(const struct sb_limits *a, const struct sb_limits *b)
{
    for (size_t i = 0; i < SB_ELEMENTS(fields); i++)
        if (*number(a, i) != *number(b, i))
            return 0;
    if (a->n_io != b->n_io)
        return 0;
    for (size_t i = 0; i < a->n_io; i++)
        if (strcmp(a->io[i].device, b->io[i].device) || memcmp(a->io[i].rates, b->io[i].rates, sizeof a->io[i].rates))
            return 0;
    return 1;
}

static json_t *io_to_json(const struct sb_limits *limits)
{
    SB_JSON json_t *list = json_array();

    for (size_t i = 0; list && i < limits->n_io; i++) {
        json_t *entry = json_object();
        int failed = json_object_set_new(entry, "device", sb_json_bytes(limits->io[i].device));

        for (size_t k = 0; k < SB_IO_RATES; k++)
            failed |= json_object_set_new(entry, rates[k], json_integer(limits->io[i].rates[k]));
        if (json_array_append_new(list, entry) || failed)
            return NULL;
    }
    return json_incref(list);
}

int sb_limits_to_json(const struct sb_limits *limits, json_t *object)
{
    int failed = json_object_set_new(object, "io", io_to_json(limits));

    for (size_t i = 0; i < SB_ELEMENTS(fields); i++)
        failed |= json_object_set_new(object, fields[i].name, json_integer(*number(limits, i)));
    return failed ? -1 : 0;
}

static int wrong(const char *field, struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is not what it should be", field);
}

static int read_entry(struct sb_limits *limits, const json_t *entry, struct sandbox_error **error)
{
    SB_FREE char *device = sb_json_get_bytes(json_object_get(entry, "device"));
    struct sb_io_limit io = { 0 };
    int r = device && json_object_size(entry) == SB_IO_RATES + 1 ? set_device(&io, device, error) : wrong("io", error);

    for (size_t i = 0; i < SB_IO_RATES && !r; i++) {
        const json_t *rate = json_object_get(entry, rates[i]);

        io.rates[i] = json_integer_value(rate);
        r = json_is_integer(rate) ? check_rate(io.rates[i], error) : wrong("io", error);
    }
    return r ? r : add_io(limits, &io, error);
}

int sb_limits_read(struct sb_limits *limits, const char *key, const json_t *value, struct sandbox_error **error)
{
    int r;

    if (!strcmp(key, "io")) {
        limits->n_io = 0;
        r = json_is_array(value) ? 0 : wrong("io", error);
        for (size_t i = 0; !r && i < json_array_size(value); i++)
            r = read_entry(limits, json_array_get(value, i), error);
        return r ? r : 1;
    }
    for (size_t i = 0; i < SB_ELEMENTS(fields); i++)
        if (!strcmp(fields[i].name, key)) {
            r = json_is_integer(value) ? sb_limits_set(limits, key, json_integer_value(value), error) : wrong(key, error);
            return r ? r : 1;
        }
    return 0;
}

int sb_limits_from_json(const json_t *object, struct sb_limits *ret, struct sandbox_error **error)
{
    struct sb_limits limits = { 0 };
    const char *key;
    json_t *value;

    if (!json_is_object(object))
        return wrong("limits", error);
    json_object_foreach((json_t *)object, key, value) {
        int r = sb_limits_read(&limits, key, value, error);

        if (r < 0)
            return r;
        if (!r)
            return wrong("limits", error);
    }
    *ret = limits;
    return 0;
}

/* What stands where nothing is said. */
static int64_t unsaid(size_t i)
{
    return fields[i].here == offsetof(struct sb_limits, swap_max)     ? 0
           : fields[i].here == offsetof(struct sb_limits, cpu_weight) ? 100
           : fields[i].here == offsetof(struct sb_limits, pids_max)   ? SB_PIDS_DEFAULT
                                                                      : INT64_MAX;
}

int sb_limits_hold(struct sb_limits *limits, const struct sb_limits *ceiling, struct sandbox_error **error)
{
    for (size_t i = 0; i < SB_ELEMENTS(fields); i++) {
        int64_t *value = number(limits, i), most = *number(ceiling, i);

        if (most && !*value && most < unsaid(i))
            *value = most;
        if (most && *value > most)
            return sb_fail(error,
                           SB_ARGS(SANDBOX_EDENIED, .phase = "ceiling", .field = fields[i].name,
                                   .hint = "ask for less; who owns the host's state root sets its ceilings"),
                           "%s is %lld, above this host's ceiling of %lld", fields[i].name, (long long)*value, (long long)most);
    }
    return 0;
}

void sb_limits_lower(struct sb_limits *to, const struct sb_limits *other)
{
    for (size_t i = 0; i < SB_ELEMENTS(fields); i++) {
        int64_t *value = number(to, i), most = *number(other, i);

        if (most && (!*value || *value > most))
            *value = most;
    }
}
