/* SPDX-License-Identifier: Apache-2.0
 * Files and folders below a descriptor. Nothing here follows a symbolic link in a place that another user or a sandbox can
 * write, so that what is opened is what was meant. Functions return 0 (or a descriptor) or -errno. */
#ifndef SB_BASE_FS_H
#define SB_BASE_FS_H

#include <dirent.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS, O_CLOEXEC added. */
int sb_open_beneath(int dir, const char *path, int flags, mode_t mode);
/* openat2 with RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS: links are followed as if `dir` were "/". */
int sb_open_in_root(int dir, const char *path, int flags, mode_t mode);
/* Opens a folder, made with `mode` when absent (one level). Fails with ENOTDIR / ELOOP for anything else. */
int sb_open_dir(int dir, const char *name, mode_t mode);
/* To read a folder's names, by a description of its own: the folder's descriptor stays as it is. closedir(3). NULL: errno says why. */
DIR *sb_read_folder(int folder);
/* Makes an absolute path with all its parents (mode 0755, the last 0700), opens it. */
int sb_make_path(const char *path);
/* Reads a whole regular file of at most `max` bytes: malloc'ed with a NUL after it. EFBIG when larger. */
int sb_read_file(int dir, const char *name, size_t max, char **ret_text, size_t *ret_size);
/* Reads a descriptor to its end in the same way. */
int sb_read_fd(int fd, size_t max, char **ret_text, size_t *ret_size);
/* Writes `name` by a temporary file and rename(2), mode 0600; durable != 0: fsync of file and folder. */
int sb_write_file(int dir, const char *name, const void *data, size_t size, int durable);
/* Removes name and all below it, without following links or crossing into other file systems (`one_fs`); folders whose
 * mode forbids it are chmod'ed. 0, also when absent; else the first -errno, having gone on with the rest. */
int sb_remove_tree(int dir, const char *name);
/* The same, at most about `most` entries at a time: -EAGAIN when more are left for a next call. */
int sb_remove_some(int dir, const char *name, unsigned long most);
/* write(2) until done. 0 or -errno. */
int sb_write_all(int fd, const void *data, size_t size);

#endif
