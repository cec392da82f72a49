/* SPDX-License-Identifier: Apache-2.0
 * Where the agent programs come from: the folder that the caller named, else the installed ones (an AppArmor profile can name
 * those), else the bytes that the library carries, in a sealed memfd that nobody can write, made once.
 *
 * A command "#!/proc/self/exe" makes the kernel execute the agent as that command's uid, whose /proc/PID/exe then leads to the
 * file: an ordinary user's sandbox has the user's own uid inside, and could change the mode of a file that the user owns. So only
 * a file of root is executed as it is; a user's own is copied into a memfd, whose executable bits are sealed too. */
#include "engine.h"
#include "programs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

static const struct sb_program *find(const char *name)
{
    for (size_t i = 0; i < sb_programs_count; i++)
        if (!strcmp(sb_programs[i].name, name))
            return &sb_programs[i];
    return NULL;
}

/* A file that only root or this user can change. */
static int open_trusted(const char *folder, const char *name)
{
    char path[4096];
    struct stat st;
    int fd;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -ENAMETOOLONG;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022) ||
        !(st.st_mode & 0111)) {
        sb_close(fd);
        return -EACCES;
    }
    return fd;
}

static int seal(const char *name, const char *bytes, size_t size, struct sandbox_error **error)
{
    const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    SB_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    int r;

    if (fd < 0 && errno == EINVAL) /* before MFD_EXEC */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        r = errno;
        sb_fail_errno(error, r, "agent", "the agent program can't be put into memory");
        if (r == EACCES || r == EPERM)
            sb_error_set_hint(error, "vm.memfd_noexec forbids it: install the agent programs, or name their folder");
        return sb_code_from_errno(r);
    }
    r = sb_write_all(fd, bytes, size);
    /* nobody but who starts it: inside it can then neither be executed nor be given times and attributes */
    if (!r && fchmod(fd, 0500) < 0)
        r = -errno;
    if (!r && fcntl(fd, F_ADD_SEALS, seals | F_SEAL_EXEC) < 0 && fcntl(fd, F_ADD_SEALS, seals) < 0) /* F_SEAL_EXEC: since 6.3 */
        r = -errno;
    if (r)
        return sb_fail_errno(error, -r, "agent", "the agent program can't be put into memory");
    return SB_TAKE_FD(fd);
}

/* A program's file: as it is when only root can change it, else its bytes. */
static int use_file(const char *name, int file, struct sandbox_error **error)
{
    SB_FREE char *bytes = NULL;
    struct stat st;
    size_t size;
    int r;

    if (fstat(file, &st) == 0 && st.st_uid == 0)
        return file;
    r = sb_read_fd(file, 64 << 20, &bytes, &size);
    sb_close(file);
    return r ? sb_fail_errno(error, -r, "agent", "the agent program can't be read") : seal(name, bytes, size, error);
}

int sb_engine_program(struct sb_engine *engine, const char *name, int *ret_fd, struct sandbox_error **error)
{
    int *slot = !strcmp(name, "sandbox-agent")    ? &engine->agent
                : !strcmp(name, "sandbox-unpack")  ? &engine->unpack_program
                : !strcmp(name, "sandbox-network") ? &engine->network_program
                : !strcmp(name, "sandbox-proxy")   ? &engine->proxy_program
                : !strcmp(name, "sandbox-pull")    ? &engine->pull_program
                                                   : &engine->scope_program;
    const struct sb_program *program = find(name);
    int fd, r = 0;

    pthread_mutex_lock(&engine->lock);
    if (*slot < 0) {
        if (engine->agent_dir) {
            fd = open_trusted(engine->agent_dir, name);
            if (fd < 0)
                r = sb_fail(error,
                            SB_ARGS(SANDBOX_EDENIED, .sys_errno = -fd, .phase = "agent", .field = "agent_dir",
                                    .hint = "it must be a file of root or of this user that nobody else can write"),
                            "%s/%s can't be used", engine->agent_dir, name);
        } else {
            fd = open_trusted(SB_LIBEXECDIR, name);
        }
        if (!r) {
            fd = fd >= 0   ? use_file(name, fd, error)
                 : program ? seal(name, program->begin, (size_t)(program->end - program->begin), error)
                           : sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .hint = "build the library with it, or install it beside the others"),
                                     "this library was built without the program %s", name);
            r = fd < 0 ? fd : 0;
        }
        if (!r)
            *slot = fd;
    }
    *ret_fd = *slot;
    pthread_mutex_unlock(&engine->lock);
    return r;
}
