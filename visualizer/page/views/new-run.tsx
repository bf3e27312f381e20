import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { omitUndefined } from '../../../protocol/json.ts';
import { navigate } from '../app/router.ts';
import { type AgentSummary, requestServer, runPath } from '../data/request.ts';
import { problemOf, startRun } from '../data/send-command.ts';
import { useRead } from '../data/server-watch.ts';
import { describeListedAgent } from '../render/format.ts';
import { Button } from '../ui/button.tsx';
import { Choice, DraftField, dropDrafts, useDraft } from '../ui/draft-field.tsx';
import { ProblemText } from '../ui/text.tsx';
import { Form } from '../ui/two-presses.tsx';

const DRAFT = 'new-run';

type NewRunProps = { /** The name of the agent to begin with. */ agent: string; onClose(): void };

export function NewRunDialog({ agent: first, onClose }: NewRunProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const chosen = useSignal(first);
  const input = useDraft(DRAFT);
  const { answer, problem } = useRead(() => requestServer<{ agents: AgentSummary[] }>('/agents'), [], {
    once: true,
  });
  useEffect(() => {
    dialog.current?.showModal();
    dialog.current?.querySelector('textarea')?.focus();
  }, []);
  const agents = answer?.agents ?? [];
  const agent = agents.find(({ name }) => name === chosen.value) ?? agents[0];
  const start = async (): Promise<void> => {
    const run = await startRun({ input: input.value, ...omitUndefined({ agent: agent?.name }) });
    dropDrafts(DRAFT);
    navigate(runPath(run.runId));
  };
  return (
    <dialog ref={dialog} class="new-run" aria-labelledby="new-run" onClose={onClose}>
      <Form label="Start" run={() => problemOf(start)}>
        <header>
          <h2 id="new-run">New run</h2>
          <Button class="quiet" label="Close" onClick={() => dialog.current?.close()} />
        </header>
        <div class="field">
          <label for="agent">Agent</label>
          <Choice
            id="agent"
            name="agent"
            value={agent?.name ?? ''}
            options={agents.map(({ name }) => name)}
            onChoose={name => (chosen.value = name)}
          />
          <p class="muted hint">{agent && describeListedAgent(agent)}</p>
        </div>
        <DraftField label="Input" draft={input} draftKey={DRAFT} rows={6} required />
        <ProblemText text={problem} />
      </Form>
    </dialog>
  );
}
