#include "identify/table.h"

#include <stdlib.h>
#include <string.h>

#include "identify/keys.h"

struct table_entry {
	void *key; /* NULL: free */
	uint32_t key_bytes;
	uint32_t value;
	uint64_t hash;
};

/* Returns the key's entry, or the free one where it would be. */
static struct table_entry *find(const struct table *table, uint64_t hash, const void *key, size_t key_bytes)
{
	for (uint32_t at = hash;; at++) {
		struct table_entry *entry = &table->entries[at & (table->room - 1)];

		if (!entry->key ||
		    (entry->hash == hash && entry->key_bytes == key_bytes && memcmp(entry->key, key, key_bytes) == 0))
			return entry;
	}
}

uint32_t table_get(const struct table *table, const void *key, size_t key_bytes)
{
	if (table->count == 0)
		return NOT_IN_TABLE;
	const struct table_entry *entry = find(table, hash_bytes(key, key_bytes), key, key_bytes);
	return entry->key ? entry->value : NOT_IN_TABLE;
}

static bool grow(struct table *table)
{
	struct table grown = {.room = table->room ? table->room * 2 : 64, .count = table->count};

	grown.entries = calloc(grown.room, sizeof(*grown.entries));
	if (!grown.entries)
		return false;
	for (uint32_t i = 0; i < table->room; i++) {
		const struct table_entry *entry = &table->entries[i];
		if (entry->key)
			*find(&grown, entry->hash, entry->key, entry->key_bytes) = *entry;
	}
	free(table->entries);
	*table = grown;
	return true;
}

bool table_put(struct table *table, const void *key, size_t key_bytes, uint32_t value)
{
	/* The table stays half empty, so that a search is short. */
	if (table->count * 2 >= table->room && !grow(table))
		return false;
	const uint64_t hash = hash_bytes(key, key_bytes);
	struct table_entry *entry = find(table, hash, key, key_bytes);
	if (!entry->key) {
		entry->key = malloc(key_bytes + 1);
		if (!entry->key)
			return false;
		memcpy(entry->key, key, key_bytes);
		entry->key_bytes = key_bytes;
		entry->hash = hash;
		table->count++;
	}
	entry->value = value;
	return true;
}

void table_clear(struct table *table)
{
	for (uint32_t i = 0; i < table->room; i++)
		free(table->entries[i].key);
	free(table->entries);
	*table = (struct table){0};
}
