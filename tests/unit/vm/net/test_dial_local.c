/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of this machine, and its IPv6 networks, which are not the internet. */
/* modules: vm/net/dial/local.c */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vm/net/dial/local.h"

static struct sockaddr_in6 v6(const char *text)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6};

	assert_int_equal(inet_pton(AF_INET6, text, &a.sin6_addr), 1);
	return a;
}

static bool contains(const struct ifaddrs *list, const char *text)
{
	struct sockaddr_in6 a = v6(text);

	return local_contains(list, (struct sockaddr *)&a);
}

static void test_networks(void **state)
{
	struct sockaddr_in6 own = v6("2a01:4f8:1:2::5"), mask = v6("ffff:ffff:ffff:ffff::"),
			    single = v6("2a02::7"),
			    all = v6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
			    odd = v6("2a03:8000::1"), odd_mask = v6("ffff:8000::"), none = v6("::");
	struct sockaddr_in four = {.sin_family = AF_INET};
	struct ifaddrs without = {0};
	struct ifaddrs ipv4 = {.ifa_addr = (struct sockaddr *)&four,
			       .ifa_netmask = (struct sockaddr *)&four,
			       .ifa_next = &without};
	struct ifaddrs empty = {.ifa_addr = (struct sockaddr *)&own,
				.ifa_netmask = (struct sockaddr *)&none,
				.ifa_next = &ipv4};
	struct ifaddrs third = {.ifa_addr = (struct sockaddr *)&odd,
				.ifa_netmask = (struct sockaddr *)&odd_mask,
				.ifa_next = &empty};
	struct ifaddrs second = {.ifa_addr = (struct sockaddr *)&single,
				 .ifa_netmask = (struct sockaddr *)&all,
				 .ifa_next = &third};
	struct ifaddrs list = {.ifa_addr = (struct sockaddr *)&own,
			       .ifa_netmask = (struct sockaddr *)&mask,
			       .ifa_next = &second};

	(void)state;
	assert_true(contains(&list, "2a01:4f8:1:2::1"));
	assert_true(contains(&list, "2a01:4f8:1:2:ffff::1"));
	assert_false(contains(&list, "2a01:4f8:1:3::1"));
	assert_true(contains(&list, "2a02::7"));
	assert_false(contains(&list, "2a02::8"));
	assert_true(contains(&list, "2a03:ffff::"));
	assert_false(contains(&list, "2a03:7fff::"));
	assert_false(contains(NULL, "2a01:4f8:1:2::1"));
	assert_false(local_contains(&list, (struct sockaddr *)&four));
}

static void test_own(void **state)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(0x5db8d822)}},
			   near = own, mask = own;
	struct sockaddr_in6 other = v6("2a01::5");
	struct ifaddrs without = {0};
	struct ifaddrs second = {.ifa_addr = (struct sockaddr *)&own,
				 .ifa_netmask = (struct sockaddr *)&mask,
				 .ifa_next = &without};
	struct ifaddrs list = {.ifa_addr = (struct sockaddr *)&other, .ifa_next = &second};

	(void)state;
	mask.sin_addr.s_addr = htonl(0xffffff00);
	near.sin_addr.s_addr = htonl(0x5db8d823);
	assert_true(local_has(&list, (struct sockaddr *)&own));
	assert_false(local_has(&list, (struct sockaddr *)&near)); /* a neighbour is not itself */
	assert_false(local_has(&list, (struct sockaddr *)&other));
	assert_false(local_has(NULL, (struct sockaddr *)&own));
}

/* Loopback is there on any machine that has IPv6 at all; the internet is nobody's own network. */
static void test_this_machine(void **state)
{
	struct sockaddr_in6 far = v6("2001:4860:4860::8888");
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

	(void)state;
	assert_false(local_is((struct sockaddr *)&far));
	assert_false(local_is((struct sockaddr *)&four));
	assert_true(local_is_own((struct sockaddr *)&four));
	four.sin_addr.s_addr = htonl(0x08080808);
	assert_false(local_is_own((struct sockaddr *)&four));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_networks),
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
