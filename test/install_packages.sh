#!/bin/bash
# Installs Debian packages for the tests, given as PACKAGE:FILE, of which FILE shows that the package is there. Servers
# among them are neither started nor enabled at boot: tests start their own. Without root it names what is missing.
set -euo pipefail

missing=()
for entry in "$@"; do
	[ -e "${entry#*:}" ] || missing+=("${entry%%:*}")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "not installed, so tests that need them fail or are skipped: ${missing[*]}" >&2
	echo "install them as root: apt-get install ${missing[*]}" >&2
	exit 0
fi

echo "installing ${missing[*]}"
# Units that a boot starts, without those of the system itself.
enabled() { find /etc/systemd/system/multi-user.target.wants -name '*.service' -printf '%f\n' 2>/dev/null | { grep -v '^e2scrub' || true; } | sort; }
before=$(enabled)
# The packages' scripts ask this program whether they may start a service.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap 'rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
for unit in $(comm -13 <(echo "$before") <(enabled)); do
	systemctl disable --quiet "$unit" || true
	update-rc.d "${unit%.service}" disable >/dev/null 2>&1 || true
done
