/* SPDX-License-Identifier: Apache-2.0 */
/* Every code of `error`: its name, whether to try again, what it means, and what to do. */
#ifndef XSBX_VM_BASE_PROBLEM_CODES_H
#define XSBX_VM_BASE_PROBLEM_CODES_H

/*
 * Programs compare the names, so they must not change. scripts/man-codes generates the table in xsbxfs(5) from this
 * file; `make man-lint` fails if that was forgotten. Words in backquotes are set as file names if they are nodes of
 * ours or contain a slash, as settings if they look like one, else literally.
 *
 * Is it safe to retry?
 * YES:   nothing was run or changed, and a retry may succeed at once.
 * LATER: likewise, but only after what it waits for has arrived, or what is missing was fixed.
 * NO:    not unchanged: it would be refused again, or may have had an effect already.
 * (A run that is `refused` has not started, whatever the code.)
 */

/* X(group, title) */
#define PROBLEM_GROUPS(X)                                                    \
	X(MKDIR, "Of mkdir, in the root")                                    \
	X(SETTINGS, "Settings")                                              \
	X(INPUT, "What is written")                                          \
	X(VERBS, "Verbs")                                                    \
	X(CLOSED, "What ends a session's sandbox, or a run before it began") \
	X(WAITING, "Waiting")                                                \
	X(START, "A sandbox that could not start")                           \
	X(END, "A sandbox that ended")                                       \
	X(RUNS, "Runs")

/* One argument per line, which clang-format would change. */
/* clang-format off */

