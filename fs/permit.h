/* SPDX-License-Identifier: Apache-2.0 */
/* What the configuration permits the spawner to start. */
#ifndef XSBX_FS_PERMIT_H
#define XSBX_FS_PERMIT_H

struct conf;
struct policy;

/**
 * permit() - Make the spawner's policy
 * @conf: Configuration
 * @runtime_dir: The mount's own
 * @ca_path: Certificates for sandboxes with a network, or NULL
 * @ret_policy: Result; policy_free() it
 *
 * Return: 0 or -ENOMEM.
 */
int permit(const struct conf *conf, const char *runtime_dir, const char *ca_path,
	   struct policy **ret_policy);

#endif
