/* SPDX-License-Identifier: Apache-2.0
 * Tables for people: cells are collected first, so that each column is as wide as its widest cell. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table {
    size_t n_columns;
    size_t n_cells, capacity;
    size_t *widths;
    char **cells; /* row by row, the titles first */
};

/* Characters, not bytes: continuation bytes of UTF-8 take no column. */
static size_t width_of(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void add_cell(struct table *table, const char *text)
{
    size_t width = width_of(text), column = table->n_cells % table->n_columns;

    if (table->n_cells == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        char **cells = tool_allocate(capacity, sizeof *cells);

        if (table->cells)
            memcpy(cells, table->cells, table->n_cells * sizeof *cells);
        free(table->cells);
        table->cells = cells;
        table->capacity = capacity;
    }
    table->cells[table->n_cells++] = tool_format("%s", text);
    if (width > table->widths[column])
        table->widths[column] = width;
}

struct table *table_new(const char *const *titles, size_t n_columns)
{
    struct table *table = tool_allocate(1, sizeof *table);

    table->n_columns = n_columns;
    table->widths = tool_allocate(n_columns, sizeof *table->widths);
    for (size_t i = 0; i < n_columns; i++)
        add_cell(table, titles[i]);
    return table;
}

void table_add(struct table *table, size_t column, const char *text)
{
    while (table->n_cells % table->n_columns != column)
        add_cell(table, "");
    add_cell(table, text);
}

void table_print(const struct table *table)
{
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t column = i % table->n_columns;

        print_safe(table->cells[i]);
        if (column + 1 == table->n_columns)
            putchar('\n');
        else
            printf("%*s", (int)(table->widths[column] - width_of(table->cells[i]) + 3), "");
    }
}

struct table *table_free(struct table *table)
{
    if (!table)
        return NULL;
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table->widths);
    free(table);
    return NULL;
}
