#ifndef KREPLAY_PAGES_CHECKSUM_H
#define KREPLAY_PAGES_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>

/* A guarded page ends with the XXH64 of the bytes before it, seeded with the page's number, little-endian. */
enum {
	CHECKSUM_BYTES = 8,
	PAGE_BYTES_MIN = 512,
	PAGE_BYTES_MAX = 65536,
};

bool is_page_size(int64_t bytes);
void set_checksum(uint8_t *page, uint32_t bytes, uint32_t number);
bool is_sound(const uint8_t *page, uint32_t bytes, uint32_t number);

#endif
