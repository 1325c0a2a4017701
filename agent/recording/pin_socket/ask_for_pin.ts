/** Asks the agent that records into a folder to change a pin. */
import { connect } from 'node:net';
import { join } from 'node:path';
import { PIN_SOCKET, PIN_TIMEOUT_MS, type PinAnswer, type PinMessage, pinAnswer, writePinMessage } from './protocol.ts';

/** Maximum length of an answer. Agents never send longer answers. */
const ANSWER_BYTES_MAX = 65_536;

/** Sends a request to the agent; resolves to the agent's answer, or to the reason why the agent gave no answer. */
export async function askForPin(
  folder: string,
  message: PinMessage,
  timeoutMs = PIN_TIMEOUT_MS,
): Promise<PinAnswer | string> {
  const socket = connect(join(folder, PIN_SOCKET), () => socket.write(writePinMessage(message)));
  const timer = setTimeout(() => socket.destroy(new Error('it does not answer')), timeoutMs);
  try {
    let text = '';
    for await (const chunk of socket.setEncoding('utf8')) {
      text += chunk;
      if (text.length > ANSWER_BYTES_MAX) return 'it answers with something else';
    }
    return text === '' ? 'it closed the connection' : parseAnswer(text);
  } catch (error) {
    const { code, message: reason } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' || code === 'ECONNREFUSED' ? 'no agent is running' : reason;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

function parseAnswer(text: string): PinAnswer | string {
  try {
    return pinAnswer.parse(JSON.parse(text));
  } catch {
    return 'it answers with something else';
  }
}
