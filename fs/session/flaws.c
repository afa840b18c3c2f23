/* SPDX-License-Identifier: Apache-2.0 */
/* What something saved lacks. See flaws.h. */
#include "flaws.h"

#include <stdio.h>
#include <sys/stat.h>

#include "vm/vm.h"

static size_t say_changed(struct flaws *words, uint32_t n)
{
	if (!n)
		return 0;
	return (size_t)snprintf(words->text, sizeof(words->text),
				"%u of the files and directories changed while they were read", n);
}

struct flaws flaws_of_files(const struct saved *saved)
{
	const struct pack_flaws f = saved ? saved_flaws(saved) : (struct pack_flaws){0};
	struct flaws words = {0};
	const size_t n = say_changed(&words, f.changed);

	if (f.left_out)
		snprintf(words.text + n, sizeof(words.text) - n,
			 "%s%u are not all there: of sockets, FIFOs and devices there is the name, "
			 "of what "
			 "was mounted the directory, and of extended attributes nothing",
			 n ? "; " : "", f.left_out);
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
	const struct pack_flaws f = saved_flaws(saved);
	const uint32_t fifos = f.left_out && saved_pack(saved) ? count_fifos(saved_pack(saved)) : 0;
	struct flaws words = {0};
	const size_t n = say_changed(&words, f.changed);

	if (f.left_out > fifos)
		snprintf(words.text + n, sizeof(words.text) - n,
			 "%s%u did not come back as they were: sockets, devices, what was mounted "
			 "below "
			 "files/, or extended attributes",
			 n ? "; " : "", f.left_out - fifos);
	return words;
}
