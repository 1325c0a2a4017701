#include "identify/keys.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gen/format.h"

/* A shorter run of hex digits may well be a word. */
#define HEX_RUN_MIN 8
#define DELETED " (deleted)"

static size_t uuid_length(const char *text)
{
	static const size_t parts[] = {8, 4, 4, 4, 12};
	size_t at = 0;

	for (size_t part = 0; part < 5; part++) {
		if (part > 0 && text[at++] != '-')
			return 0;
		for (size_t i = 0; i < parts[part]; i++)
			if (!isxdigit((unsigned char)text[at++]))
				return 0;
	}
	return isxdigit((unsigned char)text[at]) ? 0 : at;
}

/* Returns the length of the number, hex number or uuid that begins here, or 0 if none does. */
static size_t drawn_length(const char *text, bool follows_hex)
{
	size_t digits = 0, hex = 0, uuid;
	bool has_digit = false;

	if (!follows_hex && (uuid = uuid_length(text)) > 0)
		return uuid;
	for (; isxdigit((unsigned char)text[hex]); hex++)
		has_digit |= isdigit((unsigned char)text[hex]) != 0;
	if (!follows_hex && hex >= HEX_RUN_MIN && has_digit)
		return hex;
	while (isdigit((unsigned char)text[digits]))
		digits++;
	return digits;
}

static void make_key(const char *text, size_t bytes, char key[static KEY_MAX])
{
	size_t length = 0;

	for (size_t at = 0; at < bytes && length < KEY_MAX - 1;) {
		const bool follows_hex = at > 0 && isxdigit((unsigned char)text[at - 1]);
		const size_t drawn = drawn_length(text + at, follows_hex);

		key[length++] = drawn > 0 ? '#' : text[at];
		at += drawn > 0 ? drawn : 1;
	}
	key[length] = 0;
}

void pattern_of_path(const char *path, char pattern[static KEY_MAX])
{
	make_key(path, strlen(path), pattern);
}

/*
 * The key omits the mark of a deleted file, because a file that is deleted while open keeps its name. A name that is
 * too long ends in a hash of its rest.
 */
static void key_of_path(const char *path, char key[static KEY_MAX])
{
	const size_t deleted = strlen(DELETED), hash_digits = 16;
	size_t bytes = strlen(path);

	if (bytes > deleted && strcmp(path + bytes - deleted, DELETED) == 0)
		bytes -= deleted;
	const size_t kept = bytes < KEY_MAX ? bytes : KEY_MAX - 1 - hash_digits;
	memcpy(key, path, kept);
	key[kept] = 0;
	if (kept < bytes)
		snprintf(key + kept, KEY_MAX - kept, "%016llx",
			 (unsigned long long)hash_bytes(path + kept, bytes - kept));
}

bool key_may_be_cut(const char *key)
{
	return strlen(key) == KEY_MAX - 1;
}

void key_of_comm(const char *comm, char key[static KEY_MAX])
{
	make_key(comm, strlen(comm), key);
}

static bool begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

uint32_t path_kind_of(const char *path)
{
	if (begins(path, "socket:["))
		return PATH_KIND_SOCKET;
	if (begins(path, "pipe:["))
		return PATH_KIND_PIPE;
	if (begins(path, "anon_inode:"))
		return PATH_KIND_ANON;
	if (begins(path, "/dev/") && !begins(path, "/dev/shm/"))
		return PATH_KIND_DEVICE;
	return *path == '/' ? PATH_KIND_REGULAR : PATH_KIND_UNKNOWN;
}

void key_of_file(uint32_t path_kind, const char *path, char key[static KEY_MAX])
{
	switch (path_kind) {
	case PATH_KIND_SOCKET:
		strcpy(key, "socket");
		break;
	case PATH_KIND_PIPE:
		strcpy(key, "pipe");
		break;
	case PATH_KIND_ANON:
		strcpy(key, "anon");
		break;
	case PATH_KIND_STD:
		/* std:1 and std:2 stay distinct: the number has a meaning, and is not a counter. */
		snprintf(key, KEY_MAX, "%s", path);
		break;
	default:
		key_of_path(path, key);
	}
}

/* This is the finalizer of splitmix64. */
static uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
	value = (value ^ value >> 27) * 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

/* Hashes eight bytes at a time, because file names are long. The multiplier is that of MurmurHash64A. */
uint64_t hash_bytes(const void *bytes, size_t count)
{
	const uint64_t step = 0xc6a4a7935bd1e995ull;
	const unsigned char *from = bytes;
	uint64_t hash = count, word;

	for (; count >= sizeof(word); count -= sizeof(word), from += sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		hash = (hash ^ mix(word)) * step;
	}
	word = 0;
	memcpy(&word, from, count);
	return mix(hash ^ word);
}

uint64_t hash_numbers(uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t step = 0x9e3779b97f4a7c15ull;

	return mix(mix(mix(a + step) + b + step) + c + step);
}

uint32_t number_below(uint64_t hash, uint32_t count)
{
	return (unsigned __int128)hash * count >> 64;
}