/* X(group, enumerator, name, retry, meaning, what to do or "") */
#define PROBLEM_CODES(X) \
	X(MKDIR, NO_SUCH_TEMPLATE, "no-such-template", NO, \
	  "There is no template of that name.", \
	  "Take one of those that it names.") \
	X(MKDIR, NOT_AUDITED, "not-audited", LATER, \
	  "With audit_required = yes nothing is begun or changed while the audit log can't be written.", \
	  "The administrator makes room for it.") \
	X(MKDIR, BAD_NAME, "bad-name", NO, \
	  "A session, a job, a run or a checkpoint can't have that name, or another checkpoint has it.", \
	  "Take 1 to 64 letters, digits, dots, underscores and dashes, and neither a dot nor a dash first.") \
	X(MKDIR, TOO_MANY_SESSIONS, "too-many-sessions", LATER, \
	  "The user, or the mount, has as many sessions as may be.", \
	  "Remove some.") \
	X(MKDIR, OVER_QUOTA, "over-quota", LATER, \
	  "The user, or all together, have used up what they may have: of a day's processor time, of the " \
	  "disk, of checkpoints, of a day's network.", \
	  "Wait until it begins anew, or remove something; the `quota` of the root shows how much there is.") \
	X(MKDIR, NOT_HERE, "not-here", NO, \
	  "No directory can be made there. Of a setting: it is for processes, and this is a " \
	  "machine.", \
	  "Make it below a template, or below `files/`. Write `backend = process`.") \
	X(MKDIR, FAILED, "failed", LATER, \
	  "It failed for the reason that is named.", \
	  "") \
	X(SETTINGS, INVALID, "invalid", NO, \
	  "A value, a name or a line makes no sense.", \
	  "Write it as the fix says.") \
	X(SETTINGS, UNKNOWN_KEY, "unknown-key", NO, \
	  "There is no such setting.", \
	  "`config` shows those there are.") \
	X(SETTINGS, LIMIT, "limit", NO, \
	  "The administrator allows less.", \
	  "Write less, or ask him: `[limits]`.") \
	X(SETTINGS, NOT_ALLOWED, "not-allowed", NO, \
	  "The administrator does not allow it: a backend, a network, a name, or to change it " \
	  "at all.", \
	  "Ask him.") \
	X(SETTINGS, NOT_LISTED, "not-listed", NO, \
	  "The package is not in the list of names that may be installed here.", \
	  "Correct its spelling in `packages`; or who mounted writes `python_list` or `npm_list` under " \
	  "`[packages]` in xsbxfs.conf, with `any` or a file of names, and mounts again.") \
	X(SETTINGS, NOT_REACHABLE, "not-reachable", NO, \
	  "`allow` names an address or port of this machine that is not opened.", \
	  "Ask for `host_ports`.") \
	X(SETTINGS, NETWORK_OFF, "network-off", NO, \
	  "Names can be allowed with `network = on` only.", \
	  "Set that, before the first run.") \
	X(SETTINGS, CONFLICT, "conflict", NO, \
	  "Two words of `packages` are one package.", \
	  "Name each once.") \
	X(SETTINGS, TOO_LONG, "too-long", NO, \
	  "It has more bytes than may be.", \
	  "Write less.") \
	X(SETTINGS, TOO_MANY, "too-many", NO, \
	  "There are more of them than may be: variables, ports, packages, paths, verbs, jobs, " \
	  "checkpoints.", \
	  "Name fewer, or remove some.") \
	X(SETTINGS, FROZEN, "frozen", LATER, \
	  "It can't change while there is a sandbox, or one that was saved.", \
	  "Close the session, reset it, then change it.") \
	X(SETTINGS, NO_SUCH_SESSION, "no-such-session", NO, \
	  "There is nothing of that name to begin from.", \
	  "Write `from = SESSION` or `from = SESSION@CHECKPOINT`, of the same template.") \
	X(SETTINGS, PORT, "port", LATER, \
	  "A port can't be forwarded, for the reason that is named. (A port of this machine " \
	  "below 1024 is `invalid`.)", \
	  "") \
	X(SETTINGS, PORT_TAKEN, "port-taken", LATER, \
	  "A port of this machine is used.", \
	  "Name another, or none, and one is chosen.") \
	X(SETTINGS, NETWORK, "network", YES, \
	  "The list was not taken, for the reason that is named.", \
	  "") \
	X(INPUT, CODE_TOO_LONG, "code-too-long", NO, \
	  "Code has more than 1 MiB.", \
	  "Put the bulk into `files/`, and import it.") \
	X(INPUT, NUL_BYTE, "nul-byte", NO, \
	  "Code has a NUL byte, or a gap.", \
	  "Pass binary data through `files/` or `stdin`.") \
	X(INPUT, STDIN_TOO_LONG, "stdin-too-long", NO, \
	  "Standard input has more than 16 MiB.", \
	  "Put it into `files/`, and read it there.") \
	X(INPUT, WRITE_REFUSED, "write-refused", NO, \
	  "A write of this open of `in` was refused before, so what follows would be no whole " \
	  "program.", \
	  "Write all of it again: open `in` anew, or truncate it to 0 first.") \
	X(INPUT, QUEUE_FULL, "queue-full", LATER, \
	  "64 runs are queued.", \
	  "Wait for one to end, or use another session.") \
	X(INPUT, IN_OPEN, "in-open", LATER, \
	  "A program that has written to `in` keeps it open.", \
	  "Close it; `runs/` has the runs there are.") \
	X(INPUT, DROPPED, "dropped", YES, \
	  "There was no memory to make a run of the code; or a job, or a named run, had its code already, from another writer.", \
	  "Write it again; make another job.") \
	X(INPUT, ORIGIN_FIXED, "origin-fixed", NO, \
	  "The attribute `user.xsbxfs.origin` was to be set, or removed. It says who changed a file last.", \
	  "Nobody sets it; cp, rsync and tar are told to leave out extended attributes.") \
	X(INPUT, TOO_MANY_FILES, "too-many-files", NO, \
	  "There are 64 files beside the nodes.", \
	  "Keep files below `files/`.") \
	X(INPUT, TOO_MANY_OPEN, "too-many-open", LATER, \
	  "The user has 16384 files and directories of this mount open, " \
	  "those of his sessions that root has open among them.", \
	  "Close some; `error` and `ctl` can be used all the same.") \
	X(INPUT, TOO_MUCH_TEXT, "too-much-text", LATER, \
	  "The user's texts have all the memory they may have.", \
	  "Remove old runs, close what is open.") \
	X(VERBS, UNKNOWN_VERB, "unknown-verb", NO, \
	  "There is no such verb.", \
	  "The fix names those there are.") \
	X(VERBS, UNSUPPORTED, "unsupported", NO, \
	  "It can't be done with a session like this one.", \
	  "") \
	X(VERBS, NOT_RUNNING, "not-running", NO, \
	  "There is no run to interrupt, to kill or to feed.", \
	  "") \
	X(VERBS, BUSY, "busy", LATER, \
	  "A run, a job, a commit, or what is being saved, is on its way, what runs can't be stopped, or " \
	  "there is no sandbox to pause or to save.", \
	  "Do what the fix says, and try again.") \
	X(VERBS, NOT_PAUSED, "not-paused", YES, \
	  "The session is not paused, or could not be.", \
	  "Try again, or reset it.") \
	X(VERBS, NO_SUCH_CHECKPOINT, "no-such-checkpoint", NO, \
	  "There is no checkpoint of that name, or it was not saved.", \
	  "Take one of those in `checkpoints/` that are whole.") \
	X(VERBS, TOO_MUCH_SAVED, "too-much-saved", LATER, \
	  "What is saved of the session, or of its owner's, takes all that it may.", \
	  "Remove checkpoints, or sessions that are asleep.") \
	X(VERBS, NO_WORK, "no-work", NO, \
	  "`files/` is no copy of a directory of the host.", \
	  "Use a template with `work`.") \
	X(VERBS, NO_LIST, "no-list", YES, \
	  "The changes could not be listed.", \
	  "Read `files.changes` again.") \
	X(VERBS, CHANGED, "changed", LATER, \
	  "The changes are not those that were read last, and nothing was committed.", \
	  "Read them, and commit again.") \
	X(VERBS, COMMIT, "commit", LATER, \
	  "Not all changes could be made, for the reasons that are named.", \
	  "Mend that, and commit again.") \
	X(CLOSED, CLOSED, "closed", LATER, \
	  "By `close` in `ctl`, or because xsbxfs is ending; nothing can be written to `in` " \
	  "then.", \
	  "`reset` gives a new one.") \
	X(CLOSED, DISCARDED, "discarded", YES, \
	  "By `discard` in `ctl`.", \
	  "") \
	X(CLOSED, KILLED, "killed", YES, \
	  "By `kill` in `ctl`, before it began.", \
	  "") \
	X(CLOSED, RESET, "reset", YES, \
	  "By `reset` in `ctl`: a run before it began; a named run, or a job, also later.", \
	  "") \
	X(CLOSED, REMOVED, "removed", NO, \
	  "The session was removed.", \
	  "") \
	X(CLOSED, IDLE_TIMEOUT, "idle-timeout", LATER, \
	  "Nobody has used it for `idle_timeout_s`.", \
	  "`reset` gives a new one; 0 keeps it for ever.") \
	X(CLOSED, UNMOUNTED, "unmounted", LATER, \
	  "xsbxfs was ended.", \
	  "") \
	X(CLOSED, NOT_KEPT, "not-kept", LATER, \
	  "With `keep = yes`: xsbxfs was ended, or died, before what the session had could be written down; or it can't be written now.", \
	  "`reset` gives a new one; `restore` goes back to a checkpoint.") \
	X(CLOSED, DAMAGED, "damaged", NO, \
	  "What was kept of the session, or of a checkpoint, or left by a daemon that died, can't be read.", \
	  "Remove it with `rmdir`; the cause says more. What can be read of it is there until then.") \
	X(WAITING, NO_PLACE, "no-place", LATER, \
	  "No place was free for `admission_timeout_s`, or there can be none of that size.", \
	  "The cause says what was lacking.") \
	X(WAITING, TOO_MANY_WAITING, "too-many-waiting", LATER, \
	  "As many sandboxes wait as may.", \
	  "Try again when some have ended, or raise `admission_queue`.") \
	X(WAITING, IMAGE_MISSING, "image-missing", LATER, \
	  "The image is being built: wait.", \
	  "Or it was not built within 30 minutes: run again when `events` says that it is " \
	  "there.") \
	X(WAITING, IMAGE_FAILED, "image-failed", LATER, \
	  "The image can't be built.", \
	  "Do what the builder's last words say, and run `xsbxfs-images` by hand.") \
	X(WAITING, PACKAGES_INSTALLING, "packages-installing", LATER, \
	  "The packages are being installed: wait.", \
	  "") \
	X(WAITING, PACKAGES_FAILED, "packages-failed", LATER, \
	  "The packages can't be had.", \
	  "Do what the installer's last words say, and run again.") \
	X(START, NO_QEMU, "no-qemu", LATER, \
	  "QEMU was not found, or can't be run.", \
	  "Install it, or set `qemu`.") \
	X(START, OLD_QEMU, "old-qemu", LATER, \
	  "QEMU is too old.", \
	  "Install 7.2 or later.") \
	X(START, KVM_UNUSABLE, "kvm-unusable", LATER, \
	  "`accel = kvm`, and KVM can't be used.", \
	  "The fix says what it takes.") \
	X(START, NO_PROBE, "no-probe", LATER, \
	  "QEMU could not be tried out.", \
	  "Mount again.") \
	X(START, NO_IMAGE, "no-image", LATER, \
	  "The image is missing or damaged.", \
	  "Build the images: `xsbxfs-images`, in the sources `scripts/images`.") \
	X(START, NO_AGENT, "no-agent", LATER, \
	  "The agent's program is missing, or is none.", \
	  "Build it, or set `agent`.") \
	X(START, NO_JAIL, "no-jail", LATER, \
	  "Its jail could not be made.", \
	  "Look at `doctor`; nothing is run without one.") \
	X(START, NO_NETWORK, "no-network", LATER, \
	  "Its network could not be started.", \
	  "Look at `doctor`.") \
	X(START, NO_PATHS, "no-paths", NO, \
	  "`ro`, `rw` and `work` are for processes.", \
	  "Write `backend = process`.") \
	X(START, NO_MEMORY, "no-memory", LATER, \
	  "The daemon has no memory for it.", \
	  "Free some.") \
	X(START, NO_RESOURCES, "no-resources", LATER, \
	  "The daemon lacks something for it, which the cause names.", \
	  "") \
	X(START, NO_SANDBOX, "no-sandbox", LATER, \
	  "It could not be made, for the reason that is named.", \
	  "") \
	X(START, SPAWNER_LOST, "spawner-lost", LATER, \
	  "The process that starts sandboxes is gone.", \
	  "Unmount, and mount again.") \
	X(START, BOOT_FAILED, "boot-failed", YES, \
	  "It ended before it was ready (no jail, QEMU, the kernel, the agent), or was not " \
	  "ready within `boot_timeout_s`.", \
	  "Look at the cause and at `console`, and run again.") \
	X(START, SETUP_FAILED, "setup-failed", YES, \
	  "The agent could not prepare it.", \
	  "Look at `console`.") \
	X(START, RESET_FAILED, "reset-failed", YES, \
	  "The agent could not start a fresh interpreter in it.", \
	  "Look at `console`.") \
	X(START, WARMUP_FAILED, "warmup-failed", LATER, \
	  "The code that is its `warmup` failed.", \
	  "Correct it, or give it more memory.") \
	X(START, NOT_WARM, "not-warm", YES, \
	  "Its interpreter failed at its first program.", \
	  "") \
	X(START, NOT_SAVED, "not-saved", YES, \
	  "A sandbox could not be copied: there is no snapshot, and sandboxes boot; or no checkpoint, " \
	  "and the session goes on; or no copy, which is closed.", \
	  "The cause, or `events`, says why.") \
	X(START, NOT_RESTORED, "not-restored", YES, \
	  "What was saved can't be gone on from.", \
	  "The cause says what does not fit.") \
	X(START, STATE_LOST, "state-lost", NO, \
	  "Not all of what was saved came back: the interpreter is a fresh one, or some files could not be saved.", \
	  "Run again what made its variables.") \
	X(START, CLONE_FAILED, "clone-failed", YES, \
	  "The snapshot could not be restored; the next sandbox boots.", \
	  "") \
	X(START, QEMU_FAILED, "qemu-failed", LATER, \
	  "QEMU was not started.", \
	  "Look at `xsbxfs --check`.") \
	X(START, AGENT_FAILED, "agent-failed", LATER, \
	  "Without a jail, for tests only: the agent was not started.", \
	  "") \
	X(END, OUT_OF_MEMORY, "out-of-memory", NO, \
	  "It, or the run, took more memory than it may, or the host had none for it.", \
	  "Raise `memory_mb`.") \
	X(END, AGENT_SILENT, "agent-silent", NO, \
	  "Its agent does not answer any more, has not ended a run that is over, or has not " \
	  "started a fresh interpreter in time.", \
	  "Reset the session; the host may be too busy.") \
	X(END, AGENT_LOST, "agent-lost", NO, \
	  "The connection to its agent is gone.", \
	  "Reset the session.") \
	X(END, AGENT_PROTOCOL, "agent-protocol", NO, \
	  "Its agent has said what makes no sense.", \
	  "Reset the session.") \
	X(END, AGENT_KILLED, "agent-killed", NO, \
	  "Its first process was killed.", \
	  "Reset the session; more memory may help.") \
	X(END, AGENT_EXITED, "agent-exited", NO, \
	  "Its first process has ended.", \
	  "Reset the session; more memory may help.") \
	X(END, GUEST_PANIC, "guest-panic", NO, \
	  "Its kernel gave up.", \
	  "Reset the session; more memory may help.") \
	X(END, MACHINE_OFF, "machine-off", NO, \
	  "It switched itself off, or was reset by what ran in it.", \
	  "Reset the session.") \
	X(END, QEMU_KILLED, "qemu-killed", NO, \
	  "QEMU was killed.", \
	  "Reset the session; look for a lack of memory.") \
	X(END, QEMU_EXITED, "qemu-exited", NO, \
	  "QEMU has ended.", \
	  "Reset the session; look for a lack of memory.") \
	X(END, NETWORK_LOST, "network-lost", NO, \
	  "The filter of its network has ended; the sandbox lives.", \
	  "Copy what you need, and make a new session.") \
	X(END, NET_BUDGET, "net-budget", NO, \
	  "The session has used up what it may have of the network, so nothing more is let through.", \
	  "Write a larger `net_bytes`, `net_requests` or `net_connections`, whichever it names.") \
	X(END, NO_SECRET, "no-secret", LATER, \
	  "The value of a secret could not be read, or is none; requests that need it are refused, or go with the value of before.", \
	  "Put right what is named; it is read again by itself.") \
	X(RUNS, TIMEOUT, "timeout", NO, \
	  "It took longer than `timeout_s`.", \
	  "Raise that, or write 0.") \
	X(RUNS, INTERPRETER_GONE, "interpreter-gone", YES, \
	  "The interpreter ended before it began; the next run has a fresh one.", \
	  "Run again what had set the variables.") \
	X(RUNS, NOT_TAKEN, "not-taken", LATER, \
	  "The interpreter could not take it; or a named run's directory is not there, or the shell can't change a " \
	  "variable of its own.", \
	  "`reset` gives one that can; or change the run's `config`.") \
	X(RUNS, NOT_STARTED, "not-started", NO, \
	  "The program of a job, or its working directory, is not there, or can't be used.", \
	  "Make another job.") \
	X(RUNS, NO_INTERPRETER, "no-interpreter", YES, \
	  "There was no interpreter, and none could be started.", \
	  "Try again; look at `console`.") \
	X(RUNS, NOT_SENT, "not-sent", YES, \
	  "It could not be handed to the sandbox.", \
	  "Try again.") \
	X(RUNS, OUTPUT_LOST, "output-lost", NO, \
	  "There was no room for some of its output, or it was not kept in time.", \
	  "Make room on the disk of `spool_dir`, or of `state_dir`.") \
	X(RUNS, OUTPUT_UNREADABLE, "output-unreadable", NO, \
	  "Its output can't be read back.", \
	  "Look at the disk of `spool_dir`.")

/* clang-format on */

#define PROBLEM_ENUMERATOR(group, enumerator, ...) PROBLEM_##enumerator,

enum problem_code { PROBLEM_NONE, PROBLEM_CODES(PROBLEM_ENUMERATOR) PROBLEM_NCODES };

#undef PROBLEM_ENUMERATOR

#endif
