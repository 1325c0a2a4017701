/**
 * Reports an agent's resource usage and event loop delay over its channel; loaded into it with `node --import`. It does
 * nothing between two questions except while it watches the loop. Not TypeScript: the type stripper's memory would be
 * counted as the agent's.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const RESOLUTION_MS = 1;

const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });

/** The histogram holds the time between two ticks of a timer, of which one resolution is no delay. */
function delayNs(interval) {
  return Math.max(0, interval - RESOLUTION_MS * 1e6);
}

/** The descriptor that reads the folder is in the listing, but closed before it is read. */
function readIfThere(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

const field = (text, name) => Number(new RegExp(`^${name}:\\s+(\\d+)$`, 'm').exec(text)[1]);

const ANSWERS = {
  /** CPU time since the start, of all threads. */
  usage() {
    const { user, system } = process.cpuUsage();
    return { userNs: user * 1e3, systemNs: system * 1e3, rssBytes: process.memoryUsage.rss() };
  },
  /** The kernel maps the pages of a ring buffer twice in a row, and RSS counts both mappings. */
  counted_twice_bytes() {
    const mappings = readFileSync('/proc/self/smaps', 'utf8').split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/);
    const rings = mappings.filter((mapping) => mapping.includes('anon_inode:bpf-map'));
    const kibibytes = (mapping, name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(mapping)[1]);
    return rings.reduce((sum, ring) => sum + (kibibytes(ring, 'Rss') - kibibytes(ring, 'Pss')) * 1024, 0);
  },
  /**
   * Memory of the maps as in bpf_map_show_fdinfo(), kernel/bpf/syscall.c: memory in use since Linux 6.4, the maximum
   * before.
   */
  map_bytes() {
    const descriptors = readdirSync('/proc/self/fdinfo').flatMap((fd) => readIfThere(`/proc/self/fdinfo/${fd}`) ?? []);
    const maps = descriptors.filter((text) => text.includes('\nmap_type:'));
    const byId = new Map(maps.map((text) => [field(text, 'map_id'), field(text, 'memlock')]));
    return [...byId.values()].reduce((sum, bytes) => sum + bytes, 0);
  },
  watch_loop: () => histogram.enable(),
  loop_delay: () => ({
    p50: delayNs(histogram.percentile(50)),
    p99: delayNs(histogram.percentile(99)),
    max: delayNs(histogram.max),
  }),
};

// A worker thread of the agent loads this module too.
if (isMainThread) {
  process.on('message', (question) => process.send(ANSWERS[question]()));
  // Listening must not keep the agent alive.
  process.channel.unref();
}
