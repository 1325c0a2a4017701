#include "fdinfo.h"

#include <string.h>
#include <unistd.h>

/* pos, flags, mnt_id, ino: a line each, in this order. What follows depends on the kind of file. */
#define LINE_OF_INODE 3
#define INODE "ino:\t"

bool fdinfo_read(int file, struct fdinfo *info)
{
	char text[FDINFO_BYTES_MAX + 32];
	const ssize_t bytes = pread(file, text, sizeof(text), 0);
	const char *line = text, *const end = text + (bytes > 0 ? bytes : 0);
	const char *flags = NULL;

	for (int i = 0; i < LINE_OF_INODE; i++) {
		line = memchr(line, '\n', end - line);
		if (!line)
			return false;
		line++;
		if (i == 0)
			flags = line;
	}
	const char *after = memchr(line, '\n', end - line);
	if (!after || strncmp(line, INODE, strlen(INODE)) != 0 || after - flags > FDINFO_BYTES_MAX)
		return false;
	info->bytes = after - flags;
	memcpy(info->text, flags, info->bytes);
	return true;
}

bool fdinfo_is_same(const struct fdinfo *a, const struct fdinfo *b)
{
	return a->bytes == b->bytes && memcmp(a->text, b->text, a->bytes) == 0;
}
