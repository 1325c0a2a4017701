/**
 * How a list of names is written as one text, in a parameter of the API and in an option of a command. A comma separates
 * names. Backslashes count before a comma only: two stand for one, and one that is left makes the comma a part of the
 * name. So names without a comma are written as they are.
 */

/** The names of a list, with the spaces around them. */
export function parseListItems(list: string): string[] {
  const items: string[] = [];
  let item = '';
  let from = 0;
  for (let comma = list.indexOf(','); comma >= 0; comma = list.indexOf(',', from)) {
    const count = countBackslashesBefore(list, comma, from);
    item += list.slice(from, comma - Math.ceil(count / 2));
    from = comma + 1;
    if (count % 2 === 1) {
      item += ',';
      continue;
    }
    items.push(item);
    item = '';
  }
  return [...items, item + list.slice(from)];
}

/**
 * Lists the names that a list may stand for: names may contain commas or spaces, so untrimmed items and the whole list
 * count too.
 */
export function listPossibleNames(list: string): string[] {
  const items = parseListItems(list);
  // A name may consist of spaces.
  if (items.length === 1 && list.trim() === '') return items;
  return [...items.map((item) => item.trim()), ...items, items.join()];
}

/** Writes a name as a list of one. */
export function escapeListItem(name: string): string {
  const parts = name.split(',');
  return parts
    .map((part, i) => (i < parts.length - 1 ? part + '\\'.repeat(countBackslashesBefore(part, part.length, 0)) : part))
    .join('\\,');
}

function countBackslashesBefore(text: string, end: number, from: number): number {
  let start = end;
  while (start > from && text[start - 1] === '\\') start--;
  return end - start;
}
