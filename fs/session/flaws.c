/* SPDX-License-Identifier: Apache-2.0 */
/* What something saved lacks. See flaws.h. */
#include "flaws.h"

#include <stdio.h>
#include <sys/stat.h>

#include "vm/vm.h"

static struct pack_flaws known(const struct saved *saved)
{
	static const struct pack_flaws none;

	return saved ? saved_flaws(saved) : none;
}

static size_t say_changed(struct flaws *words, uint32_t n)
{
	if (!n)
		return 0;
	return (size_t)snprintf(words->text, sizeof(words->text),
				"%u of the files and directories changed while they were read", n);
}

struct flaws flaws_of_files(const struct saved *saved)
{
	const struct pack_flaws f = known(saved);
	struct flaws words = {0};
	const size_t n = say_changed(&words, f.changed);

	if (f.left_out)
		snprintf(words.text + n, sizeof(words.text) - n,
			 "%sof %u file%s not everything is there: of sockets, FIFOs and devices "
			 "the name alone, of "
			 "what was mounted the directory, of extended attributes none",
			 n ? "; " : "", f.left_out, f.left_out == 1 ? "" : "s");
	return words;
}

static uint32_t count_fifos(const struct pack *pack)
{
	const uint32_t n = pack_entries(pack);
	uint32_t fifos = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct pack_attr a;

		pack_attr(pack, i, &a);
		fifos += S_ISFIFO(a.mode);
	}
	return fifos;
}

struct flaws flaws_of_wake(const struct saved *saved)
{
	const struct pack_flaws f = known(saved);
	const uint32_t fifos = f.left_out && saved_pack(saved) ? count_fifos(saved_pack(saved)) : 0;
	struct flaws words = {0};
	const size_t n = say_changed(&words, f.changed);

	if (f.left_out > fifos)
		snprintf(words.text + n, sizeof(words.text) - n,
			 "%s%u file%s not as before: sockets, devices and what was mounted below "
			 "files/ do not "
			 "come back, nor do extended attributes",
			 n ? "; " : "", f.left_out - fifos,
			 f.left_out - fifos == 1 ? " is" : "s are");
	return words;
}
