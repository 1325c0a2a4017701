#ifndef KREPLAY_RUNNER_CONTROL_H
#define KREPLAY_RUNNER_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum control_command { COMMAND_NONE, COMMAND_PASSTHROUGH, COMMAND_RESUME, COMMAND_STOP };

/* JSON lines to whoever started this program, one-word lines from there. Nothing here waits for the other side. */
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

/* A line is begun, gets its members, and is ended. */
void control_begin(struct control *control, const char *kind);
void control_text(struct control *control, const char *name, const char *value); /* NULL: null */
void control_number(struct control *control, const char *name, int64_t value);
void control_flag(struct control *control, const char *name, bool value);
void control_object(struct control *control, const char *name);
void control_object_end(struct control *control);
void control_end(struct control *control);

/* What poll(2) is to look for. */
short control_events(const struct control *control);
void control_write(struct control *control);
/* Waits, but for no more than the time. */
void control_drain(struct control *control, int timeout_ms);
/* Whether somebody got all that was said. */
bool control_has_told(const struct control *control);
/* The next command that came; is_closed says that nobody is there any more. */
enum control_command control_read(struct control *control, short events);

#endif
