import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { canonicalJson, omitUndefined } from '../../../../protocol/json.ts';
import { dropDrafts } from '../../data/drafts.ts';
import type { JsonCall } from '../../data/request.ts';
import { showSafely } from '../../render/show-safely.ts';
import { ActionButton } from '../../ui/action-button.tsx';
import { DraftField, editableJson, JsonField, readJson, useDraft } from '../../ui/draft-field.tsx';
import { useAct } from './act.ts';

type CallProps = { call: JsonCall };
type Panel = { label: string; make(): ComponentChildren };

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

type PanelsProps = { panels: readonly Panel[]; children?: ComponentChildren; after?: ComponentChildren };

/** Buttons that each open a form above them, one at a time; `children` act at once. */
function Panels({ panels, children, after }: PanelsProps) {
  const open = useSignal<string | null>(null);
  const place = useRef<HTMLDivElement>(null);
  const shown = panels.find(({ label }) => label === open.value);
  useEffect(() => {
    if (shown !== undefined) place.current?.querySelector<HTMLElement>('textarea, input')?.focus();
  }, [shown?.label]);
  return (
    <div class="panels">
      <div ref={place} class="panel">
        {shown?.make()}
      </div>
      <div class="buttons">
        {children}
        {panels.map(({ label }) => (
          <button
            key={label}
            type="button"
            aria-expanded={open.value === label}
            onClick={() => {
              open.value = open.peek() === label ? null : label;
            }}
          >
            {label}
          </button>
        ))}
        {after}
      </div>
    </div>
  );
}

type FormProps = { children: ComponentChildren; label: string; run(): Promise<unknown>; problem?: string };

function Form({ children, label, run, problem }: FormProps) {
  const busy = useSignal(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy.peek()) return;
    busy.value = true;
    await run();
    busy.value = false;
  };
  return (
    <form onSubmit={event => void submit(event)}>
      {children}
      <p class="problem" role="alert">
        {problem === undefined ? '' : showSafely(problem)}
      </p>
      <button type="submit" class="primary" aria-busy={busy.value}>
        {label}
      </button>
    </form>
  );
}

function EditForm({ call, always }: CallProps & { always(): object }) {
  const key = `${draftOf(call)}edit`;
  const draft = useDraft(key, editableJson(call.input));
  const problem = useSignal('');
  const send = useDecision(call);
  const approve = async (): Promise<void> => {
    const input = readJson(draft.value);
    if ('problem' in input) return;
    const isSame = canonicalJson(input.value) === canonicalJson(call.input);
    problem.value = isSame ? 'The input is unchanged. Select Approve to approve it as is.' : '';
    if (!isSame) await send('approve', { digest: call.digest, input: input.value, ...always() });
  };
  return (
    <Form label="Approve with changes" run={approve} problem={problem.value}>
      <JsonField label="Edited input" draft={draft} draftKey={key} before={call.input} />
    </Form>
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
      <DraftField label="Its result (JSON)" draft={draft} draftKey={key} rows={3} mono />
    </Form>
  );
}

function FailedForm({ call }: CallProps) {
  const key = `${draftOf(call)}failed`;
  const draft = useDraft(key);
  const send = useDecision(call);
  return (
    <Form label="It failed" run={() => send('resolve', { failed: draft.value.trim() })}>
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
