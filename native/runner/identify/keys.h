#ifndef KREPLAY_RUNNER_KEYS_H
#define KREPLAY_RUNNER_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_MAX 512

/*
 * Computes the common pattern of names that differ only in numbers or random parts: /data/wal/seg-0000001f.log becomes
 * /data/wal/seg-#.log.
 */
void pattern_of_path(const char *path, char pattern[static KEY_MAX]);
/* Computes the key of a thread name: http-3 becomes http-#. */
void key_of_comm(const char *comm, char key[static KEY_MAX]);
/* Returns the PATH_KIND_* of a path as /proc shows it. */
uint32_t path_kind_of(const char *path);
/* Computes the key by which calls are compared: the path; for sockets, pipes and anonymous files, only their kind. */
void key_of_file(uint32_t path_kind, const char *path, char key[static KEY_MAX]);
/* Returns whether the key may be only a part of a path, with a hash of the rest. */
bool key_may_be_cut(const char *key);

uint64_t hash_bytes(const void *bytes, size_t count);
/* Every bit of the input affects every bit of the hash. */
uint64_t hash_numbers(uint64_t a, uint64_t b, uint64_t c);
/* Maps a hash to a number below `count`; all numbers are equally likely. */
uint32_t number_below(uint64_t hash, uint32_t count);

#endif
