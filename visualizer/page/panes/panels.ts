import { h } from '../render/element.ts';

export type Panel = { label: string; primary?: boolean; make(): HTMLElement };

/** Buttons that each open a panel below them, one at a time. */
export function makePanels(panels: readonly Panel[], direct: readonly HTMLElement[] = []): HTMLElement {
  const place = h('div', { class: 'panel' });
  const buttons = panels.map(({ label, make }) => {
    const button = h(
      'button',
      {
        type: 'button',
        'aria-expanded': 'false',
        onclick: () => {
          const opens = button.getAttribute('aria-expanded') === 'false';
          for (const other of buttons) other.setAttribute('aria-expanded', 'false');
          button.setAttribute('aria-expanded', String(opens));
          place.replaceChildren(...(opens ? [make()] : []));
          if (opens) place.querySelector<HTMLElement>('textarea, input')?.focus();
        },
      },
      label,
    );
    return button;
  });
  return h('div', { class: 'panels' }, h('div', { class: 'buttons' }, ...direct, ...buttons), place);
}

/** `<details>` whose content is made when it is first opened. */
export function lazyDetails(
  summary: readonly (Node | string)[],
  make: () => Node,
  open = false,
): HTMLDetailsElement {
  const details = h('details', {}, h('summary', {}, ...summary));
  let made = false;
  const show = (): void => {
    if (made || !details.open) return;
    made = true;
    details.append(h('div', { class: 'opened' }, make()));
  };
  details.addEventListener('toggle', show);
  details.open = open;
  show();
  return details;
}

/** Runs an action with its button held, and says below it why it was refused. */
export function makeAction(
  button: HTMLButtonElement,
  problem: HTMLElement,
  run: () => Promise<string | null>,
): () => Promise<void> {
  return async () => {
    if (button.getAttribute('aria-busy') === 'true') return;
    button.setAttribute('aria-busy', 'true');
    problem.textContent = '';
    problem.textContent = (await run()) ?? '';
    button.removeAttribute('aria-busy');
  };
}
