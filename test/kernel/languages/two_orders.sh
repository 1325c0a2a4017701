#!/bin/bash
# Writes for two orders, and once for neither.
set -eu

work() {
	order=$1
	echo "KREPLAY1 txn=$order" > /dev/null
	echo "$2" >> "$out"
}

out=$1
work order-8812 first
work order-8813 second
echo "KREPLAY1 end" > /dev/null
echo neither >> "$out"
