/* SPDX-License-Identifier: Apache-2.0
 * Valid C99 and valid C++98: the header stands alone, may come twice, and its macros initialise what they are for. */
#include <sandbox.h>
#include <sandbox.h>

int use_header(void);
int use_header(void)
{
    struct sandbox_progress progress = SANDBOX_PROGRESS_INIT;
    struct sandbox_host_options host = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_list_options list = SANDBOX_LIST_OPTIONS_INIT;
    struct sandbox_exec_options exec = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_communicate_options communicate = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox_image_import_options import_options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_image_pull_options pull_options = SANDBOX_IMAGE_PULL_OPTIONS_INIT;
    struct sandbox_collected collected = SANDBOX_COLLECTED_INIT;
    struct sandbox_forward_status forward = SANDBOX_FORWARD_STATUS_INIT;
    struct sandbox_events_options events = SANDBOX_EVENTS_OPTIONS_INIT;
    struct sandbox_upload_options upload = SANDBOX_UPLOAD_OPTIONS_INIT;
    struct sandbox_download_options download = SANDBOX_DOWNLOAD_OPTIONS_INIT;
    struct sandbox_file_info file = SANDBOX_FILE_INFO_INIT;
    struct sandbox_file_write_options write_options = SANDBOX_FILE_WRITE_OPTIONS_INIT;
    enum sandbox_code code = SANDBOX_OK;
    const size_t sizes = progress.size + host.size + mount.size + list.size + exec.size + result.size + communicate.size +
                         output.size + import_options.size + pull_options.size + collected.size +
                         forward.size + file.size + write_options.size + upload.size + download.size + events.size;

    if (exec.stdin_fd != SANDBOX_STDIO_NULL || exec.stdout_fd != SANDBOX_STDIO_PIPE || exec.stderr_fd != SANDBOX_STDIO_PIPE ||
        communicate.timeout_ms != -1 || communicate.drain_ms != 500 || result.code != -1 || progress.total != -1 || sizes == 0)
        code = SANDBOX_EINVALID;
    return sandbox_error_get_code(NULL) == code && sizeof(enum sandbox_code) == sizeof(int) ? 0 : 1;
}

int main(void)
{
    return use_header();
}
