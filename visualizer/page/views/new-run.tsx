import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { omitUndefined } from '../../../protocol/json.ts';
import { nameModels } from '../../describe-event.ts';
import { dropDrafts } from '../data/drafts.ts';
import { type AgentSummary, request } from '../data/request.ts';
import { startRun } from '../data/send-command.ts';
import { showSafely } from '../render/show-safely.ts';
import { DraftField, useDraft } from '../ui/draft-field.tsx';
import { submitOnEnter } from '../ui/form.tsx';

const DRAFT = 'new-run';

/** The form that starts a run. `onStarted` gets its id. */
export function NewRun({ onStarted }: { onStarted(runId: string): void }) {
  const agents = useSignal<AgentSummary[]>([]);
  const chosen = useSignal('');
  const input = useDraft(DRAFT);
  const problem = useSignal('');
  const busy = useSignal(false);
  const report = (error: unknown): void => {
    problem.value = error instanceof Error ? error.message : String(error);
  };
  useEffect(() => {
    request<{ agents: AgentSummary[] }>('/agents').then(({ agents: served }) => {
      agents.value = served;
      chosen.value = served[0]?.name ?? '';
    }, report);
  }, []);
  const start = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy.peek()) return;
    busy.value = true;
    problem.value = '';
    try {
      const agent = omitUndefined({ agent: chosen.value || undefined });
      const run = await startRun({ input: input.value, ...agent });
      dropDrafts(DRAFT);
      onStarted(run.runId);
    } catch (error) {
      report(error);
    }
    busy.value = false;
  };
  const agent = agents.value.find(({ name }) => name === chosen.value);
  return (
    <form class="new-run" onSubmit={event => void start(event)} onKeyDown={submitOnEnter}>
      <h2>New run</h2>
      <div class="field">
        <label for="agent">Agent</label>
        <select
          id="agent"
          name="agent"
          value={chosen.value}
          onChange={event => {
            chosen.value = event.currentTarget.value;
          }}
        >
          {agents.value.map(({ name }) => (
            <option key={name} value={name}>
              {showSafely(name)}
            </option>
          ))}
        </select>
        <p class="muted hint">{agent === undefined ? '' : describeAgent(agent)}</p>
      </div>
      <DraftField label="Input" draft={input} draftKey={DRAFT} rows={4} required />
      <button type="submit" class="primary" aria-busy={busy.value}>
        Start
      </button>
      <p class="problem" role="alert">
        {problem.value}
      </p>
    </form>
  );
}

function describeAgent({ version, models, tools }: AgentSummary): string {
  return [
    ...(version === undefined ? [] : [`version ${version}`]),
    nameModels(models) || 'no model',
    ...(tools === undefined ? [] : [tools === 1 ? '1 tool' : `${tools} tools`]),
  ].join(' · ');
}
