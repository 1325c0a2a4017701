/** Fronts of a command line that is to run as a user who owns nothing and may do nothing, or only what is named. */
import { resolve } from 'node:path';

export const NOBODY = 65534;

const ROOT = resolve(import.meta.dirname, '..');

/** A clone below a closed folder such as /root is out of that user's reach: in this mount namespace an open one hides it. */
const IN_REACH = `
root=$1 allowed=$2; shift 2
closed= folder=$root
while folder=$(dirname "$folder") && [ "$folder" != / ]; do
  [ $((0$(stat -c %a "$folder") & 1)) = 1 ] || closed=$folder
done
if [ -n "$closed" ]; then
  mount --bind "$root" /mnt
  mount -t tmpfs -o mode=755 tmpfs "$closed"
  mkdir -p "$root"
  mount --bind /mnt "$root"
  cd "$root"
fi
exec setpriv --reuid=${NOBODY} --regid=${NOBODY} --clear-groups \
  --inh-caps=$allowed --ambient-caps=$allowed --bounding-set=$allowed "$@"`;

type CommandLine = readonly [string, ...string[]];

/** With these capabilities, as setpriv(1) writes them: `bpf`, `sys_ptrace`. */
export function asNobodyWith(...capabilities: string[]): CommandLine {
  const allowed = ['-all', ...capabilities.map((name) => `+${name}`)].join(',');
  return ['unshare', '--mount', 'sh', '-ec', IN_REACH, 'sh', ROOT, allowed];
}

export const AS_NOBODY: CommandLine = asNobodyWith();
