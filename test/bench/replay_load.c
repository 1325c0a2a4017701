/*
 * Measures both sides of a replay's accuracy on one CPU. Prints one line of JSON.
 *
 *   replay_load sleep CPU PERIOD_NS COUNT      # sleeps to deadlines: how late the kernel wakes a program
 *   replay_load view CPU SOCKET SESSION...     # plays sessions of the daemon at SOCKET and reads them to the end: the
 *                                              # lateness that their events report, and how late they arrive here
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SESSIONS_MAX 1000
#define BUFFER_SIZE (1 << 19)
/* Time until the first deadline. */
#define START_AFTER_NS 10000000

struct moment {
	int64_t offset_ns, due_ns, lateness_ns, received_ns;
};

struct view {
	const char *session;
	int fd;
	/* The session's state has arrived, which is the first thing a viewer gets. */
	int joined;
	int ended;
	long events;
	struct moment first, last;
	size_t length;
	char *buffer;
};

/* Times over all sessions: the lateness that each event reports, or how late it arrived here. */
struct times {
	int64_t *ns;
	long count, room;
};

static struct view views[SESSIONS_MAX];
static struct times lateness, received;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void add_time(struct times *times, int64_t ns)
{
	if (times->count == times->room) {
		times->room = times->room ? times->room * 2 : 1 << 16;
		times->ns = realloc(times->ns, times->room * sizeof(*times->ns));
		if (!times->ns)
			err(1, "memory");
	}
	times->ns[times->count++] = ns;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The least time that `share` of them do not exceed. */
static int64_t percentile(const struct times *times, double share)
{
	long place = (long)(times->count * share + 0.999999) - 1;

	return times->ns[place < 0 ? 0 : place];
}

static void print_times(const char *name, struct times *times)
{
	if (times->count == 0)
		errx(1, "no events");
	qsort(times->ns, times->count, sizeof(*times->ns), compare);
	printf("\"%s\": {\"p50\": %ld, \"p99\": %ld, \"max\": %ld}", name, percentile(times, 0.5),
	       percentile(times, 0.99), percentile(times, 1));
}

static void sleep_to_deadlines(int64_t period_ns, long count)
{
	int64_t start_ns = now_ns() + START_AFTER_NS;
	struct rusage usage;

	for (long i = 0; i < count; i++) {
		int64_t due_ns = start_ns + i * period_ns;
		struct timespec until = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
			;
		add_time(&lateness, now_ns() - due_ns);
	}
	getrusage(RUSAGE_SELF, &usage);
	printf("{");
	print_times("lateness_ns", &lateness);
	printf(", \"cpu_ns\": %lld, \"elapsed_ns\": %ld}\n",
	       (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL +
		   (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL,
	       now_ns() - start_ns);
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		err(1, "%s", path);
	return fd;
}

static void send_all(int fd, const char *text)
{
	size_t length = strlen(text);

	while (length > 0) {
		ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);

		if (sent < 0)
			err(1, "send");
		text += sent;
		length -= sent;
	}
}

static void open_view(struct view *view, const char *path, const char *session)
{
	char request[512];

	view->session = session;
	view->fd = connect_to(path);
	view->buffer = malloc(BUFFER_SIZE);
	if (!view->buffer)
		err(1, "memory");
	snprintf(request, sizeof(request),
		 "GET /api/replay/sessions/%s/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		 session);
	send_all(view->fd, request);
}

/* Pipelines the requests on one connection, without waiting for the answers. */
static int play_all(const char *path, int count)
{
	int fd = connect_to(path);

	for (int i = 0; i < count; i++) {
		char request[512];

		snprintf(request, sizeof(request),
			 "POST /api/replay/sessions/%s/play HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
			 views[i].session);
		send_all(fd, request);
	}
	return fd;
}

static int64_t field(const char *line, const char *name)
{
	const char *found = strstr(line, name);

	if (!found)
		errx(1, "no %s in: %s", name, line);
	return strtoll(found + strlen(name), NULL, 10);
}

static void take_event(struct view *view, const char *replay, int64_t received_ns)
{
	struct moment moment;

	moment.offset_ns = field(replay, "\"offset_ns\":");
	moment.due_ns = field(replay, "\"due_ns\":");
	moment.lateness_ns = field(replay, "\"lateness_ns\":");
	moment.received_ns = received_ns;
	if (view->events++ == 0)
		view->first = moment;
	view->last = moment;
	add_time(&lateness, moment.lateness_ns);
	add_time(&received, received_ns - moment.due_ns);
}

static void take_line(struct view *view, const char *line, int64_t received_ns)
{
	static const char REPLAY[] = "\"replay\":{";
	const char *replay;

	if (strncmp(line, "HTTP/1.1 ", 9) == 0 && strncmp(line + 9, "200", 3) != 0)
		errx(1, "session %s: %s", view->session, line);
	if (strncmp(line, "event: gap", 10) == 0)
		errx(1, "session %s: frames were dropped", view->session);
	if (strncmp(line, "event: state", 12) == 0)
		view->joined = 1;
	if (strncmp(line, "data: ", 6) != 0)
		return;
	/* Events that became due together arrive in one frame. */
	for (replay = strstr(line, REPLAY); replay; replay = strstr(replay + 1, REPLAY))
		take_event(view, replay, received_ns);
}

static void take_lines(struct view *view, int64_t received_ns)
{
	char *start = view->buffer;
	char *stop;

	view->buffer[view->length] = 0;
	while ((stop = strchr(start, '\n'))) {
		*stop = 0;
		take_line(view, start, received_ns);
		start = stop + 1;
	}
	view->length -= start - view->buffer;
	memmove(view->buffer, start, view->length);
}

static void read_view(struct view *view)
{
	size_t room = BUFFER_SIZE - 1 - view->length;
	ssize_t length;

	if (room == 0)
		errx(1, "session %s: a line too long", view->session);
	length = recv(view->fd, view->buffer + view->length, room, 0);
	if (length < 0)
		err(1, "recv");
	if (length == 0) {
		view->ended = 1;
		close(view->fd);
		return;
	}
	view->length += length;
	take_lines(view, now_ns());
}

static void watch(int poll_fd, int fd, struct view *view)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = view};

	if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event))
		err(1, "epoll_ctl");
}

