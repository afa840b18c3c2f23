/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a guest to which secrets are attached, and the answers: the guest never sees a value, whatever it sends. */
/* modules: tests/unit/fixture/proxy_fixture.c */
/* libs: cmocka */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/fixture/proxy_fixture.h"
#include "vm/base/util.h"
#include "vm/net/filter/secrets.h"

#define VALUE "Val/ue+of&it 0815"

static const char uses[] =
	"web.test:80/b* bearer tok web.test:80/u* basic me tok web.test:80/h* header X-Key tok "
	"web.test:80/q* query key tok web.test:80 placeholder tok";

static void give(void)
{
	int fds[2];

	if (pipe(fds) < 0 || write(fds[1], VALUE, strlen(VALUE)) < 0)
		abort();
	close(fds[1]);
	secrets_read(&pf.net, "tok", fds[0]);
}

/* What the server has got is repeated to the guest as the body of an answer. */
static void repeat(void)
{
	struct buf answer = {0};

	(void)buf_printf(&answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
			 pf.out[SIDE_HOST].len);
	(void)buf_append(&answer, pf.out[SIDE_HOST].data ? pf.out[SIDE_HOST].data : "",
			 pf.out[SIDE_HOST].len);
	pf_say(SIDE_HOST, answer.data, answer.len, 7);
	buf_clear(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct net_policy policy = {.secrets = uses};

	/* Who knows it can say it. */
	if (size > 20000 || memmem(data, size, "ue+of", 5))
		return 0;
	pf_setup("web.test", &policy);
	give();
	pf_open("web.test", 80);
	pf_say(SIDE_GUEST, (const char *)data, size, 1000000);
	if (pf.out[SIDE_HOST].len)
		repeat();
	if (pf.out[SIDE_GUEST].len &&
	    memmem(pf.out[SIDE_GUEST].data, pf.out[SIDE_GUEST].len, VALUE, strlen(VALUE)))
		abort();
	pf_teardown(NULL);
	return 0;
}
