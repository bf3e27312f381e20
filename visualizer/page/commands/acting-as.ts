import { h } from '../render/element.ts';

const KEY = 'agentchart.by';

/** The person's name, which is journaled with every decision; empty if no name is set. */
export function actingAs(): { by?: string } {
  const name = localStorage.getItem(KEY)?.trim() ?? '';
  return name === '' ? {} : { by: name };
}

/** The field for the person's name, kept in `localStorage`. */
export function makeNameField(): HTMLElement {
  const input = h('input', {
    type: 'text',
    name: 'by',
    maxlength: 80,
    placeholder: 'your name',
    autocomplete: 'name',
    value: localStorage.getItem(KEY) ?? '',
    oninput: () => localStorage.setItem(KEY, input.value),
  });
  return h('label', { class: 'acting' }, h('span', {}, 'Deciding as'), input);
}
