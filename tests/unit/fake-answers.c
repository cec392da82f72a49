/* SPDX-License-Identifier: Apache-2.0
 * What the fake host (fake.h) answers where a test says nothing else. */
#include "fake.h"

const char fake_document[] =
    "{\"id\":\"" FAKE_ID "\",\"name\":\"box\",\"state\":\"running\",\"cause\":\"\",\"image\":{\"ref\":\"debian\",\"digest\":\"" FAKE_DIGEST
    "\",\"config_digest\":\"\"},\"created_ms\":1234567890123,\"labels\":{\"k\":\"v\"},\"spec\":{},\"daemon\":{\"state\":\"none\"}}";
const char fake_image[] = "{\"digest\":\"" FAKE_DIGEST "\",\"config_digest\":\"" FAKE_DIGEST
                          "\",\"names\":[\"debian\"],\"bytes\":123,\"architecture\":\"amd64\"}";
const char fake_report[] =
    "{\"host\":{\"kernel\":\"1\"},\"entries\":["
    "{\"feature\":\"memory\",\"level\":\"impossible\",\"probe\":\"it was tried\",\"cause\":\"no cgroup\",\"remedy\":\"be root\"},"
    "{\"feature\":\"pids\",\"level\":\"enforced\",\"probe\":\"p\",\"cause\":\"\",\"remedy\":\"\"}]}";
const char fake_volume[] = "{\"name\":\"store\",\"path\":\"/srv/store\",\"created_ms\":1}";
