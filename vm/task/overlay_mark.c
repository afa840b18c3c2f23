/* SPDX-License-Identifier: Apache-2.0 */
/* Marks changes that deserve a second look: names of files that programs execute automatically. */
#include <string.h>
#include <strings.h>

#include "overlay_internal.h"
#include "vm/base/util.h"

/*
 * Some programs of the host execute files of a directory automatically: git its hooks and commands
 * in its configuration, shells and tools that read a file of their current directory, editors their
 * workspace settings. The table can't be complete: names in it deserve a look, but others may as
 * well. Case is ignored, because some file systems are case-insensitive.
 */

/* As any part of a path: all that is below counts. */
static const char *const folders[] = {
	".git",	   "hooks",	  ".githooks", ".husky", ".vscode", ".idea",   ".devcontainer",
	".direnv", ".cargo",	  ".ssh",      ".yarn",	 ".claude", ".cursor", ".github",
	".config", ".pre-commit", ".zed",      ".nvim",	 ".vim",    ".bundle", ".mvn",
};

/* As the last part. */
static const char *const files[] = {
	".gitmodules",
	".gitattributes",
	".gitconfig",
	".pre-commit-config.yaml",
	".envrc",
	".env",
	".npmrc",
	".yarnrc",
	".yarnrc.yml",
	".pnpmfile.cjs",
	".bashrc",
	".bash_profile",
	".bash_login",
	".bash_logout",
	".profile",
	".zshrc",
	".zshenv",
	".zprofile",
	".inputrc",
	".vimrc",
	".exrc",
	".nvimrc",
	".nvim.lua",
	".gdbinit",
	".lldbinit",
	".dir-locals.el",
	".tmux.conf",
	".screenrc",
	".mise.toml",
	"mise.toml",
	".pdbrc",
	".irbrc",
	".pythonrc",
	".pythonrc.py",
	"pyvenv.cfg",
	"sitecustomize.py",
	"usercustomize.py",
	"conftest.py",
	".mcp.json",
	".python-version",
	".tool-versions",
};

static bool is_one_of(const char *name, size_t len, const char *const *table, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strlen(table[i]) == len && strncasecmp(table[i], name, len) == 0)
			return true;
	}
	return false;
}

static bool ends_in(const char *name, size_t len, const char *end)
{
	const size_t n = strlen(end);

	return len > n && strncasecmp(name + len - n, end, n) == 0;
}

bool overlay_mark(const char *path, mode_t mode)
{
	if (S_ISREG(mode) && (mode & (S_ISUID | S_ISGID)))
		return true;
	for (;;) {
		const size_t len = strcspn(path, "/");

		if (is_one_of(path, len, folders, ARRAY_SIZE(folders)))
			return true;
		if (!path[len])
			return is_one_of(path, len, files, ARRAY_SIZE(files)) ||
			       ends_in(path, len, ".pth") || ends_in(path, len, ".code-workspace");
		path += len + 1;
	}
}
