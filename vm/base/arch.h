/* SPDX-License-Identifier: Apache-2.0 */
/* The architecture of machines: this host's; or another one that is emulated, in a build that tests it (make MACHINES=arm64). */
#ifndef XSBX_VM_BASE_ARCH_H
#define XSBX_VM_BASE_ARCH_H

enum arch { ARCH_X86_64, ARCH_ARM64 };

/*
 * ARCH_MACHINES	of machines
 * ARCH_FOREIGN		it is not this host's
 * ARCH_NAME		as `uname -m` has it
 * ARCH_DEBIAN		as Debian has it, and scripts/images
 * ARCH_QEMU		the emulator, and the Debian package that it is in
 * ARCH_KIND		the kind of machine, as QEMU's streams name it
 * ARCH_RAM		where their memory begins, for their processors, as QEMU's monitor takes it
 * ARCH_IMAGES		where their images are, in the cache: see scripts/images
 */
#if defined(__aarch64__) || defined(XSBX_MACHINES_ARM64)
#define ARCH_MACHINES	  ARCH_ARM64
#define ARCH_NAME	  "aarch64"
#define ARCH_DEBIAN	  "arm64"
#define ARCH_QEMU	  "qemu-system-aarch64"
#define ARCH_QEMU_PACKAGE "qemu-system-arm"
#define ARCH_KIND	  "virt"
#define ARCH_RAM	  "0x40000000"
#elif defined(__x86_64__)
#define ARCH_MACHINES	  ARCH_X86_64
#define ARCH_NAME	  "x86_64"
#define ARCH_DEBIAN	  "amd64"
#define ARCH_QEMU	  "qemu-system-x86_64"
#define ARCH_QEMU_PACKAGE "qemu-system-x86"
#define ARCH_KIND	  "microvm"
#define ARCH_RAM	  "0"
#else
#error "xsbxfs runs on x86-64 and on arm64"
#endif

#if defined(__x86_64__) && defined(XSBX_MACHINES_ARM64)
#define ARCH_FOREIGN 1
#define ARCH_IMAGES  "images-arm64"
#else
#define ARCH_FOREIGN 0
#define ARCH_IMAGES  "images"
#endif

#endif
