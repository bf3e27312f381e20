import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { describeApprovals, describeDuties, hasDuties } from '../../../../machines/duties.ts';
import type { JsonValue } from '../../../../protocol/json.ts';
import { type DecisionAnswer, decisionCommand } from '../../../../protocol/open/answer.ts';
import type { OpenReview } from '../../../../protocol/run-view.ts';
import { useShortcuts } from '../../app/keyboard.ts';
import { later } from '../../app/later.tsx';
import { barOf, hasApproved } from '../../data/caller.ts';
import type { JsonOpenCall, JsonOpenItem } from '../../data/request.ts';
import { subjectOf } from '../../model/subject-of.ts';
import { describeShownCall } from '../../render/describe-call.ts';
import { formatLine, formatPreview, showSafe } from '../../render/format.ts';
import { editableJson, Flag, hasDrafts, TextForm } from '../../ui/draft-field.tsx';
import { type Panel, Panels } from '../../ui/panels.tsx';
import { Safe } from '../../ui/text.tsx';
import { Asked, type Confirmation, Form, useTwoPresses } from '../../ui/two-presses.tsx';
import { draftOf, rejectionFor, sendOwn, useAct } from './open-decisions.tsx';

type ItemProps<Open extends JsonOpenItem = JsonOpenItem> = { call: Open };
type FormsProps<Open extends JsonOpenItem = JsonOpenItem> = ItemProps<Open> & {
  unseen: boolean;
  /** Whether the keys `a`, `e` and `r` decide. */
  isKeyed?: boolean;
};

const LONGEST = 60;

/** Who may decide, and who has approved; nothing if everyone may. */
export function WhoMayDecide({ call }: ItemProps) {
  if (call.kind === 'result' || !hasDuties(call)) return null;
  return (
    <p class="muted who">
      <Safe text={`Needs ${describeDuties(call)}.`} />
      {call.approvedBy !== undefined && <Safe text={` ${sentence(describeApprovals(call))}.`} />}
    </p>
  );
}

const sentence = (words: string): string => `${words.charAt(0).toUpperCase()}${words.slice(1)}`;

/**
 * The ways to decide about a call or an answer, each in two presses, or why the person may not. Decisions carry the digest
 * of what is shown.
 */
export function DecisionForms(props: FormsProps) {
  const bar = barOf(props.call);
  if (bar !== null) return bar === '' ? null : <Safe in="p" class="muted" text={bar} />;
  const { call, ...how } = props;
  switch (call.kind) {
    case 'approval':
      return <ApprovalForms {...how} call={call} />;
    case 'question':
      return <QuestionForms key={call.digest} call={call} />;
    case 'review':
      return <ReviewForms {...how} call={call} />;
    case 'doubt':
      return <DoubtForms {...how} call={call} />;
    case 'result':
      return <WayForm call={call} way={{ ...ANSWER, flag: 'This is an error' }} />;
  }
}

export type Way = {
  /** The label of the button that opens the form; `label` is the one that sends it. */
  opens: string;
  key: string;
  label: string;
  intro: string;
  field?: string;
  /** What is typed is a text, or else JSON. */
  isText?: true;
  required?: true;
  flag?: string;
  words(what: string, typed: JsonValue, isOn: boolean): string;
  answer(typed: JsonValue, isOn: boolean): DecisionAnswer;
};

const ANSWER: Way = {
  opens: 'Answer instead…',
  key: 'answer',
  label: 'Answer',
  intro: '',
  field: 'Result for the model (JSON)',
  words: (what, output, isError) =>
    `Answer ${what} with ${isError ? 'the error ' : ''}${formatPreview(output, LONGEST)}?`,
  answer: (output, isError) => ({ type: 'result', output, isError }),
};

