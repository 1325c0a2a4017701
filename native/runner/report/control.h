#ifndef KREPLAY_RUNNER_CONTROL_H
#define KREPLAY_RUNNER_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum control_command { COMMAND_NONE, COMMAND_PASSTHROUGH, COMMAND_RESUME, COMMAND_STOP };

/*
 * The control channel: JSON lines to the program that started this one, and one-word lines from it. No function waits
 * for the other side, except control_drain().
 */
struct control {
	int fd; /* -1: none */
	bool is_closed;
	bool is_socket;
	char *out;
	size_t out_bytes, out_room;
	char in[64];
	size_t in_bytes;
};

void control_open(struct control *control, int fd);

/* Builds a line: control_begin(), then its members, then control_end(). */
void control_begin(struct control *control, const char *kind);
void control_text(struct control *control, const char *name, const char *value); /* NULL: null */
void control_number(struct control *control, const char *name, int64_t value);
void control_flag(struct control *control, const char *name, bool value);
void control_object(struct control *control, const char *name);
void control_object_end(struct control *control);
void control_end(struct control *control);

/* Returns the events that poll(2) is to wait for. */
short control_events(const struct control *control);
void control_write(struct control *control);
/* Writes all pending output, waiting at most for the given time. */
void control_drain(struct control *control, int timeout_ms);
/* Returns whether the other side has received all output. */
bool control_has_told(const struct control *control);
/* Returns the next command that arrived. If the other side is gone, is_closed is set. */
enum control_command control_read(struct control *control, short events);

#endif
