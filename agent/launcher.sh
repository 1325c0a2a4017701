#!/bin/sh
# build/kreplay: runs kreplay with the Node that the project pins.
set -eu
here=$(dirname "$(readlink -f "$0")")
node=$here/../node_modules/.bin/node
script=$here/js/kreplay.js
if [ ! -x "$node" ] || [ ! -f "$script" ]; then
	echo "kreplay: $here is not built; run make build" >&2
	exit 1
fi

# --no-maglev: the hot loops work on typed arrays. Code of Maglev, V8's middle compiler, runs them several times slower
# than code of TurboFan, the last one, which replaces it only after seconds.
case ${1-} in
exec) ;;
agent | up)
	# Recording allocates much short-lived memory. By default, V8 and malloc would keep up to 100 MB of it for reuse.
	export MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=131072
	# --no-concurrent-marking: Node 24.21 hangs forever if concurrent marking begins while the process ends, as in a
	# third of the runs that only print their usage.
	exec "$node" --no-maglev --optimize-for-size --heap-growing-percent=20 --max-semi-space-size=4 \
		--no-parallel-scavenge --no-concurrent-marking "$script" "$@"
	;;
ship)
	# The hot loops of the shipper are in C++ and reuse their memory, so the space for new objects is small. The
	# transactions that the shipper looks up live until V8 counts them as old objects: without the limit on the growth of
	# the heap, they take 34 MB more.
	exec "$node" --no-maglev --max-semi-space-size=2 --heap-growing-percent=20 --v8-pool-size=1 \
		--no-parallel-scavenge --no-concurrent-marking "$script" "$@"
	;;
daemon)
	# Long answers need much short-lived memory in several threads. By default, V8 and malloc would keep up to 200 MB of
	# it for reuse.
	export MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=131072
	# daemon/cli/up.ts has the same settings.
	# --v8-pool-size: by default, V8 has up to four threads, which may occupy both CPUs of a small machine for up to 3 ms
	# while an event of a replay is due.
	# --initial-old-space-size: V8 lets a small heap grow by only 16 MB, the size of the space for new objects, before it
	# collects garbage, so it would collect all the time.
	exec "$node" --no-maglev --v8-pool-size=1 --no-parallel-scavenge --max-semi-space-size=8 \
		--initial-old-space-size=48 "$script" "$@"
	;;
*)
	exec "$node" --no-maglev "$script" "$@"
	;;
esac

# This shell becomes the command, because Node cannot: agent/exec.ts explains why.
text=$("$node" "$script" "$@")
case $text in
KREPLAY1\ *) ;;
*) # --help
	printf '%s\n' "$text"
	exit 0
	;;
esac
while [ "$1" != -- ]; do shift; done
shift
printf '%s\n' "$text" >/dev/null
exec "$@"
