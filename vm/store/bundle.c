/* SPDX-License-Identifier: Apache-2.0 */
/* The format of bundles. */
#include "bundle.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "chunk.h"

int bundle_head(const uint8_t head[BUNDLE_HEAD], struct bundle_record *ret_record)
{
	static const uint32_t most[] = {
		[BUNDLE_MANIFEST] = MANIFEST_MAX,
		[BUNDLE_CHUNK] = BUNDLE_RECORD_MAX,
		[BUNDLE_LINK] = BUNDLE_LINK_MAX,
		[BUNDLE_END] = 0,
	};
	uint32_t words[2], type, len;

	memcpy(words, head, sizeof(words));
	type = le32toh(words[0]);
	len = le32toh(words[1]);
	if (type < BUNDLE_MANIFEST || type > BUNDLE_END || len > most[type])
		return -EBADMSG;
	*ret_record = (struct bundle_record){type, len};
	return 0;
}

void bundle_put_head(const struct bundle_record *record, uint8_t ret_head[BUNDLE_HEAD])
{
	const uint32_t words[2] = {htole32(record->type), htole32(record->len)};

	memcpy(ret_head, words, sizeof(words));
}

int bundle_link(const char *text, size_t len, char ret_name[STORE_KEY_MAX + 1],
		char ret_key[STORE_KEY_MAX + 1])
{
	const char *blank = memchr(text, ' ', len);
	const size_t n = blank ? (size_t)(blank - text) : 0;

	if (!blank || text[len - 1] != '\n' || n > STORE_KEY_MAX || len - n - 2 > STORE_KEY_MAX)
		return -EBADMSG;
	memcpy(ret_name, text, n);
	ret_name[n] = '\0';
	memcpy(ret_key, blank + 1, len - n - 2);
	ret_key[len - n - 2] = '\0';
	if (strlen(ret_name) != n || strlen(ret_key) != len - n - 2)
		return -EBADMSG;
	return store_key_valid(ret_name) && store_key_valid(ret_key) ? 0 : -EBADMSG;
}
