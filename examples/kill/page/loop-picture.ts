import type { DemoState } from '../demo-state.ts';
import { h } from './element.ts';

/** The source of plain-loop.ts, inserted when the page is built. */
declare const LOOP_SOURCE: string;

type LoopPicture = { element: HTMLElement; update(plain: DemoState['plain']): void };

/** Shows the source of the plain loop and highlights the current line. */
export function makeLoopPicture(): LoopPicture {
  const lines = LOOP_SOURCE.split('\n').map(line => ({
    line,
    element: h('span', { class: 'line' }, line === '' ? ' ' : line),
  }));
  const code = h('code', {}, ...lines.map(({ element }) => element));
  return {
    element: h('pre', { class: 'loop', tabindex: 0, 'aria-label': 'The source of the plain loop' }, code),
    update({ loop }) {
      const mark = loop === null ? null : MARKS[loop.at];
      for (const { line, element } of lines) {
        const isCurrent = mark !== null && line.includes(mark);
        element.classList.toggle('current', isCurrent);
        if (isCurrent) element.setAttribute('aria-current', 'step');
        else element.removeAttribute('aria-current');
      }
    },
  };
}

const MARKS = {
  model: 'model(transcript)',
  askPerson: 'askPerson(call)',
  refund: 'refund(call)',
  finished: 'return turn.text',
} as const;
