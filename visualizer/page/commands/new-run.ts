import { omitUndefined } from '../../../protocol/json.ts';
import { nameModels } from '../../describe-event.ts';
import { makeAction } from '../panes/panels.ts';
import { fill, h } from '../render/element.ts';
import { type AgentSummary, type RunView, request } from '../runs-api.ts';

/** The form that starts a run and opens its page. */
export function makeNewRun(): HTMLElement {
  const choice = h('select', { id: 'agent', name: 'agent' });
  const about = h('p', { class: 'muted hint' });
  const input = h('textarea', { id: 'input', name: 'input', rows: 3, required: true });
  const button = h('button', { class: 'primary' }, 'Start');
  const problem = h('p', { class: 'problem', role: 'alert' });
  const start = makeAction(button, problem, async () => {
    try {
      const body = { input: input.value, ...omitUndefined({ agent: choice.value || undefined }) };
      const run = await request<RunView>('/runs', body);
      location.assign(`/runs/${encodeURIComponent(run.runId)}`);
      return null;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  });
  const load = async (): Promise<void> => {
    const { agents } = await request<{ agents: AgentSummary[] }>('/agents');
    const describe = (): void => {
      const agent = agents.find(({ name }) => name === choice.value);
      fill(about, [agent], () => (agent === undefined ? null : describeAgent(agent)));
    };
    choice.replaceChildren(...agents.map(({ name }) => h('option', { value: name }, name)));
    choice.addEventListener('change', describe);
    describe();
  };
  load().catch(error => {
    problem.textContent = error instanceof Error ? error.message : String(error);
  });
  return h(
    'form',
    {
      class: 'new-run',
      onsubmit: event => {
        event.preventDefault();
        void start();
      },
    },
    h('h2', {}, 'New run'),
    h('label', { for: 'agent' }, 'Agent'),
    choice,
    about,
    h('label', { for: 'input' }, 'Input'),
    input,
    button,
    problem,
  );
}

function describeAgent({ version, models, tools }: AgentSummary): string {
  return [
    ...(version === undefined ? [] : [`version ${version}`]),
    nameModels(models) || 'no model',
    ...(tools === undefined ? [] : [tools === 1 ? '1 tool' : `${tools} tools`]),
  ].join(' · ');
}
