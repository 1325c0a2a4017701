/** The replay session of a view: made by the first command, or named by the link. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { PlayedEvent } from '../feed/answers.ts';
import { asFailure, type Failure } from '../feed/failure.ts';
import { createSession, deleteSession, openReplay, type Replay } from '../replay/replay.ts';
import { usePage } from './context.ts';

export interface ShownReplay {
  /** Null until a command has made a session. */
  replay: Replay | null;
  /** Why no session could be made. */
  failure: Failure | null;
  /** Makes a session where there is none; null if that fails. */
  open: () => Promise<Replay | null>;
  /** Changes with every change of the session. */
  version: number;
}

/** `onEvent` is called for each event that is played. */
export function useReplay(transactionId: string, onEvent: (played: PlayedEvent) => void): ShownReplay {
  const { daemon, link, go } = usePage();
  const [replay, setReplay] = useState<Replay | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [version, setVersion] = useState(0);
  const listener = useRef(onEvent);
  listener.current = onEvent;
  /** The session that this page has made, which nobody else knows of until its link is copied. */
  const own = useRef<string | null>(null);

  const follow = useCallback(
    (sessionId: string): Replay => {
      let isAsked = false;
      const opened = openReplay({
        daemon,
        sessionId,
        onChange() {
          // A busy replay changes more often than a screen.
          if (isAsked) return;
          isAsked = true;
          requestAnimationFrame(() => {
            isAsked = false;
            setVersion((last) => last + 1);
          });
        },
        onEvent: (played) => listener.current(played),
      });
      setReplay(opened);
      return opened;
    },
    [daemon],
  );

  useEffect(() => {
    if (link.session === null || link.session === own.current) return;
    own.current = null;
    follow(link.session);
  }, [link.session, follow]);

  useEffect(() => () => replay?.close(), [replay]);
  useEffect(() => {
    const leave = () => {
      if (own.current !== null && !copied.has(own.current)) void deleteSession(daemon, own.current);
    };
    window.addEventListener('pagehide', leave);
    return () => {
      window.removeEventListener('pagehide', leave);
      leave();
    };
  }, [daemon, transactionId]);

  const make = useCallback(async () => {
    try {
      const { session_id } = await createSession(daemon, transactionId);
      own.current = session_id;
      setFailure(null);
      go({ session: session_id });
      return follow(session_id);
    } catch (error) {
      setFailure(asFailure(error));
      return null;
    } finally {
      opening.current = null;
    }
  }, [daemon, transactionId, go, follow]);
  /** Two keys in quick succession make one session. */
  const opening = useRef<Promise<Replay | null> | null>(null);
  const open = useCallback(() => {
    opening.current ??= make();
    return opening.current;
  }, [make]);
  return { replay, failure, open, version };
}

/** Sessions whose link was copied: another person may watch them. */
const copied = new Set<string>();

/** Keeps a session after this page has left it. */
export function keepSession(sessionId: string): void {
  copied.add(sessionId);
}
