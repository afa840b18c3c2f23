/* SPDX-License-Identifier: Apache-2.0 */
/* What is passed in of the host's network: certificates, proxies, and what that opens. */
/* modules: fs/session/netenv.c vm/net/allow_check.c vm/base/allow.c vm/base/address.c */
/* modules: vm/base/buf.c vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fs/config/daemon.h"
#include "fs/session/netenv.h"

static char path[] = "/tmp/xsbxfs-unit.ca.XXXXXX";

static void fill(const char *text, size_t len)
{
	_cleanup_close_ int fd = -1;

	memcpy(path + sizeof(path) - 7, "XXXXXX", 7);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
}

static int init(struct netenv *ne, char *ca, bool proxy, char why[256])
{
	struct conf c = {.ca_certificates = ca, .pass_proxy = proxy};

	*why = '\0';
	return netenv_init(ne, &c, why, 256);
}

static const char *value(const struct sandbox_env *env, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(env[i].name, name) == 0)
			return env[i].value;
	return NULL;
}

static int setup(void **state)
{
	(void)state;
	unsetenv("http_proxy");
	unsetenv("https_proxy");
	unsetenv("no_proxy");
	unsetenv("HTTP_PROXY");
	unsetenv("HTTPS_PROXY");
	unsetenv("NO_PROXY");
	return 0;
}

static void test_certificates(void **state)
{
	static const char pem[] = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";
	const struct sandbox_env own = {"SSL_CERT_FILE", "mine"};
	struct sandbox_spec st = {.network = true, .env = &own, .nenv = 1};
	struct sandbox_env env[NETENV_MAX + 1];
	struct netenv ne;
	char why[256];
	size_t n;

	(void)state;
	fill(pem, strlen(pem));
	assert_int_equal(init(&ne, path, false, why), 0);
	assert_int_equal(ne.ca.len, strlen(pem));
	assert_memory_equal(ne.ca.data, pem, strlen(pem));
	assert_string_equal(ne.ca_path, path);
	n = netenv_add(&ne, &st, env, 0);
	assert_string_equal(value(env, n, "REQUESTS_CA_BUNDLE"), VM_CA_FILE);
	assert_null(value(env, n, "SSL_CERT_FILE")); /* the session has its own */
	st.network = false;
	assert_int_equal(netenv_add(&ne, &st, env, 0), 0);
	netenv_fini(&ne);
	unlink(path);
}

static void test_bad_certificates(void **state)
{
	static char big[VM_CA_MAX + 1];
	struct netenv ne;
	char why[256], none[] = "none", gone[] = "/nowhere/at/all";

	(void)state;
	assert_int_equal(init(&ne, none, false, why), 0);
	assert_int_equal(ne.ca.len, 0);
	assert_int_equal(ne.nenv, 0);
	netenv_fini(&ne);
	assert_int_equal(init(&ne, gone, false, why), -ENOENT);
	assert_non_null(strstr(why, gone));
	netenv_fini(&ne);
	fill("no certificate", 14);
	assert_int_equal(init(&ne, path, false, why), -EINVAL);
	assert_non_null(strstr(why, "no certificates"));
	netenv_fini(&ne);
	unlink(path);
	fill(big, sizeof(big));
	assert_int_equal(init(&ne, path, false, why), -EFBIG);
	netenv_fini(&ne);
	unlink(path);
}

static void test_proxy(void **state)
{
	struct sandbox_spec st = {.network = true, .allow = "example.com"};
	struct sandbox_env env[NETENV_MAX];
	char why[256], none[] = "none", *list;
	struct netenv ne;
	size_t n;

	(void)state;
	setenv("http_proxy", "http://me:word@proxy.example.org:3128/x", 1);
	setenv("https_proxy", "10.0.0.1:3129", 1);
	setenv("HTTPS_PROXY", "http://no.port.example.org/", 1);
	setenv("no_proxy", "localhost,.example.net", 1);
	assert_int_equal(init(&ne, none, false, why), 0);
	assert_int_equal(ne.nenv, 0);
	assert_string_equal(ne.allow, "");
	netenv_fini(&ne);
	assert_int_equal(init(&ne, none, true, why), 0);
	assert_string_equal(ne.allow, "proxy.example.org:3128 10.0.0.1:3129");
	n = netenv_add(&ne, &st, env, 0);
	assert_int_equal(n, 3);
	assert_string_equal(value(env, n, "http_proxy"), "http://me:word@proxy.example.org:3128/x");
	assert_string_equal(value(env, n, "no_proxy"), "localhost,.example.net");
	assert_null(value(env, n, "HTTPS_PROXY"));
	list = netenv_allow(&ne, &st);
	assert_string_equal(list, "example.com proxy.example.org:3128 10.0.0.1:3129");
	free(list);
	st.network = false;
	st.allow = "";
	list = netenv_allow(&ne, &st);
	assert_string_equal(list, "");
	free(list);
	netenv_fini(&ne);
}

/* What is no proxy opens nothing: above all not everything. */
static void test_odd_proxies(void **state)
{
	static const char *const odd[] = {
		"http://*:80/", "*",	 "http://a b:80",   "http://x:80,*:81", "http://x:80#*",
		"http://:80",	"//x:0", "http://[::1]:80", "http://a.b:80 *",	"\xff:80",
	};
	struct netenv ne;
	char why[256], none[] = "none";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		setenv("http_proxy", odd[i], 1);
		assert_int_equal(init(&ne, none, true, why), 0);
		if (*ne.allow && strcmp(ne.allow, "x:80") != 0)
			fail_msg("%s opens %s", odd[i], ne.allow);
		netenv_fini(&ne);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_certificates, setup),
		cmocka_unit_test_setup(test_bad_certificates, setup),
		cmocka_unit_test_setup(test_proxy, setup),
		cmocka_unit_test_setup(test_odd_proxies, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
