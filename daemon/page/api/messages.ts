/** Reads server-sent events from a text that comes in parts, as the HTML standard defines them. */

export interface EventSourceMessage {
  /** Undefined if the message has no name. */
  event: string | undefined;
  /** Undefined if the message has no id. */
  id: string | undefined;
  data: string;
}

/**
 * Matches the end of a line. A carriage return at the end of a part does not match, because the next part may begin
 * with its line feed.
 */
const LINE_END = /\r\n|\n|\r(?!$)/;
const FIELD = /^(event|id|data)(?:: ?(.*))?$/s;

/** Returns a function that takes the next part of the text and calls `onMessage` with each message that is complete. */
export function createMessageReader(onMessage: (message: EventSourceMessage) => void): (part: string) => void {
  let rest = '';
  let fields: Partial<EventSourceMessage> = {};
  return (part) => {
    const lines = (rest + part).split(LINE_END);
    rest = lines.pop()!;
    for (const line of lines) {
      const [, name, value = ''] = FIELD.exec(line) ?? [];
      if (name === 'data') fields.data = fields.data === undefined ? value : `${fields.data}\n${value}`;
      else if (name === 'event') fields.event = value || undefined;
      else if (name === 'id' && !value.includes('\0')) fields.id = value;
      if (line !== '') continue;
      if (fields.data !== undefined) onMessage({ event: fields.event, id: fields.id, data: fields.data });
      fields = {};
    }
  };
}
