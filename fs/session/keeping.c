/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions tell whoever keeps them. See keeping.h. */
#include "keeping.h"

#include "fs.h"
#include "session.h"

void keeping_changed(struct session *s)
{
	if (s->fs->keeping && !s->dead)
		s->fs->keeping->changed(s);
}

void keeping_removed(struct session *s)
{
	if (s->fs->keeping)
		s->fs->keeping->removed(s);
}
