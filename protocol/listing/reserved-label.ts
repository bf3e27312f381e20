import { EngineError } from '../error.ts';
import { type Labels, readLabels } from './label.ts';

/** The label of a chat's runs; its value is the chat's id. */
const CHAT = 'chat';

/**
 * The names of the labels that this project sets itself. Callers can list runs by them and cannot set them: not in the
 * labels of a token, of what `authorize` returns, or of a new run.
 */
export const RESERVED_LABELS: readonly string[] = [CHAT];

/** Returns labels that a caller gives to runs. Throws `input-invalid` for a value that is not labels, and for a reserved name. */
export function readGivenLabels(value: unknown): Labels {
  const labels = readLabels(value);
  const reserved = RESERVED_LABELS.find(name => Object.hasOwn(labels, name));
  if (reserved === undefined) return labels;
  throw new EngineError(
    'input-invalid',
    `The label "${reserved}" cannot be given: its name is reserved for the chat of a run. Choose another name; reserved are: ${RESERVED_LABELS.join(', ')}.`,
  );
}

/**
 * The labels of a chat's runs: the chat's id and the caller's labels, so that a caller finds only its own chats.
 * Throws `input-invalid` for an id that no label can have, and for labels that a caller cannot give.
 */
export function chatLabels(chatId: string, given: Labels): Labels {
  return readLabels({ ...readGivenLabels(given), [CHAT]: chatId });
}

/** The chat that a run with these labels belongs to. */
export function chatOf(labels: Labels): string | undefined {
  return Object.hasOwn(labels, CHAT) ? labels[CHAT] : undefined;
}

/** The labels without the reserved ones: those that a caller gave. */
export function givenLabelsOf(labels: Labels): Labels {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => !RESERVED_LABELS.includes(name)));
}
