#ifndef KREPLAY_RUNNER_RELAY_H
#define KREPLAY_RUNNER_RELAY_H

#include <stdatomic.h>
#include <stdint.h>

#define TAIL_BYTES 16384

enum relayed {
	/* A file or a terminal, which the command has as it is. */
	RELAYED_NONE,
	RELAYED_ALONE,
	/* Standard error is the same pipe as standard output. */
	RELAYED_TOGETHER,
};

/* The last bytes that went through an output. `kreplay run` reads this layout: daemon/run/execution/last_lines.ts. */
struct tail {
	uint32_t relayed; /* enum relayed */
	_Atomic uint32_t is_busy;
	/* The byte with the number n, from 0, is at n % TAIL_BYTES. */
	_Atomic uint64_t bytes_passed;
	/* How many of these the output has taken. */
	_Atomic uint64_t bytes_written;
	uint8_t bytes[TAIL_BYTES];
};

/* The tails of standard output and standard error. */
struct tails {
	struct tail outputs[2];
};

/*
 * Puts a pipe in place of each output of this process that is a pipe or a socket, and starts a process that passes on
 * what the pipe gets and keeps the last bytes in the file. Returns NULL, and leaves the outputs as they are, if that is
 * not possible, as on a full disk.
 *
 *   command -> pipe -> relay -> pipe or socket of the output
 *
 * The relay ends with the last writer, so that processes that outlive the run go on. It keeps the order of two outputs
 * that are one pipe, and ends when nobody reads the output any more, so that the command's next write fails as it would
 * without a relay. While the output is full, the command waits as it would without a relay, but up to the size of a
 * pipe later.
 */
struct tails *relay_start(const char *path);

/*
 * Waits until the outputs have taken all that was written by now. Without a relay, the command would have waited for a
 * reader that is slow, and its last lines would not be known before.
 */
void relay_drain(struct tails *tails);

#endif
