import { h } from '../render/element.ts';

const KEY = 'agentchart.by';

/** Who decides here: goes into the journal with every decision; nothing when the name is left empty. */
export function actingAs(): { by?: string } {
  const name = localStorage.getItem(KEY)?.trim() ?? '';
  return name === '' ? {} : { by: name };
}

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
