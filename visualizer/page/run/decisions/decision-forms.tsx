import { useSignal } from '@preact/signals';
import { omitUndefined } from '../../../../protocol/json.ts';
import { dropDrafts } from '../../data/drafts.ts';
import type { JsonCall } from '../../data/request.ts';
import { showSafely } from '../../render/show-safely.ts';
import { ActionButton } from '../../ui/action-button.tsx';
import { DraftField, readJson, useDraft } from '../../ui/draft-field.tsx';
import { Form } from '../../ui/form.tsx';
import { Panels } from '../../ui/panels.tsx';
import { InputEditor } from '../edits/input-editor.tsx';
import { useAct } from './act.ts';

type CallProps = { call: JsonCall };

const draftOf = ({ runId, callId }: JsonCall): string => `${runId}/${callId}/`;

/** The ways to decide about a call. Decisions carry the digest of the call that is shown. */
export function DecisionForms({ call, unseen }: CallProps & { unseen: boolean }) {
  const sticky = useSignal(false);
  const send = useDecision(call);
  const { digest } = call;
  const always = (): object => (sticky.value ? { sticky: true } : {});
  switch (call.status) {
    case 'gated':
      return (
        <Panels
          panels={[
            { label: 'Edit…', make: () => <EditForm call={call} always={always} /> },
            { label: 'Reject…', make: () => <RejectForm call={call} always={always} /> },
            { label: 'Answer instead…', make: () => <AnswerForm call={call} bound={{ digest }} /> },
          ]}
          after={
            <label class="check">
              <input
                type="checkbox"
                checked={sticky.value}
                onChange={event => {
                  sticky.value = event.currentTarget.checked;
                }}
              />
              {` Also for later calls of ${showSafely(call.name)}`}
            </label>
          }
        >
          <ActionButton class="primary" act={() => send('approve', { digest, ...always() })}>
            Approve
          </ActionButton>
          {unseen ? <span class="mark unseen">not read to the end</span> : null}
        </Panels>
      );
    case 'doubted':
      return (
        <Panels
          panels={[
            { label: 'It happened…', make: () => <HappenedForm call={call} /> },
            { label: 'It failed…', make: () => <FailedForm call={call} /> },
            { label: 'Retry…', make: () => <RetryForm call={call} /> },
          ]}
        />
      );
    default:
      return <AnswerForm call={call} bound={{}} />;
  }
}

/** Sends a decision to the run that made the call. Resolves to a problem or `null`. */
function useDecision(call: JsonCall): (command: string, body: object) => Promise<string | null> {
  const act = useAct();
  return async (command, body) => {
    const problem = await act(command, { callId: call.callId, ...body }, call.runId);
    if (problem === null) dropDrafts(draftOf(call));
    return problem;
  };
}

function EditForm({ call, always }: CallProps & { always(): object }) {
  const send = useDecision(call);
  return (
    <InputEditor
      label="Edited input"
      submit="Approve with changes"
      unchanged="The input is unchanged. Select Approve to approve it as is."
      draftKey={`${draftOf(call)}edit`}
      input={call.input}
      send={async input => {
        await send('approve', { digest: call.digest, input, ...always() });
        return null;
      }}
    />
  );
}

function RejectForm({ call, always }: CallProps & { always(): object }) {
  const key = `${draftOf(call)}reject`;
  const draft = useDraft(key);
  const send = useDecision(call);
  const reject = (): Promise<unknown> =>
    send('reject', {
      digest: call.digest,
      ...omitUndefined({ reason: draft.value.trim() || undefined }),
      ...always(),
    });
  return (
    <Form label="Reject" run={reject}>
      <DraftField label="Reason (shown to the model)" draft={draft} draftKey={key} />
    </Form>
  );
}

function AnswerForm({ call, bound }: CallProps & { bound: object }) {
  const key = `${draftOf(call)}answer`;
  const draft = useDraft(key, '{}');
  const isError = useSignal(false);
  const problem = useSignal('');
  const send = useDecision(call);
  const answer = async (): Promise<void> => {
    const output = readJson(draft.value);
    problem.value = 'problem' in output ? output.problem : '';
    if ('problem' in output) return;
    const marked = omitUndefined({ isError: isError.value || undefined });
    await send('answer', { output: output.value, ...marked, ...bound });
  };
  return (
    <Form label="Answer" run={answer} problem={problem.value}>
      <DraftField label="Result for the model (JSON)" draft={draft} draftKey={key} rows={3} mono />
      {'digest' in bound ? null : <Check checked={isError} label="This is an error" />}
    </Form>
  );
}

function HappenedForm({ call }: CallProps) {
  const key = `${draftOf(call)}happened`;
  const draft = useDraft(key, '{}');
  const problem = useSignal('');
  const send = useDecision(call);
  const resolve = async (): Promise<void> => {
    const output = readJson(draft.value);
    problem.value = 'problem' in output ? output.problem : '';
    if (!('problem' in output)) await send('resolve', { happened: true, output: output.value });
  };
  return (
    <Form label="It happened" run={resolve} problem={problem.value}>
      <p>Records its result. The tool does not run again, and the run continues.</p>
      <DraftField
        label="Its result, which the model reads (JSON)"
        draft={draft}
        draftKey={key}
        rows={3}
        mono
      />
    </Form>
  );
}

function FailedForm({ call }: CallProps) {
  const key = `${draftOf(call)}failed`;
  const draft = useDraft(key);
  const send = useDecision(call);
  return (
    <Form label="It failed" run={() => send('resolve', { failed: draft.value.trim() })}>
      <p>Records that it did not happen. The tool does not run again, and the run continues.</p>
      <DraftField label="Why it failed (shown to the model)" draft={draft} draftKey={key} required />
    </Form>
  );
}

function RetryForm({ call }: CallProps) {
  const force = useSignal(false);
  const send = useDecision(call);
  return (
    <Form label="Retry" run={() => send('resolve', { retry: true, force: force.value })}>
      <p>
        Calls the tool again with the same idempotency key. If the first call happened, only a tool that
        honours the key prevents a repetition.
      </p>
      <Check checked={force} label="Even if an earlier attempt may still act" />
    </Form>
  );
}

function Check({ checked, label }: { checked: { value: boolean }; label: string }) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={checked.value}
        onChange={event => {
          checked.value = event.currentTarget.checked;
        }}
      />{' '}
      {label}
    </label>
  );
}
