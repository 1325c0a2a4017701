#!/bin/bash
# usage: install_packages.sh PURPOSE required|wanted PACKAGE:FILE...
# Installs Debian packages for a purpose such as "the tests". FILE shows that a package is there. Servers among them are
# neither started nor enabled at boot, because tests start their own; a server that was there before stays as it was,
# however the installation ends. Without root it names what is missing, and fails if that is required.
set -euo pipefail
purpose=$1
need=$2
shift 2

# The scripts of Debian packages ask this program whether they may start or stop a service.
POLICY=/usr/sbin/policy-rc.d
MARK='of the installation of packages for kreplay, by process'

missing=()
for entry in "$@"; do
	[ -e "${entry#*:}" ] || missing+=("${entry%%:*}")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
	if [ "$need" = required ]; then
		echo "these Debian packages are missing for $purpose; as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	echo "not installed, so what needs them in $purpose fails or is skipped; as root: apt-get install ${missing[*]}" >&2
	exit 0
fi

list_packages() { dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' | grep -Ev '^(not-installed|config-files) ' | cut -d' ' -f2 | sort -u; }
# Links by which a boot starts a unit, and those by which an init without units does. A bare Debian lacks the folders.
list_unit_links() { { find /etc/systemd/system -mindepth 2 -type l \( -path '*.wants/*' -o -path '*.requires/*' \) 2>/dev/null || true; } | sort; }
list_init_links() { { find /etc/rc[2345].d -name 'S*' 2>/dev/null || true; } | sort; }
list_active() {
	if [ -d /run/systemd/system ]; then
		systemctl list-units --type=service,socket,timer,path --state=active --plain --no-legend | cut -d' ' -f1 | sort
	fi
}

# Prints which lines of standard input are not in the list $1.
without() { comm -13 <(printf '%s\n' "$1") -; }

# Whether a file, or a pattern of one, is of a package that is new here. What the system itself consists of, such as
# systemd, has another priority than a server.
is_of_new_server() {
	local package
	package=$(dpkg-query --search "$1" 2>/dev/null | sed -n '1s/[,:].*//p')
	[ -n "$package" ] && grep --quiet --line-regexp --fixed-strings "$package" <<<"$installed" &&
		[ "$(dpkg-query --show --showformat='${Priority}' "$package")" = optional ]
}

keep_servers_from_starting() {
	# A run that was killed has left its policy.
	if [ -f $POLICY ] && owner=$(sed -n "s/^# $MARK \([0-9]*\)$/\1/p" $POLICY) && [ -n "$owner" ] && [ ! -e "/proc/$owner" ]; then
		rm -f $POLICY
	fi
	# Another policy is left alone; what starts in spite of it is stopped at the end.
	if [ -e $POLICY ] || [ -L $POLICY ]; then return; fi
	# Before the file is there: a signal in between must not leave the file.
	has_policy=yes
	(umask 022 && set -C && printf '#!/bin/sh\n# %s %s\nexit 101\n' "$MARK" $$ >$POLICY)
	chmod 755 $POLICY
}

# Undoes what the new packages did to the servers of this machine. Nothing that was there before is touched.
finish() {
	local code=$? link unit name new_init_links disabled=()
	trap '' INT TERM HUP
	set +e
	installed=$(list_packages | without "$packages")
	# systemctl also takes these away, of a unit with the same name.
	new_init_links=$(list_init_links | without "$init_links")
	for link in $(list_unit_links | without "$unit_links"); do
		unit=${link##*/}
		is_of_new_server "*/systemd/system/$(basename "$(readlink "$link")")" || continue
		if command -v systemctl >/dev/null; then systemctl disable --quiet "$unit" 2>/dev/null; fi
		# systemctl may not know a unit whose package is installed in part.
		rm -f "$link"
		disabled+=("${unit%.service}")
	done
	for name in $(sed 's|.*/S[0-9]*||' <<<"$new_init_links" | sort -u); do
		is_of_new_server "/etc/init.d/$name" || continue
		update-rc.d "$name" disable >/dev/null 2>&1
		if [ -z "$has_policy" ] && [ ! -d /run/systemd/system ]; then "/etc/init.d/$name" stop >/dev/null 2>&1; fi
		disabled+=("$name")
	done
	for unit in $(list_active | without "$active"); do
		is_of_new_server "*/systemd/system/$(basename "$(systemctl show --property FragmentPath --value "$unit")")" || continue
		systemctl stop "$unit" 2>/dev/null && echo "stopped $unit, which a new package had started"
	done
	if [ -n "$has_policy" ] && grep --quiet --line-regexp --fixed-strings "# $MARK $$" $POLICY 2>/dev/null; then rm -f $POLICY; fi
	report "$code" "${disabled[@]}"
	rm -f "$log"
	exit "$code"
}

report() {
	local code=$1 asked
	shift
	asked=$(comm -12 <(printf '%s\n' "${missing[@]}" | sort -u) <(printf '%s\n' "$installed") | paste -sd' ')
	if [ -n "$installed" ]; then
		echo "installed $(wc -l <<<"$installed") packages for $purpose: ${asked:-none that was asked for} (the others are what these need)"
		echo "to remove them again: apt-get purge $asked && apt-get autoremove --purge"
	fi
	if [ $# -gt 0 ]; then
		echo "not enabled at boot, and not running: $(printf '%s\n' "$@" | sort -u | paste -sd' ')"
	fi
	if [ "$code" != 0 ]; then
		tail -n 20 "$log" >&2
		echo "not all packages for $purpose are installed; the reason is above. When it is gone, run make again" >&2
	fi
}

# Lists are compared in one order, whatever the user's language is.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
has_policy=
log=$(mktemp)
packages=$(list_packages)
unit_links=$(list_unit_links)
init_links=$(list_init_links)
active=$(list_active)
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
keep_servers_from_starting
echo "installing packages for $purpose: ${missing[*]}"
install=(apt-get install --yes -q --no-install-recommends)

echo "  reading Debian's lists of packages"
apt-get update -qq >>"$log" 2>&1
echo "  downloading what is missing"
"${install[@]}" --download-only "${missing[@]}" >>"$log" 2>&1
unpacked=$(sed -n 's/^After this operation, \(.*\) of additional.*/\1/p' "$log")
# apt itself looks for room for what it downloads only.
needed_bytes=$(tr -d ' ,B' <<<"${unpacked:-0}" | tr k K | numfmt --from=si)
free_bytes=$(df --output=avail -B1 /usr | tail -n 1)
if [ "$needed_bytes" -gt "$free_bytes" ]; then
	echo "the packages take $unpacked in /usr, where $(numfmt --to=si "$free_bytes")B are free: free some space" >>"$log"
	exit 1
fi
echo "  unpacking ${unpacked:-them}, which may take some minutes; Ctrl-C ends this when dpkg has finished"
# In a session of its own no signal for this one reaches apt, which would end before the dpkg that it has started: dpkg
# would go on without the policy. This shell handles a signal when apt has ended.
setsid --wait "${install[@]}" "${missing[@]}" </dev/null >>"$log" 2>&1
