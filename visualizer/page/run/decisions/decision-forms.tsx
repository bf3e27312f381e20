import { type Signal, useSignal } from '@preact/signals';
import type { JsonValue } from '../../../../protocol/json.ts';
import { type Answer, commandFor } from '../../../../protocol/open/answer.ts';
import { useShortcuts } from '../../app/keyboard.ts';
import type { JsonOpenCall } from '../../data/request.ts';
import { describeCall } from '../../render/describe-call.ts';
import { formatValue } from '../../render/format.ts';
import { shorten, showSafely } from '../../render/show-safely.ts';
import { Check, hasDrafts, InputEditor, readJson, TextForm } from '../../ui/draft-field.tsx';
import { type Panel, Panels } from '../../ui/panels.tsx';
import { Asked, Form, type Question, useTwoPresses } from '../../ui/two-presses.tsx';
import { useAct } from './act-context.ts';
import { draftOf, sendOwn } from './overtaken.tsx';

type CallProps = { call: JsonOpenCall };
type FormsProps = CallProps & {
  unseen: boolean;
  /** Whether the keys `a`, `e` and `r` decide. */
  isKeyed?: boolean;
};

const EDIT = 'Edit…';
const LONGEST = 60;

/** The ways to decide about a call, each in two presses. Decisions carry the digest of the call that is shown. */
export function DecisionForms(props: FormsProps) {
  switch (props.call.kind) {
    case 'approval':
      return <ApprovalForms {...props} />;
    case 'doubt':
      return <DoubtForms {...props} />;
    case 'result':
      return <AnswerForm {...props} />;
  }
}

function ApprovalForms({ call, unseen, isKeyed }: FormsProps) {
  const draft = draftOf(call);
  const sticky = useSignal(false);
  // An edit that was not sent is open after a reload too: nothing beside it may send the input without it.
  const open = useSignal(hasDrafts(`${draft}edit`) ? EDIT : null);
  const ask = useQuestion(call);
  const { asked, isBusy, press, scope: element } = useTwoPresses<HTMLDivElement>();
  const scope = { ...(sticky.value && { sticky: true }) };
  const later = sticky.value ? `, and all later calls of ${shorten(call.name, LONGEST)}` : '';
  const approve = (event: Event): void =>
    press(
      event,
      ask(what => `Approve ${what}${later}?`, { type: 'approve', ...scope }),
    );
  const panels: Panel[] = [
    { label: EDIT, draftKey: `${draft}edit`, make: () => <EditForm {...{ call, scope, later }} /> },
    { label: 'Reject…', draftKey: `${draft}reject`, make: () => <RejectForm {...{ call, scope, later }} /> },
    {
      label: 'Answer instead…',
      draftKey: `${draft}answer`,
      make: () => <AnswerForm call={call} />,
    },
  ];
  const isEditing = (): boolean => open.peek() === EDIT;
  const choose = (label: string) => () => {
    if (!isEditing()) open.value = label;
  };
  useShortcuts(
    'Decide',
    isKeyed === true
      ? [
          { keys: ['a'], does: 'Approve', run: event => isEditing() || approve(event) },
          { keys: ['e'], does: 'Edit the input', run: choose(EDIT) },
          { keys: ['r'], does: 'Reject', run: choose('Reject…') },
        ]
      : [],
  );
  return (
    <Panels
      panels={panels}
      open={open}
      alone={EDIT}
      after={<Flag flag={sticky} label={`Also for later calls of ${showSafely(call.name)}`} />}
    >
      <div class="two-presses" {...element}>
        <button type="button" class="primary" aria-busy={isBusy} onClick={approve}>
          Approve
        </button>
        <Asked words={asked} />
      </div>
      {unseen ? <span class="mark unseen">not read to the end</span> : null}
    </Panels>
  );
}

function DoubtForms({ call, isKeyed }: FormsProps) {
  const draft = draftOf(call);
  const open = useSignal<string | null>(null);
  const panels: Panel[] = [
    { label: 'It happened…', draftKey: `${draft}happened`, make: () => <HappenedForm call={call} /> },
    { label: 'It failed…', draftKey: `${draft}failed`, make: () => <FailedForm call={call} /> },
    { label: 'Retry…', draftKey: `${draft}retry`, make: () => <RetryForm call={call} /> },
  ];
  const choose = (label: string) => () => {
    open.value = label;
  };
  useShortcuts(
    'Decide',
    isKeyed === true
      ? [
          { keys: ['a'], does: 'It happened', run: choose('It happened…') },
          { keys: ['e'], does: 'Retry', run: choose('Retry…') },
          { keys: ['r'], does: 'It failed', run: choose('It failed…') },
        ]
      : [],
  );
  return <Panels panels={panels} open={open} />;
}

