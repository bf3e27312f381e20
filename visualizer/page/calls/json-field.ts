import type { JsonValue } from '../../../protocol/json.ts';
import { h } from '../render/element.ts';
import { formatJson } from '../render/format.ts';
import { showSafely } from '../render/show-safely.ts';
import { diffLines } from './diff-lines.ts';

type JsonField = { element: HTMLElement; read(): { value: JsonValue } | { problem: string } };

let fields = 0;

/** A JSON editor. With `before`, it shows the changes against it below the text. */
export function makeJsonField(label: string, start: string, before?: JsonValue): JsonField {
  fields += 1;
  const id = `json-${fields}`;
  const changes = h('div', { class: 'diff', 'aria-live': 'polite' });
  const rows = Math.min(16, Math.max(3, start.split('\n').length));
  const area = h('textarea', {
    id,
    rows,
    spellcheck: 'false',
    autocapitalize: 'off',
    oninput: () => compare(),
  });
  area.value = start;
  const read = (): ReturnType<JsonField['read']> => {
    try {
      return { value: JSON.parse(area.value) };
    } catch (error) {
      const what = error instanceof Error ? error.message : String(error);
      return { problem: `Invalid JSON: ${what}. Put text in "quotes".` };
    }
  };
  const compare = (): void => {
    if (before === undefined) return;
    const now = read();
    if ('problem' in now)
      return changes.replaceChildren(h('p', { class: 'problem' }, showSafely(now.problem)));
    const lines = diffLines(JSON.stringify(before, null, 2), JSON.stringify(now.value, null, 2));
    if (lines.every(({ kind }) => kind === 'same')) {
      return changes.replaceChildren(h('p', { class: 'muted' }, 'No changes yet.'));
    }
    changes.replaceChildren(
      h(
        'ol',
        { 'aria-label': 'Changes' },
        ...lines.map(({ kind, text }) =>
          h('li', { class: `diff-line ${kind}` }, MARKS[kind], showSafely(text)),
        ),
      ),
    );
  };
  compare();
  return { element: h('div', { class: 'field' }, h('label', { for: id }, label), area, changes), read };
}

const MARKS = { same: '  ', removed: '− ', added: '+ ' } as const;

/** The initial text for a JSON editor. */
export function editableJson(value: JsonValue): string {
  return typeof value === 'string' ? JSON.stringify(value) : formatJson(value);
}
