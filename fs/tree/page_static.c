/* SPDX-License-Identifier: Apache-2.0 */
/* What all pages have alike. See page_static.h. */
#include "page_static.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>

/* The assembler takes the files as they are: they stay ones that can be read and checked, and are the same in every build. Their path
 * is that of the tree, where make runs. */
__asm__(".pushsection .rodata\n"
	"page_css_text:\n\t.incbin \"fs/tree/page/status.css\"\n"
	"page_css_text_end:\n"
	"page_js_text:\n\t.incbin \"fs/tree/page/status.js\"\n"
	"page_js_text_end:\n"
	"\t.balign 8\n"
	"page_css_size:\n\t.8byte page_css_text_end - page_css_text\n"
	"page_js_size:\n\t.8byte page_js_text_end - page_js_text\n"
	"\t.popsection\n");

extern const char page_css_text[] __attribute__((visibility("hidden")));
extern const char page_js_text[] __attribute__((visibility("hidden")));
extern const uint64_t page_css_size __attribute__((visibility("hidden")));
extern const uint64_t page_js_size __attribute__((visibility("hidden")));

struct page_static page_css(void)
{
	return (struct page_static){page_css_text, (size_t)page_css_size};
}

struct page_static page_js(void)
{
	return (struct page_static){page_js_text, (size_t)page_js_size};
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
