/* SPDX-License-Identifier: Apache-2.0
 * The library's documents for people: one fact a line, nested ones indented. Members that a newer library adds are shown too. */
#include "tool.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What people look for, before the rest in its own order. */
static const char *const first[] = { "id", "name", "names", "digest", "state", "cause" };

static void print_value(const json_t *value, int depth);

/* A scalar as bare text, or NULL. {"base64": …} stands for bytes that are no UTF-8. */
static char *scalar(const json_t *value)
{
    const json_t *bytes = json_object_size(value) == 1 ? json_object_get(value, "base64") : NULL;

    if (json_is_string(value))
        return tool_format("%s", json_string_value(value));
    if (json_is_string(bytes))
        return tool_format("base64:%s", json_string_value(bytes));
    if (json_is_integer(value))
        return tool_format("%lld", (long long)json_integer_value(value));
    if (json_is_real(value))
        return tool_format("%g", json_real_value(value));
    if (json_is_boolean(value))
        return tool_format("%s", json_is_true(value) ? "yes" : "no");
    if (json_is_null(value))
        return tool_format("-");
    return NULL;
}

static void print_member(const char *key, const json_t *value, int depth)
{
    TOOL_FREE char *text = scalar(value);

    printf("%*s", 2 * depth, "");
    print_safe(key);
    putchar(':');
    if (text) {
        putchar(' ');
        print_safe(*text ? text : "-");
        putchar('\n');
    } else {
        print_value(value, depth + 1);
    }
}

static int is_first(const char *key)
{
    for (size_t i = 0; i < TOOL_ELEMENTS(first); i++)
        if (strcmp(key, first[i]) == 0)
            return 1;
    return 0;
}

static void print_object(const json_t *object, int depth)
{
    const char *key;
    json_t *value;

    for (size_t i = 0; depth == 0 && i < TOOL_ELEMENTS(first); i++)
        if ((value = json_object_get(object, first[i])))
            print_member(first[i], value, depth);
    json_object_foreach((json_t *)object, key, value)
        if (depth > 0 || !is_first(key))
            print_member(key, value, depth);
}

static void print_array(const json_t *array, int depth)
{
    size_t index;
    json_t *value;

    json_array_foreach((json_t *)array, index, value) {
        TOOL_FREE char *text = scalar(value);

        printf("%*s- ", 2 * depth, "");
        if (text) {
            print_safe(text);
            putchar('\n');
        } else {
            print_value(value, depth + 1);
        }
    }
}

static void print_value(const json_t *value, int depth)
{
    if (json_object_size(value) == 0 && json_array_size(value) == 0) {
        puts(" -");
        return;
    }
    putchar('\n');
    if (json_is_object(value))
        print_object(value, depth);
    else
        print_array(value, depth);
}

void json_print_text(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    if (json_is_object(json))
        print_object(json, 0);
    else
        print_safe(text);
    json_decref(json);
}

void json_print_strings(const char *key, const char *const *values, size_t n_values)
{
    json_t *array = json_array(), *object = json_pack("{s:o}", key, array);
    char *text;

    for (size_t i = 0; i < n_values; i++)
        json_array_append_new(array, json_string(values[i]));
    text = json_dumps(object, JSON_COMPACT);
    if (text)
        puts(text);
    free(text);
    json_decref(object);
}
