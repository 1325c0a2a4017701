#ifndef KREPLAY_RUNNER_TABLE_H
#define KREPLAY_RUNNER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOT_IN_TABLE UINT32_MAX

/* A hash table from bytes to a number. */
struct table {
	struct table_entry *entries;
	uint32_t room; /* a power of two */
	uint32_t count;
};

uint32_t table_get(const struct table *table, const void *key, size_t key_bytes);
/* Adds a key, or replaces its number. Returns false if there is no memory. */
bool table_put(struct table *table, const void *key, size_t key_bytes, uint32_t value);
void table_clear(struct table *table);

#endif
