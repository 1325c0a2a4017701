#include "identify/recorded_name.h"

#include <stdint.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"
#define CUT "..."

/* Returns how many bytes of a character may follow the first one, and the range of the second byte. */
static size_t following(uint8_t first, uint8_t *least, uint8_t *most)
{
	*least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	*most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	if (first >= 0xc2 && first <= 0xdf)
		return 1;
	if (first >= 0xe0 && first <= 0xef)
		return 2;
	return first >= 0xf0 && first <= 0xf4 ? 3 : 0;
}

/* Returns the length of a character, or of a truncated one, which gets a single replacement character. */
static size_t take(const uint8_t *bytes, bool *is_whole)
{
	uint8_t least, most;
	const size_t count = following(*bytes, &least, &most);
	size_t taken = 1;

	while (taken <= count && bytes[taken] >= least && bytes[taken] <= most) {
		least = 0x80;
		most = 0xbf;
		taken++;
	}
	*is_whole = *bytes < 0x80 || (count > 0 && taken == count + 1);
	return taken;
}

bool recorded_name(const char *path, char name[static RECORDED_NAME_MAX])
{
	bool is_changed = false, is_whole;
	size_t length = 0;

	while (*path && length + sizeof(REPLACEMENT) + 1 < RECORDED_NAME_MAX) {
		const size_t bytes = take((const uint8_t *)path, &is_whole);
		const char *from = is_whole ? path : REPLACEMENT;
		const size_t put = is_whole ? bytes : strlen(REPLACEMENT);

		memcpy(name + length, from, put);
		length += put;
		path += bytes;
		is_changed |= !is_whole;
	}
	name[length] = 0;
	return is_changed;
}

bool recorded_name_shorten(char name[static RECORDED_NAME_MAX])
{
	const size_t cut = strncmp(name, CUT "/", strlen(CUT "/")) == 0 ? strlen(CUT) : 0;
	const char *next = cut ? strchr(name + cut + 1, '/') : name;

	if (!next || *next != '/' || (!cut && strlen(name) + sizeof(CUT) > RECORDED_NAME_MAX))
		return false;
	memmove(name + strlen(CUT), next, strlen(next) + 1);
	memcpy(name, CUT, strlen(CUT));
	return true;
}
