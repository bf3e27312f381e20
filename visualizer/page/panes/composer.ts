import type { Act } from '../commands/act.ts';
import { actingAs } from '../commands/acting-as.ts';
import { fill, h } from '../render/element.ts';
import type { RunModel } from '../run-model.ts';
import { type RunView, request } from '../runs-api.ts';
import type { Pane } from './conversation-pane.ts';
import { makeAction } from './panels.ts';

/** The form that sends a message, or after the end of the run starts a new run that continues it. */
export function makeComposer(runId: string, act: Act): Pane<RunModel> {
  const area = h('textarea', { id: 'message', rows: 2, placeholder: 'Message to the agent' });
  const label = h('label', { for: 'message', class: 'spoken' }, 'Message');
  const hint = h('p', { class: 'muted hint' });
  const problem = h('p', { class: 'problem', role: 'alert' });
  const button = h('button', {}, 'Send');
  let view: RunView | null = null;
  let ended = false;

  const submitMessage = async (): Promise<string | null> => {
    const message = area.value.trim();
    if (message === '') return null;
    const refusal = ended ? await continueRun(message) : await act('send', { message });
    if (refusal === null) area.value = '';
    return refusal;
  };
  const continueRun = async (input: string): Promise<string | null> => {
    try {
      const agent = view === null ? {} : { agent: view.agent };
      const next = await request<RunView>('/runs', { ...agent, ...actingAs(), input, continues: runId });
      location.assign(`/runs/${encodeURIComponent(next.runId)}`);
      return null;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  };
  const send = makeAction(button, problem, submitMessage);
  const submit = (event: Event): void => {
    event.preventDefault();
    void send();
  };
  area.addEventListener('keydown', event => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event);
  });
  return {
    element: h('form', { class: 'composer', onsubmit: submit }, label, area, button, hint, problem),
    update(model) {
      view = model.view;
      ended = model.hasEnded;
      const gated = view?.calls.some(({ status }) => status === 'gated') === true;
      button.textContent = ended ? 'Continue in a new run' : 'Send';
      fill(hint, [ended, gated], () =>
        gated && !ended
          ? 'A message replaces the calls that need approval, unless the agent queues messages.'
          : null,
      );
    },
  };
}
