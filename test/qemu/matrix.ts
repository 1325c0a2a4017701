/** The kernels that are claimed to work or to be refused, and where each comes from. */

export interface Kernel {
  name: string;
  expected: 'recorded' | 'refused';
  /** Archive, suite and package of Debian. A kernel without a source is tested if it is in the cache. */
  source?: readonly [archive: string, suite: string, kernelPackage: string];
  /** The reason why there is no source. */
  without?: string;
}

export const KERNELS: readonly Kernel[] = [
  {
    name: '5.10',
    expected: 'refused',
    source: ['debian-security', 'bullseye-security', 'linux-image-cloud-amd64'],
  },
  {
    name: '5.15',
    expected: 'recorded',
    without: 'Debian has none; put one at ~/.cache/kreplay/kernels/5.15/{vmlinux,modules/*.ko}',
  },
  // These are not cloud kernels: they have ext4 and its journal in modules, disks that fail, and I/O schedulers.
  { name: '6.1', expected: 'recorded', source: ['debian-security', 'bookworm-security', 'linux-image-amd64'] },
  { name: '6.12', expected: 'recorded', source: ['debian-security', 'bookworm-security', 'linux-image-6.12-amd64'] },
  { name: 'newest', expected: 'recorded', source: ['debian', 'trixie-backports', 'linux-image-cloud-amd64'] },
];
