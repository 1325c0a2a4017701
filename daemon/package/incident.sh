#!/bin/bash
# A shop that stores orders, with a backup that fills the same disk's queue for a while: what the pictures of the web
# page show. Needs an agent that runs as root does. Usage: incident.sh FOLDER
set -eu
cd "$1"
mkdir -p orders backup
order() {
	echo "KREPLAY1 txn=order-$1 svc=shop" >/dev/null
	dd if=/dev/zero of="orders/$(($1 % 8)).json" bs=4k count=4 conv=notrunc,fsync status=none
	dd if=/dev/zero of=orders/orders.log bs=512 count=1 oflag=append conv=notrunc,fsync status=none
	echo 'KREPLAY1 end' >/dev/null
}
backup() {
	echo 'KREPLAY1 svc=backup' >/dev/null
	for part in 1 2 3; do dd if=/dev/zero of="backup/$1-$part.tar" bs=4M count=48 oflag=direct status=none; done
}
# Files that are there already: what an order waits for is its data.
touch orders/orders.log
for number in 0 1 2 3 4 5 6 7; do dd if=/dev/zero of=orders/$number.json bs=4k count=4 conv=fsync status=none; done
for number in $(seq 1 600); do
	if [ "$number" = 400 ]; then for writer in 1 2 3 4; do backup $writer & done; fi
	order "$number"
done
wait
