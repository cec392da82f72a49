/* SPDX-License-Identifier: Apache-2.0
 * An image store of this user's in the test's own folder. The helper's program is named by the environment variable
 * SBTEST_UNPACK. Every check that an import failed also checks that nothing of it is left. */
#ifndef G_STORE_H
#define G_STORE_H

#include <image.h>
#include <json.h>
#include <sbtest.h>
#include <sys/stat.h>

extern struct sb_images *store;
extern struct sb_idmap store_map;
extern int store_root; /* the state root's descriptor */

/* Gives the helper, as sb_images_open() wants it. */
int store_program(void *data, struct sandbox_error **error);
/* Fixtures for a test case. */
void store_open(void);
void store_close(void);

/* "FOLDER/name" in the test's folder; static, eight at a time. */
const char *in_dir(const char *name);
/* Begins and ends an import; the code, and *ret_error (NULL: not wanted) as sb_image_import gives it. */
int import(const char *source, const struct sandbox_image_import_options *options, json_t **ret_image, struct sandbox_error **ret_error);
/* Steps an operation to its end and frees it. */
int finish(struct sb_op *op, json_t **ret_image, struct sandbox_error **ret_error);
/* It fails with this code, the message holds `word` (NULL: any), nothing is left behind. */
void refused(const char *source, const struct sandbox_image_import_options *options, int code, const char *word);
/* It succeeds; the descriptor of its topmost layer's folder, closed by the caller. The image stays, without a name. */
int imported(const char *source);
/* No layer, finished or not, and no image is here. */
void nothing_left(void);
/* Removes every image; then nothing_left(). */
void remove_all(void);

/* A file that no archive may touch, outside the store. */
const char *canary(void);
void canary_unharmed(void);

/* What is at `path` below `dir`, as root of the user namespace where the user can't read it itself. */
int stat_in(int dir, const char *path, struct stat *st);
char *text_in(int dir, const char *path);

#endif
