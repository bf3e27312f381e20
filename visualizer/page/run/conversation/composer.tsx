import { useSignal } from '@preact/signals';
import { navigate } from '../../app/router.ts';
import { dropDrafts } from '../../data/drafts.ts';
import { describeRefusal, startRun } from '../../data/send-command.ts';
import { showSafely } from '../../render/show-safely.ts';
import { DraftField, useDraft } from '../../ui/draft-field.tsx';
import { submitOnEnter } from '../../ui/form.tsx';
import { useDesk } from '../desk.ts';

/** Sends a message to the run or, after its end, starts a new run that continues it. */
export function Composer() {
  const desk = useDesk();
  const { model } = desk;
  const key = `${model.runId}/message`;
  const draft = useDraft(key);
  const busy = useSignal(false);
  const problem = useSignal('');
  const ended = model.ended.value;
  const view = model.view.value;
  const asks = view?.open.some(({ kind, runId }) => kind === 'approval' && runId === model.runId) === true;
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    const message = draft.value.trim();
    if (message === '' || busy.peek()) return;
    busy.value = true;
    const refusal = ended ? await continueRun(message) : await desk.act('send', { message });
    problem.value = refusal ?? '';
    if (refusal === null) {
      draft.value = '';
      dropDrafts(key);
    }
    busy.value = false;
  };
  const continueRun = async (input: string): Promise<string | null> => {
    try {
      const agent = view === null ? {} : { agent: view.agent };
      const next = await startRun({ ...agent, input, continues: model.runId });
      navigate(`/runs/${encodeURIComponent(next.runId)}`);
      return null;
    } catch (error) {
      return describeRefusal(error);
    }
  };
  return (
    <form class="composer" onSubmit={event => void send(event)} onKeyDown={submitOnEnter}>
      <DraftField
        label="Message"
        spoken
        draft={draft}
        draftKey={key}
        rows={2}
        placeholder="Message to the agent"
      />
      <button type="submit" aria-busy={busy.value}>
        {ended ? 'Continue in a new run' : 'Send'}
      </button>
      {asks && !ended ? (
        <p class="muted hint">
          A message waits until the calls are decided, unless the agent lets it replace them.
        </p>
      ) : null}
      <p class="problem" role="alert">
        {showSafely(problem.value)}
      </p>
    </form>
  );
}
