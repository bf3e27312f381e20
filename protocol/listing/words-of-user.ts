/* What a user wrote, apart from what clients add to the user's messages. Without schemas: the page loads it. */
import type { Item } from '../item.ts';

/** What the user said after the model's last answer, else the first text of the user. */
export function wordsOfUser(input: readonly Item[]): string {
  let first = '';
  let said = '';
  let isAnswered = false;
  for (const item of input) {
    if (item.type !== 'message') continue;
    isAnswered ||= item.role === 'assistant';
    for (const part of item.role === 'user' ? item.content : []) {
      if (part.type !== 'text' || part.text.trim() === '') continue;
      first ||= part.text;
      if ((said !== '' && !isAnswered) || isAdded(part.text)) continue;
      said = afterFiles(part.text);
      isAnswered = false;
    }
  }
  return said || first;
}

const ELEMENT = /^<([A-Za-z][\w-]{0,63})[\s>]/;

/** Whether a client wrote the text: an element, such as `<environment_context>…</environment_context>`, a tag, or a notice. */
export function isAdded(text: string): boolean {
  const trimmed = text.trim();
  const [, name] = ELEMENT.exec(trimmed) ?? [];
  if (name !== undefined && trimmed.endsWith(`</${name}>`)) return true;
  if (/^<\/?[A-Za-z][^<>]*>$/.test(trimmed)) return true;
  return NOTICES.some(notice => trimmed.startsWith(notice));
}

/** Without the elements on lines before the user's words, in which pi names the files that come with them. */
function afterFiles(text: string): string {
  let rest = text.trimStart();
  for (;;) {
    const [, name] = ELEMENT.exec(rest) ?? [];
    const end = name === undefined ? -1 : rest.indexOf(`</${name}>\n`);
    const after = end === -1 ? '' : rest.slice(rest.indexOf('\n', end)).trimStart();
    if (after === '') return rest;
    rest = after;
  }
}

/** How the other texts of Claude Code, Codex and opencode begin that are not the user's. */
const NOTICES = [
  '[Request interrupted by user',
  '# AGENTS.md instructions for ',
  'Called the Read tool with the following input:',
  'Image read successfully',
];