type Ask = (say: (what: string) => string, answer: Answer, input?: JsonValue) => Question;

/** Returns what asks about a decision: its words name the call with its input, or with the `input` that it gets. */
function useQuestion(call: JsonOpenCall): Ask {
  const act = useAct();
  return (say, answer, input = call.input) => {
    const command = commandFor(call, answer);
    return {
      words: say(describeCall(call.name, input)),
      key: JSON.stringify(command),
      // The view that submits says what is wrong.
      act: async () => void (await sendOwn(call, () => act(command))),
    };
  };
}

/** `scope`: whether the decision is for later calls too; `later` says so in words. */
type ApprovalProps = CallProps & { scope: { sticky?: boolean }; later: string };

function EditForm({ call, scope, later }: ApprovalProps) {
  const ask = useQuestion(call);
  const approve = (input: JsonValue): Question =>
    ask(what => `Approve ${what}, with changes${later}?`, { type: 'approve', ...scope, input }, input);
  return (
    <InputEditor
      label="Edited input"
      submit="Approve with changes"
      unchanged="The input is unchanged. Select Discard, then Approve, to approve it as is."
      draftKey={`${draftOf(call)}edit`}
      input={call.input}
      words={input => approve(input).words}
      send={async input => {
        await approve(input).act();
        return null;
      }}
    />
  );
}

function RejectForm({ call, scope, later }: ApprovalProps) {
  const ask = useQuestion(call);
  const reject = (typed: string): Question => {
    const reason = typed.trim();
    const answer: Answer = { type: 'reject', ...scope, ...(reason !== '' && { reason }) };
    return ask(what => `Reject ${what}${later}?`, answer);
  };
  return (
    <TextForm
      label="Reject"
      field="Reason (shown to the model)"
      draftKey={`${draftOf(call)}reject`}
      ask={reject}
    />
  );
}

function AnswerForm({ call }: CallProps) {
  const isError = useSignal(false);
  const ask = useQuestion(call);
  const answer = (output: JsonValue): Question =>
    ask(what => `Answer ${what} with ${isError.value ? 'the error ' : ''}${formatValue(output, LONGEST)}?`, {
      type: 'result',
      output,
      isError: isError.value,
    });
  return (
    <TextForm
      label="Answer"
      field="Result for the model (JSON)"
      draftKey={`${draftOf(call)}answer`}
      {...OUTPUT}
      ask={text => askOutput(text, answer)}
    >
      {call.kind === 'approval' ? null : <Flag flag={isError} label="This is an error" />}
    </TextForm>
  );
}

function HappenedForm({ call }: CallProps) {
  const ask = useQuestion(call);
  const happened = (output: JsonValue): Question =>
    ask(what => `Record that ${what} happened, with ${formatValue(output, LONGEST)}?`, {
      type: 'happened',
      output,
    });
  return (
    <TextForm
      label="It happened"
      field="Its result, which the model reads (JSON)"
      draftKey={`${draftOf(call)}happened`}
      {...OUTPUT}
      ask={text => askOutput(text, happened)}
    >
      <p>Records its result. The tool does not run again, and the run continues.</p>
    </TextForm>
  );
}

/** The field for the result of a call. */
const OUTPUT = { start: '{}', rows: 3, mono: true } as const;

function askOutput(text: string, ask: (output: JsonValue) => Question): Question | string {
  const output = readJson(text);
  return 'problem' in output ? output.problem : ask(output.value);
}

function FailedForm({ call }: CallProps) {
  const ask = useQuestion(call);
  return (
    <TextForm
      label="It failed"
      intro="Records that it did not happen. The tool does not run again, and the run continues."
      field="Why it failed (shown to the model)"
      required
      draftKey={`${draftOf(call)}failed`}
      ask={text => ask(what => `Record that ${what} failed?`, { type: 'failed', reason: text.trim() })}
    />
  );
}

function RetryForm({ call }: CallProps) {
  const force = useSignal(false);
  const ask = useQuestion(call);
  const retry = (): Question =>
    ask(what => `Retry ${what}${force.value ? ', even if an earlier attempt may still act' : ''}?`, {
      type: 'retry',
      force: force.value,
    });
  return (
    <Form label="Retry" ask={retry}>
      <p>
        Calls the tool again with the same idempotency key. If the first call happened, only a tool that
        honours the key prevents a repetition.
      </p>
      <Flag flag={force} label="Even if an earlier attempt may still act" />
    </Form>
  );
}

function Flag({ flag, label }: { flag: Signal<boolean>; label: string }) {
  return <Check label={label} checked={flag.value} onCheck={isOn => (flag.value = isOn)} />;
}
