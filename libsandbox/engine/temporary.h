/* SPDX-License-Identifier: Apache-2.0
 * Names for files that will replace others: see temporary.c. */
#ifndef SB_ENGINE_TEMPORARY_H
#define SB_ENGINE_TEMPORARY_H

#define SB_TEMPORARY_SIZE 64

/* Gives the nameless file a name in a folder, in which it will replace `target`. 0 or -errno. */
int sb_temporary_link(int folder, const char *target, int file, char ret_name[SB_TEMPORARY_SIZE]);
/* Makes a new file with such a name: a descriptor or -errno. */
int sb_temporary_make(int folder, const char *target, char ret_name[SB_TEMPORARY_SIZE]);

#endif
