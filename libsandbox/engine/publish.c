/* SPDX-License-Identifier: Apache-2.0
 * Published ports: forwards (forward.c) that belong to a sandbox's life and to no handle. Each is a helper that ends with init. */
#include "network.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

int sb_publish(struct sb_launch *launch, struct sandbox_error **error)
{
    const struct sandbox_spec *spec = launch->record->spec;
    SB_JSON json_t *list = json_array();
    SB_FREE char *text = NULL;
    int r = 0;

    if (!spec->n_ports)
        return 0;
    for (size_t i = 0; !r && i < spec->n_ports; i++) {
        int local = spec->ports[i].local_port;

        r = sb_forward_publish(launch->engine, launch->id, launch->init, spec->ports[i].port, &local, error);
        if (!r)
            json_array_append_new(list, json_pack("{s:i, s:i}", "port", spec->ports[i].port, "local_port", local));
    }
    text = r ? NULL : sb_json_dump(list);
    if (!r && (r = text ? sb_write_file(launch->record->dir, "ports", text, strlen(text), 0) : -ENOMEM))
        r = sb_fail_errno(error, -r, "ports", "the published ports can't be written down");
    return r;
}

void sb_unpublish(const struct sb_record *record)
{
    if (record->dir >= 0)
        unlinkat(record->dir, "ports", 0);
}

json_t *sb_published(const struct sb_engine *engine, const struct sb_record *record)
{
    SB_FREE char *text = NULL;
    char path[SB_ID_SIZE + 8];
    json_t *list = NULL;
    size_t size;

    snprintf(path, sizeof path, "%s/ports", record->id);
    if (record->spec->n_ports && !sb_read_file(engine->sandboxes, path, 65536, &text, &size) && !sb_json_parse(text, size, "ports", &list, NULL))
        return list;
    return json_array();
}
