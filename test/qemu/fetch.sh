#!/bin/bash
# fetch.sh FOLDER NAME ARCHIVE SUITE PACKAGE: updates FOLDER/NAME/{vmlinux,modules/*.ko,version} to the kernel that a
# Debian package contains or depends on. apt verifies it; nothing is installed, and no package list of this host
# changes. Prints the version; without a network, it uses what it fetched before.
set -euo pipefail
name=$2 archive=$3 suite=$4 package=$5
mkdir -p "$1"
cache=$(cd "$1" && pwd)
state=$cache/apt/$suite
MODULES="virtio_pci virtiofs overlay virtio_blk ext4"
# Debian's kernels for clouds lack these: a disk whose reads fail, and an I/O scheduler.
OPTIONAL_MODULES="sd_mod scsi_debug mq-deadline"
LIST_MINUTES=600

mirror=$(apt-get indextargets --format '$(SITE)' | awk '/\/debian\/*$/ {sub(/\/debian\/*$/, ""); print; exit}')
mkdir -p "$state"/{lists/partial,cache/archives/partial}
touch "$state/status"
echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror/$archive $suite main" >"$state/sources.list"
cat >"$state/apt.conf" <<END
Dir::State "$state"; Dir::State::Lists "$state/lists"; Dir::State::status "$state/status";
Dir::Cache "$state/cache"; Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";
Dir::Etc::SourceList "$state/sources.list"; Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null"; Dir::Etc::PreferencesParts "/dev/null";
APT::Architecture "amd64"; APT::Architectures "amd64"; APT::Sandbox::User "";
Acquire::Languages "none"; Acquire::Retries "3"; APT::Update::Error-Mode "any";
END
export APT_CONFIG=$state/apt.conf

if [ -z "$(find "$state/updated" -mmin -$LIST_MINUTES 2>/dev/null)" ]; then
	if apt-get -qq update >&2; then
		touch "$state/updated"
	elif [ -e "$cache/$name/version" ]; then
		cat "$cache/$name/version"
		exit 0
	else
		exit 1
	fi
fi

# Prints the packages that package $1 depends on and whose names match $2.
depends() {
	apt-cache show --no-all-versions "$1" | sed -n 's/^Depends: //p' | tr ',|' '\n\n' | awk -v wanted="$2" '$1 ~ wanted {print $1}'
}

image=$(depends "$package" '^linux-image-')
version=${image#linux-image-}
if [ -z "$version" ]; then
	echo "fetch.sh: $suite has no $package" >&2
	exit 1
fi
wanted="$version $MODULES $OPTIONAL_MODULES"
if [ "$(cat "$cache/$name/wanted" 2>/dev/null)" = "$wanted" ]; then
	echo "$version"
	exit 0
fi
# Since 7.0 the image is empty, and these packages have its content.
mapfile -t packages < <(depends "$image" '^linux-(base|binary|modules)-[0-9]')
case "${packages[*]}" in *linux-modules-*) ;; *) packages=("$image") ;; esac
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
(cd "$work" && apt-get -qq download "${packages[@]}" >&2)
for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/root"; done
[ -e "$work/root/lib" ] || ln -s usr/lib "$work/root/lib"
image=$work/root/boot/vmlinuz-$version
[ -e "$image" ] || image=$work/root/lib/modules/$version/vmlinuz
mkdir -p "$work/out/modules"

# A bzImage contains the ELF file, compressed: setup_sects, payload_offset and payload_length are described in
# Documentation/arch/x86/boot.rst. Four bytes with its size follow it.
number() { od -An -v -t"$2" -j"$1" -N"${2#u}" "$image" | tr -d ' '; }
dd if="$image" of="$work/payload" bs=1M iflag=skip_bytes,count_bytes status=none \
	skip=$((($(number 497 u1) + 1) * 512 + $(number 584 u4))) count=$(($(number 588 u4) - 4))
case $(head -c4 "$work/payload" | od -An -tx1 | tr -d ' ') in
28b52ffd) unpack=zstd ;;
fd377a58) unpack=xz ;;
02214c18) unpack=lz4 ;;
1f8b*) unpack=gzip ;;
*)
	echo "fetch.sh: $version is compressed in an unknown way" >&2
	exit 1
	;;
esac
$unpack -dc <"$work/payload" >"$work/out/vmlinux"

/sbin/depmod -b "$work/root" "$version"
# Modules are listed in the order in which they need each other; one that is built in has no file.
for module in $MODULES; do
	/sbin/modprobe -d "$work/root" -S "$version" --show-depends "$module"
done >"$work/needed"
for module in $OPTIONAL_MODULES; do
	/sbin/modprobe -d "$work/root" -S "$version" --show-depends "$module" 2>/dev/null || true
done >>"$work/needed"
awk '$1 == "insmod" && !seen[$2]++ {print $2}' "$work/needed" >"$work/list"
i=100
while read -r file; do
	module=$(basename "$file")
	to=$work/out/modules/$((i++))-${module%%.ko*}.ko
	case $file in
	*.xz) xz -dc "$file" >"$to" ;;
	*.zst) zstd -qdc "$file" >"$to" ;;
	*) cp "$file" "$to" ;;
	esac
done <"$work/list"
echo "$version" >"$work/out/version"
echo "$wanted" >"$work/out/wanted"
rm -rf "${cache:?}/$name"
mv "$work/out" "$cache/$name"
echo "$version"
