/* SPDX-License-Identifier: Apache-2.0
 * JSON as it is read and written. */
#include <sbtest.h>

#include "json.h"
#include "util.h"

#include <stdio.h>
#include <string.h>

static int parse(const char *text, json_t **json, struct sandbox_error **error)
{
    return sb_json_parse(text, strlen(text), "record", json, error);
}

START_TEST(parses_and_dumps_sorted)
{
    struct sandbox_error *error = NULL;
    SB_JSON json_t *json = NULL;
    SB_FREE char *text = NULL;

    sbtest_ok(parse("{\"b\": [1, {}], \"a\": \"\\u00e9\"}", &json, &error), &error);
    text = sb_json_dump(json);
    ck_assert_str_eq(text, "{\"a\":\"\xc3\xa9\",\"b\":[1,{}]}");
}
END_TEST

static const char *const damaged[] = {
    "", "{", "nonsense", "{\"a\":1,\"a\":2}", "{} {}", "{\"a\":\"\xff\"}", "{\"a\":\"\\u0000\"}", "{\"a\":1e999}",
    "{\"a\":99999999999999999999}", "[1,]", "\"a string\"", "{\"secret\":\"hunter2", "{\"a\":\"\\ud800\"}",
};

START_TEST(refuses_what_is_damaged)
{
    struct sandbox_error *error = NULL;
    json_t *json = NULL;

    ck_assert_int_eq(parse(damaged[_i], &json, &error), SANDBOX_EDAMAGED);
    ck_assert_ptr_null(json);
    ck_assert_ptr_eq(strstr(sandbox_error_get_message(error), "record: "), sandbox_error_get_message(error));
    ck_assert_ptr_null(strstr(sandbox_error_get_message(error), "hunter2")); /* what is read may be secret */
    sandbox_error_unref(error);
}
END_TEST

START_TEST(bounds_depth_and_size)
{
    struct sandbox_error *error = NULL;
    SB_FREE char *big = NULL;
    char text[300] = "";
    json_t *json = NULL;

    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    sbtest_ok(parse(text, &json, &error), &error);
    json_decref(json);
    json = NULL;
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    sbtest_fails(parse(text, &json, &error), SANDBOX_EDAMAGED, &error);
    sbtest_ok(parse("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"]", &json, &error), &error);
    json_decref(json);
    json = NULL;
    big = malloc((16 << 20) + 2);
    memset(big, ' ', (16 << 20) + 2);
    memcpy(big, "{}", 2);
    sbtest_ok(sb_json_parse(big, 16 << 20, "record", &json, &error), &error);
    json_decref(json);
    json = NULL;
    sbtest_fails(sb_json_parse(big, (16 << 20) + 1, "record", &json, &error), SANDBOX_EDAMAGED, &error);
}
END_TEST

START_TEST(bytes_round_trip)
{
    /* every length class of base64, and text that stays text */
    static const char *const samples[] = { "", "a", "plain text", "caf\xc3\xa9", "\xff", "\xff\xfe", "\xff\xfe\xfd", "a\xff" "b\x80" "c",
                                           "\xc0\x80", "\xed\xa0\x80", "\x01\x7f" };
    static const char *const plain[] = { "\"\"", "\"a\"", "\"plain text\"", "\"caf\xc3\xa9\"", "{\"base64\":\"/w==\"}", "{\"base64\":\"//4=\"}",
                                         "{\"base64\":\"//79\"}", "{\"base64\":\"Yf9igGM=\"}", "{\"base64\":\"wIA=\"}",
                                         "{\"base64\":\"7aCA\"}", "\"\\u0001\x7f\"" };

    for (size_t i = 0; i < SB_ELEMENTS(samples); i++) {
        SB_JSON json_t *json = sb_json_bytes(samples[i]);
        SB_FREE char *text = sb_json_dump(json);
        SB_FREE char *back = sb_json_get_bytes(json);

        ck_assert_str_eq(text, plain[i]);
        ck_assert_str_eq(back, samples[i]);
    }
}
END_TEST

START_TEST(bytes_refuses_other_forms)
{
    static const char *const wrong[] = {
        "[]", "[1]", "{}", "{\"base64\":1}", "{\"base64\":\"/w==\",\"x\":1}", "{\"base64\":\"/w=\"}", "{\"base64\":\"/w\"}",
        "{\"base64\":\"/x==\"}", "{\"base64\":\"//5=\"}", "{\"base64\":\"====\"}", "{\"base64\":\"/===\"}", "{\"base64\":\"/w==/w==\"}",
        "{\"base64\":\"AAAA\"}", "{\"base64\":\"/ w=\"}", "{\"base64\":\"_w==\"}",
    };
    SB_JSON json_t *hidden = json_stringn("a\0b", 3);

    for (size_t i = 0; i < SB_ELEMENTS(wrong); i++) {
        SB_JSON json_t *json = NULL;

        ck_assert_int_eq(parse(wrong[i], &json, NULL), 0);
        ck_assert_msg(sb_json_get_bytes(json) == NULL, "%s", wrong[i]);
    }
    ck_assert_ptr_null(sb_json_get_bytes(hidden));
    ck_assert_ptr_null(sb_json_get_bytes(NULL));
}
END_TEST

START_TEST(typed_members)
{
    SB_JSON json_t *json = NULL;

    ck_assert_int_eq(parse("{\"s\":\"text\",\"i\":-9223372036854775808,\"n\":null,\"r\":1.5}", &json, NULL), 0);
    ck_assert_str_eq(sb_json_str(json, "s"), "text");
    ck_assert_ptr_null(sb_json_str(json, "i"));
    ck_assert_ptr_null(sb_json_str(json, "absent"));
    ck_assert_ptr_null(sb_json_str(NULL, "s"));
    ck_assert_int_eq(sb_json_int(json, "i", 7), INT64_MIN);
    ck_assert_int_eq(sb_json_int(json, "r", 7), 7);
    ck_assert_int_eq(sb_json_int(json, "n", 7), 7);
    ck_assert_int_eq(sb_json_int(NULL, "i", 7), 7);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base-json");
    TCase *tc = sbtest_case("json");

    tcase_add_test(tc, parses_and_dumps_sorted);
    tcase_add_loop_test(tc, refuses_what_is_damaged, 0, (int)SB_ELEMENTS(damaged));
    tcase_add_test(tc, bounds_depth_and_size);
    tcase_add_test(tc, bytes_round_trip);
    tcase_add_test(tc, bytes_refuses_other_forms);
    tcase_add_test(tc, typed_members);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
