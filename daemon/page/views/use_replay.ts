/** The replay session of a view, created by the first command or named by the link. */

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ReceivedSession } from '../../contract/received.ts';
import { type Failure, toFailure } from '../api/failure.ts';
import type { LinkedClockOffsets } from '../link/clock_offsets.ts';
import { createSession, deleteSession, type NewestEvent, openReplay, type Replay } from '../replay/replay.ts';
import { buildSessionSettings, linkSettings, type NewSessionSettings } from '../replay/settings_in_link.ts';
import { usePage } from './context.ts';

export interface ShownReplay {
  /** The replay of the session; null until there is a session. */
  replay: Replay | null;
  /** Failure to create a session; null if there was no failure. */
  failure: Failure | null;
  /** Returns the session, or creates one with the settings of the link; null if that fails. */
  open: () => Promise<Replay | null>;
  /** Creates a session with the link's settings, which `settings` override. It replaces the shown session. */
  renew: (settings?: NewSessionSettings) => Promise<Replay | null>;
  /** Replaces a session that no longer exists by a new session with the same settings and position. */
  restore: () => Promise<void>;
  /** Number that changes with every change of the session. */
  version: number;
}

/**
 * Uses a replay session; `onPlayed` is called with the newest event that was played, or with null before the first
 * event.
 */
export function useReplay(
  transactionId: string,
  offsets: LinkedClockOffsets,
  onPlayed: (played: NewestEvent | null) => void,
): ShownReplay {
  const { daemon, link, go } = usePage();
  const [replay, setReplay] = useState<Replay | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [version, setVersion] = useState(0);
  const listener = useRef(onPlayed);
  listener.current = onPlayed;
  const settings = useRef<NewSessionSettings>({});
  settings.current = buildSessionSettings(link, offsets);
  const position = useRef(link.position);
  position.current = link.position;
  /** Id of the session that this page has created; other people do not know it until its link is copied. */
  const own = useRef<string | null>(null);
  const current = useRef<Replay | null>(null);

  const follow = useCallback(
    (sessionId: string): Replay => {
      let isAsked = false;
      const kept = createLinkKeeper();
      const opened = openReplay({
        daemon,
        sessionId,
        transactionId,
        onChange() {
          // A busy replay changes more often than the screen is drawn, so changes are shown once per frame.
          if (isAsked) return;
          isAsked = true;
          requestAnimationFrame(() => {
            isAsked = false;
            setVersion((last) => last + 1);
            const change = opened.session && current.current === opened ? kept(opened.session) : null;
            if (change) go(change, false);
          });
        },
        onPlayed: (played) => listener.current(played),
      });
      current.current?.close();
      current.current = opened;
      setReplay(opened);
      return opened;
    },
    [daemon, transactionId, go],
  );

  useEffect(() => {
    if (link.session === null || link.session === own.current) return;
    own.current = null;
    follow(link.session);
  }, [link.session, follow]);

  useEffect(() => {
    const leave = () => {
      if (own.current !== null && !copied.has(own.current)) void deleteSession(daemon, own.current);
    };
    window.addEventListener('pagehide', leave);
    return () => {
      window.removeEventListener('pagehide', leave);
      leave();
      current.current?.close();
      current.current = null;
    };
  }, [daemon, transactionId]);

  const isLeft = useRef(false);
  // The cleanup of a layout effect runs when the view is left; a cleanup of `useEffect` runs one frame later.
  useLayoutEffect(() => {
    isLeft.current = false;
    return () => {
      isLeft.current = true;
    };
  }, []);

  const make = useCallback(
    async (more: NewSessionSettings = {}) => {
      const before = own.current;
      try {
        const { session_id } = await createSession(daemon, transactionId, { ...settings.current, ...more });
        if (isLeft.current) {
          void deleteSession(daemon, session_id);
          return null;
        }
        if (before !== null && !copied.has(before)) void deleteSession(daemon, before);
        own.current = session_id;
        setFailure(null);
        go({ session: session_id });
        return follow(session_id);
      } catch (error) {
        setFailure(toFailure(error));
        return null;
      } finally {
        opening.current = null;
      }
    },
    [daemon, transactionId, go, follow],
  );
  /** The session that is being created, so that two keys in quick succession create only one. */
  const opening = useRef<Promise<Replay | null> | null>(null);
  const renew = useCallback(
    (more?: NewSessionSettings) => {
      opening.current ??= make(more);
      return opening.current;
    },
    [make],
  );
  const open = useCallback(async () => {
    const known = current.current;
    return known && known.failure?.code !== 'session_not_found' ? known : renew();
  }, [renew]);
  const restore = useCallback(async () => {
    const gone = current.current?.session;
    const place = gone
      ? BigInt(Math.round(current.current!.playhead.computePositionNs(performance.now())))
      : position.current;
    const opened = await renew(gone ? toSettings(gone) : {});
    if (opened && place !== null && place > 0n) await opened.seek({ position_ns: place });
  }, [renew]);
  return { replay, failure, open, renew, restore, version };
}

/**
 * Creates a function that returns the change of the link that stores a session's settings and position; null if both
 * are the same as in the previous call.
 */
function createLinkKeeper() {
  let before: { settings: string; position: bigint | null } | null = null;
  return (session: ReceivedSession) => {
    const settings = linkSettings(session);
    const text = JSON.stringify(settings, (_, value) => (typeof value === 'bigint' ? String(value) : value));
    const positionNs = BigInt(session.position_ns);
    const position = session.state === 'playing' ? (before?.position ?? null) : positionNs > 0n ? positionNs : null;
    const isFirst = before === null;
    const isMoved = before?.position !== position;
    const isChanged = before?.settings !== text;
    before = { settings: text, position };
    if (!isChanged && !isMoved) return null;
    // At first, the link gets only the session's speed and gaps; the link's other settings stay until the session is
    // changed.
    const { speed, max_gap } = settings;
    return { position, ...(isFirst ? { speed, max_gap } : isChanged && settings) };
  };
}

/** Returns the settings of a session, for use in another session. */
function toSettings(session: ReceivedSession): NewSessionSettings {
  const { speed_factor, only, clock } = session;
  const offsets = clock.filter(({ source }) => source !== 'none');
  return {
    speed_factor,
    only,
    extra_latency_ns: BigInt(session.extra_latency_ns),
    timeout_ns: session.timeout_ns === null ? null : BigInt(session.timeout_ns),
    max_gap_ns: session.max_gap_ns === null ? null : BigInt(session.max_gap_ns),
    clock_offsets_ns: Object.fromEntries(offsets.map(({ node, offset_ns }) => [node, BigInt(offset_ns)])),
  };
}

/** Ids of sessions whose link was copied; another person may watch them. */
const copied = new Set<string>();

/** Prevents a session from being deleted when this page leaves it. */
export function keepSession(sessionId: string): void {
  copied.add(sessionId);
}
