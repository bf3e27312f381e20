import { h } from '../render/element.ts';

type Panel = { label: string; primary?: boolean; make(): HTMLElement };

/** Buttons that each open a panel below, one at a time; `direct` buttons come first and act at once. */
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

/** A `<details>` element whose content is created when it is first opened. */
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

/**
 * Makes a function that runs an action once at a time: `button` is busy meanwhile, and `problem` shows the message that
 * `run` resolves to, if it is not `null`.
 */
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