const DOUBT: readonly Way[] = [
  {
    opens: 'It happened…',
    key: 'happened',
    label: 'It happened',
    intro: 'Records its result. The tool does not run again, and the run continues.',
    field: 'Its result, which the model reads (JSON)',
    words: (what, output) => `Record that ${what} happened, with ${formatPreview(output, LONGEST)}?`,
    answer: output => ({ type: 'happened', output }),
  },
  {
    opens: 'It failed…',
    key: 'failed',
    label: 'It failed',
    intro: 'Records that it did not happen. The tool does not run again, and the run continues.',
    field: 'Why it failed (shown to the model)',
    isText: true,
    required: true,
    words: what => `Record that ${what} failed?`,
    answer: reason => ({ type: 'failed', reason: `${reason}` }),
  },
  {
    opens: 'Retry…',
    key: 'retry',
    label: 'Retry',
    intro:
      'Calls the tool again with the same idempotency key. If the first call happened, only a tool that honours the key prevents a repetition.',
    flag: 'Even if an earlier attempt may still act',
    words: (what, _, force) => `Retry ${what}${force ? ', even if an earlier attempt may still act' : ''}?`,
    answer: (_, force) => ({ type: 'retry', force }),
  },
];

function WayForm({ call, way }: ItemProps & { way: Way }) {
  const { key, label, intro, field, isText, flag, required = false } = way;
  const isOn = useSignal(false);
  const question = useQuestion(call);
  const ask = (typed: JsonValue): Confirmation =>
    question(what => way.words(what, typed, isOn.value), way.answer(typed, isOn.value));
  const flagged = flag !== undefined && <Flag flag={isOn} label={flag} />;
  if (field === undefined)
    return (
      <Form label={label} ask={() => ask(null)}>
        <p>{intro}</p>
        {flagged}
      </Form>
    );
  const shared = { label, field, intro, draftKey: `${draftOf(call)}${key}`, children: flagged };
  return isText ? (
    <TextForm {...shared} required={required} ask={text => ask(text.trim())} />
  ) : (
    <TextForm {...shared} json start="{}" ask={ask} />
  );
}

const EDIT = 'Edit…';

const editDraftOf = (call: JsonOpenItem): string => `${draftOf(call)}edit`;

type ApproveFormsProps = FormsProps & {
  /** What the first press of Approve asks. */
  approve(): Confirmation;
  edit: ComponentChildren;
  /** What is edited, in words. */
  edited: string;
  /** The other ways; the key `r` opens the first. */
  ways: readonly [Way, ...Way[]];
  after?: ComponentChildren;
};

/** To approve what waits as it is, to edit it, or another way. */
function ApproveForms({ call, unseen, isKeyed, approve, edit, edited, ways, after }: ApproveFormsProps) {
  const approved = hasApproved(call);
  const draftKey = editDraftOf(call);
  // An edit that was not sent is open after a reload too: nothing beside it may send the input without it.
  const open = useSignal(hasDrafts(draftKey) ? EDIT : null);
  const { asked, isBusy, press, scope } = useTwoPresses<HTMLDivElement>();
  const isEditing = (): boolean => open.peek() === EDIT;
  const choose = (label: string) => () => {
    if (!isEditing()) open.value = label;
  };
  useDecisionKeys(isKeyed, [
    ['Approve', event => void (approved || isEditing() || press(event, approve()))],
    [`Edit ${edited}`, choose(EDIT)],
    [ways[0].label, choose(ways[0].opens)],
  ]);
  return (
    <Panels
      panels={[{ label: EDIT, draftKey, form: edit }, ...panelsOf(call, ways)]}
      open={open}
      alone={EDIT}
      after={after}
    >
      {approved ? (
        <span class="mark">You have approved it.</span>
      ) : (
        <div class="two-presses" {...scope}>
          <button type="button" class="primary" aria-busy={isBusy} onClick={event => press(event, approve())}>
            Approve
          </button>
          <Asked words={asked} />
        </div>
      )}
      {unseen && <span class="mark unseen">not read to the end</span>}
    </Panels>
  );
}

