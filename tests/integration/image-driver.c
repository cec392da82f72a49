/* SPDX-License-Identifier: Apache-2.0
 * image-driver UNPACK STATE SOURCE [SELECT]: imports an image into a store at STATE and prints one line of JSON: the image document and,
 * as "paths", its layers' folders from bottom to top. For tests that compare with other programs. As root. */
#include <fs.h>
#include <image.h>
#include <json.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int give(void *data, struct sandbox_error **error)
{
    (void)error;
    return *(int *)data;
}

static int fail(const char *what, struct sandbox_error *error)
{
    fprintf(stderr, "image-driver: %s: %s (%s)\n", what, sandbox_error_get_message(error), sandbox_code_name(sandbox_error_get_code(error)));
    sandbox_error_unref(error);
    return 1;
}

static int show(struct sb_images *images, json_t *image, const char *state)
{
    struct sb_image_ref ref = SB_IMAGE_REF_INIT;
    struct sandbox_error *error = NULL;
    SB_JSON json_t *paths = json_array();
    SB_FREE char *text = NULL;

    if (sb_image_resolve(images, json_string_value(json_object_get(image, "digest")), &ref, &error))
        return fail("resolve", error);
    for (size_t i = 0; i < ref.n_layers; i++)
        json_array_append_new(paths, json_sprintf("%s/%s", state, ref.layers[i]));
    sb_image_ref_clear(&ref);
    json_object_set(image, "paths", paths);
    text = sb_json_dump(image);
    return !text || puts(text) < 0;
}

int main(int argc, char **argv)
{
    const struct sb_idmap map = { .privilege = SB_PRIVILEGE_ROOT, .uid_start = 0x70000000, .gid_start = 0x70000000, .count = 65536 };
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    struct sb_images *images;
    int root, program, r;
    struct sb_op *op;

    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: image-driver UNPACK STATE SOURCE [SELECT]\n");
        return 2;
    }
    program = open(argv[1], O_RDONLY | O_CLOEXEC);
    root = sb_make_path(argv[2]);
    if (program < 0 || root < 0) {
        fprintf(stderr, "image-driver: %s or %s can't be opened\n", argv[1], argv[2]);
        return 1;
    }
    options.select = argv[4];
    if (sb_images_open(root, &map, give, &program, &images, &error))
        return fail("open", error);
    if (sb_image_import(images, argv[3], &options, &op, &error))
        return fail("import", error);
    while ((r = op->ops->step(op, &error)) == 1)
        poll(&(struct pollfd){ .fd = op->fd, .events = POLLIN }, 1, -1);
    r = r ? fail("import", error) : show(images, op->image, argv[2]);
    op->ops->free(op);
    sb_images_free(images);
    close(root);
    close(program);
    return r;
}
