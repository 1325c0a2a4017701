/** Controls that are folded on a narrow screen, so that the answer comes first. */
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

/** Screens that are at least this wide always show the controls; there, the style sheet hides the summary. */
const WIDE = '(min-width: 40.01rem)';

export function Fold({ title, children }: { title: string; children: ComponentChildren }) {
  const element = useRef<HTMLDetailsElement>(null);
  useLayoutEffect(() => {
    const wide = matchMedia(WIDE);
    const follow = () => {
      element.current!.open = wide.matches;
    };
    follow();
    wide.addEventListener('change', follow);
    return () => wide.removeEventListener('change', follow);
  }, []);
  return (
    <details ref={element} class="fold">
      <summary>{title}</summary>
      {children}
    </details>
  );
}
