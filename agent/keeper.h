/* SPDX-License-Identifier: Apache-2.0
 * keeper: the parent of init where the daemon's output is to be kept. It makes the pipes, forks a stage, and pumps what the
 * daemon writes into a bounded ring on disk (ring-format.h) until init has ended; then it writes how init ended and exits.
 *
 * It is started in place of stage, with the same descriptors and one more:
 *
 *     sandbox-agent keeper MAX_BYTES DURABLE [stage's arguments …]
 *
 *   0 … 6, 10 … 63  stage's (3 plan, 4 control socket, …): passed on untouched, closed in keeper itself
 *   7               the folder to write into (a directory, opened O_RDONLY by its owner; keeper has none but the one to end it, keeper-confine.c)
 *
 * and runs `ag_stage_main(argc, argv)` with argv = { "sandbox-agent", "stage", stage's arguments …, NULL } in a forked child that
 * leads a session of its own, has default signals, an empty signal mask, and in place of 7:
 *
 *   8   write end of the daemon's stdout: a blocking pipe of up to 1 MiB
 *   9   write end of the daemon's stderr
 *   10  a SOCK_SEQPACKET socket, non-blocking, for init: one struct sb_ring_event a datagram, with the read ends of two pipes for a journal.
 *       Starts and ends go into the ring "exits", durably where DURABLE is 1. Keeper answers none of them, and asks for
 *       things of its own (keeper-life.c): one struct sb_request a datagram. init ends when it hangs up.
 *
 * What stage and init have to see to:
 *  - stage clones init with CLONE_PARENT, so that keeper is init's parent, and with no other child that way.
 *  - 8, 9 and 10 are for the daemon's start (8, 9) and for init (10); they must not leak into execs. The pipes are owned by
 *    whoever runs keeper: fchown(8) and fchown(9) to the daemon's user in stage, or the daemon can't open /dev/stdout and /dev/stderr.
 *  - init never waits for keeper: what 10 does not take now it keeps for later (init-events.c).
 *
 * The exit status tells the library what it can't learn from stage: */
#ifndef SB_AGENT_KEEPER_H
#define SB_AGENT_KEEPER_H

enum ag_keeper_status {
    AG_KEEPER_DONE = 0,      /* init, or a stage that never made one, has ended and the file "exit" says how */
    AG_KEEPER_USAGE = 64,    /* a wrong argument, or 7 is not a folder; nothing was started */
    AG_KEEPER_NO_START = 65, /* no pipe, no socket, no process; nothing was started */
    AG_KEEPER_NO_RECORD = 66 /* as DONE, but "exit" could not be written */
};

int ag_keeper_main(int argc, char **argv);
/* stage.h's; keeper calls it in its child. */
int ag_stage_main(int argc, char **argv);

#endif
