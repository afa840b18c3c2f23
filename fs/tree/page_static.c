/* SPDX-License-Identifier: Apache-2.0 */
/* What all pages have alike. See page_static.h. */
#include "page_static.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>

/* The assembler takes the file as it is: that stays one that can be read and checked, and is the same in every build. */
#define EMBED(name, file)                                                          \
	__asm__(".pushsection .rodata\n" #name ":\n\t.incbin \"" file "\"\n" #name \
		"_end:\n\t.byte 0\n\t.popsection\n");                              \
	extern const char name[] __attribute__((visibility("hidden")));            \
	extern const char name##_end[] __attribute__((visibility("hidden")))

EMBED(page_css_text, "fs/tree/page/status.css");
EMBED(page_js_text, "fs/tree/page/status.js");

struct page_static page_css(void)
{
	return (struct page_static){page_css_text, (size_t)(page_css_text_end - page_css_text)};
}

struct page_static page_js(void)
{
	return (struct page_static){page_js_text, (size_t)(page_js_text_end - page_js_text)};
}

int page_static_hash(struct page_static part, struct page_hash *ret_hash)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	char base64[48];

	if (EVP_Digest(part.data, part.len, sum, &n, EVP_sha256(), NULL) != 1 || n != 32)
		return -ENOMEM;
	(void)EVP_EncodeBlock((unsigned char *)base64, sum, 32); /* 44 characters */
	snprintf(ret_hash->text, sizeof(ret_hash->text), "'sha256-%s'", base64);
	return 0;
}
