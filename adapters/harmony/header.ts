/** What a message of a reply is, according to its header. Messages of other roles are `ignored`. */
export type MessageKind =
  | { type: 'reasoning' | 'ignored' }
  | { type: 'text'; channel: string }
  | { type: 'call'; name: string };

/** Recipients that are not functions. */
const NOBODY: ReadonlySet<string> = new Set(['', 'all', 'assistant', 'user']);

/**
 * Reads the header of a message. `role` is the text before `<|channel|>`, `channel` the text behind it; both
 * are without `<|constrain|>` and what follows it. The recipient may be in either, with or without `to=` and
 * `functions.`. A message without a channel is for the reader; an unknown channel is not.
 */
export function readHeader(role: string, channel: string): MessageKind {
  const [author = 'assistant'] = wordsOf(role).filter(word => !word.startsWith('to='));
  if (author !== 'assistant') return { type: 'ignored' };
  const recipient = recipientIn(role) || recipientIn(channel);
  if (!NOBODY.has(recipient)) return { type: 'call', name: recipient.replace(/^functions\./, '') };
  const [name = 'final'] = wordsOf(channel);
  return name === 'final' || name === 'commentary' ? { type: 'text', channel: name } : { type: 'reasoning' };
}

function recipientIn(text: string): string {
  const word = wordsOf(text).find(candidate => /^(?:to=|functions\.)/.test(candidate)) ?? '';
  return word.replace(/^to=/, '');
}

function wordsOf(text: string): string[] {
  return text.split(/\s+/).filter(word => word !== '');
}
