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

# Hot loops here are over typed arrays: V8's middle compiler runs them several times slower than its last one, and it
# takes seconds until that has its turn.
if [ "${1-}" != exec ]; then
	exec "$node" --no-maglev "$script" "$@"
fi

# agent/exec.ts says why it is this shell that becomes the command.
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
