/* SPDX-License-Identifier: Apache-2.0
 * The ABI as it was released, for machines where int has 32 and long and pointers 64 bits. It does not compile when a value or
 * a place has changed. A new field or value is a new line; a line that was in a release is never changed. */
#include <sandbox.h>

#define AT(type, member, offset) _Static_assert(offsetof(struct type, member) == (offset), #type "." #member " has moved")
#define SIZE(type, size) _Static_assert(sizeof(struct type) >= (size), #type " has shrunk")
#define VALUE(name, value) _Static_assert((name) == (value), #name " has another value")

/* ---- 0.1 ---- */

AT(sandbox_progress, size, 0);
AT(sandbox_progress, unit, 8);
AT(sandbox_progress, done, 16);
AT(sandbox_progress, total, 24);
AT(sandbox_progress, phase, 32);
SIZE(sandbox_progress, 64);

AT(sandbox_host_options, size, 0);
AT(sandbox_host_options, state_root, 8);
AT(sandbox_host_options, agent_dir, 16);
SIZE(sandbox_host_options, 24);

AT(sandbox_mount_options, size, 0);
AT(sandbox_mount_options, type, 8);
AT(sandbox_mount_options, source, 16);
AT(sandbox_mount_options, target, 24);
AT(sandbox_mount_options, flags, 32);
AT(sandbox_mount_options, max_bytes, 40);
AT(sandbox_mount_options, owner, 48);
SIZE(sandbox_mount_options, 56);

AT(sandbox_list_options, size, 0);
AT(sandbox_list_options, name_prefix, 8);
AT(sandbox_list_options, label_key, 16);
AT(sandbox_list_options, label_value, 24);
SIZE(sandbox_list_options, 32);

AT(sandbox_exec_options, size, 0);
AT(sandbox_exec_options, user, 8);
AT(sandbox_exec_options, workdir, 16);
AT(sandbox_exec_options, env, 24);
AT(sandbox_exec_options, stdin_fd, 32);
AT(sandbox_exec_options, stdout_fd, 36);
AT(sandbox_exec_options, stderr_fd, 40);
AT(sandbox_exec_options, deadline_ms, 48);
AT(sandbox_exec_options, journal_max, 56);
AT(sandbox_exec_options, terminal, 64);
AT(sandbox_exec_options, rows, 68);
AT(sandbox_exec_options, columns, 72);
SIZE(sandbox_exec_options, 80);

AT(sandbox_exec_result, size, 0);
AT(sandbox_exec_result, kind, 8);
AT(sandbox_exec_result, code, 12);
AT(sandbox_exec_result, signal, 16);
AT(sandbox_exec_result, pipe_held, 20);
AT(sandbox_exec_result, user_us, 24);
AT(sandbox_exec_result, system_us, 32);
AT(sandbox_exec_result, max_rss, 40);
SIZE(sandbox_exec_result, 48);

AT(sandbox_log_options, size, 0);
AT(sandbox_log_options, streams, 8);
AT(sandbox_log_options, follow, 12);
AT(sandbox_log_options, tail, 16);
AT(sandbox_log_options, since_ms, 24);
AT(sandbox_log_options, until_ms, 32);
AT(sandbox_log_options, position, 40);
SIZE(sandbox_log_options, 48);

AT(sandbox_log_record, size, 0);
AT(sandbox_log_record, kind, 8);
AT(sandbox_log_record, stream, 12);
AT(sandbox_log_record, time_ns, 16);
AT(sandbox_log_record, position, 24);
AT(sandbox_log_record, data, 32);
AT(sandbox_log_record, data_size, 40);
AT(sandbox_log_record, lost, 48);
AT(sandbox_log_record, damaged, 56);
AT(sandbox_log_record, exec_kind, 60);
AT(sandbox_log_record, code, 64);
AT(sandbox_log_record, signal, 68);
SIZE(sandbox_log_record, 72);

VALUE(SANDBOX_LOG_STDOUT, 1);
VALUE(SANDBOX_LOG_STDERR, 2);
VALUE(SANDBOX_LOG_OUTPUT, 1);
VALUE(SANDBOX_LOG_LOST, 2);
VALUE(SANDBOX_LOG_STARTED, 3);
VALUE(SANDBOX_LOG_ENDED, 4);

AT(sandbox_communicate_options, size, 0);
AT(sandbox_communicate_options, input, 8);
AT(sandbox_communicate_options, input_size, 16);
AT(sandbox_communicate_options, max_output, 24);
AT(sandbox_communicate_options, timeout_ms, 32);
AT(sandbox_communicate_options, drain_ms, 40);
SIZE(sandbox_communicate_options, 48);

AT(sandbox_output, size, 0);
AT(sandbox_output, out, 8);
AT(sandbox_output, out_size, 16);
AT(sandbox_output, err, 24);
AT(sandbox_output, err_size, 32);
AT(sandbox_output, out_truncated, 40);
AT(sandbox_output, err_truncated, 44);
SIZE(sandbox_output, 48);

