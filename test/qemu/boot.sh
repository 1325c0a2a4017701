#!/bin/bash
# boot.sh KERNEL_FOLDER SECONDS DISK... -- COMMAND ...: runs a command as root in another kernel, on this host's files;
# its changes are dropped. Its output and its exit status are passed on; 124: out of time, 125: the guest died.
# fetch.sh makes the KERNEL_FOLDER. The disks are /dev/vda, /dev/vdb ... in the guest.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
kernel=$1 seconds=$2 disks=()
shift 2
while [ "$1" != -- ]; do
	disks+=("$1")
	shift
done
shift
memory=1536M
# Where /dev/kvm is not the processor's own virtualisation, kernels crash in it or crawl.
accelerator=tcg,thread=multi
if [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then accelerator=kvm; fi

out=$(mktemp -d /var/tmp/kreplay-kernels.XXXXXX)
server=
cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	rm -rf "$out"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

mkdir -p "$out"/initrd/{bin,modules,proc,sys,dev}
cp /bin/busybox "$out/initrd/bin/busybox"
cp "$kernel"/modules/*.ko "$out/initrd/modules/"
install -m 755 "$here/guest_init.sh" "$out/initrd/init"
(cd "$out/initrd" && find . | busybox cpio -o -H newc -R 0:0 2>/dev/null) >"$out/initrd.cpio"
{
	echo ": >$out/began"
	printf 'cd %q\nexport PATH=%q HOME=/root LANG=C.UTF-8\n' "$PWD" "$PATH"
	echo 'stty -F /dev/ttyS1 raw -echo'
	printf '('
	printf ' %q' "$@"
	echo " ) </dev/null >/dev/ttyS1 2>&1; echo \$? >$out/status"
	echo 'echo o >/proc/sysrq-trigger; sleep 60'
} >"$out/run"

# QEMU up to 7.2 has its own virtiofsd; the later one is written in Rust.
virtiofsd=/usr/lib/qemu/virtiofsd share=(-o sandbox=chroot -o source=/ -o cache=always)
if [ ! -x "$virtiofsd" ]; then
	virtiofsd=/usr/libexec/virtiofsd share=(--sandbox chroot --shared-dir / --cache always)
fi
drives=()
for i in "${!disks[@]}"; do
	drives+=(-drive "if=none,id=disk$i,file=${disks[$i]},format=raw,cache=unsafe" -device "virtio-blk-pci,drive=disk$i")
done
boot() {
	"$virtiofsd" --socket-path="$out/virtiofs.sock" "${share[@]}" >"$out/virtiofsd.log" 2>&1 &
	server=$!
	for _ in $(seq 250); do
		[ -S "$out/virtiofs.sock" ] && break
		sleep 0.02
	done
	ended=0
	# The kernel is an ELF file: booted as that, it neither decompresses nor moves itself.
	timeout --foreground -k 5 "$seconds" qemu-system-x86_64 -accel "$accelerator" -cpu max,la57=off -machine q35 -smp 2 -m "$memory" \
		-nodefaults -no-user-config -display none -no-reboot -kernel "$kernel/vmlinux" -initrd "$out/initrd.cpio" \
		-append "console=ttyS0 quiet panic=-1 oops=panic nokaslr mitigations=off apparmor=0 cryptomgr.notests no_timer_check \
rcupdate.rcu_expedited=1 kernels.out=$out" \
		-serial file:"$out/console.log" -chardev stdio,id=output,signal=off -serial chardev:output -device virtio-rng-pci \
		-object memory-backend-memfd,id=memory,size="$memory",share=on -numa node,memdev=memory \
		-chardev socket,id=files,path="$out/virtiofs.sock" -device vhost-user-fs-pci,chardev=files,tag=hostfs \
		${drives[@]+"${drives[@]}"} </dev/null || ended=$?
}

boot
# An emulated kernel was seen to die in an interrupt while it booted, before anything of ours ran.
for attempt in 2 3; do
	if [ -e "$out/began" ] || [ "$ended" = 124 ]; then break; fi
	echo "kernels: the guest died while it booted; attempt $attempt" >&2
	kill "$server" 2>/dev/null || true
	rm -f "$out/virtiofs.sock"
	boot
done
if [ -s "$out/status" ]; then exit "$(cat "$out/status")"; fi
echo "kernels: the guest did not end by itself (QEMU $ended); the end of its console:" >&2
tail -n 20 "$out/console.log" >&2 || true
[ "$ended" = 124 ] && exit 124
exit 125