static void discard(int fd)
{
	static char answers[BUFFER_SIZE];

	/* The daemon closes the connection when it has answered everything. */
	if (recv(fd, answers, sizeof(answers), MSG_DONTWAIT) == 0)
		close(fd);
}

static void view_sessions(const char *path, int count, char **sessions)
{
	int poll_fd = epoll_create1(0), play_fd = -1, joined, ended = 0;
	struct epoll_event ready[64];

	for (int i = 0; i < count; i++) {
		open_view(&views[i], path, sessions[i]);
		watch(poll_fd, views[i].fd, &views[i]);
	}
	while (ended < count) {
		int found = epoll_wait(poll_fd, ready, 64, -1);

		if (found < 0 && errno != EINTR)
			err(1, "epoll_wait");
		for (int i = 0; i < found; i++) {
			struct view *view = ready[i].data.ptr;

			if (!view) {
				discard(play_fd);
				continue;
			}
			read_view(view);
			ended += view->ended;
		}
		if (play_fd >= 0)
			continue;
		joined = 0;
		for (int i = 0; i < count; i++)
			joined += views[i].joined;
		if (joined == count) {
			play_fd = play_all(path, count);
			watch(poll_fd, play_fd, NULL);
		}
	}
}

static void print_moment(const char *name, const struct moment *moment)
{
	printf("\"%s\": {\"offset_ns\": %ld, \"due_ns\": %ld, \"lateness_ns\": %ld, \"received_ns\": %ld}", name,
	       moment->offset_ns, moment->due_ns, moment->lateness_ns, moment->received_ns);
}

static void print_views(int count)
{
	printf("{");
	print_times("lateness_ns", &lateness);
	printf(", ");
	print_times("received_ns", &received);
	printf(", \"sessions\": [");
	for (int i = 0; i < count; i++) {
		printf("%s{\"events\": %ld, ", i == 0 ? "" : ", ", views[i].events);
		print_moment("first", &views[i].first);
		printf(", ");
		print_moment("last", &views[i].last);
		printf("}");
	}
	printf("]}\n");
}

int main(int argc, char **argv)
{
	cpu_set_t cpus;

	if (argc < 5 || argc - 4 > SESSIONS_MAX)
		errx(2, "usage: replay_load sleep CPU PERIOD_NS COUNT | view CPU SOCKET SESSION...");
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[2]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "CPU %s", argv[2]);
	if (!strcmp(argv[1], "sleep")) {
		sleep_to_deadlines(atoll(argv[3]), atol(argv[4]));
	} else {
		view_sessions(argv[3], argc - 4, argv + 4);
		print_views(argc - 4);
	}
	return 0;
}
