import { h } from './element.ts';

/** By the number of sides that ask for approval. */
const ASKING = ['', 'One side asks', 'Both sides ask'];

type DeskOptions = { approve(): void; kill(): void; again(): void };

type Desk = { element: HTMLElement; update(desk: { asking: number; kills: number }): void };

/** Creates the controls: approve, kill both processes, run again. */
export function makeDesk({ approve, kill, again }: DeskOptions): Desk {
  const yes = h('button', { type: 'button', class: 'approve', onclick: approve }, 'Approve');
  const asked = h('p', { class: 'asked', 'aria-live': 'polite' });
  const count = h('strong', {});
  const noun = h('span', {});
  const element = h(
    'section',
    { class: 'desk', 'aria-label': 'You' },
    h('div', { class: 'approval' }, asked, yes),
    h(
      'button',
      { type: 'button', class: 'kill', 'aria-label': 'kill -9: both processes', onclick: kill },
      h('span', {}, 'kill -9'),
    ),
    h('p', { class: 'count', role: 'status' }, count, ' ', noun),
    h('button', { type: 'button', class: 'again', onclick: again }, 'Run again'),
  );
  return {
    element,
    update({ asking, kills }) {
      yes.setAttribute('aria-disabled', String(asking === 0));
      asked.textContent = ASKING[asking] ?? '';
      element.classList.toggle('asks', asking > 0);
      count.textContent = String(kills);
      noun.textContent = kills === 1 ? 'process killed' : 'processes killed';
    },
  };
}