AT(sandbox_file_info, size, 0);
AT(sandbox_file_info, type, 8);
AT(sandbox_file_info, mode, 12);
AT(sandbox_file_info, uid, 16);
AT(sandbox_file_info, gid, 24);
AT(sandbox_file_info, bytes, 32);
AT(sandbox_file_info, mtime_ns, 40);
SIZE(sandbox_file_info, 48);

AT(sandbox_upload_options, size, 0);
AT(sandbox_upload_options, format, 8);
AT(sandbox_upload_options, source_fd, 12);
AT(sandbox_upload_options, flags, 16);
AT(sandbox_upload_options, mode, 20);
AT(sandbox_upload_options, uid, 24);
AT(sandbox_upload_options, gid, 32);
AT(sandbox_upload_options, max_bytes, 40);
AT(sandbox_upload_options, max_entries, 48);
SIZE(sandbox_upload_options, 56);

AT(sandbox_download_options, size, 0);
AT(sandbox_download_options, format, 8);
AT(sandbox_download_options, target_fd, 12);
AT(sandbox_download_options, flags, 16);
AT(sandbox_download_options, top, 24);
AT(sandbox_download_options, max_bytes, 32);
AT(sandbox_download_options, max_entries, 40);
SIZE(sandbox_download_options, 48);

AT(sandbox_file_write_options, size, 0);
AT(sandbox_file_write_options, mode, 8);
AT(sandbox_file_write_options, flags, 12);
AT(sandbox_file_write_options, uid, 16);
AT(sandbox_file_write_options, gid, 24);
SIZE(sandbox_file_write_options, 32);

AT(sandbox_image_import_options, size, 0);
AT(sandbox_image_import_options, format, 8);
AT(sandbox_image_import_options, name, 16);
AT(sandbox_image_import_options, digest, 24);
AT(sandbox_image_import_options, select, 32);
AT(sandbox_image_import_options, max_bytes, 40);
AT(sandbox_image_import_options, max_entries, 48);
SIZE(sandbox_image_import_options, 56);

