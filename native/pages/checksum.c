#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checksum.h"

#include <string.h>

bool is_page_size(int64_t bytes)
{
	return bytes >= PAGE_BYTES_MIN && bytes <= PAGE_BYTES_MAX && (bytes & (bytes - 1)) == 0;
}

/* The page number is part of the checksum: it detects a page that is in the wrong place. */
static uint64_t checksum_of(const uint8_t *page, uint32_t bytes, uint32_t number)
{
	return XXH64(page, bytes - CHECKSUM_BYTES, number);
}

void set_checksum(uint8_t *page, uint32_t bytes, uint32_t number)
{
	const uint64_t checksum = checksum_of(page, bytes, number);

	memcpy(page + bytes - CHECKSUM_BYTES, &checksum, sizeof(checksum));
}

bool is_sound(const uint8_t *page, uint32_t bytes, uint32_t number)
{
	uint64_t stored;

	memcpy(&stored, page + bytes - CHECKSUM_BYTES, sizeof(stored));
	return stored == checksum_of(page, bytes, number);
}