function ApprovalForms({ call, ...how }: FormsProps<JsonOpenCall>) {
  const sticky = useSignal(false);
  const ask = useQuestion(call);
  const scope = sticky.value ? { sticky: true } : {};
  const later = sticky.value ? `, and all later calls of ${formatLine(call.name, LONGEST)}` : '';
  const approveEdited = (input: JsonValue): Confirmation =>
    ask(what => `Approve ${what}, with changes${later}?`, { type: 'approve', ...scope, input }, input);
  const reject: Way = {
    opens: 'Reject…',
    key: 'reject',
    label: 'Reject',
    intro: '',
    field: 'Reason (shown to the model)',
    isText: true,
    words: what => `Reject ${what}${later}?`,
    answer: reason => ({ ...rejectionFor(reason), ...scope }),
  };
  const flag = <Flag flag={sticky} label={`Also for later calls of ${showSafe(call.name)}`} />;
  return (
    <ApproveForms
      {...how}
      call={call}
      approve={() => ask(what => `Approve ${what}${later}?`, { type: 'approve', ...scope })}
      edited="the input"
      edit={
        <InputForm
          runId={call.runId}
          tool={call.name}
          label="Edited input"
          submit="Approve with changes"
          unchanged="The input is unchanged. Select Discard, then Approve, to approve it as is."
          draftKey={editDraftOf(call)}
          input={call.input}
          words={input => approveEdited(input).words}
          send={async input => {
            await approveEdited(input).act();
            return null;
          }}
        />
      }
      ways={(call.quorum ?? 1) > 1 ? [reject] : [reject, ANSWER]}
      after={!hasDuties(call) && flag}
    />
  );
}

const SEND_BACK: Way = {
  opens: 'Send back…',
  key: 'reject',
  label: 'Send back',
  intro: 'The model answers again.',
  field: 'Remark (the model reads it)',
  isText: true,
  words: what => `Send the ${what} back?`,
  answer: rejectionFor,
};

function ReviewForms({ call, ...how }: FormsProps<OpenReview>) {
  const ask = useQuestion(call);
  const change = (answer: JsonValue): Confirmation =>
    ask(what => `Give the ${what} in its place?`, { type: 'approve', answer }, answer);
  const shared = { label: 'Give this answer', draftKey: editDraftOf(call), ask: change };
  const field = 'Answer in its place';
  return (
    <ApproveForms
      {...how}
      call={call}
      approve={() => ask(what => `Give the ${what}?`, { type: 'approve' })}
      edited="the answer"
      edit={
        call.output === undefined ? (
          <TextForm {...shared} field={field} rows={8} start={call.answer} required />
        ) : (
          <TextForm {...shared} field={`${field} (JSON)`} json start={editableJson(call.output)} />
        )
      }
      ways={[SEND_BACK]}
    />
  );
}

/** Edits the input of a call in fields from the schema of its tool. */
export const InputForm = later(async () => (await import('../../app/more-parts.ts')).SchemaEditor);
const QuestionForms = later(async () => (await import('../../app/more-parts.ts')).QuestionForms);

function DoubtForms({ call, isKeyed }: FormsProps) {
  const open = useSignal<string | null>(null);
  const choose = (label: string) => () => {
    open.value = label;
  };
  useDecisionKeys(isKeyed, [
    ['It happened', choose('It happened…')],
    ['Retry', choose('Retry…')],
    ['It failed', choose('It failed…')],
  ]);
  return <Panels panels={panelsOf(call, DOUBT)} open={open} />;
}

export function panelsOf(call: JsonOpenItem, ways: readonly Way[]): Panel[] {
  return ways.map(way => ({
    label: way.opens,
    draftKey: `${draftOf(call)}${way.key}`,
    form: <WayForm call={call} way={way} />,
  }));
}

type Key = [does: string, run: (event: KeyboardEvent) => void];

function useDecisionKeys(isKeyed = false, does: readonly [a: Key, e: Key, r: Key]): void {
  const shortcuts = does.map(([does, run], place) => ({ keys: ['aer'.charAt(place)], does, run }));
  useShortcuts('Decide', isKeyed ? shortcuts : []);
}

type AskFirst = (say: (what: string) => string, answer: DecisionAnswer, value?: JsonValue) => Confirmation;

/** Returns a function that asks about a decision. The question names the call with its own input, or with `value`. */
export function useQuestion(call: JsonOpenItem): AskFirst {
  const act = useAct();
  const subject = subjectOf(call);
  return (say, answer, value = subject.value) => {
    const command = decisionCommand(call, answer);
    return {
      words: say(describeShownCall(subject.name, value)),
      key: JSON.stringify(command),
      // The view that submits says what is wrong.
      act: async () => void (await sendOwn(call, () => act(command))),
    };
  };
}
