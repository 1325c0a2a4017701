/** The viewers of a session whose sockets the player's thread writes to: they have all frames that were played before. */
import type { Sink } from '../../base/sse.ts';
import type { Track } from '../clock/player.ts';
import type { FrameLog } from './frames.ts';

export interface Viewer {
  sink: Sink;
  /** The id of the last frame that was written to it. */
  lastId: number;
  /** The number of events up to that frame; null when the log has dropped it. */
  events: number | null;
  /** Its socket is full. */
  blocked: boolean;
  /**
   * While the player writes to its socket: the player's name for it, the number of frames played before, and of bytes
   * that the socket is known to have taken since.
   */
  direct: { viewer: number; playedBefore: number; sentBytes: number } | undefined;
}

export interface DirectViewers {
  /** The viewer may have frames that the log has not taken note of. */
  takeBack(viewer: Viewer): void;
  /** Gives a viewer with all frames of the log to the player, which adds what it has played since. */
  giveAway(viewer: Viewer): void;
  /** Takes those back whose sockets are full, and notes what the others have taken. */
  lookAt(viewers: Iterable<Viewer>): void;
}

export function createDirectViewers(track: Track, log: FrameLog): DirectViewers {
  function takeBack(viewer: Viewer): void {
    if (!viewer.direct) return;
    const { viewer: name, playedBefore, sentBytes } = viewer.direct;
    const left = track.detach(name);
    viewer.direct = undefined;
    if (!left) return;
    const { through, sent, rest } = left;
    viewer.sink.wroteDirectly!(sent - sentBytes);
    viewer.lastId += through - playedBefore;
    viewer.events = viewer.lastId >= log.firstId - 1 ? log.eventsThrough(viewer.lastId) : null;
    if (rest.length > 0) viewer.blocked = !viewer.sink.writeRest!(rest);
  }

  return {
    takeBack,
    giveAway(viewer) {
      if (viewer.direct || viewer.blocked || viewer.lastId !== log.lastId) return;
      const socket = viewer.sink.direct?.();
      const name = socket && track.attach(socket.fd, socket.isChunked);
      if (name !== undefined) viewer.direct = { viewer: name, playedBefore: track.playedCount, sentBytes: 0 };
    },
    lookAt(viewers) {
      const sentBytes = track.sentBytes();
      for (const viewer of viewers) {
        if (!viewer.direct) continue;
        const sent = sentBytes.get(viewer.direct.viewer);
        if (sent === undefined) takeBack(viewer);
        else {
          viewer.sink.wroteDirectly!(sent - viewer.direct.sentBytes);
          viewer.direct.sentBytes = sent;
        }
      }
    },
  };
}
