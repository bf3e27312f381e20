import type { JsonValue } from '../../../protocol/json.ts';
import type { JsonOpenItem } from '../data/request.ts';

/** What a decision is about, by its name and its value: a call and its input, or the answer. */
export function subjectOf(open: JsonOpenItem): { name: string; value: JsonValue; label: string } {
  if (open.kind === 'review') return { name: 'answer', value: open.output ?? open.answer, label: 'Answer' };
  return { name: open.name, value: open.input, label: 'Input' };
}