VALUE(SANDBOX_OK, 0);
VALUE(SANDBOX_EINVALID, -1);
VALUE(SANDBOX_ENOMEM, -2);
VALUE(SANDBOX_ENOTFOUND, -3);
VALUE(SANDBOX_EEXISTS, -4);
VALUE(SANDBOX_ENOTRUNNING, -5);
VALUE(SANDBOX_EBUSY, -6);
VALUE(SANDBOX_EDENIED, -7);
VALUE(SANDBOX_EUNSUPPORTED, -8);
VALUE(SANDBOX_ETIMEDOUT, -9);
VALUE(SANDBOX_ECANCELLED, -10);
VALUE(SANDBOX_ECLOSED, -11);
VALUE(SANDBOX_EFORKED, -12);
VALUE(SANDBOX_ELOST, -13);
VALUE(SANDBOX_ENOSPACE, -14);
VALUE(SANDBOX_EREADONLY, -15);
VALUE(SANDBOX_EDAMAGED, -16);
VALUE(SANDBOX_EDIGEST, -17);
VALUE(SANDBOX_ELIMIT, -18);
VALUE(SANDBOX_EPROTOCOL, -19);
VALUE(SANDBOX_EIO, -20);
VALUE(SANDBOX_EINTERNAL, -21);
VALUE(SANDBOX_ENOTEXECUTABLE, -22);
VALUE(SANDBOX_EPAUSED, -23);
VALUE(SANDBOX_UNIT_NONE, 0);
VALUE(SANDBOX_UNIT_BYTES, 1);
VALUE(SANDBOX_UNIT_ENTRIES, 2);
VALUE(SANDBOX_LIFETIME_OWNED, 0);
VALUE(SANDBOX_LIFETIME_DETACHED, 1);
VALUE(SANDBOX_NETWORK_NONE, 0);
VALUE(SANDBOX_MOUNT_BIND, 0);
VALUE(SANDBOX_MOUNT_VOLUME, 1);
VALUE(SANDBOX_MOUNT_TMPFS, 2);
VALUE(SANDBOX_STATE_CREATING, 0);
VALUE(SANDBOX_STATE_CREATED, 1);
VALUE(SANDBOX_STATE_RUNNING, 2);
VALUE(SANDBOX_STATE_STOPPED, 3);
VALUE(SANDBOX_STATE_FAILED, 4);
AT(sandbox_forward_status, healthy, 8);
AT(sandbox_forward_status, listening, 12);
AT(sandbox_forward_status, accepted, 16);
AT(sandbox_forward_status, active, 24);
AT(sandbox_forward_status, failed, 32);
AT(sandbox_forward_status, bytes_in, 40);
AT(sandbox_forward_status, bytes_out, 48);
AT(sandbox_forward_status, cause, 56);
AT(sandbox_forward_status, last_failure, 184);
SIZE(sandbox_forward_status, 312);
AT(sandbox_events_options, id, 8);
AT(sandbox_events_options, label_key, 16);
AT(sandbox_events_options, label_value, 24);
SIZE(sandbox_events_options, 32);
VALUE(SANDBOX_EVENT_UNKNOWN, 0);
VALUE(SANDBOX_EVENT_CREATED, 1);
VALUE(SANDBOX_EVENT_STARTED, 2);
VALUE(SANDBOX_EVENT_DAEMON_EXITED, 3);
VALUE(SANDBOX_EVENT_EXEC_STARTED, 4);
VALUE(SANDBOX_EVENT_EXEC_EXITED, 5);
VALUE(SANDBOX_EVENT_STOPPED, 6);
VALUE(SANDBOX_EVENT_FAILED, 7);
VALUE(SANDBOX_EVENT_DELETED, 8);
VALUE(SANDBOX_EVENT_OVERRUN, 9);
VALUE(SANDBOX_STATE_DAMAGED, 5);
VALUE(SANDBOX_STATE_PAUSED, 6);
VALUE(SANDBOX_EXEC_EXITED, 1);
VALUE(SANDBOX_EXEC_SIGNALLED, 2);
VALUE(SANDBOX_EXEC_DEADLINE, 3);
VALUE(SANDBOX_EXEC_KILLED, 4);
VALUE(SANDBOX_EXEC_OOM, 5);
VALUE(SANDBOX_EXEC_LOST, 6);
VALUE(SANDBOX_FILE_REGULAR, 1);
VALUE(SANDBOX_FILE_FOLDER, 2);
VALUE(SANDBOX_FILE_LINK, 3);
VALUE(SANDBOX_FILE_FIFO, 4);
VALUE(SANDBOX_FILE_SOCKET, 5);
VALUE(SANDBOX_FILE_DEVICE, 6);
VALUE(SANDBOX_FILE_FOLLOW, 1);
VALUE(SANDBOX_FILE_APPEND, 2);
VALUE(SANDBOX_FILE_EXCLUSIVE, 4);
VALUE(SANDBOX_FILE_PARENTS, 8);
VALUE(SANDBOX_FILE_RECURSIVE, 16);
VALUE(SANDBOX_FILE_MERGE, 32);
VALUE(SANDBOX_FILE_KEEP_OWNERS, 64);
VALUE(SANDBOX_STREAM_AUTO, 0);
VALUE(SANDBOX_STREAM_TAR, 1);
VALUE(SANDBOX_STREAM_FILE, 2);
VALUE(SANDBOX_IMAGE_FORMAT_AUTO, 0);
VALUE(SANDBOX_IMAGE_FORMAT_ROOTFS_FOLDER, 1);
VALUE(SANDBOX_IMAGE_FORMAT_ROOTFS_TAR, 2);
VALUE(SANDBOX_IMAGE_FORMAT_OCI_LAYOUT, 3);
VALUE(SANDBOX_IMAGE_FORMAT_DOCKER_ARCHIVE, 4);
VALUE(SANDBOX_ID_LENGTH, 64);
VALUE(SANDBOX_NAME_MAX, 128);
VALUE(SANDBOX_LABEL_KEY_MAX, 256);
VALUE(SANDBOX_LABEL_VALUE_MAX, 4096);
VALUE(SANDBOX_MOUNT_READ_ONLY, 1);
VALUE(SANDBOX_STDIO_NULL, -1);
VALUE(SANDBOX_STDIO_PIPE, -2);
VALUE(SANDBOX_KILL_DESCENDANTS, 1);

AT(sandbox_health_options, size, 0);
AT(sandbox_health_options, interval_ms, 8);
AT(sandbox_health_options, timeout_ms, 16);
AT(sandbox_health_options, start_period_ms, 24);
AT(sandbox_health_options, start_interval_ms, 32);
AT(sandbox_health_options, retries, 40);
AT(sandbox_health_options, user, 48);
SIZE(sandbox_health_options, 56);
VALUE(SANDBOX_END_STOP, 0);
VALUE(SANDBOX_END_DELETE, 1);
VALUE(SANDBOX_RESTART_NO, 0);
VALUE(SANDBOX_RESTART_ON_FAILURE, 1);
VALUE(SANDBOX_RESTART_ALWAYS, 2);
VALUE(SANDBOX_RESTART_UNLESS_STOPPED, 3);
VALUE(SANDBOX_HEALTH_NONE, 0);
VALUE(SANDBOX_HEALTH_STARTING, 1);
VALUE(SANDBOX_HEALTH_HEALTHY, 2);
VALUE(SANDBOX_HEALTH_UNHEALTHY, 3);
VALUE(SANDBOX_EVENT_PAUSED, 10);
VALUE(SANDBOX_EVENT_RESUMED, 11);
VALUE(SANDBOX_EVENT_RESTARTED, 12);
VALUE(SANDBOX_EVENT_HEALTH, 13);
VALUE(SANDBOX_EVENT_TTL, 14);
VALUE(SANDBOX_EVENT_IDLE, 15);
