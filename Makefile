# SPDX-License-Identifier: Apache-2.0
# Builds and tests xsbxfs. `make help` lists the targets.
#
#   SAN=1    with AddressSanitizer and UndefinedBehaviorSanitizer, into build/san
#   SHADOW=1 with a second look at what a daemon leaves if it dies, into build/shadow: see fs/survival.h
#   COV=1    with coverage counters, into build/cov (what `make coverage` uses)
#   MACHINES=arm64 with machines of that architecture, emulated, into build-arm64: what tests them where there is no such host
#   DEV=1    warnings are errors
#   V=1      show commands
#   O=DIR    build somewhere else
#   T=NAMES  builds and runs only these tests, e.g. make check-mount T='in_order run_*'

PREFIX ?= /usr/local
DESTDIR ?=
BINDIR ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/xsbxfs
DATADIR ?= $(PREFIX)/share/xsbxfs
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/xsbxfs
UNITDIR ?= $(PREFIX)/lib/systemd/system
USERUNITDIR ?= $(PREFIX)/lib/systemd/user
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
BASHCOMPDIR ?= $(PREFIX)/share/bash-completion/completions
# Debian's zsh looks below /usr for what packages bring.
ZSHCOMPDIR ?= $(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)

# One folder below the sources, whose scripts a daemon finds beside its own.
O ?= build$(if $(MACHINES),-$(MACHINES))$(if $(SAN),/san)$(if $(COV),/cov)$(if $(SHADOW),/shadow)
ifndef VERSION
VERSION := $(shell scripts/package/version)
endif

PKG_CONFIG ?= pkg-config
FUZZ_CC ?= clang
FUZZ_SECONDS ?= 5
NIGHT_FUZZ_SECONDS ?= 600
INSTALL ?= install

ifneq ($(V),1)
Q := @
say = @printf '  %-7s %s\n' '$(1)' '$(2)'
endif

# ---- sources ----

