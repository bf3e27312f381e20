import { useSignal } from '@preact/signals';
import { canEditTurn, latestReply } from '../../../../machines/fold.ts';
import { describeBreakpoint } from '../../../../protocol/debugger/describe-breakpoint.ts';
import { later } from '../../app/later.tsx';
import { showSafe } from '../../render/format.ts';
import { dropDrafts, hasDrafts } from '../../ui/draft-field.tsx';
import { type Panel, Panels } from '../../ui/panels.tsx';
import { Safe } from '../../ui/text.tsx';
import { ActionButton } from '../../ui/two-presses.tsx';
import { InputForm } from '../decisions/decision-forms.tsx';
import { useDesk } from '../desk.ts';
import { type Held, runTo, toolNames } from './breakpoints.ts';

const ReplyEditor = later(async () => (await import('../../app/more-parts.ts')).ReplyEditor);

/** The most calls that have a button of their own; the editor of the reply has all. */
const MOST_CALLS = 4;

export function HoldBar({ held }: { held: Held | null }) {
  const desk = useDesk();
  if (held === null) return null;
  const { next, by } = held;
  const what =
    by === undefined ? `Paused before ${next.type}` : `Held by breakpoint: ${describeBreakpoint(by)}`;
  return (
    <section class="decision hold" aria-labelledby="hold-title">
      <header>
        <h2 id="hold-title" tabIndex={-1}>
          <bdi>{showSafe(what)}</bdi>
        </h2>
        <Safe text={next.why} class="reason" />
      </header>
      {desk.isSteered && <Controls key={held.key} held={held} />}
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
  const { number: turn } = context.turn;
  const calls = context.calls.filter(
    ({ status, attempt }) => (status === 'ready' || status === 'gated') && attempt === 0,
  );
  const panels = calls.slice(0, MOST_CALLS).map(({ callId, digest, name, input }, place): Panel => {
    const draftKey = `${runId}/${callId}/input ${digest}`;
    const label = `Edit input of ${showSafe(name)}${calls.length > 1 ? ` (${place + 1})` : ''}…`;
    const form = (
      <InputForm
        key={draftKey}
        runId={runId}
        tool={name}
        label={`Input of ${showSafe(name)}`}
        submit="Edit the input"
        unchanged="The input is unchanged."
        draftKey={draftKey}
        input={input}
        send={edited => send('edit-call', { callId, digest, input: edited }, draftKey)}
      />
    );
    return { label, draftKey, form };
  });
  if (canEditTurn(context, { turn, calls: [] })) {
    const draftKey = `${runId}/reply ${key}`;
    const form = (
      <ReplyEditor
        submit="Edit the reply"
        draftKey={draftKey}
        reply={latestReply(context)}
        tools={toolNames(desk)}
        send={edit => send('edit-turn', { turn, ...edit }, draftKey)}
      />
    );
    panels.unshift({ label: 'Edit reply…', draftKey, form });
  }
  const way = (label: string, act: () => Promise<string | null>, name = '') => {
    const isEdited = (): boolean => panels.some(({ draftKey }) => hasDrafts(draftKey));
    const confirm = (): string => (isEdited() ? `${label} without the unsaved edit?` : '');
    return <ActionButton label={label} class={name} confirm={confirm} act={act} />;
  };
  return (
    <Panels panels={panels} open={open}>
      {way('Continue', () => desk.act('unpause'), 'primary')}
      {way('Step', () => desk.act('step'))}
      {next.type === 'executeTools' && way('To the next turn', () => runTo(desk, { turn: turn + 1 }))}
    </Panels>
  );
}
