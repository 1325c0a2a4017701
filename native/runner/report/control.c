#include "report/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "delay/clock.h"

void control_open(struct control *control, int fd)
{
	int type;
	socklen_t bytes = sizeof(type);

	*control = (struct control){.fd = fd};
	if (fd < 0)
		return;
	control->is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static void put(struct control *control, const char *bytes, size_t count)
{
	if (control->fd < 0 || control->is_closed)
		return;
	if (control->out_bytes + count > control->out_room) {
		const size_t room = (control->out_bytes + count) * 2;
		char *out = realloc(control->out, room);

		if (!out)
			return;
		control->out = out;
		control->out_room = room;
	}
	memcpy(control->out + control->out_bytes, bytes, count);
	control->out_bytes += count;
}

static void put_text(struct control *control, const char *text)
{
	put(control, text, strlen(text));
}

static void put_quoted(struct control *control, const char *text)
{
	put_text(control, "\"");
	for (; *text; text++) {
		const unsigned char byte = *text;
		char escaped[8];

		if (byte == '"' || byte == '\\')
			snprintf(escaped, sizeof(escaped), "\\%c", byte);
		else if (byte < ' ')
			snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
		else
			snprintf(escaped, sizeof(escaped), "%c", byte);
		put_text(control, escaped);
	}
	put_text(control, "\"");
}

static void put_name(struct control *control, const char *name)
{
	if (control->out_bytes > 0 && control->out[control->out_bytes - 1] != '{')
		put_text(control, ",");
	put_quoted(control, name);
	put_text(control, ":");
}

void control_begin(struct control *control, const char *kind)
{
	put_text(control, "{");
	control_text(control, "kind", kind);
}

void control_text(struct control *control, const char *name, const char *value)
{
	put_name(control, name);
	if (value)
		put_quoted(control, value);
	else
		put_text(control, "null");
}

void control_number(struct control *control, const char *name, int64_t value)
{
	char text[24];

	put_name(control, name);
	snprintf(text, sizeof(text), "%lld", (long long)value);
	put_text(control, text);
}

void control_flag(struct control *control, const char *name, bool value)
{
	put_name(control, name);
	put_text(control, value ? "true" : "false");
}

void control_object(struct control *control, const char *name)
{
	put_name(control, name);
	put_text(control, "{");
}

void control_object_end(struct control *control)
{
	put_text(control, "}");
}

void control_end(struct control *control)
{
	put_text(control, "}\n");
	control_write(control);
}

short control_events(const struct control *control)
{
	return (control->is_socket ? POLLIN : 0) | (control->out_bytes > 0 ? POLLOUT : 0);
}

void control_write(struct control *control)
{
	while (control->out_bytes > 0 && !control->is_closed) {
		const ssize_t written = write(control->fd, control->out, control->out_bytes);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0) {
			control->is_closed = errno != EAGAIN;
			return;
		}
		control->out_bytes -= written;
		memmove(control->out, control->out + written, control->out_bytes);
	}
}

void control_drain(struct control *control, int timeout_ms)
{
	const uint64_t until = clock_ns() + timeout_ms * NS_PER_MS;

	while (control->fd >= 0 && control->out_bytes > 0 && !control->is_closed && clock_ns() < until) {
		struct pollfd peer = {.fd = control->fd, .events = POLLOUT};

		poll(&peer, 1, 10);
		control_write(control);
	}
}

bool control_has_told(const struct control *control)
{
	return control->fd >= 0 && !control->is_closed && control->out_bytes == 0;
}

static enum control_command command_of(const char *word)
{
	if (strcmp(word, "passthrough") == 0)
		return COMMAND_PASSTHROUGH;
	if (strcmp(word, "resume") == 0)
		return COMMAND_RESUME;
	return strcmp(word, "stop") == 0 ? COMMAND_STOP : COMMAND_NONE;
}

enum control_command control_read(struct control *control, short events)
{
	if (events & POLLOUT)
		control_write(control);
	if (events & (POLLERR | POLLNVAL) || (!control->is_socket && events & POLLHUP)) {
		control->is_closed = true;
		return COMMAND_NONE;
	}
	if (!control->is_socket || !(events & (POLLIN | POLLHUP)))
		return COMMAND_NONE;
	/* Reads byte by byte: commands are rare, and the rest of the input stays in the channel for the next call. */
	for (char byte;;) {
		const ssize_t got = read(control->fd, &byte, 1);

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return COMMAND_NONE;
		if (got <= 0) {
			control->is_closed = true;
			return COMMAND_NONE;
		}
		if (byte == '\n') {
			control->in[control->in_bytes] = 0;
			control->in_bytes = 0;
			return command_of(control->in);
		}
		if (control->in_bytes < sizeof(control->in) - 1)
			control->in[control->in_bytes++] = byte;
	}
}