below = $(sort $(foreach d,$(1),$(wildcard $(d)/*.c $(d)/*/*.c $(d)/*/*/*.c)))
in = $(addprefix $(1)/,$(addsuffix .c,$(2)))
fs_c := $(call below,fs)
agent_c := $(call below,agent) vm/base/io.c vm/base/landlock.c
net_c := $(wildcard vm/net/filter/*.c) $(call in,vm/base,address allow buf egress fdpass http_path place rlimit rules \
	net_reason secret_use words)
dial_c := $(wildcard vm/net/dial/*.c) $(call in,vm/base,address fdpass rlimit packets lent upstream)
store_c := $(wildcard vm/store/*.c) vm/jail/seccomp.c \
	$(call in,vm/base,buf digest io remove secret sparse landlock trusted)
trace_c := $(wildcard vm/trace/*.c) vm/store/confine.c vm/jail/seccomp.c $(call in,vm/base,buf landlock secret)
# Sources shared by the daemon and these programs.
shared_c := vm/store/kind.c agent/protocol.c agent/link.c agent/pack_record.c agent/files/lockbook.c
daemon_c := $(fs_c) $(filter-out vm/store/% vm/trace/% vm/net/filter/% vm/net/dial/%,$(call below,vm)) $(shared_c)
host_c := $(sort $(daemon_c) $(net_c) $(dial_c) $(store_c) $(trace_c) $(agent_c))
unit_c := $(foreach f,$(call below,tests/unit) $(wildcard tests/unit/*/*/*/*.c),$(if $(filter test_%,$(notdir $(f))),$(f)))
fuzz_c := $(wildcard tests/fuzz/fuzz_*.c)
bench_c := $(wildcard tests/bench/*.c)
all_c := $(sort $(foreach e,c h,$(foreach d,fs agent vm tests images/drivers,$(wildcard \
	$(d)/*.$(e) $(d)/*/*.$(e) $(d)/*/*/*.$(e) $(d)/*/*/*/*.$(e)))))
man := $(wildcard man/*.[1-8])
scripts = $(shell { git ls-files --cached --others --exclude-standard 2>/dev/null || find $(wildcard * .ci) -type f -not -path 'build/*'; } | \
	xargs -r grep -lsIE -m1 '^\#!.*[/ ](ba|da)?sh( |$$)')

# ---- flags ----

, := ,

uses = $(if $(shell grep -ls 'include <$(1)>' $(daemon_c)),$(2))
pkgs := fuse3 libuv jansson inih $(call uses,seccomp.h,libseccomp) $(call uses,openssl/evp.h,libcrypto) $(call uses,zstd.h,libzstd)
pkg = $(shell $(PKG_CONFIG) $(1))

CFLAGS ?= -O2 -g
warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wpointer-arith -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wswitch-enum \
	-Wno-missing-field-initializers $(if $(DEV),-Werror)
x86 := $(filter x86_64% i%86%,$(shell $(CC) -dumpmachine))
hardening := -fPIE -fstack-protector-strong $(if $(x86),-fcf-protection) \
	$(if $(SAN)$(COV)$(findstring -O0,$(CFLAGS))$(findstring _FORTIFY_SOURCE,$(CFLAGS) $(CPPFLAGS)),,-D_FORTIFY_SOURCE=2)
# Where this directory is gets into no program. (gcov wants to know.)
places_of_files := $(if $(COV),,-ffile-prefix-map=$(CURDIR)=.)
instrument := $(if $(SAN),-fsanitize=address$(,)undefined -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer) $(if $(COV),--coverage -O0)
defines := -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DFUSE_USE_VERSION=312 \
	-DXSBX_VERSION='"$(VERSION)"' -DXSBX_LIBEXECDIR='"$(LIBEXECDIR)"' \
	-DXSBX_DATADIR='"$(DATADIR)"' $(if $(SHADOW),-DXSBX_SHADOW) $(if $(filter arm64,$(MACHINES)),-DXSBX_MACHINES_ARM64)

XCFLAGS := -std=gnu11 $(warnings) $(hardening) $(places_of_files) $(defines) -I. $(call pkg,--cflags $(pkgs) slirp) \
	$(CFLAGS) $(instrument) $(CPPFLAGS)
XLDFLAGS := -fPIE -pie -Wl,-z,relro,-z,now $(instrument) $(LDFLAGS)
LIBS := $(call pkg,--libs $(pkgs))

# What runs in machines is built by a compiler for them.
guest_cc := $(if $(filter arm64,$(MACHINES)),aarch64-linux-gnu-gcc,$(CC))
guest_obj := $(if $(MACHINES),guest,obj)
# The sanitizers have no static runtime, so such an agent is only for tests on the host.
agent_link := $(if $(SAN),-pie,-static-pie)

# ---- programs ----

.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all help

all: $(O)/xsbxfs $(O)/xsbxfs-net $(O)/xsbxfs-dial $(O)/xsbxfs-store $(O)/xsbxfs-trace $(O)/xsbx-agent

objs = $(patsubst %.c,$(O)/$(1)/%.o,$(2))
link = $(CC) $(XLDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^)

$(O)/xsbxfs: $(call objs,obj,$(daemon_c))
	$(call say,LD,$@)
	$(Q)$(link) $(LIBS)

$(O)/xsbx-agent: $(call objs,$(guest_obj),$(agent_c))
	$(call say,LD,$@)
	$(Q)$(guest_cc) $(agent_link) -Wl,-z,relro,-z,now $(instrument) $(LDFLAGS) -o $@ $^

$(O)/xsbxfs-net: $(call objs,obj,$(net_c))
	$(call say,LD,$@)
	$(Q)$(link) $(call lib_flags,--libs,slirp libssl libcrypto libnghttp2 http_parser)

$(O)/xsbxfs-store: $(call objs,obj,$(store_c))
	$(call say,LD,$@)
	$(Q)$(link) $(call pkg,--libs libcurl libzstd libcrypto jansson libseccomp)

$(O)/xsbxfs-trace: $(call objs,obj,$(trace_c))
	$(call say,LD,$@)
	$(Q)$(link) $(call pkg,--libs libcurl libseccomp)

$(O)/xsbxfs-dial: $(call objs,obj,$(dial_c))
	$(call say,LD,$@)
	$(Q)$(link) $(call lib_flags,--libs,libuv http_parser)

# Plays the roles of the daemon and the dialer for xsbxfs-net.
net_fixture_c := tests/net/net_fixture.c $(call in,vm/net,gateway gateway_policy allow_check dialer leave) \
	$(call in,vm/base,allow blackbox buf egress fdbag http_path net_reason place record rules secret_use turn memory words) \
	$(call in,vm/base,estate estate_file estate_items estate_load estate_tidy io) \
	$(filter-out vm/net/dial/main.c,$(dial_c))
$(O)/test/net_fixture: $(call objs,obj,$(net_fixture_c))
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(link) $(call lib_flags,--libs,libuv http_parser)

# The daemon for tests: with an additional backend that runs the agent as a plain process of the host, and with points at
# which it can be ended.
local_c := $(shell grep -ls 'XSBX_LOCAL_BACKEND\|include "\(vm/base/\)\?aim.h"' $(daemon_c))
$(O)/test/xsbxfs: $(call objs,obj,$(filter-out $(local_c),$(daemon_c)) $(call in,tests/unit/fixture,backend_local aim)) \
		$(call objs,test/obj,$(local_c))
	$(call say,LD,$@)
	$(Q)$(link) $(LIBS)

$(O)/obj/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(XCFLAGS) -MMD -MP -c -o $@ $<

$(O)/guest/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(guest_cc) $(filter-out -fcf-protection,$(XCFLAGS)) -MMD -MP -c -o $@ $<

$(O)/test/obj/%.o: %.c
	$(call say,CC,$< (test))
	@mkdir -p $(@D)
	$(Q)$(CC) $(XCFLAGS) -DXSBX_LOCAL_BACKEND -MMD -MP -c -o $@ $<

# gcc's own fork() looks after the counters by what a static program has not.
$(if $(COV),$(call objs,obj,$(agent_c)): XCFLAGS += -fno-builtin-fork)

# What it takes in as it is, which the compiler does not tell of.
$(foreach d,obj fuzz/obj,$(O)/$(d)/fs/tree/page_static.o): $(wildcard fs/tree/page/*)

# As they are compiled in an image.
$(O)/obj/images/drivers/%.o: XCFLAGS += -Iagent/interp

# Rebuilds only what depends on the installation paths when they change.
placed := $(shell grep -ls 'XSBX_LIBEXECDIR\|XSBX_DATADIR' $(host_c))
$(call objs,obj,$(placed)) $(call objs,test/obj,$(placed)): $(O)/places
$(O)/places: FORCE
	@mkdir -p $(@D)
	@echo '$(LIBEXECDIR) $(DATADIR)' | cmp -s - $@ || echo '$(LIBEXECDIR) $(DATADIR)' >$@

# Rebuilds only what depends on the version when it changes.
versioned := $(shell grep -ls XSBX_VERSION $(host_c))
$(call objs,obj,$(versioned)) $(call objs,test/obj,$(versioned)): $(O)/version
$(O)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@
.PHONY: FORCE

# The interpreters' drivers for sandboxes that are not virtual machines; turn.so is a bash builtin.
drivers_src := $(wildcard images/drivers/repl.*) images/drivers/start.py
drivers := $(O)/drivers/turn.so $(O)/drivers/repl.pyc $(patsubst images/drivers/%,$(O)/drivers/%,$(drivers_src))

all: $(drivers)

turn_src := $(wildcard images/drivers/turn*.[ch])
driver_h := $(addprefix agent/interp/,driver.h token.h)
turn_flags = -std=gnu11 $(warnings) -D_GNU_SOURCE -Iagent/interp $(places_of_files) $(CFLAGS) $(CPPFLAGS) -fPIC -shared
$(O)/drivers/turn.so: $(turn_src) $(driver_h)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(turn_flags) $(LDFLAGS) -o $@ $(filter %.c,$^)

$(O)/drivers/%: images/drivers/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# By the Python that jails show, for the place where they show it. Without it, or after an upgrade of it, the
# source is compiled at each start: see start.py.
$(O)/drivers/repl.pyc: images/drivers/repl.py
	@mkdir -p $(@D)
	$(Q)PATH=/usr/local/bin:/usr/bin:/bin python3 -I -S -c 'import py_compile, sys; py_compile.compile(sys.argv[1], \
		sys.argv[2], "/run/xsbx/lib/repl.py", True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)' \
		$< $@ || : >$@

# ---- tests ----
# A test declares its source files at its top, as do the fixtures that it uses:
#	/* modules: fs/config/settings.c vm/base/buf.c tests/unit/fixture/vm_fake.c */
# "vm" stands for everything from vm/ that is needed and is not in the list.
#	/* libs: inih uv */

# and a test in Python declares the programs that it runs:
#	# needs: xsbx-agent drivers

.PHONY: check check-unit check-mount check-process check-vm check-lab mounts tests bench fuzz fuzz-smoke fuzz-corpus coverage

# Read once for all of them: hundreds of programs to ask each would take seconds, at each make.
$(foreach line,$(shell grep -HE '^/\* (modules|libs): .*\*/$$' $(unit_c) $(fuzz_c) $(wildcard tests/unit/fixture/*.c) | \
	sed -e 's,^\([^:]*\):/\* \([a-z]*\): *\(.*[^ ]\) *\*/$$,said.\2.\1+=\3,' -e 's/ /|/g'),$(eval $(subst |, ,$(line))))
says = $(said.$(1).$(2))
helpers = $(filter tests/unit/fixture/%,$(call says,modules,$(1)))
all_say = $(call says,$(1),$(2)) $(foreach h,$(call helpers,$(2)),$(call says,$(1),$(h)))
lib_pkgs = $(patsubst ssl,libssl,$(patsubst nghttp2,libnghttp2,$(patsubst curl,libcurl,$(patsubst crypto,libcrypto,$(patsubst uv,libuv,$(patsubst zstd,libzstd,$(patsubst seccomp,libseccomp,$(1))))))))

# Debian's http_parser tells pkg-config nothing.
lib_flags = $(call pkg,$(1) $(filter-out http_parser,$(2))) $(if $(filter http_parser,$(2)),-lhttp_parser)

units := $(patsubst %.c,$(O)/unit/%,$(notdir $(unit_c)))
$(O)/vm.a: $(call objs,obj,$(filter-out fs/%,$(daemon_c)))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

named = $(sort $(filter-out vm,$(call all_say,modules,$(1))))
archive = $(if $(filter vm,$(call all_say,modules,$(1))),$(O)/vm.a)
define unit_rule
$(O)/unit/$(notdir $(1:.c=)): $(call objs,obj,$(1) $(call named,$(1))) $(call archive,$(1))
	$$(call say,LD,$$@)
	@mkdir -p $$(@D)
	$(Q)$$(link) $$(call lib_flags,--libs,cmocka $(call lib_pkgs,$(sort $(call all_say,libs,$(1)) $(if $(call archive,$(1)),crypto zstd))))
endef
$(foreach t,$(unit_c),$(eval $(call unit_rule,$(t))))

# Runs in sandboxes, with any view of files.
$(O)/test/probe: $(call objs,$(guest_obj),$(wildcard tests/hostile/*.c))
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(guest_cc) $(agent_link) $(instrument) $(LDFLAGS) -o $@ $^

# Runs in machines and on the host; the results are compared.
$(O)/test/vectors: $(call objs,obj,$(wildcard tests/vectors/*.c))
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(agent_link) $(instrument) $(LDFLAGS) -o $@ $^

# What only real machines can show, without a mount.
$(O)/test/points: $(call objs,obj,tests/machine/points.c) $(O)/vm.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(link) $(LIBS)

local := $(O)/test/xsbxfs $(O)/xsbx-agent $(O)/xsbxfs-net $(O)/xsbxfs-dial $(drivers)
run_tests = BUILD=$(O) tests/run $(if $(V),-v) $(if $(AGAIN),--again $(AGAIN))

# What tests in machines run, two of modules among it; what all tests of the mount do; and all tests.
in_machines := $(O)/test/probe $(O)/test/vectors $(O)/test/points $(O)/unit/test_adopt $(O)/unit/test_adopt_midway
mounts: all $(local) $(O)/test/net_fixture $(in_machines)
tests: mounts $(units)

# The tests named by T, in any folder. As in the runner, `*` and `?` are wildcards.
levels = $(1) $(1)/* $(1)/*/* $(1)/*/*/*
files_of = $(sort $(foreach t,$(3),$(wildcard $(foreach d,$(call levels,$(1)),$(d)/$(t).$(2)))))
needs = $(foreach n,$(sort $(shell sed -n 's,^. needs: *,,p' $(1) </dev/null)),$(if \
	$(filter drivers,$(n)),$(drivers),$(O)/$(n)))
# The programs of tests of modules, and those that tests in Python run.
unit_files = $(strip $(patsubst %.c,$(O)/unit/%,$(notdir $(call files_of,tests/unit,c,$(1)))) \
	$(call needs,$(call files_of,tests/unit,py,$(1))))
mount_files = $(strip $(foreach e,py sh,$(call files_of,tests/mount,$(e),$(1))))

PARTS = unit local process vm
check: $(if $(T),$(call unit_files,$(T)) $(if $(call mount_files,$(T)),mounts),$(if $(filter unit,$(PARTS)),tests,mounts))
	$(Q)$(run_tests) $(PARTS:%=--%) $(T)

check-unit: $(call unit_files,$(or $(T),test_*))
	$(Q)$(run_tests) --unit $(T)

check-mount: $(local)
	$(Q)$(run_tests) --local $(T)

check-process: all $(O)/test/probe
	$(Q)$(run_tests) --process $(T)

check-vm: all $(in_machines)
	$(Q)$(run_tests) --vm $(T)

# In an emulated machine with Debian 13, where KVM runs; builds for itself. See tests/lab/run.
check-lab:
	$(Q)tests/lab/run $(if $(V),-v) $(T)

benches := $(patsubst tests/bench/%.c,$(O)/bench/%,$(bench_c))
$(O)/bench/jail: tests/unit/fixture/free_rules.c $(O)/vm.a
$(O)/bench/vault: $(O)/vm.a
$(O)/bench/fetch: bench_libs = $(call pkg,--libs libcurl)
$(O)/bench/%: tests/bench/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(XCFLAGS) $(XLDFLAGS) -o $@ $^ $(if $(filter %.a,$^),$(LIBS)) $(bench_libs)

bench: all $(benches) $(local) $(O)/test/net_fixture
	$(Q)BUILD=$(O) tests/bench/bench $(BENCH)

fuzzers := $(patsubst tests/fuzz/%.c,$(O)/fuzz/%,$(fuzz_c))
fuzz_modules = $(sort $(patsubst vm,$(filter-out fs/%,$(daemon_c)),$(call all_say,modules,$(1))))
fuzz_san := -g -O1 -fno-sanitize-recover=undefined -fsanitize=address,undefined
$(O)/fuzz/obj/%.o: %.c
	$(call say,CC,$< (fuzz))
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) -std=gnu11 $(fuzz_san),fuzzer-no-link $(defines) -I. $(call pkg,--cflags $(pkgs)) \
		-MMD -MP -c -o $@ $<

define fuzz_rule
$(O)/fuzz/$(notdir $(1:.c=)): $(call objs,fuzz/obj,$(1) $(call fuzz_modules,$(1)))
	$$(call say,LD,$$@)
	$(Q)$(FUZZ_CC) $(fuzz_san),fuzzer -o $$@ $$^ $$(call lib_flags,--libs-only-l,$(or \
		$(call lib_pkgs,$(sort $(call all_say,libs,$(1)) $(if $(call archive,$(1)),crypto zstd))),libuv))
endef
$(foreach t,$(fuzz_c),$(eval $(call fuzz_rule,$(t))))

fuzz: $(fuzzers)
	@echo 'Run one as long as you like: $(O)/fuzz/NAME [corpus directory]. There are:'
	@printf '  %s\n' $(fuzzers)

# As many at a time as there are processors. Findings are kept in the build directory, not with the seeds.
fuzz-smoke: $(fuzzers)
	$(Q)printf '%s\n' $(notdir $(fuzzers)) | xargs -P "$$(nproc)" -I NAME sh -c '\
		seeds=tests/fuzz/corpus/NAME; mkdir -p $(O)/fuzz/corpus/NAME; [ -d "$$seeds" ] || seeds=; \
		echo "NAME: $(FUZZ_SECONDS) s"; \
		$(O)/fuzz/NAME -max_total_time=$(FUZZ_SECONDS) -print_final_stats=0 -verbosity=0 \
			-artifact_prefix=$(O)/fuzz/NAME- $(O)/fuzz/corpus/NAME $$seeds || exit 255'
	@echo 'no crash, no leak, no undefined behaviour'

# Runs the seeds in tests/fuzz/corpus once, which are known difficult cases.
fuzz-corpus: $(fuzzers)
	$(Q)printf '%s\n' $(notdir $(fuzzers)) | xargs -P "$$(nproc)" -I NAME sh -c '\
		seeds=tests/fuzz/corpus/NAME; [ -d "$$seeds" ] || exit 0; \
		$(O)/fuzz/NAME -runs=0 -verbosity=0 -artifact_prefix=$(O)/fuzz/NAME- $$seeds || exit 255'

# Fails if the coverage of a folder is below tests/coverage.floor.
# Failing tests are ignored here: some are confused by messages of programs that can't write their counters, because
# they are in jails or have confined themselves; what these execute is not counted either.
coverage:
	$(Q)$(MAKE) --no-print-directory COV=1 tests
	$(Q)find build/cov -name '*.gcda' -delete
	$(Q)BUILD=build/cov GCOV_ERROR_FILE=/dev/null tests/run --unit --local || :
	$(Q)find build/cov -name '*.gcda' | xargs gcov -n 2>/dev/null | tests/coverage tests/coverage.floor

# ---- tiers ----
# Each includes the previous one; see tests/README.md. .ci/run is the third of the four.

.PHONY: check-save check-push check-night tidy-changed

# Changed files: since the last commit, or since this branch forked from the one that it will be merged into.
BASE ?= $(shell for name in '@{upstream}' origin/HEAD main HEAD; do \
	git rev-parse -q --verify "$$name" 2>/dev/null && break; done)
others := git ls-files --others --exclude-standard
unsaved = $(sort $(shell { git diff --name-only --diff-filter=d HEAD; $(others); } 2>/dev/null))
changed = $(sort $(shell git diff --name-only --diff-filter=d $$(git merge-base $(BASE) HEAD); $(others)))
# Without T, the tests named like the changed files.
save_t = $(or $(T),$(foreach n,$(sort $(basename $(notdir $(filter %.c %.h %.py %.sh,$(unsaved))))),$(if \
	$(call files_of,tests/unit,c,test_$(n:test_%=%)),test_$(n:test_%=%),$(if $(call files_of,tests/unit,py,$(n))$(call mount_files,$(n)),$(n)))))

.SECONDEXPANSION:
check-save: names = $(save_t)
check-save: $$(call unit_files,$$(save_t)) $$(if $$(call mount_files,$$(save_t)),$$(local))
	$(Q)$(if $(names),$(run_tests) --unit --local $(names),tests/suggest $(unsaved))
	$(Q)scripts/layers --includes
	$(Q)$(if $(filter $(all_c),$(unsaved)),clang-format --dry-run --Werror $(filter $(all_c),$(unsaved)))

# For a changed header, the source file of the same name is checked.
changed_c = $(filter $(lint_c),$(changed) $(patsubst %.h,%.c,$(filter %.h,$(changed))))
# Fuzzers are built for the lists of their modules, which nothing else reads.
check-push:
	$(Q)$(MAKE) --no-print-directory layers format-check
	$(Q)$(MAKE) --no-print-directory $(call unit_files,test_*) $(local) $(fuzzers)
	$(Q)$(if $(changed_c),$(MAKE) --no-print-directory tidy lint_c='$(changed_c)')
	$(Q)$(run_tests) --unit --local $(T)

# For the merge tier; checks everything if the changes can't be determined.
tidy-changed:
	$(Q)$(MAKE) --no-print-directory tidy lint_c='$(or $(changed_c),$(lint_c))'

# Everything: also the tests marked `night`, every fuzzer for as long as a night allows, the tests in the laboratory,
# all lints, and the coverage of each folder. Continues after failures.
night = echo "== $(1)"; $(MAKE) --no-print-directory $(1) || failed="$$failed; $(1)"
check-night: tests
	$(Q)failed=; $(call night,lint format-check); \
		$(run_tests) $(PARTS:%=--%) --night $(T) || failed="$$failed; tests"; \
		$(call night,fuzz-smoke FUZZ_SECONDS=$(NIGHT_FUZZ_SECONDS)); $(call night,coverage T=); \
		echo "== check-lab"; tests/lab/run || [ $$? -eq 77 ] || failed="$$failed; check-lab"; \
		tests/lab/here package || [ $$? -eq 77 ] || failed="$$failed; the package where systemd is"; \
		[ -z "$$failed" ] || { echo "failed:$${failed#;}" >&2; exit 1; }

# ---- lint ----

.PHONY: lint tidy cppcheck man-lint shellcheck format format-check layers

lint: layers tidy cppcheck man-lint shellcheck

# Checks the order of the folders, by includes and by calls between objects.
layers: $(call objs,obj,$(host_c))
	$(call say,LAYERS,$(words $(host_c)) objects)
	$(Q)scripts/layers --build $(O)

# Without files that use bash's headers, which are not lint-clean.
lint_c := $(filter-out images/drivers/%,$(filter %.c,$(all_c)))

tidy:
	$(call say,TIDY,$(words $(lint_c)) files)
	$(Q)scripts/tidy $(lint_c) -- $(filter-out -D_FORTIFY_SOURCE=2 -DXSBX_% -ffile-prefix-map=%,$(XCFLAGS)) \
		'-DXSBX_VERSION="x"' '-DXSBX_LIBEXECDIR="x"' '-DXSBX_DATADIR="x"'

# cppcheck does not read system headers, but needs the macros of these two.
macros = $(shell printf '\043include <sys/queue.h>\n\043include <uv/tree.h>\n' | $(CC) -E -xc - | \
	sed -n 's,^. 1 "\(.*\(queue\|tree\)\.h\)".*,--include=\1,p')

cppcheck:
	$(call say,CPPCHECK,$(words $(lint_c)) files)
	$(Q)cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr -j "$$(nproc)" \
		--enable=warning,performance,portability --suppressions-list=tests/cppcheck.txt \
		$(defines) -I. $(macros) $(lint_c)

man-lint:
	$(call say,MANDOC,$(man))
	$(Q)$(if $(man),mandoc -Tlint -Wwarning $(man))
	$(Q)scripts/man-codes --check

shellcheck:
	$(call say,SHELL,$(words $(scripts)) scripts)
	$(Q)$(if $(scripts),shellcheck -x -P SCRIPTDIR $(scripts))

format:
	clang-format -i $(all_c)

format-check:
	$(Q)clang-format --dry-run --Werror $(all_c)

# ---- installation ----

.PHONY: install uninstall clean distclean

# Commands of their own.
user_scripts := $(wildcard scripts/xsbx-*)
# Those that complete by the file of xsbxfs.
completed := xsbxfs-images $(notdir $(user_scripts))
# What works where it is installed. What the scripts need of each other is beside them there, too.
installed_scripts := $(filter-out $(addprefix scripts/,completion layers man-codes package quickstart service test),$(wildcard scripts/*))
link_to = $(shell realpath -m -s --relative-to=$(1) $(2))
# Folders that are ours alone: they are emptied.
own = $(foreach x,LIBEXECDIR DATADIR DOCDIR,$(if $(filter-out xsbxfs xsbxfs-%,$(notdir $($(x)))),$(error $(x)=$($(x)): \
	this folder is removed whole, so its name must be xsbxfs, e.g. $(x)=$($(x))/xsbxfs)))

install: all
	$(own)
	$(INSTALL) -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBEXECDIR)
	$(INSTALL) -m 755 $(O)/xsbxfs $(user_scripts) $(DESTDIR)$(BINDIR)/
	ln -sfn $(call link_to,$(BINDIR),$(DATADIR)/scripts/images) $(DESTDIR)$(BINDIR)/xsbxfs-images
	$(INSTALL) -m 755 $(O)/xsbxfs-net $(O)/xsbxfs-dial $(O)/xsbxfs-store $(O)/xsbxfs-trace $(O)/xsbx-agent scripts/package/mounts \
		$(DESTDIR)$(LIBEXECDIR)/
	$(INSTALL) -D -m 644 -t $(DESTDIR)$(LIBEXECDIR)/drivers $(drivers)
	for page in $(man); do \
		$(INSTALL) -D -m 644 $$page $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/} || exit 1; \
	done
	rm -rf $(DESTDIR)$(DATADIR)
	$(INSTALL) -d $(DESTDIR)$(DATADIR)/scripts
	cp -R --preserve=mode images $(DESTDIR)$(DATADIR)/
	cp -R --preserve=mode $(installed_scripts) $(DESTDIR)$(DATADIR)/scripts/
	find $(DESTDIR)$(DATADIR) -name __pycache__ -prune -exec rm -rf {} +
	chmod -R u+w,go-w,a+rX $(DESTDIR)$(DATADIR)
	ln -s $(call link_to,$(DATADIR)/images/drivers,$(LIBEXECDIR)/drivers/turn.so) $(DESTDIR)$(DATADIR)/images/drivers/turn.so
	$(INSTALL) -m 644 man/status.schema.json $(DESTDIR)$(DATADIR)/
	$(INSTALL) -D -m 644 -t $(DESTDIR)$(DATADIR)/agent/interp $(driver_h)
	$(INSTALL) -D -m 644 -t $(DESTDIR)$(DOCDIR) README.md LICENSE
	$(INSTALL) -D -m 644 -t $(DESTDIR)$(DOCDIR)/man $(wildcard man/*.md man/*.svg man/*.png)
	for unit in system:xsbxfs@.service user:xsbxfs.service; do \
		case $$unit in user:*) dir=$(DESTDIR)$(USERUNITDIR) ;; *) dir=$(DESTDIR)$(UNITDIR) ;; esac; \
		$(INSTALL) -d $$dir && sed 's,@BINDIR@,$(BINDIR),' scripts/service/$${unit#*:}.in >$$dir/$${unit#*:} && \
			chmod 644 $$dir/$${unit#*:} || exit 1; \
	done
	$(INSTALL) -D -m 644 scripts/service/xsbxfs.tmpfiles $(DESTDIR)$(TMPFILESDIR)/xsbxfs.conf
	$(INSTALL) -D -m 644 scripts/service/xsbxfs.sysusers $(DESTDIR)$(SYSUSERSDIR)/xsbxfs.conf
	$(INSTALL) -D -m 644 scripts/completion/xsbxfs.bash $(DESTDIR)$(BASHCOMPDIR)/xsbxfs
	for name in $(completed); do ln -sf xsbxfs $(DESTDIR)$(BASHCOMPDIR)/$$name || exit 1; done
	$(INSTALL) -D -m 644 scripts/completion/xsbxfs.zsh $(DESTDIR)$(ZSHCOMPDIR)/_xsbxfs
	sed 's,/usr/local/libexec/xsbxfs,$(LIBEXECDIR),; s,/usr/local/share/xsbxfs,$(DATADIR),' \
		man/xsbxfs.conf.example >$(DESTDIR)$(DOCDIR)/xsbxfs.conf.example
	chmod 644 $(DESTDIR)$(DOCDIR)/xsbxfs.conf.example

uninstall:
	$(own)
	rm -f $(addprefix $(DESTDIR)$(BINDIR)/,xsbxfs xsbxfs-images $(notdir $(user_scripts)))
	rm -rf $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(DATADIR) $(DESTDIR)$(DOCDIR)
	rm -f $(DESTDIR)$(UNITDIR)/xsbxfs@.service $(DESTDIR)$(USERUNITDIR)/xsbxfs.service \
		$(DESTDIR)$(TMPFILESDIR)/xsbxfs.conf $(DESTDIR)$(SYSUSERSDIR)/xsbxfs.conf \
		$(addprefix $(DESTDIR)$(BASHCOMPDIR)/,xsbxfs $(completed)) $(DESTDIR)$(ZSHCOMPDIR)/_xsbxfs
	for page in $(man); do rm -f $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}; done

# ---- packages ----

.PHONY: dist deb

dist:
	$(Q)scripts/package/dist

# SUITE=trixie builds in a fresh Debian of that name.
deb:
	$(Q)scripts/package/deb $(if $(SUITE),--suite $(SUITE))

clean:
	rm -rf build build-*

distclean: clean
	[ ! -e .git ] || git clean -q -d -X -f .

help:
	@echo 'all           the daemon (build/xsbxfs) and the guest agent (build/xsbx-agent)'
	@echo 'check         all tests: check-unit, check-mount, check-process, check-vm'
	@echo 'check-unit    modules, one by one'
	@echo 'check-mount   through a mount, with the agent as a local process; no virtual machine'
	@echo 'check-process through a mount, in jails on this host (process backend)'
	@echo 'check-vm      through a mount, in real microVMs; needs images (scripts/images)'
	@echo 'check-lab     on a laboratory host with KVM and Debian 13, emulated; needs root and images; an hour or two'
	@echo 'check-save    seconds: what T names, or what is called like the files that were changed; order, format'
	@echo 'check-push    minutes: modules, mounts without machines, lint of what was changed'
	@echo 'check-night   hours: all there is, long fuzzing, laboratory and coverage too'
	@echo 'bench         measures latency and throughput'
	@echo 'fuzz          builds the fuzzers; fuzz-smoke runs each for FUZZ_SECONDS=$(FUZZ_SECONDS), fuzz-corpus its seeds'
	@echo 'coverage      line coverage of check-unit and check-mount, against tests/coverage.floor'
	@echo 'lint          clang-tidy, cppcheck, mandoc, shellcheck, and layers: the order of the folders'
	@echo 'format        clang-format; format-check only looks'
	@echo 'install       into DESTDIR and PREFIX=$(PREFIX); uninstall takes it away'
	@echo 'dist          a tarball of the last commit, build/xsbxfs-VERSION.tar.xz'
	@echo 'deb           a Debian package, into build/deb; SUITE=trixie in a fresh Debian of that name'
	@echo 'clean         removes build/; distclean everything that is not in git'
	@echo
	@sed -n '4,10s/^#/ /p' Makefile

-include $(shell find $(O) -name '*.d' -type f 2>/dev/null)
