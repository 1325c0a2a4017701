/** A link to the lanes of a transaction, which a browser can also copy, or open in another tab. */
import type { ComponentChildren } from 'preact';
import { formatName } from '../../model/wording/names.ts';
import { applyChange, formatLink } from '../link/link.ts';
import { usePage } from './context.ts';

interface Props {
  transaction: string;
  /** The event that is selected in the lanes. */
  event?: string | null;
  /** The time span that the lanes show, in nanoseconds since the epoch; all of the transaction's time if omitted. */
  zoom?: { from: bigint; to: bigint };
  /** Whether the link looks like the button of the main action. */
  isPrimary?: boolean;
  /** The text; the transaction's name if omitted. */
  children?: ComponentChildren;
}

export function TransactionLink({ transaction, event = null, zoom, isPrimary = false, children }: Props) {
  const { link, go } = usePage();
  const part = zoom && { zoom_from: zoom.from, zoom_to: zoom.to };
  const change = { view: 'lanes', transaction, trace: null, event, session: null, ...part } as const;
  const onClick = (click: MouseEvent) => {
    // With these keys a browser opens another tab or window, or saves the page.
    if (click.ctrlKey || click.metaKey || click.shiftKey || click.altKey) return;
    click.preventDefault();
    go(change);
  };
  return (
    <a href={formatLink(applyChange(link, change).link)} class={isPrimary ? 'primary' : undefined} onClick={onClick}>
      {children ?? formatName(transaction)}
    </a>
  );
}
