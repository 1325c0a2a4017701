#ifndef KREPLAY_RUNNER_KEYS_H
#define KREPLAY_RUNNER_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_MAX 512

/* What names have in common that differ only in what is counted or drawn: /data/wal/seg-0000001f.log is seg-#.log. */
void pattern_of_path(const char *path, char pattern[static KEY_MAX]);
/* http-3 is http-#. */
void key_of_comm(const char *comm, char key[static KEY_MAX]);
/* PATH_KIND_*, from a path as /proc has it. */
uint32_t path_kind_of(const char *path);
/* What calls are compared by: the path; of sockets, pipes and anonymous files only what they are. */
void key_of_file(uint32_t path_kind, const char *path, char key[static KEY_MAX]);
/* Whether it may be a part of a path only, with a hash of the rest. */
bool key_may_be_cut(const char *key);

uint64_t hash_bytes(const void *bytes, size_t count);
/* Every input changes every bit. */
uint64_t hash_numbers(uint64_t a, uint64_t b, uint64_t c);
/* A hash as a number below `count`, each of which is as likely. */
uint32_t number_below(uint64_t hash, uint32_t count);

#endif
