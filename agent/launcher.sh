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

# Hot loops here are over typed arrays: code of V8's middle compiler runs them several times slower than that of its
# last one, which takes over only after seconds.
case ${1-} in
exec) ;;
agent | up)
	# Recording allocates much short-lived memory: what V8 and malloc would keep of it for later grows to 100 MB.
	export MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=131072
	# Concurrent marking that begins as the process ends hangs Node 24.21 forever, in a third of all runs that only print
	# their usage.
	exec "$node" --no-maglev --optimize-for-size --heap-growing-percent=20 --max-semi-space-size=4 \
		--no-parallel-scavenge --no-concurrent-marking "$script" "$@"
	;;
ship)
	# Its hot loops are in C++ and use their memory again, so the space of new objects is small. What is looked up of many
	# transactions is old when it is dropped: without a limit of growth it takes 34 MB more.
	exec "$node" --no-maglev --max-semi-space-size=2 --heap-growing-percent=20 --v8-pool-size=1 \
		--no-parallel-scavenge --no-concurrent-marking "$script" "$@"
	;;
daemon)
	# Long answers take much short-lived memory in several threads: what V8 and malloc would keep of it grows to 200 MB.
	export MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=131072
	# daemon/cli/up.ts has the same settings. V8's threads, as many as four, would occupy both CPUs of a small machine for up to 3
	# ms when an event of a replay is due.
	# V8 would let a small heap grow by 16 MB only, no more than the space of new objects, and collect all the time.
	exec "$node" --no-maglev --v8-pool-size=1 --no-parallel-scavenge --max-semi-space-size=8 \
		--initial-old-space-size=48 "$script" "$@"
	;;
*)
	exec "$node" --no-maglev "$script" "$@"
	;;
esac

# agent/exec.ts explains why it is this shell that becomes the command.
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
