import { makeAction } from '../panes/panels.ts';
import { h, type View } from '../render/element.ts';
import type { RunView } from '../runs-api.ts';
import type { Act } from './act.ts';

/** The buttons that control a run. The elements are never replaced, so that a click in progress is not lost. */
export function makeButtons(act: Act, problem: HTMLElement): View<RunView> {
  const make = (label: string, command: string): HTMLElement => {
    const button = h('button', { type: 'button' }, label);
    button.addEventListener(
      'click',
      makeAction(button, problem, () => act(command)),
    );
    return button;
  };
  const resume = make('Resume', 'resume');
  const pause = make('Pause', 'pause');
  const unpause = make('Unpause', 'unpause');
  const step = make('Step', 'step');
  const cancel = makeCancel(act, problem);
  const all = [resume, pause, unpause, step, cancel];
  for (const button of all) button.hidden = true;
  return {
    element: h('div', { class: 'buttons' }, ...all),
    update({ status, paused, driver, availableAgent }) {
      const active = status === 'running' || status === 'waiting';
      resume.hidden = status !== 'running' || driver !== null || !availableAgent;
      pause.hidden = !active || paused;
      unpause.hidden = !active || !paused;
      step.hidden = cancel.hidden = !active;
    },
  };
}

/** Cancels on the second click; the first asks for confirmation. */
function makeCancel(act: Act, problem: HTMLElement): HTMLElement {
  const cancel = h('button', { type: 'button', class: 'danger' }, 'Cancel run');
  const send = makeAction(cancel, problem, () => act('cancel'));
  let asked = false;
  const ask = (now: boolean): void => {
    asked = now;
    cancel.classList.toggle('asking', now);
    cancel.textContent = now ? 'Really cancel?' : 'Cancel run';
  };
  cancel.addEventListener('click', () => {
    if (!asked) return ask(true);
    ask(false);
    void send();
  });
  cancel.addEventListener('blur', () => ask(false));
  return cancel;
}
