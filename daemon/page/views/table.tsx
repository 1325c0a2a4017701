/** A table whose columns have headings. */
import type { ComponentChildren } from 'preact';

/**
 * Heading of a column: `number` aligns the column to the right, and `spoken` shows the heading only to screen readers.
 */
export type Heading = string | readonly [text: string, kind: 'number' | 'spoken'];

interface Props {
  caption?: ComponentChildren;
  headings: readonly Heading[];
  /** The rows. */
  children: ComponentChildren;
}

export function Table({ caption, headings, children }: Props) {
  return (
    <table>
      {caption && <caption>{caption}</caption>}
      <thead>
        <tr>
          {headings.map((heading) => {
            const [text, kind] = typeof heading === 'string' ? [heading] : heading;
            return (
              <th scope="col" key={text} class={kind === 'number' ? kind : undefined}>
                {kind === 'spoken' ? <span class={kind}>{text}</span> : text}
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}
