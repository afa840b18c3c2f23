/* SPDX-License-Identifier: Apache-2.0 */
/* The key of this host. See host_key.h. */
#include "host_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "seal.h"
#include "vm/base/io.h"
#include "vm/base/problem.h"
#include "vm/base/util.h"

#define DIGITS (2 * SEAL_KEY)

static int digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

int host_key_parse(const char *text, size_t len, struct seal_key **ret_key)
{
	unsigned char bytes[SEAL_KEY];
	int r = 0;

	while (len > DIGITS && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (len != DIGITS)
		return -EINVAL;
	for (size_t i = 0; i < SEAL_KEY; i++) {
		const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			r = -EINVAL;
		bytes[i] = (unsigned char)((unsigned)high << 4 | ((unsigned)low & 0xf));
	}
	if (r == 0)
		r = seal_key_new(bytes, ret_key);
	seal_clear(bytes, sizeof(bytes));
	return r;
}

/* ---- the file ---- */

static int check_file(int fd, struct problem *why)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid == geteuid() && !(st.st_mode & 077) && st.st_nlink == 1)
		return 0;
	problem_set(why, PROBLEM_NOT_RESTORED,
		    st.st_uid != geteuid() ? "" : "chmod 600 it, if nobody has read it.",
		    "the key in the state directory is not for its owner alone: %s",
		    st.st_uid != geteuid() ? "it belongs to somebody else"
		    : st.st_mode & 077	   ? "others may read or change it"
					   : "it has another name as well");
	return -EPERM;
}

static int read_file(int fd, struct seal_key **ret_key, struct problem *why)
{
	char text[DIGITS + 3]; /* one more than there may be */
	struct file_source file = file_source(fd);
	int r = check_file(fd, why);
	ssize_t n;

	if (r < 0)
		return r;
	n = file.source.read(&file.source, text, sizeof(text));
	r = n < 0 ? (int)n : host_key_parse(text, (size_t)n, ret_key);
	seal_clear(text, sizeof(text));
	if (r == -EINVAL)
		problem_set(why, PROBLEM_NOT_RESTORED, "Put the right one back.",
			    "the key in the state directory is damaged: there should be %u "
			    "hexadecimal digits",
			    DIGITS);
	return r;
}

static int write_new(int dir, int fd, const char *name)
{
	unsigned char bytes[SEAL_KEY];
	char text[DIGITS + 2];
	int r = getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes) ? 0 : -EIO;

	for (size_t i = 0; i < SEAL_KEY; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	text[DIGITS] = '\n';
	if (r == 0)
		r = fileio_write(fd, text, DIGITS + 1);
	seal_clear(bytes, sizeof(bytes));
	seal_clear(text, sizeof(text));
	if (r == 0 &&
	    (fsync(fd) < 0 || renameat(dir, name, dir, HOST_KEY_FILE) < 0 || fsync(dir) < 0))
		r = -errno;
	return r;
}

/* What was begun and never finished is begun anew. */
static int make_file(int dir)
{
	static const char name[] = "." HOST_KEY_FILE "-new";
	_cleanup_close_ int fd = -1;
	int r;

	(void)unlinkat(dir, name, 0);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : write_new(dir, fd, name);
	if (r < 0)
		(void)unlinkat(dir, name, 0);
	return r;
}

int host_key_load(int state_dir, bool may_make, struct seal_key **ret_key, struct problem *why)
{
	_cleanup_close_ int fd = fileio_open(state_dir, HOST_KEY_FILE);
	int r = fd;

	why->code = PROBLEM_NONE;
	if (fd == -ENOENT && !may_make) {
		problem_set(why, PROBLEM_NOT_RESTORED,
			    "Put it back, or remove the state directory, and with it all that is "
			    "in it.",
			    "the key in the state directory is gone, with which what is there was "
			    "sealed");
		return -ENOKEY;
	}
	if (fd == -ENOENT) {
		r = make_file(state_dir);
		if (r == 0)
			r = fd = fileio_open(state_dir, HOST_KEY_FILE);
	}
	if (r >= 0)
		r = read_file(fd, ret_key, why);
	if (r < 0 && !why->code)
		problem_set(why, PROBLEM_NOT_RESTORED, "", "the key in the state directory: %s",
			    r == -EBADMSG || r == -ELOOP ? "it is not a plain file" : strerror(-r));
	return r;
}
