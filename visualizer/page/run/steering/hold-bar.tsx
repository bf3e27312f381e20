import { useSignal } from '@preact/signals';
import { canEditTurn, latestReply } from '../../../../machines/fold.ts';
import { describeBreakpoint } from '../../../../protocol/debugger/describe-breakpoint.ts';
import { showSafely } from '../../render/show-safely.ts';
import { dropDrafts, hasDrafts, InputEditor } from '../../ui/draft-field.tsx';
import { type Panel, Panels } from '../../ui/panels.tsx';
import { Safe } from '../../ui/text.tsx';
import { ActionButton } from '../../ui/two-presses.tsx';
import { useDesk } from '../desk.ts';
import { ReplyEditor } from '../edits/reply-editor.tsx';
import { type Held, runTo, toolNames } from './breakpoints.ts';

/** The most calls that have a button of their own; the editor of the reply has all. */
const MOST_CALLS = 4;

/** What holds a run before its next action; operators continue, step and edit. */
export function HoldBar({ held }: { held: Held | null }) {
  const desk = useDesk();
  if (held === null) return null;
  const { next, by } = held;
  return (
    <section class="decision hold" aria-labelledby="hold-title">
      <header>
        <h2 id="hold-title" tabIndex={-1}>
          <bdi>
            {by === undefined
              ? `Paused before ${next.type}`
              : showSafely(`Held by breakpoint: ${describeBreakpoint(by)}`)}
          </bdi>
        </h2>
        <Safe text={next.why} class="reason" />
      </header>
      {desk.isSteered ? <Controls key={held.key} held={held} /> : null}
    </section>
  );
}

function Controls({ held: { next, context, key } }: { held: Held }) {
  const desk = useDesk();
  const { runId } = desk.model;
  const open = useSignal<string | null>(null);
  const send = async (command: string, body: object, draftKey: string): Promise<string | null> => {
    const problem = await desk.act(command, body);
    if (problem === null) dropDrafts(draftKey);
    else desk.notice.value = null;
    return problem;
  };
  const { number } = context.turn;
  const calls = context.calls.filter(
    ({ status, attempt }) => (status === 'ready' || status === 'gated') && attempt === 0,
  );
  const panels: Panel[] = calls.slice(0, MOST_CALLS).map(({ callId, digest, name, input }, place) => {
    const draftKey = `${runId}/${callId}/input ${digest}`;
    const label = `Edit input of ${showSafely(name)}${calls.length > 1 ? ` (${place + 1})` : ''}…`;
    const make = () => (
      <InputEditor
        key={draftKey}
        label={`Input of ${showSafely(name)}`}
        submit="Edit the input"
        unchanged="The input is unchanged."
        draftKey={draftKey}
        input={input}
        send={edited => send('edit-call', { callId, digest, input: edited }, draftKey)}
      />
    );
    return { label, draftKey, make };
  });
  if (canEditTurn(context, { turn: number, calls: [] })) {
    const draftKey = `${runId}/reply ${key}`;
    const make = () => (
      <ReplyEditor
        submit="Edit the reply"
        draftKey={draftKey}
        reply={latestReply(context)}
        tools={toolNames(desk)}
        send={edit => send('edit-turn', { turn: number, ...edit }, draftKey)}
      />
    );
    panels.unshift({ label: 'Edit reply…', draftKey, make });
  }
  const withoutEdit = (label: string) => (): string =>
    panels.some(({ draftKey }) => hasDrafts(draftKey)) ? `${label} without the unsaved edit?` : '';
  return (
    <Panels panels={panels} open={open}>
      <ActionButton class="primary" confirm={withoutEdit('Continue')} act={() => desk.act('unpause')}>
        Continue
      </ActionButton>
      <ActionButton confirm={withoutEdit('Step')} act={() => desk.act('step')}>
        Step
      </ActionButton>
      {next.type === 'executeTools' ? (
        <ActionButton confirm={withoutEdit('To the next turn')} act={() => runTo(desk, { turn: number + 1 })}>
          To the next turn
        </ActionButton>
      ) : null}
    </Panels>
  );
}
