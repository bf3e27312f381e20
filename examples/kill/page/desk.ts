import { h } from '../../../visualizer/page/render/element.ts';

export type DeskOptions = { approve(): void; kill(): void; again(): void };

export type Desk = { element: HTMLElement; update(desk: { asking: number; kills: number }): void };

/** What the person at the page can do. */
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
      asked.textContent = asking === 0 ? '' : asking === 1 ? 'One side asks' : 'Both sides ask';
      element.classList.toggle('asks', asking > 0);
      count.textContent = String(kills);
      noun.textContent = kills === 1 ? 'process killed' : 'processes killed';
    },
  };
}
