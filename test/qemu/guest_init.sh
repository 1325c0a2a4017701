#!/bin/busybox sh
# The guest's first process: loads modules, mounts an overlay over the host's files, and runs the script of boot.sh.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
exec >/dev/ttyS0 2>&1 </dev/null
die() {
	echo "kernels: $*"
	$b poweroff -f
}
for word in $($b cat /proc/cmdline); do
	case $word in kernels.out=*) out=${word#kernels.out=} ;; esac
done
for module in /modules/*.ko; do
	$b insmod "$module" || echo "kernels: insmod $module failed"
done
root=/newroot
$b mkdir -p /host /rw $root
$b mount -t virtiofs hostfs /host || die "no virtiofs"
$b mount -t tmpfs -o size=60% rw /rw
$b mkdir /rw/upper /rw/work
$b mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work root $root || die "no overlay"
# The guest writes to no other folder of the host.
$b mkdir -p "$root$out"
$b mount -o bind "/host$out" "$root$out" || die "no $out"
for folder in proc sys dev; do $b mount -o move /$folder $root/$folder; done
$b mkdir -p $root/dev/shm
$b mount -t tmpfs shm $root/dev/shm
$b mount -t tmpfs run $root/run
$b mount -t tmpfs -o mode=1777 tmp $root/tmp
$b mount -t tracefs tracefs $root/sys/kernel/tracing
$b mount -t securityfs securityfs $root/sys/kernel/security
$b mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
for link in fd: stdin:/0 stdout:/1 stderr:/2; do
	$b ln -sf "/proc/self/fd${link#*:}" "$root/dev/${link%%:*}"
done
$b ifconfig lo 127.0.0.1 up
$b hostname guest
exec $b switch_root $root /bin/bash "$out/run"
