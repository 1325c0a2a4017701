#include "identify/fdinfo.h"

#include <string.h>
#include <unistd.h>

/* The file has the lines pos, flags, mnt_id and ino in this order. The lines after them depend on the kind of file. */
#define LINE_OF_INODE 3
#define INODE "ino:\t"
#define TEXT_BYTES_MAX (FDINFO_BYTES_MAX + 32)

/* Returns the text after the line of the position, or NULL if there is none. */
static const char *read_text(int file, char text[static TEXT_BYTES_MAX], size_t *bytes)
{
	const ssize_t all = pread(file, text, TEXT_BYTES_MAX, 0);
	ssize_t at = 0;

	while (at < all && text[at] != '\n')
		at++;
	if (at >= all)
		return NULL;
	*bytes = all - at - 1;
	return text + at + 1;
}

bool fdinfo_read(int file, struct fdinfo *info)
{
	char text[TEXT_BYTES_MAX];
	size_t bytes;
	const char *flags = read_text(file, text, &bytes), *line = flags;

	for (int i = 1; line && i < LINE_OF_INODE; i++) {
		line = memchr(line, '\n', flags + bytes - line);
		line += line != NULL;
	}
	const char *after = line ? memchr(line, '\n', flags + bytes - line) : NULL;
	if (!after || strncmp(line, INODE, strlen(INODE)) != 0 || after + 1 - flags > FDINFO_BYTES_MAX)
		return false;
	info->bytes = after + 1 - flags;
	memcpy(info->text, flags, info->bytes);
	return true;
}

bool fdinfo_is_still(int file, const struct fdinfo *info)
{
	char text[TEXT_BYTES_MAX];
	size_t bytes;
	const char *flags = read_text(file, text, &bytes);

	return flags && bytes >= info->bytes && memcmp(flags, info->text, info->bytes) == 0;
}
