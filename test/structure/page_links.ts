/** Links of Markdown pages: where they lead, and which lead nowhere. */
import { dirname, join } from 'node:path';

/**
 * `PAGE: TARGET` for each relative link that leads to no page and to no other file, and for each anchor that no heading of
 * a page has. `isFile` knows the files that are not pages.
 */
export function brokenLinks(pages: ReadonlyMap<string, string>, isFile: (path: string) => boolean): string[] {
  return [...pages].flatMap(([page, text]) =>
    linksOf(text)
      .filter((target) => {
        const [file = '', anchor] = target.split('#');
        const path = file === '' ? page : join(dirname(page), file);
        const linked = pages.get(path);
        if (anchor === undefined) return linked === undefined && !isFile(path);
        return linked === undefined || !anchorsOf(linked).has(anchor);
      })
      .map((target) => `${page}: ${target}`),
  );
}

/** Targets within the same tree. */
function linksOf(text: string): string[] {
  const prose = withoutFences(text).replaceAll(/`[^`\n]*`/g, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!).filter((target) => !/^\w+:/.test(target));
}

/** As GitHub makes them: a heading that comes again gets a number. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading] of withoutFences(text).matchAll(/^#{1,6} (.+)$/gm)) {
    const anchor = heading!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');
    let numbered = anchor;
    for (let number = 1; anchors.has(numbered); number++) numbered = `${anchor}-${number}`;
    anchors.add(numbered);
  }
  return anchors;
}

function withoutFences(text: string): string {
  return text.replaceAll(/^```[^\n]*\n.*?^```$/gms, '');
}
